//! Tessera for C, C++, Fortran and whatever calls C.
//!
//! `include/tessera.h` is made from this crate, and a test compares it; docs/embed-c.md tells how to use it.
//!
//! # Shape
//!
//! ```text
//! status.rs     what functions return, and why something failed
//! guard.rs      the boundary: arguments that are not there, panics, the last message of a thread
//! sized.rs      structs that begin with their size
//! engine.rs     engines, and the one for the whole process
//! matrix.rs     matrices and their types
//! epilogue.rs   what is done to sums besides scaling
//! gemm.rs       products
//! device.rs     contexts, for products of matrices that are on a GPU
//! desc.rs       what such a product is
//! plan.rs       such products, planned once
//! prepared.rs   those one of whose factors is split once
//! plan_group.rs several of sizes of their own
//! stream.rs     the same without a plan of one's own
//! version.rs    the library's version
//! ```
//!
//! Nothing unwinds into a caller: a panic inside is a fault of this library, and comes out as
//! [`TESSERA_INTERNAL_ERROR`].

mod desc;
mod device;
mod engine;
mod epilogue;
mod gemm;
mod guard;
mod matrix;
mod plan;
mod plan_group;
mod prepared;
mod sized;
mod status;
mod stream;
mod version;

pub use self::desc::*;
pub use self::device::*;
pub use self::engine::*;
pub use self::epilogue::*;
pub use self::gemm::*;
pub use self::guard::{tessera_last_driver_code, tessera_last_error};
pub use self::matrix::*;
pub use self::plan::*;
pub use self::plan_group::*;
pub use self::prepared::*;
pub use self::status::*;
pub use self::stream::*;
pub use self::version::tessera_version;
