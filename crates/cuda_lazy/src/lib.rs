//! libcuda, found when the program runs: what lets one binary start with or without a driver.
//!
//! # Why
//!
//! `cust` declares the driver's functions as external symbols and asks the linker for libcuda. A
//! program that links it neither builds on a machine without CUDA nor starts on one without a driver.
//! With this crate it does both, and where there is no driver it says so in an ordinary error:
//!
//! ```no_run
//! // Not run: the answer depends on the machine.
//! match cuda_lazy::load() {
//!     Ok(driver) => println!("{}: CUDA {}", driver.library(), driver.version()?),
//!     Err(why) => println!("on the CPU, because there is {why}"),
//! }
//! # Ok::<(), cuda_lazy::DriverError>(())
//! ```
//!
//! # How
//!
//! - `CUDA_LIBRARY_PATH` (set in `.cargo/config.toml`) points `cust`'s build script to this crate's
//!   `cuda` folder, whose `lib64/libcuda.so` is an empty linker script. The linker is content and links
//!   nothing.
//! - With the feature `trampolines`, `trampoline` defines each symbol of the list in `symbols` as a
//!   naked function that jumps through one slot of a table, which needs no signature. Only a program
//!   that uses `cust` needs it; without it no `cu...` symbol is defined.
//! - [`load`] opens the driver's library and fills the table. `cuInit` and `cuDriverGetVersion`, the
//!   two calls that a program may make first, load the driver by themselves; so `cust::init` works with
//!   no word to this crate, but a program that wants the reason for a failure calls [`load`] before it.
//! - [`Driver`] adds the calls that `cust` lacks, and [`Context`], [`Stream`], [`Event`], [`Graph`],
//!   [`DeviceMemory`] and [`PinnedMemory`] own what the driver hands out, for programs that do without
//!   `cust`; all go through the same table.
//!
//! The program (or a library it uses) must name this crate, or its symbols are not linked:
//! `use cuda_lazy as _;` is enough.
//!
//! # Invariants
//!
//! 1. No slot is ever null: before [`load`] it answers `CUDA_ERROR_NOT_INITIALIZED` (3), and for a
//!    function that the driver lacks `CUDA_ERROR_NOT_FOUND` (500).
//! 2. Describing an error never fails: `cuGetErrorString` has an answer of its own until the driver's
//!    is there, because `cust` cannot show its errors without one.
//! 3. Once loaded, the driver's library stays open until the process ends.
//! 4. A trampoline changes no argument and has no frame.
//! 5. The crate's own calls take results as integers. `cust`'s result type is a closed enum, in which
//!    a code that is newer than it would be undefined behaviour; calls that may return one
//!    (`cuInit` on a broken installation, launches in clusters) are better made through [`Driver`].
//! 6. Nothing here links libcuda, and no other crate of the workspace opens it.
//!
//! # Where
//!
//! Linux on x86-64 and aarch64. Elsewhere the crate compiles, defines no symbol, and [`load`] answers
//! [`LoadError::Platform`].

mod abi;
mod attribute;
mod context;
mod device;
mod driver;
mod error;
mod graph;
mod launch;
mod library;
mod memory;
mod module;
mod pointer;
mod raw;
mod stream;
#[macro_use]
mod symbols;
mod table;
mod tensor_map;
#[cfg(all(
    feature = "trampolines",
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod trampoline;

#[cfg(all(test, feature = "trampolines", target_os = "linux", target_arch = "x86_64"))]
mod fake_driver_tests;

use std::ffi::c_void;

pub use abi::TensorMap;
pub use attribute::{DeviceAttribute, DriverVersion, FunctionAttribute, Uuid};
pub use context::{Context, CurrentContext};
pub use driver::{Driver, MemoryInfo, is_in_process, load, load_with};
pub use error::{Attempt, DriverError, LoadError};
pub use graph::{CaptureMode, CaptureModeGuard, Graph};
pub use launch::LaunchConfig;
pub use library::LIBRARY_VARIABLE;
pub use memory::{DeviceMemory, PinnedMemory};
pub use module::{JitFailure, JitLog};
pub use pointer::PointerInfo;
pub use stream::{Event, LineCopy, Stream, Timing};
pub use tensor_map::{
    DataType, Interleave, L2Promotion, OobFill, Swizzle, TensorMapDesc, TensorMapError,
};

/// `CUcontext`: `cust`'s `Context::as_raw`, cast.
pub type RawContext = *mut c_void;
/// `CUevent`.
pub type RawEvent = *mut c_void;
/// `CUgraph`.
pub type RawGraph = *mut c_void;
/// `CUgraphExec`.
pub type RawGraphExec = *mut c_void;
/// `CUmodule`: what `cust` keeps inside of a module.
pub type RawModule = *mut c_void;
/// `CUfunction`: `cust`'s `Function::to_raw`, cast.
pub type RawFunction = *mut c_void;
/// `CUstream`: `cust`'s `Stream::as_inner`, cast; null is the default stream.
pub type RawStream = *mut c_void;
/// `CUdeviceptr`: an address on the device.
pub type DevicePtr = u64;
