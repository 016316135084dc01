//! Matrix products of [faer]'s matrices by the engine of [tessera].
//!
//! ```
//! use faer::{Accum, Par, mat};
//! use tessera::Engine;
//! use tessera_faer::Multiply as _;
//!
//! let engine = Engine::auto()?;
//! let a = mat![[1.0f32, 2.0], [3.0, 4.0]];
//! assert_eq!(engine.product(&a, a.transpose())?, mat![[5.0, 11.0], [11.0, 25.0]]);
//!
//! // The arguments of `faer::linalg::matmul::matmul`.
//! let mut c = mat![[1.0f32, 1.0], [1.0, 1.0]];
//! engine.matmul(&mut c, Accum::Add, &a, a.as_ref().reverse_rows(), 10.0, Par::Seq)?;
//! assert_eq!(c, mat![[51.0, 81.0], [131.0, 201.0]]);
//! # Ok::<(), tessera::Error>(())
//! ```
//!
//! Any view will do: parts, transposed, conjugated and reversed views, any strides. Matrices whose rows or columns
//! are contiguous are read and written in place, and so is a reversed destination; others are copied first.
//! Real matrices without gaps are multiplied where the engine sees fit, on a GPU or not; others by its threads.
//! [`Engine::global`](tessera::Engine::global) is an engine for those who need no other.
//!
//! The bits are those of the engine, not those of faer's own products.

use std::num::NonZeroUsize;

use faer::mat::{AsMatMut, AsMatRef};
use faer::traits::{ComplexField, Conjugate};
use faer::{Accum, Conj, Mat, MatMut, MatRef, Par, Shape, c32, c64};
use tessera::{Engine, Error, MultiplyStrided, StridedMut, StridedRef};

mod sealed {
    pub trait Sealed {}
    impl Sealed for tessera::Engine {}
}

/// Elements of the matrices: `f32`, `f64`, `c32` and `c64`.
pub trait Number: ComplexField + MultiplyStrided<Self, Self, Scalar = Self> {}

impl Number for f32 {}
impl Number for f64 {}
impl Number for c32 {}
impl Number for c64 {}

/// Products of matrices, by an [`Engine`].
pub trait Multiply: sealed::Sealed {
    /// `dst = alpha * lhs * rhs`, or that added to what is in `dst`, as `faer::linalg::matmul::matmul`. With
    /// [`Accum::Replace`] what was in `dst` makes no difference.
    ///
    /// Of the engine's threads as many compute as `par` says at the most; [`Par::Seq`] is the calling thread alone.
    /// A product that the engine leaves to a GPU takes no notice of it.
    ///
    /// `dst` is borrowed exclusively, so no factor shares memory with it:
    ///
    /// ```compile_fail
    /// use faer::{Accum, Mat, Par};
    /// use tessera_faer::Multiply as _;
    ///
    /// let engine = tessera::Engine::auto().unwrap();
    /// let mut c = Mat::<f32>::zeros(2, 2);
    /// engine.matmul(&mut c, Accum::Add, &c, &c, 1.0, Par::Seq).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::InnerDim`] and [`Error::OuterDim`] where the sizes do not fit, else as
    /// [`Engine::gemm_strided`].
    fn matmul<T, Lhs, Rhs, M: Shape, N: Shape, K: Shape>(
        &self,
        dst: impl AsMatMut<T = T, Rows = M, Cols = N>,
        beta: Accum,
        lhs: impl AsMatRef<T = Lhs, Rows = M, Cols = K>,
        rhs: impl AsMatRef<T = Rhs, Rows = K, Cols = N>,
        alpha: T,
        par: Par,
    ) -> Result<(), Error>
    where
        T: Number,
        Lhs: Conjugate<Canonical = T>,
        Rhs: Conjugate<Canonical = T>;

    /// `lhs * rhs` as a new matrix, on all of the engine's threads.
    ///
    /// # Errors
    /// As [`Multiply::matmul`].
    fn product<T, Lhs, Rhs, M: Shape, N: Shape, K: Shape>(
        &self,
        lhs: impl AsMatRef<T = Lhs, Rows = M, Cols = K>,
        rhs: impl AsMatRef<T = Rhs, Rows = K, Cols = N>,
    ) -> Result<Mat<T, M, N>, Error>
    where
        T: Number,
        Lhs: Conjugate<Canonical = T>,
        Rhs: Conjugate<Canonical = T>;
}

impl Multiply for Engine {
    fn matmul<T, Lhs, Rhs, M: Shape, N: Shape, K: Shape>(
        &self,
        mut dst: impl AsMatMut<T = T, Rows = M, Cols = N>,
        beta: Accum,
        lhs: impl AsMatRef<T = Lhs, Rows = M, Cols = K>,
        rhs: impl AsMatRef<T = Rhs, Rows = K, Cols = N>,
        alpha: T,
        par: Par,
    ) -> Result<(), Error>
    where
        T: Number,
        Lhs: Conjugate<Canonical = T>,
        Rhs: Conjugate<Canonical = T>,
    {
        let beta = match beta {
            Accum::Replace => T::zero_impl(),
            Accum::Add => T::one_impl(),
        };
        let (lhs, rhs) = (strided(lhs.as_mat_ref()), strided(rhs.as_mat_ref()));
        let threads = NonZeroUsize::new(par.degree());
        self.gemm_strided(threads, alpha, lhs, rhs, beta, strided_mut(dst.as_mat_mut()))
    }

    fn product<T, Lhs, Rhs, M: Shape, N: Shape, K: Shape>(
        &self,
        lhs: impl AsMatRef<T = Lhs, Rows = M, Cols = K>,
        rhs: impl AsMatRef<T = Rhs, Rows = K, Cols = N>,
    ) -> Result<Mat<T, M, N>, Error>
    where
        T: Number,
        Lhs: Conjugate<Canonical = T>,
        Rhs: Conjugate<Canonical = T>,
    {
        let (lhs, rhs) = (lhs.as_mat_ref(), rhs.as_mat_ref());
        let mut c = Mat::<T, M, N>::zeros(lhs.nrows(), rhs.ncols());
        let (lhs, rhs) = (strided(lhs), strided(rhs));
        let (one, zero) = (T::one_impl(), T::zero_impl());
        self.gemm_strided(None, one, lhs, rhs, zero, strided_mut(c.as_mut()))?;
        Ok(c)
    }
}

/// A matrix as the engine reads it.
fn strided<T: Conjugate, R: Shape, C: Shape>(
    matrix: MatRef<'_, T, R, C>,
) -> StridedRef<'_, T::Canonical> {
    let matrix = matrix.canonical();
    let dims = (matrix.nrows().unbound(), matrix.ncols().unbound());
    let strides = (matrix.row_stride(), matrix.col_stride());
    // SAFETY: the elements are where the strides say, and are borrowed.
    let factor = unsafe { StridedRef::from_raw(matrix.as_ptr(), dims, strides) };
    if Conj::get::<T>().is_conj() { factor.conjugated() } else { factor }
}

/// A matrix as the engine writes it.
fn strided_mut<T, R: Shape, C: Shape>(matrix: MatMut<'_, T, R, C>) -> StridedMut<'_, T> {
    let dims = (matrix.nrows().unbound(), matrix.ncols().unbound());
    let strides = (matrix.row_stride(), matrix.col_stride());
    // SAFETY: the elements are where the strides say, and are borrowed exclusively.
    unsafe { StridedMut::from_raw(matrix.as_ptr_mut(), dims, strides) }
}
