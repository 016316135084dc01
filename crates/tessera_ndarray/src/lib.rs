//! Matrix products of [ndarray]'s arrays by the engine of [tessera].
//!
//! ```
//! use ndarray::array;
//! use tessera::Engine;
//! use tessera_ndarray::Multiply as _;
//!
//! let engine = Engine::auto()?;
//! let a = array![[1.0f32, 2.0], [3.0, 4.0]];
//! assert_eq!(engine.dot(&a, &a.t())?, array![[5.0, 11.0], [11.0, 25.0]]);
//!
//! let mut c = array![[1.0f32, 1.0], [1.0, 1.0]];
//! engine.general_mat_mul(1.0, &a, &a, 10.0, &mut c)?;
//! assert_eq!(c, array![[17.0, 20.0], [25.0, 32.0]]);
//! # Ok::<(), tessera::Error>(())
//! ```
//!
//! Any view will do: parts, transposed views, steps, reversed and broadcast axes. Arrays whose rows or columns
//! are contiguous are read and written in place, and so is a reversed C; others are copied first.
//! Products of arrays without gaps go where the engine sees fit, on a GPU or not; others are computed by its
//! threads.
//!
//! The bits are those of the engine, not those of `ndarray`'s own products.

use ndarray::{Array2, ArrayRef2};
use tessera::{AccOf, Element, Engine, Error, MultiplyInto, StridedMut, StridedRef};

mod sealed {
    pub trait Sealed {}
    impl Sealed for tessera::Engine {}
}

/// Products of arrays, by an [`Engine`].
pub trait Multiply: sealed::Sealed {
    /// `C = alpha * A * B + beta * C`, as `ndarray::linalg::general_mat_mul`. With `beta == 0` C is not read,
    /// with `alpha == 0` neither A nor B is.
    ///
    /// # Errors
    /// [`Error::InnerDim`] and [`Error::OuterDim`] where the sizes do not fit, else as [`Engine::gemm`].
    fn general_mat_mul<A: MultiplyInto<B, C>, B: Element, C: Element>(
        &self,
        alpha: AccOf<A, B, C>,
        a: &ArrayRef2<A>,
        b: &ArrayRef2<B>,
        beta: AccOf<A, B, C>,
        c: &mut ArrayRef2<C>,
    ) -> Result<(), Error>;

    /// `A * B` as a new array.
    ///
    /// # Errors
    /// As [`Multiply::general_mat_mul`], and [`Error::OutOfMemory`].
    fn dot<A: tessera::Multiply<B>, B: Element>(
        &self,
        a: &ArrayRef2<A>,
        b: &ArrayRef2<B>,
    ) -> Result<Array2<A::Output>, Error>;
}

impl Multiply for Engine {
    fn general_mat_mul<A: MultiplyInto<B, C>, B: Element, C: Element>(
        &self,
        alpha: AccOf<A, B, C>,
        a: &ArrayRef2<A>,
        b: &ArrayRef2<B>,
        beta: AccOf<A, B, C>,
        c: &mut ArrayRef2<C>,
    ) -> Result<(), Error> {
        self.gemm_strided(None, alpha, strided(a), strided(b), beta, strided_mut(c))
    }

    fn dot<A: tessera::Multiply<B>, B: Element>(
        &self,
        a: &ArrayRef2<A>,
        b: &ArrayRef2<B>,
    ) -> Result<Array2<A::Output>, Error> {
        let (rows, cols) = (a.nrows(), b.ncols());
        let zeros = tessera::Matrix::zeros(rows, cols)?.into_vec();
        let mut c = Array2::from_shape_vec((rows, cols), zeros)
            .expect("invariant: a matrix has as many elements");
        self.general_mat_mul(one(), a, b, zero(), &mut c)?;
        Ok(c)
    }
}

fn one<T: Element>() -> T {
    T::ONE
}

fn zero<T: Element>() -> T {
    T::ZERO
}

/// An array as the engine reads it.
fn strided<T>(array: &ArrayRef2<T>) -> StridedRef<'_, T> {
    let strides = (array.strides()[0], array.strides()[1]);
    // SAFETY: the array's elements are where its strides say; they are borrowed.
    unsafe { StridedRef::from_raw(array.as_ptr(), array.dim(), strides) }
}

/// An array as the engine writes it.
fn strided_mut<T>(array: &mut ArrayRef2<T>) -> StridedMut<'_, T> {
    let (dims, strides) = (array.dim(), (array.strides()[0], array.strides()[1]));
    // SAFETY: the array's elements are where its strides say; they are borrowed exclusively.
    unsafe { StridedMut::from_raw(array.as_mut_ptr(), dims, strides) }
}
