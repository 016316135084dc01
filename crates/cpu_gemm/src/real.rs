//! Products of views of real numbers, by whatever way suits them.

use crate::context::CpuContext;
use crate::field::{Factor, Field};
use crate::gemm::threads_for;
use crate::gemm_views::{plain, strides, with_columns};
use crate::kernels::OwnSums;
use crate::product::Product;
use crate::types::CpuTypes;
use crate::view::ViewMut;
use crate::way::{self, Way};

/// [`Compute::multiply`](crate::field::sealed::Compute::multiply) of real numbers.
pub(crate) fn multiply<T: OwnSums + CpuTypes + Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (a, b, mut c, swapped) = with_columns(a, b, c);
    let ((a_row, a_col), (b_row, b_col)) = (strides(&a.view), strides(&b.view));
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    let product = Product::<T> {
        m,
        n,
        k,
        alpha,
        beta,
        a: a.view.as_ptr(),
        // From one row to the next of one row is as good as anything.
        a_row: if m == 1 { 1 } else { a_row },
        a_col,
        b: b.view.as_ptr(),
        b_row,
        b_col,
        ldc: c.layout().ld,
        c: c.as_mut_ptr(),
        swapped,
    };
    let threads = threads_for((m, n, k), context);
    // SAFETY: the views hold the elements of the product, which fit together; C is a view that nobody else has.
    let done = unsafe { way::multiply(&product, Way::Units(context.units()), context, threads) };
    // An error comes before anything is written.
    if done.is_err() {
        plain(alpha, a, b, beta, c);
    }
}
