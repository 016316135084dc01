//! Products of views of real numbers.

use crate::context::CpuContext;
use crate::field::{Factor, Field};
use crate::gemm::threads_for;
use crate::gemm_typed;
use crate::gemm_views::{plain, with_columns};
use crate::kernels::OwnSums;
use crate::region::{Half, Region, TriangleOf};
use crate::types::CpuTypes;
use crate::view::ViewMut;
use crate::{driver, way};

/// [`Compute::multiply`](crate::field::sealed::Compute::multiply) of real numbers.
pub(crate) fn multiply<T: OwnSums + CpuTypes + Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    mut c: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let done = gemm_typed::multiply::<T>(alpha, a.view, b.view, beta, c.reborrow(), context);
    // An error comes before anything is written.
    if done.is_err() {
        plain(alpha, a, b, beta, c);
    }
}

/// [`Compute::multiply_triangle`](crate::field::sealed::Compute::multiply_triangle) of real numbers.
pub(crate) fn multiply_triangle<T: OwnSums + CpuTypes + Field>(
    of: TriangleOf,
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &CpuContext,
) -> bool {
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    let threads = threads_for((m, n.div_ceil(2), k), context);
    // Tiles of matrix units compute whole rectangles.
    if way::in_tiles::<T>(context.units(), (m, n, k), context) {
        return false;
    }
    let (a, b, mut c) = with_columns(a, b, c);
    let product = gemm_typed::product::<T>(alpha, a.view, b.view, beta, &mut c, false);
    let (region, kernels) = (Region::Triangle(Half { of, parts: 1 }), T::kernels(context.isa()));
    // SAFETY: the views hold the elements of the product, which fit together; C is a view that nobody else has; a
    // context's instruction set is one that this CPU has.
    unsafe { driver::multiply_region(&product, region, kernels, context, threads) }.is_ok()
}
