//! Tessera: matrix products on CPU and GPU, verified, measured and explained.
//!
//! As a library it multiplies: keep an [`Engine`], give it [`Matrix`] values or plain buffers with a
//! [`Problem`]. Everything that the program prints stands on the modules here as well:
//! [`registry`] knows every implementation, [`verify`] says whether a result is right and by how
//! much, [`measure`] how long something takes, [`run`](mod@run) puts the three together.

pub mod accuracy;
pub mod auto;
pub mod bench;
pub mod card;
pub mod cli;
pub mod contract;
pub mod cpu;
pub mod emulate;
pub mod engine;
pub mod error;
pub mod fill;
pub mod gpu;
pub mod history;
pub mod ladder;
pub mod machine;
pub mod matrix;
pub mod measure;
pub mod peers;
pub mod registry;
pub mod report;
pub mod run;
pub mod scalar;
mod shared_library;
pub mod sweep;
mod threads;
pub mod verify;
mod wide;

pub use contract::Accuracy;
pub use engine::{Engine, gemm};
pub use error::Error;
pub use gemm_spec::{DType, Layout, Operand, Order, Problem, WideBf16, WideF16, bf16, f16};
pub use matrix::{MatMut, MatRef, Matrix};
pub use scalar::Scalar;
pub use wide::{Widen, wide};

/// The Rust examples of README.md, which are compiled and run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
