//! Products that are finished by an epilogue.

use std::num::NonZeroUsize;

use cpu_gemm::EpilogueSlices;
use gemm_spec::Bias;

use super::Engine;
#[cfg(feature = "cuda")]
use super::Placement;
use super::strided::mirrored;
use crate::blas3::{View, ViewMut};
use crate::element::{AccOf, Element, GemmTypes, MultiplyInto};
use crate::error::Error;
use crate::matrix::{MatMut, MatRef, sizes_of};
use crate::strided::{StridedMut, StridedRef};

/// Alpha and beta.
type Scalars<A, B, C> = (AccOf<A, B, C>, AccOf<A, B, C>);

impl Engine {
    /// `D = activation((alpha * row_scale * column_scale) * A * B + beta * C + bias)`, `scalars` being alpha and beta;
    /// what is absent is left out, and C is D where none is given. Returns the largest magnitude of D where the epilogue
    /// asks for it. [`gemm_spec::fusion`] defines each step.
    ///
    /// ```
    /// use tessera::{Activation, Bias, Engine, Epilogue, EpilogueSlices, Matrix};
    ///
    /// let a = Matrix::from_fn(2, 3, |row, col| (row + col) as f32)?;
    /// let b = Matrix::from_fn(3, 2, |row, col| (row * col) as f32)?;
    /// let mut d = Matrix::zeros(2, 2)?;
    /// let relu = EpilogueSlices::new(Epilogue::new(None, Activation::Relu));
    /// let epilogue = relu.with_bias(Bias::PerColumn, &[-1.0, -6.0]);
    /// let (a, b) = (a.view(), b.view());
    /// Engine::global()?.gemm_with_epilogue((1.0, 0.0), a, b, None, d.view_mut(), &epilogue)?;
    /// assert_eq!(d.get(0, 1), Some(0.0));
    /// assert_eq!(d.get(1, 1), Some(2.0));
    /// # Ok::<(), tessera::Error>(())
    /// ```
    ///
    /// On the CPU each part of D is finished while it is in the cache of the thread that has computed it. Of a product
    /// that the engine places on a GPU the sums come back and are finished here. In both cases the sums are those of
    /// [`Engine::gemm`] with a C of their type, and each is rounded once, at the end. Where elements of D are narrower than sums,
    /// and where row or column scales meet a C that is D, the sums take memory of their own, m by n of them; so they do
    /// after a GPU.
    ///
    /// With `beta == 0` C is not read, with `alpha == 0` neither A nor B is.
    ///
    /// # Errors
    /// [`Error::Epilogue`] where the types have no such epilogue or it lacks numbers, else as [`Engine::gemm`]. D is then
    /// unchanged.
    pub fn gemm_with_epilogue<A: MultiplyInto<B, C>, B: Element, C: Element>(
        &self,
        scalars: Scalars<A, B, C>,
        a: MatRef<'_, A>,
        b: MatRef<'_, B>,
        c: Option<MatRef<'_, C>>,
        d: MatMut<'_, C>,
        epilogue: &EpilogueSlices<'_, C, AccOf<A, B, C>>,
    ) -> Result<Option<f32>, Error> {
        let (rows, cols, layout) = (d.rows(), d.cols(), d.layout());
        let c = c.map(|c| View::new(c.as_slice(), c.rows(), c.cols(), c.layout())).transpose()?;
        let d = ViewMut::new(d.into_slice(), rows, cols, layout)?;
        let a = View::new(a.as_slice(), a.rows(), a.cols(), a.layout())?;
        let b = View::new(b.as_slice(), b.rows(), b.cols(), b.layout())?;
        self.gemm_views_with_epilogue::<A::Types>(None, scalars, a, b, c, d, epilogue)
    }

    /// [`Engine::gemm_with_epilogue`] of matrices with any strides, as [`Engine::gemm_strided`] takes them, computed by
    /// `threads` threads at most; `factors` are A and B.
    ///
    /// # Errors
    /// As [`Engine::gemm_with_epilogue`], and [`Error::OutOfMemory`] where there is none for a copy.
    pub fn gemm_strided_with_epilogue<A: MultiplyInto<B, C>, B: Element, C: Element>(
        &self,
        threads: Option<NonZeroUsize>,
        scalars: Scalars<A, B, C>,
        factors: (StridedRef<'_, A>, StridedRef<'_, B>),
        c: Option<StridedRef<'_, C>>,
        d: StridedMut<'_, C>,
        epilogue: &EpilogueSlices<'_, C, AccOf<A, B, C>>,
    ) -> Result<Option<f32>, Error> {
        let (a, b) = factors;
        fits([a.dims(), b.dims()], c.map(|c| c.dims()), d.dims())?;
        let (rows, cols) = d.reversed();
        let EpilogueSlices { bias, row_scales, column_scales, .. } = *epilogue;
        let along = epilogue.epilogue.bias;
        let bias_turns =
            rows && along == Some(Bias::PerRow) || cols && along == Some(Bias::PerColumn);
        let bias = in_order(bias, bias_turns);
        let (row_scales, column_scales) =
            (in_order(row_scales, rows), in_order(column_scales, cols));
        let epilogue = EpilogueSlices {
            epilogue: epilogue.epilogue,
            bias: &bias,
            row_scales: &row_scales,
            column_scales: &column_scales,
        };
        // The same elements, the last row of D, C and A first.
        let (a, c, d) = match rows {
            true => (a.upside_down(), c.map(StridedRef::upside_down), d.upside_down()),
            false => (a, c, d),
        };
        let (b, c, d) = match cols {
            true => (mirrored(b), c.map(mirrored), d.transposed().upside_down().transposed()),
            false => (b, c, d),
        };
        let (mut of_a, mut of_b, mut of_c) = (Vec::new(), Vec::new(), Vec::new());
        let (a, b) = (a.in_lines("A", &mut of_a)?, b.in_lines("B", &mut of_b)?);
        let c = c.map(|c| c.in_lines("C", &mut of_c)).transpose()?.map(|c| c.view);
        let mut amax = None;
        d.write(|d| {
            let (a, b, d) = (a.view, b.view, d.view()?);
            amax =
                self.gemm_views_with_epilogue::<A::Types>(threads, scalars, a, b, c, d, &epilogue)?;
            Ok(())
        })?;
        Ok(amax)
    }

