//! Matrix products of [nalgebra]'s matrices by the engine of [tessera].
//!
//! ```
//! use nalgebra::{DMatrix, Matrix2};
//! use tessera::Engine;
//! use tessera_nalgebra::{Gemm as _, Multiply as _};
//!
//! let engine = Engine::auto()?;
//! let a = DMatrix::from_row_slice(2, 2, &[1.0f32, 2.0, 3.0, 4.0]);
//! assert_eq!(a.mul_with(&engine, &a)?, DMatrix::from_row_slice(2, 2, &[7.0, 10.0, 15.0, 22.0]));
//!
//! // The arguments of nalgebra's `gemm`, and `gemm_tr` for the transposed A.
//! let mut c = Matrix2::new(1.0f32, 1.0, 1.0, 1.0);
//! c.gemm_with(&engine, 1.0, &a, &a, 10.0)?;
//! assert_eq!(c, Matrix2::new(17.0, 20.0, 25.0, 32.0));
//! c.gemm_tr_with(&engine, 1.0, &a, &a, 0.0)?;
//! assert_eq!(c, Matrix2::new(10.0, 14.0, 14.0, 20.0));
//! # Ok::<(), tessera::Error>(())
//! ```
//!
//! Any storage will do: matrices of static and of dynamic sizes, views, parts and steps. Matrices whose rows or
//! columns are contiguous are read and written in place, others are copied first.
//! Real matrices without gaps are multiplied where the engine sees fit, on a GPU or not; others by its threads.
//! [`Engine::global`](tessera::Engine::global) is an engine for those who need no other.
//!
//! The bits are those of the engine, not those of nalgebra's own products.
//!
//! # Sizes
//!
//! Static sizes that do not fit do not compile, as with nalgebra:
//!
//! ```compile_fail
//! use nalgebra::{Matrix2x3, Matrix2};
//! use tessera_nalgebra::Gemm as _;
//!
//! let engine = tessera::Engine::auto().unwrap();
//! let (a, mut c) = (Matrix2x3::<f32>::zeros(), Matrix2::<f32>::zeros());
//! c.gemm_with(&engine, 1.0, &a, &a, 0.0).unwrap();
//! ```
//!
//! Where a size is dynamic nalgebra panics, and a product by an engine is an [`Error`].

use nalgebra::allocator::Allocator;
use nalgebra::constraint::{
    AreMultipliable, SameNumberOfColumns, SameNumberOfRows, ShapeConstraint,
};
use nalgebra::{
    Complex, DefaultAllocator, Dim, Matrix, OMatrix, RawStorage, RawStorageMut, Scalar, Storage,
    StorageMut,
};
use tessera::{Engine, Error, MultiplyStrided, StridedMut, StridedRef};

mod sealed {
    pub trait Sealed {}
    impl<T, R, C, S> Sealed for nalgebra::Matrix<T, R, C, S> {}
}

/// Elements of the matrices: `f32`, `f64`, `i32`, `Complex<f32>` and `Complex<f64>`.
pub trait Number: Scalar + MultiplyStrided<Self, Self, Scalar = Self> {
    /// Additive identity.
    const ZERO: Self;
    /// Multiplicative identity.
    const ONE: Self;
}

macro_rules! numbers {
    ($($number:ty: $zero:expr, $one:expr;)+) => {$(
        impl Number for $number {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
        }
    )+};
}

numbers! {
    f32: 0.0, 1.0;
    f64: 0.0, 1.0;
    i32: 0, 1;
    Complex<f32>: Self::new(0.0, 0.0), Self::new(1.0, 0.0);
    Complex<f64>: Self::new(0.0, 0.0), Self::new(1.0, 0.0);
}

