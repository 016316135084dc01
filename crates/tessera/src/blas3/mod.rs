//! Level 3 of BLAS: real and complex numbers, in place, in any storage order.
//!
//! Matrices are views ([`View`], [`ViewMut`]): an address, two sizes and a [`Layout`](crate::Layout), so that a
//! column-major and a row-major caller get the same code. Elements are a [`Field`]: `f32`, `f64`,
//! `Complex<f32>` or `Complex<f64>`.
//!
//! ```
//! use tessera::blas3::{self, Diag, Op, Side, Uplo, View, ViewMut};
//! use tessera::{CpuContext, Layout};
//!
//! let context = CpuContext::new(None)?;
//! // The lower triangle of a column-major A; what is above it is not read.
//! let a = [2.0, 1.0, f64::NAN, 4.0];
//! let mut b = [2.0, 9.0];
//! let a = View::new(&a, 2, 2, Layout::col_major(2))?;
//! let x = ViewMut::new(&mut b, 2, 1, Layout::col_major(2))?;
//! blas3::trsm(Side::Left, Uplo::Lower, Op::NoTrans, Diag::NonUnit, 1.0, a, x, &context)?;
//! assert_eq!(b, [1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it is computed
//!
//! Of a result of which one triangle is wanted, [`cpu_gemm::gemm_triangle`] computes the tiles of that triangle alone, and
//! of a symmetric or Hermitian factor [`cpu_gemm::gemm_symmetric`] packs what is not stored from its mirror image. A
//! triangular matrix is halved, as all are where a GPU or matrix units compute products: what is rectangular is a
//! product by [`gemm()`], and so nearly all of the work. What remains are blocks on the diagonal. A triangle of
//! [`cpu_gemm::largest_triangle`] rows goes through the right-hand sides some at a time, block by block, and one of
//! [`cpu_gemm::BLOCK`] rows is substituted or multiplied row by row, nothing but the diagonal being inverted; of a
//! symmetric result a square is computed aside, and its triangle copied.
//!
//! What computes the products is a [`Products`]: a [`CpuContext`](crate::CpuContext), or something that gives
//! some of them to a GPU.
//!
//! # Promises
//!
//! - Only the named triangle of a matrix is read or written, and where the diagonal is said to be ones it is
//!   not read. The imaginary parts of a Hermitian matrix' diagonal are not read, and written as zeros.
//! - With `beta == 0` C is not read: a NaN in it does not come through. With `alpha == 0` neither A nor B is
//!   read, and [`trsm`] and [`trmm`] write zeros.
//! - All else follows IEEE arithmetic: a zero does not hide a NaN or an infinity that it is multiplied by.
//!   The reference BLAS skips zeros of B in `trsm` and `trmm`, and there hides them.
//! - The bits are the same on every repeat and for any number of threads.
//! - No routine fails for want of memory: where the system refuses some for packing, plain loops compute.

mod gemm;
mod options;
mod products;
mod rank_k;
mod sizes;
mod symmetric;
mod triangular;

pub use cpu_gemm::{
    Bytes, Complex, CpuTypes, Factor, Field, NearShape, View, ViewMut, each_product,
    views_use_matrix_units,
};

pub use self::gemm::{gemm, gemm_bytes, gemm_bytes_then, gemm_near, gemm_typed, near_shape};
pub use self::options::{Diag, Op, Side, Uplo};
pub use self::products::Products;
pub use self::rank_k::{gemmtr, her2k, herk, syr2k, syrk};
pub use self::symmetric::{hemm, symm};
pub use self::triangular::{trmm, trsm};

pub(crate) use self::sizes::{check_size, half};
pub(crate) use self::triangular::triangular;
