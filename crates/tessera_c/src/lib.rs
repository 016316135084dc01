//! Tessera for C, C++, Fortran and whatever calls C.
//!
//! `include/tessera.h` is made from this crate, and a test compares it; docs/embed-c.md tells how to use it.
//!
//! # Shape
//!
//! ```text
//! status.rs   what functions return, and why something failed
//! guard.rs    the boundary: arguments that are not there, panics, the last message of a thread
//! sized.rs    structs that begin with their size
//! engine.rs   engines, and the one for the whole process
//! matrix.rs   matrices and their types
//! gemm.rs     products
//! version.rs  the library's version
//! ```
//!
//! Nothing unwinds into a caller: a panic inside is a fault of this library, and comes out as
//! [`TESSERA_INTERNAL_ERROR`].

mod engine;
mod gemm;
mod guard;
mod matrix;
mod sized;
mod status;
mod version;

pub use self::engine::*;
pub use self::gemm::*;
pub use self::guard::tessera_last_error;
pub use self::matrix::*;
pub use self::status::*;
pub use self::version::tessera_version;
