//! Standard output, or why there is none.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the process began without a standard output.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Before `main` the standard library opens /dev/null in place of a standard stream that is closed, and
/// what is written there is lost without an error; so this looks before that.
// SAFETY: the loader calls what stands in this section as a C function, before `main` and once; `look`
// is one, and needs nothing that is not there yet.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    // SAFETY: the call asks about a descriptor, open or not, and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Standard output.
///
/// # Errors
/// It was closed when the program began.
pub(crate) fn stdout() -> io::Result<io::Stdout> {
    if CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other("it is closed"));
    }
    Ok(io::stdout())
}
