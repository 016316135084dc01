//! Products of views of real numbers.

use gemm_spec::Order;

use crate::context::CpuContext;
use crate::driver;
use crate::field::{Factor, Field};
use crate::gemm::threads_for;
use crate::gemm_symmetric::Symmetric;
use crate::gemm_typed;
use crate::gemm_views::{plain, with_columns};
use crate::kernels::OwnSums;
use crate::mirror::{Mirror, Mirrored};
use crate::region::{Half, Region, TriangleOf};
use crate::types::CpuTypes;
use crate::view::ViewMut;

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
    let (a, b, mut c) = with_columns(a, b, c);
    let product = gemm_typed::product::<T>(alpha, a.view, b.view, beta, &mut c, false);
    let (region, kernels) = (Region::Triangle(Half { of, parts: 1 }), T::kernels(context.isa()));
    // SAFETY: the views hold the elements of the product, which fit together; C is a view that nobody else has; a
    // context's instruction set is one that this CPU has.
    unsafe { driver::multiply_part(&product, region, None, kernels, context, threads) }.is_ok()
}

/// [`Compute::multiply_symmetric`](crate::field::sealed::Compute::multiply_symmetric) of real numbers.
pub(crate) fn multiply_symmetric<T: OwnSums + CpuTypes + Field>(
    alpha: T,
    a: Symmetric<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    mut c: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (n, cols) = (c.rows(), c.cols());
    let kernels = T::kernels(context.isa());
    let element = |line, step| [a.get(line, step); 2];
    let mirrored = |pack, width| Mirrored {
        stored_behind: a.of.upper,
        parts: (1, 1),
        width,
        pack,
        pack_mirrored: pack,
        element: &element,
    };
    let mirror = match c.layout().order {
        Order::ColMajor => Mirror::A(mirrored(kernels.pack_a, kernels.rows)),
        Order::RowMajor => Mirror::B(mirrored(kernels.pack_b, kernels.cols)),
    };
    let (left, right, mut columns) = with_columns(a.a, b, c.reborrow());
    let product = gemm_typed::product::<T>(alpha, left.view, right.view, beta, &mut columns, false);
    let (region, threads) = (Region::All, threads_for((n, cols, n), context));
    // SAFETY: as in `multiply_triangle`; of the factor that is symmetric one triangle is read.
    let done = unsafe {
        driver::multiply_part(&product, region, Some(&mirror), kernels, context, threads)
    };
    // An error comes before anything is written.
    if done.is_err() {
        a.plain(alpha, b, beta, c);
    }
}
