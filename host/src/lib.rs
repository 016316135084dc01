//! The laboratory of Tessera: matrix products verified, measured and explained, and the program `tessera`.
//!
//! The library that multiplies is the crate [`tessera`]. Everything that the program prints stands on the
//! modules here: [`registry`] knows every implementation, [`verify`] says whether a result is right and by
//! how much, [`measure`] has what all measurements share, [`run`](mod@run) puts the three together.

pub mod accuracy;
pub mod auto;
pub mod bench;
pub mod card;
pub mod cli;
mod column_major;
pub mod cpu;
pub mod emulate;
pub mod error;
pub mod figures;
pub mod fill;
pub mod gpu;
pub mod history;
pub mod ladder;
pub mod machine;
pub mod measure;
pub mod memory;
pub mod multiplier;
pub mod peers;
pub mod registry;
pub mod report;
pub mod run;
pub mod sanitize;
pub mod scalar;
mod shared_library;
mod stdout;
pub mod sweep;
pub mod verify;

pub use error::Error;
pub use gemm_spec::{DType, Layout, Operand, Order, Problem, Types, bf16, f16, with_gemm_types};
pub use multiplier::Multiplier;
pub use scalar::{Scalar, ScalarTypes};
