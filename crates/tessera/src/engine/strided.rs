//! Products of matrices with any strides.

use std::num::NonZeroUsize;

use cpu_gemm::CpuContext;

use super::Engine;
#[cfg(feature = "cuda")]
use super::Placement;
use crate::blas3::{self, Complex, Factor, Field, Op, Products as _};
use crate::element::{AccOf, Element, MultiplyInto};
use crate::error::Error;
use crate::matrix::sizes_of;
#[cfg(feature = "cuda")]
use crate::matrix::{MatMut, MatRef, problem_of};
use crate::strided::{Lines, LinesMut, StridedMut, StridedRef};

mod sealed {
    use super::{Engine, Error, Lines, LinesMut, NonZeroUsize};

    /// What an engine does of a strided product.
    pub trait Compute<B, C>: Copy {
        /// The type of alpha and beta.
        type Scalar: Copy;

        /// The product of operands whose sizes fit.
        fn multiply(
            engine: &Engine,
            threads: Option<NonZeroUsize>,
            scalars: (Self::Scalar, Self::Scalar),
            a: &Lines<'_, Self>,
            b: &Lines<'_, B>,
            c: LinesMut<'_, C>,
        ) -> Result<(), Error>;
    }
}

/// Elements of A whose products with elements of B are stored as elements of C: those of [`MultiplyInto`], with
/// alpha and beta of [`AccOf`], and `Complex<f32>` and `Complex<f64>`.
pub trait MultiplyStrided<B, C>: sealed::Compute<B, C> {}

impl<A: sealed::Compute<B, C>, B, C> MultiplyStrided<B, C> for A {}

impl<A: MultiplyInto<B, C>, B: Element, C: Element> sealed::Compute<B, C> for A {
    type Scalar = AccOf<A, B, C>;

    fn multiply(
        engine: &Engine,
        threads: Option<NonZeroUsize>,
        (alpha, beta): (Self::Scalar, Self::Scalar),
        a: &Lines<'_, A>,
        b: &Lines<'_, B>,
        c: LinesMut<'_, C>,
    ) -> Result<(), Error> {
        #[cfg(feature = "cuda")]
        let c = match (engine.gpu.is_some(), a.dense, b.dense, c) {
            (true, Some(a_data), Some(b_data), LinesMut::Dense(data, dims, layout)) => {
                let a = MatRef::new(a_data, a.view.rows(), a.view.cols(), a.view.layout())?;
                let b = MatRef::new(b_data, b.view.rows(), b.view.cols(), b.view.layout())?;
                let c = MatMut::new(data, dims.0, dims.1, layout)?;
                let problem = problem_of(alpha, a, b, beta, &c)?;
                if let Placement::Gpu(_) = engine.placement(&problem)? {
                    return engine.gemm(alpha, a, b, beta, c);
                }
                LinesMut::Dense(c.into_slice(), dims, layout)
            }
            (.., c) => c,
        };
        let (plain, cpu) = (Op::NoTrans, engine.limited_to(threads));
        blas3::gemm_typed::<A::Types>(plain, plain, alpha, a.view, b.view, beta, c.view()?, &cpu)
    }
}

macro_rules! complex {
    ($real:ty) => {
        impl sealed::Compute<Self, Self> for Complex<$real> {
            type Scalar = Self;

            fn multiply(
                engine: &Engine,
                threads: Option<NonZeroUsize>,
                (alpha, beta): (Self, Self),
                a: &Lines<'_, Self>,
                b: &Lines<'_, Self>,
                c: LinesMut<'_, Self>,
            ) -> Result<(), Error> {
                let (a, b) = (factor(a), factor(b));
                engine.limited_to(threads).product(alpha, a, b, beta, c.view()?);
                Ok(())
            }
        }
    };
}

complex!(f32);
complex!(f64);

fn factor<'a, T: Field>(lines: &Lines<'a, T>) -> Factor<'a, T> {
    Factor { view: lines.view, conjugated: lines.conjugated }
}

impl Engine {
    /// `C = alpha * A * B + beta * C` of matrices with any strides, which share their memory with others or not:
    /// what other libraries' matrices are to [`Engine::gemm`]. With `beta == 0` the elements of C make no
    /// difference, with `alpha == 0` those of A and B make none.
    ///
    /// Matrices whose rows or columns are contiguous and do not overlap are read and written in place, others are
    /// copied first. A C whose rows or columns are reversed is written in place as well, A or B being reversed in
    /// its stead.
    ///
    /// Products of matrices without gaps go where the engine sees fit, on a GPU or not; others, and those of
    /// complex numbers, are computed by its threads, `threads` of them at most.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where there is none for a copy, else as [`Engine::gemm`].
    pub fn gemm_strided<A: MultiplyStrided<B, C>, B: Copy, C: Copy>(
        &self,
        threads: Option<NonZeroUsize>,
        alpha: A::Scalar,
        a: StridedRef<'_, A>,
        b: StridedRef<'_, B>,
        beta: A::Scalar,
        c: StridedMut<'_, C>,
    ) -> Result<(), Error> {
        sizes_of([a.dims(), b.dims(), c.dims()])?;
        let (rows, cols) = c.reversed();
        // The same sums, the last row of C and of A first.
        let (a, c) = if rows { (a.upside_down(), c.upside_down()) } else { (a, c) };
        let (b, c) =
            if cols { (mirrored(b), c.transposed().upside_down().transposed()) } else { (b, c) };
        let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
        let (a, b) = (a.in_lines("A", &mut of_a)?, b.in_lines("B", &mut of_b)?);
        c.write(|c| A::multiply(self, threads, (alpha, beta), &a, &b, c))
    }

    /// Its threads, that many of them at most.
    pub(super) fn limited_to(&self, threads: Option<NonZeroUsize>) -> CpuContext {
        self.cpu.limited_to(threads.unwrap_or(NonZeroUsize::MAX))
    }
}

/// The last column first.
pub(super) fn mirrored<T>(matrix: StridedRef<'_, T>) -> StridedRef<'_, T> {
    matrix.transposed().upside_down().transposed()
}
