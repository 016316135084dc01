//! LU, Cholesky and QR on the CPU, and the solves that stand on them: by recursion on [`blas3`](crate::blas3).
//!
//! The routines have the names of LAPACK and leave behind what LAPACK leaves: factors, pivots and reflectors can be
//! given to any routine of it. Matrices are views in any storage order, elements a [`Field`].
//!
//! ```
//! use tessera::lapack;
//! use tessera::blas3::ViewMut;
//! use tessera::{CpuContext, Layout};
//!
//! let context = CpuContext::new(None)?;
//! let mut a = [2.0, 1.0, 1.0, 3.0];
//! let mut b = [3.0f64, 5.0];
//! let mut pivots = [0; 2];
//! let matrix = ViewMut::new(&mut a, 2, 2, Layout::row_major(2))?;
//! let x = ViewMut::new(&mut b, 2, 1, Layout::col_major(2))?;
//! let singular = lapack::gesv(matrix, &mut pivots, x, &context)?;
//! assert_eq!(singular, None);
//! assert!((b[0] - 0.8).abs() < 1e-15 && (b[1] - 1.4).abs() < 1e-15);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it is computed
//!
//! - LU and Cholesky halve the matrix until a few columns are left, so that nearly all work is in products and
//!   triangular solves. LU updates what is beside factored columns in parts: those that are factored next come first, and
//!   while they are factored other threads update the rest.
//! - QR factors panels of [`PANEL`] columns, which are halved as well, and applies the reflectors of each as one product
//!   of blocks.
//!
//! # Promises
//!
//! - What LAPACK calls a positive `info` is `Some` index, counted from 0: of the first pivot that is zero, or of the
//!   first leading block that is not positive definite. As there, LU goes on with the other columns, and Cholesky ends.
//! - Of rows that qualify as pivots the first is taken, and magnitudes of complex numbers are the sums of their parts'.
//! - Of a matrix given by a triangle the other is neither read nor written.
//! - The bits are the same on every repeat and for any number of threads.
//! - No routine fails for want of memory.
//!
//! Source: Toledo, "Locality of Reference in LU Decomposition with Partial Pivoting" (1997), and Elmroth and Gustavson,
//! "Applying recursion to serial and parallel QR factorization leads to better performance" (2000).

mod at_once;
mod cholesky;
mod column;
mod copy;
mod least_squares;
mod lu;
mod pivots;
mod qr;
mod reflector;
mod reflectors;

pub use self::cholesky::{posv, potrf, potrs};
pub use self::least_squares::gels;
pub use self::lu::{gesv, getrf, getrs};
pub use self::pivots::Pivot;
pub use self::qr::{gelqf, geqrf, orgqr, ormlq, ormqr};
pub use self::reflectors::PANEL;

pub use crate::blas3::{Complex, Field, Op, Side, Uplo, View, ViewMut};