/// Products that are stored in a matrix C of `R1` by `C1`, by an [`Engine`].
///
/// C is borrowed exclusively, so no factor shares memory with it:
///
/// ```compile_fail
/// use nalgebra::DMatrix;
/// use tessera_nalgebra::Gemm as _;
///
/// let engine = tessera::Engine::auto().unwrap();
/// let mut c = DMatrix::<f32>::zeros(2, 2);
/// c.gemm_with(&engine, 1.0, &c, &c, 0.0).unwrap();
/// ```
pub trait Gemm<T: Number, R1: Dim, C1: Dim>: sealed::Sealed {
    /// `C = alpha * A * B + beta * C`, as nalgebra's `gemm`. With `beta == 0` what was in C makes no difference,
    /// with `alpha == 0` what is in A and B makes none.
    ///
    /// # Errors
    /// [`Error::InnerDim`] and [`Error::OuterDim`] where the sizes do not fit, else as
    /// [`Engine::gemm_strided`].
    fn gemm_with<R2: Dim, C2: Dim, R3: Dim, C3: Dim, SB, SC>(
        &mut self,
        engine: &Engine,
        alpha: T,
        a: &Matrix<T, R2, C2, SB>,
        b: &Matrix<T, R3, C3, SC>,
        beta: T,
    ) -> Result<(), Error>
    where
        SB: Storage<T, R2, C2>,
        SC: Storage<T, R3, C3>,
        ShapeConstraint: SameNumberOfRows<R1, R2>
            + SameNumberOfColumns<C1, C3>
            + AreMultipliable<R2, C2, R3, C3>;

    /// `C = alpha * A^T * B + beta * C`, as nalgebra's `gemm_tr`.
    ///
    /// # Errors
    /// As [`Gemm::gemm_with`].
    fn gemm_tr_with<R2: Dim, C2: Dim, R3: Dim, C3: Dim, SB, SC>(
        &mut self,
        engine: &Engine,
        alpha: T,
        a: &Matrix<T, R2, C2, SB>,
        b: &Matrix<T, R3, C3, SC>,
        beta: T,
    ) -> Result<(), Error>
    where
        SB: Storage<T, R2, C2>,
        SC: Storage<T, R3, C3>,
        ShapeConstraint: SameNumberOfRows<R1, C2>
            + SameNumberOfColumns<C1, C3>
            + AreMultipliable<C2, R2, R3, C3>;

    /// `C = alpha * A^H * B + beta * C`, A being transposed and conjugated, as nalgebra's `gemm_ad`.
    ///
    /// # Errors
    /// As [`Gemm::gemm_with`].
    fn gemm_ad_with<R2: Dim, C2: Dim, R3: Dim, C3: Dim, SB, SC>(
        &mut self,
        engine: &Engine,
        alpha: T,
        a: &Matrix<T, R2, C2, SB>,
        b: &Matrix<T, R3, C3, SC>,
        beta: T,
    ) -> Result<(), Error>
    where
        SB: Storage<T, R2, C2>,
        SC: Storage<T, R3, C3>,
        ShapeConstraint: SameNumberOfRows<R1, C2>
            + SameNumberOfColumns<C1, C3>
            + AreMultipliable<C2, R2, R3, C3>;
}

/// Products of a matrix A of `R1` by `C1`, by an [`Engine`].
pub trait Multiply<T: Number, R1: Dim, C1: Dim>: sealed::Sealed {
    /// `A * B` as a new matrix.
    ///
    /// # Errors
    /// As [`Gemm::gemm_with`].
    fn mul_with<R2: Dim, C2: Dim, SB>(
        &self,
        engine: &Engine,
        b: &Matrix<T, R2, C2, SB>,
    ) -> Result<OMatrix<T, R1, C2>, Error>
    where
        SB: Storage<T, R2, C2>,
        DefaultAllocator: Allocator<R1, C2>,
        ShapeConstraint: AreMultipliable<R1, C1, R2, C2>;
}