    /// [`Engine::gemm_with_epilogue`] of views and of types known by their list, computed by `threads` threads at most.
    ///
    /// Products of an A and a B without gaps go where the engine sees fit, others are computed by its threads.
    ///
    /// # Errors
    /// As [`Engine::gemm_with_epilogue`].
    #[expect(clippy::too_many_arguments, reason = "a product has four matrices")]
    pub fn gemm_views_with_epilogue<T: GemmTypes>(
        &self,
        threads: Option<NonZeroUsize>,
        scalars: (T::Acc, T::Acc),
        a: View<'_, T::A>,
        b: View<'_, T::B>,
        c: Option<View<'_, T::C>>,
        d: ViewMut<'_, T::C>,
        epilogue: &EpilogueSlices<'_, T::C, T::Acc>,
    ) -> Result<Option<f32>, Error> {
        let dims = (d.rows(), d.cols());
        fits([(a.rows(), a.cols()), (b.rows(), b.cols())], c.map(|c| (c.rows(), c.cols())), dims)?;
        let cpu = self.limited_to(threads);
        #[cfg(feature = "cuda")]
        if let (true, Some(of_a), Some(of_b)) = (self.gpu.is_some(), a.dense(), b.dense()) {
            use gemm_spec::{Element as _, Layout, Order, Problem};

            epilogue
                .epilogue
                .check_in_host_memory(T::TYPES)
                .map_err(|reason| Error::Epilogue { reason })?;
            let (m, n) = dims;
            let layout = match d.layout().order {
                Order::RowMajor => Layout::row_major(n),
                Order::ColMajor => Layout::col_major(m),
            };
            // With alpha zero A and B are not read, whatever the scales are.
            let zero = T::Acc::ZERO;
            let own_alpha = if scalars.0 == zero { zero } else { T::Acc::ONE };
            let problem = Problem::<T::Sums>::new(m, n, a.cols())
                .with_scalars(own_alpha, zero)
                .with_layouts(a.layout(), b.layout(), layout);
            if let Placement::Gpu(_) = self.placement(&problem)? {
                let mut sums = zeros::<T::Acc>(m, n)?;
                self.gemm_slices(&problem, of_a, of_b, &mut sums)?;
                let sums = View::new(&sums, m, n, layout)?;
                return Ok(cpu_gemm::finish::<T>(scalars, sums, c, d, epilogue, &cpu)?);
            }
        }
        Ok(cpu_gemm::gemm_with_epilogue::<T>(scalars, a, b, c, d, epilogue, &cpu)?)
    }
}

/// Checks that a product of A and B has the size of D, and C too, if there is one.
fn fits(
    [a, b]: [(usize, usize); 2],
    c: Option<(usize, usize)>,
    d: (usize, usize),
) -> Result<(), Error> {
    sizes_of([a, b, d])?;
    match c {
        Some((rows, cols)) if (rows, cols) != d => {
            Err(Error::OuterDim { rows, cols, m: d.0, n: d.1 })
        }
        _ => Ok(()),
    }
}

/// Numbers as they are, or the last one first.
fn in_order<T: Copy>(numbers: &[T], turn: bool) -> std::borrow::Cow<'_, [T]>
where
    [T]: ToOwned<Owned = Vec<T>>,
{
    if turn { numbers.iter().rev().copied().collect::<Vec<_>>().into() } else { numbers.into() }
}

/// Memory for sums.
#[cfg(feature = "cuda")]
fn zeros<T: gemm_spec::Element>(m: usize, n: usize) -> Result<Vec<T>, Error> {
    let count = m as u128 * n as u128;
    let mut sums = Vec::new();
    let reserved = usize::try_from(count).map(|count| sums.try_reserve_exact(count).is_ok());
    if reserved != Ok(true) {
        let needed = count.saturating_mul(size_of::<T>() as u128);
        let what = format!("the sums of a product of {m} x {n}");
        return Err(Error::OutOfMemory { what, needed, available: None });
    }
    sums.resize(m * n, T::ZERO);
    Ok(sums)
}
