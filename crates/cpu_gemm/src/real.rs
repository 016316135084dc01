//! Products of views of real numbers.

use crate::context::CpuContext;
use crate::field::{Factor, Field};
use crate::gemm_typed;
use crate::gemm_views::plain;
use crate::kernels::OwnSums;
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
