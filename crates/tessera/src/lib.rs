//! Matrix products on CPU and GPU.
//!
//! An [`Engine`] computes `C = alpha * A * B + beta * C` for any shape, storage order and padding, with
//! elements of f32, f64, i32, i8, f16 or bf16. It is `Send + Sync`: one engine serves all threads of a
//! program.
//!
//! ```
//! use std::sync::LazyLock;
//!
//! use tessera::{Engine, Matrix};
//!
//! static ENGINE: LazyLock<Engine> =
//!     LazyLock::new(|| Engine::auto().expect("the system starts threads"));
//!
//! let a = Matrix::from_fn(2, 3, |row, col| (row + col) as f32)?;
//! let b = Matrix::from_fn(3, 2, |row, col| (row * col) as f32)?;
//! let c = ENGINE.multiply(&a, &b)?;
//! assert_eq!(c.get(1, 1), Some(8.0));
//! # Ok::<(), tessera::Error>(())
//! ```
//!
//! - [`Matrix`], [`MatRef`] and [`MatMut`] are matrices and views; [`Problem`] describes a product of plain
//!   buffers, as BLAS's GEMM does, for [`Engine::gemm_slices`].
//! - [`Engine::gemm_with_epilogue`] adds a bias, applies an activation and more while it stores the product.
//! - [`Engine::builder`] chooses the device, the number of threads, the [`Accuracy`] and whether the choice
//!   may depend on anything but the problem and the device.
//! - With the feature `cuda` (on by default) products may run on an NVIDIA GPU. The driver is found when
//!   the program runs: nothing of CUDA is needed to build, and without a driver products stay on the CPU.
//! - [`blas3`] is level 3 of BLAS on the CPU, of real and complex numbers: products with symmetric, Hermitian
//!   and triangular matrices, rank-k updates, triangular solves.
//! - [`blas2`] is a part of level 2: a matrix times a vector, updates of rank one, triangular solves.
//! - [`lapack`] is LU, Cholesky and QR on the CPU, and the solves that stand on them.
//! - [`gpu`] and [`select`] are what the engine stands on, for programs that measure or place products
//!   themselves.
//!
//! # Environment
//!
//! The crate reads two variables, each once: `RAYON_NUM_THREADS`, the number of threads where an engine
//! is not told one, and `TESSERA_LIBCUDA`, the CUDA driver's library where the loader does not find it.

mod accuracy;
pub mod blas2;
pub mod blas3;
#[cfg(feature = "cuda")]
mod device_info;
mod element;
mod engine;
mod error;
pub mod lapack;
mod matrix;
pub mod memory;
#[cfg(feature = "cuda")]
mod mismatch;
#[cfg(feature = "cuda")]
mod operand_fault;
#[cfg(feature = "cuda")]
mod pipeline;
mod row_major;
mod strided;
mod stripes;

#[cfg(feature = "cuda")]
pub mod gpu;
#[cfg(feature = "cuda")]
pub mod select;

pub use accuracy::Accuracy;
pub use cpu_gemm::{CpuContext, CpuIsa, CpuUnits, EpilogueSlices};
pub use element::{AccOf, Element, GemmTypes, Multiply, MultiplyInto};
pub use engine::{Device, Engine, EngineBuilder, MultiplyStrided, Placement, gemm};
pub use error::Error;
#[cfg(feature = "cuda")]
pub use error::{EntryMismatch, OperandFault, PtxFault};
pub use gemm_spec::{
    Activation, Batch, BatchItem, Bias, DType, Epilogue, Layout, Operand, Order, Problem,
    ShapeError, Types, Unsupported, bf16, f16,
};
pub use matrix::{MatMut, MatRef, Matrix, problem_of, sizes_of};
pub use row_major::row_major;
pub use strided::{StridedMut, StridedRef, layout_of};

/// The Rust examples of README.md, which are compiled and run as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// Those of docs/embed.md, which are compiled as such; tests/device.rs runs them.
#[cfg(all(doctest, feature = "cuda"))]
#[doc = include_str!("../../../docs/embed.md")]
mod embed {}
