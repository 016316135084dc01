//! The emulated driver as a shared library, for tests of programs that are not Rust: it exports the driver's
//! functions under their names, and a folder that has it as `libcuda.so.1` in `LD_LIBRARY_PATH` gives it to every
//! program, and to Tessera inside of one, as the driver's own library.
//!
//! The functions are the trampolines of [`cuda_lazy`], which would look for a library on the machine when they are
//! first called. The emulated driver is put behind them before that: when the library is loaded.

// What defines the functions.
use cuda_lazy as _;

/// The loader calls it before it hands the library out.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: an entry of this section is a function that the loader calls once, with arguments that this one does not
// take, which in C's conventions are the caller's to put away.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn install() {
        cuda_emulated::install();
    }
    install
};