impl<T: Number, R1: Dim, C1: Dim, S: StorageMut<T, R1, C1>> Gemm<T, R1, C1>
    for Matrix<T, R1, C1, S>
{
    fn gemm_with<R2: Dim, C2: Dim, R3: Dim, C3: Dim, SB, SC>(
        &mut self,
        engine: &Engine,
        alpha: T,
        a: &Matrix<T, R2, C2, SB>,
        b: &Matrix<T, R3, C3, SC>,
        beta: T,
    ) -> Result<(), Error>
    where
        SB: Storage<T, R2, C2>,
        SC: Storage<T, R3, C3>,
        ShapeConstraint: SameNumberOfRows<R1, R2>
            + SameNumberOfColumns<C1, C3>
            + AreMultipliable<R2, C2, R3, C3>,
    {
        engine.gemm_strided(None, alpha, strided(a), strided(b), beta, strided_mut(self))
    }

    fn gemm_tr_with<R2: Dim, C2: Dim, R3: Dim, C3: Dim, SB, SC>(
        &mut self,
        engine: &Engine,
        alpha: T,
        a: &Matrix<T, R2, C2, SB>,
        b: &Matrix<T, R3, C3, SC>,
        beta: T,
    ) -> Result<(), Error>
    where
        SB: Storage<T, R2, C2>,
        SC: Storage<T, R3, C3>,
        ShapeConstraint: SameNumberOfRows<R1, C2>
            + SameNumberOfColumns<C1, C3>
            + AreMultipliable<C2, R2, R3, C3>,
    {
        let a = strided(a).transposed();
        engine.gemm_strided(None, alpha, a, strided(b), beta, strided_mut(self))
    }

    fn gemm_ad_with<R2: Dim, C2: Dim, R3: Dim, C3: Dim, SB, SC>(
        &mut self,
        engine: &Engine,
        alpha: T,
        a: &Matrix<T, R2, C2, SB>,
        b: &Matrix<T, R3, C3, SC>,
        beta: T,
    ) -> Result<(), Error>
    where
        SB: Storage<T, R2, C2>,
        SC: Storage<T, R3, C3>,
        ShapeConstraint: SameNumberOfRows<R1, C2>
            + SameNumberOfColumns<C1, C3>
            + AreMultipliable<C2, R2, R3, C3>,
    {
        let a = strided(a).transposed().conjugated();
        engine.gemm_strided(None, alpha, a, strided(b), beta, strided_mut(self))
    }
}

impl<T: Number, R1: Dim, C1: Dim, S: Storage<T, R1, C1>> Multiply<T, R1, C1>
    for Matrix<T, R1, C1, S>
{
    fn mul_with<R2: Dim, C2: Dim, SB>(
        &self,
        engine: &Engine,
        b: &Matrix<T, R2, C2, SB>,
    ) -> Result<OMatrix<T, R1, C2>, Error>
    where
        SB: Storage<T, R2, C2>,
        DefaultAllocator: Allocator<R1, C2>,
        ShapeConstraint: AreMultipliable<R1, C1, R2, C2>,
    {
        let (rows, cols) = (self.shape_generic().0, b.shape_generic().1);
        let mut c = OMatrix::<T, R1, C2>::from_element_generic(rows, cols, T::ZERO);
        let (a, b) = (strided(self), strided(b));
        engine.gemm_strided(None, T::ONE, a, b, T::ZERO, strided_mut(&mut c))?;
        Ok(c)
    }
}

/// A matrix as the engine reads it.
fn strided<T, R: Dim, C: Dim, S: RawStorage<T, R, C>>(
    matrix: &Matrix<T, R, C, S>,
) -> StridedRef<'_, T> {
    let strides = signed(matrix.strides());
    // SAFETY: a storage is its elements, which are where its strides say, and `Storage` that they are initialised;
    // they are borrowed with the matrix.
    unsafe { StridedRef::from_raw(matrix.data.ptr(), matrix.shape(), strides) }
}

/// A matrix as the engine writes it.
fn strided_mut<T, R: Dim, C: Dim, S: RawStorageMut<T, R, C>>(
    matrix: &mut Matrix<T, R, C, S>,
) -> StridedMut<'_, T> {
    let (dims, strides) = (matrix.shape(), signed(matrix.strides()));
    // SAFETY: as in `strided`, and they are borrowed exclusively.
    unsafe { StridedMut::from_raw(matrix.data.ptr_mut(), dims, strides) }
}

/// Strides as signed numbers: those of matrices in memory fit.
fn signed((rows, cols): (usize, usize)) -> (isize, isize) {
    (rows.cast_signed(), cols.cast_signed())
}
