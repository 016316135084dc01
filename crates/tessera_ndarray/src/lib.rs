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
//! are contiguous are read and written in place, others are copied first.
//! Products of arrays without gaps go where the engine sees fit, on a GPU or not; others are computed by its
//! threads.
//!
//! The bits are those of the engine, not those of `ndarray`'s own products.

mod operand;

use ndarray::{Array2, ArrayRef2};
use tessera::blas3::{self, Op, ViewMut};
use tessera::{AccOf, Element, Engine, Error, MultiplyInto};

use crate::operand::{Readable, Writable};

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
        let ((m, k), (b_rows, n)) = (a.dim(), b.dim());
        if k != b_rows {
            return Err(Error::InnerDim { a_rows: m, a_cols: k, b_rows, b_cols: n });
        }
        let (rows, cols) = c.dim();
        if (rows, cols) != (m, n) {
            return Err(Error::OuterDim { rows, cols, m, n });
        }
        let (a, b) = (Readable::of(a), Readable::of(b));
        if let Some(c) = Writable::of(c) {
            return multiply(self, alpha, &a, &b, beta, c);
        }
        // No part of C is a line: a copy takes its place.
        let mut copy = c.to_owned();
        let whole = Writable::of(&mut copy).expect("invariant: a new array is in lines");
        multiply(self, alpha, &a, &b, beta, whole)?;
        c.assign(&copy);
        Ok(())
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

/// The product of operands whose sizes fit.
fn multiply<A: MultiplyInto<B, C>, B: Element, C: Element>(
    engine: &Engine,
    alpha: AccOf<A, B, C>,
    a: &Readable<'_, A>,
    b: &Readable<'_, B>,
    beta: AccOf<A, B, C>,
    c: Writable<'_, C>,
) -> Result<(), Error> {
    let c = match (a.dense()?, b.dense()?, c) {
        (Some(a), Some(b), Writable::Dense(c)) => return engine.gemm(alpha, a, b, beta, c),
        (_, _, Writable::Lines(c)) => c,
        (_, _, Writable::Dense(c)) => {
            let (rows, cols, layout) = (c.rows(), c.cols(), c.layout());
            ViewMut::new(c.into_slice(), rows, cols, layout)?
        }
    };
    let (plain, cpu) = (Op::NoTrans, engine.cpu_context());
    blas3::gemm_typed::<A::Types>(plain, plain, alpha, a.view(), b.view(), beta, c, cpu)
}
