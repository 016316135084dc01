//! What can go wrong: no driver to load, or a driver that refuses a call.

use std::ffi::c_int;
use std::fmt;

/// `CUDA_ERROR_INVALID_VALUE`.
pub(crate) const INVALID_VALUE: c_int = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: c_int = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`: the answer of every symbol before a driver is loaded.
pub(crate) const NOT_INITIALIZED: c_int = 3;
/// `CUDA_ERROR_NOT_READY`: what an event answers before its time.
pub(crate) const NOT_READY: c_int = 600;
/// `CUDA_ERROR_NOT_FOUND`: the answer of a symbol that the loaded driver lacks.
pub(crate) const NOT_FOUND: c_int = 500;

/// The driver refused a call, or an earlier asynchronous one failed and this call reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name} ({code}): {text}")]
pub struct DriverError {
    /// The driver function that answered.
    pub call: &'static str,
    /// Its result code (`CUresult`), also where this crate knows no name for it.
    pub code: i32,
    /// The code's name, as the loaded driver gives it.
    pub name: String,
    /// What the loaded driver says about it.
    pub text: String,
}

impl DriverError {
    /// Whether the device (or pinned host memory) ran out: a smaller problem may still fit.
    #[must_use]
    pub const fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    /// Whether the loaded driver has no such function: it is older than the call.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        self.code == NOT_FOUND
    }
}

/// One library that was tried and why it did not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name or path that was handed to the dynamic loader.
    pub library: String,
    /// The loader's answer.
    pub reason: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.library, self.reason)
    }
}

/// Why there is no driver in this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No library of the driver's name opens.
    #[error(
        "no NVIDIA driver: tried {}; install an NVIDIA driver, name its library in {}, or run without a GPU",
        .tried.iter().map(Attempt::to_string).collect::<Vec<_>>().join(", "),
        crate::LIBRARY_VARIABLE
    )]
    NotFound {
        /// Each library tried, in order.
        tried: Vec<Attempt>,
    },
    /// The library that the user named does not open. No other is tried: a silent second choice would
    /// measure a driver that the user did not ask for.
    #[error(
        "{} names a library that does not open: {attempt}; correct the path, or unset it to use the system's driver",
        crate::LIBRARY_VARIABLE
    )]
    Override {
        /// The library and the loader's answer.
        attempt: Attempt,
    },
    /// A library opened that is no CUDA driver.
    #[error(
        "{library} is not an NVIDIA driver: it has no {symbol}; install an NVIDIA driver, or let {} name its libcuda.so.1",
        crate::LIBRARY_VARIABLE
    )]
    NotADriver {
        /// What was opened.
        library: String,
        /// The function that every driver has and this library lacks.
        symbol: &'static str,
    },
    /// This crate has no trampolines for the platform.
    #[error(
        "the CUDA driver is bound at run time on Linux for x86-64 and aarch64, not on {os} for {arch}; run without a GPU"
    )]
    Platform {
        /// The operating system that the program was built for.
        os: &'static str,
        /// The processor that the program was built for.
        arch: &'static str,
    },
}
