//! One triangle of `C = alpha * A * B + beta * C`.

use gemm_spec::Order;

use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Factor, Field};
use crate::gemm_typed::check_sizes;
use crate::region::TriangleOf;
use crate::view::ViewMut;

/// One triangle of what [`gemm_views`](crate::gemm_views()) computes, with the same bits: tiles outside of it are left
/// out. The other triangle is neither read nor written.
///
/// `false` where it does not pay or cannot be done, and nothing was written: one of alpha and beta is not real, there
/// is nothing to add, matrix units compute what is beside its halves, or the system refuses memory for packed panels.
///
/// # Errors
/// [`Error::Sizes`] where C is not square or the sizes do not fit together; C is then unchanged.
pub fn gemm_triangle<T: Field>(
    of: TriangleOf,
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<bool, Error> {
    check_sizes(&a.view, &b.view, &c)?;
    let n = c.rows();
    if c.cols() != n {
        let (a, b) = ((n, a.view.cols()), (b.view.rows(), c.cols()));
        return Err(Error::Sizes { a, b, c: (n, c.cols()) });
    }
    let k = a.view.cols();
    if n == 0 || k == 0 || alpha == T::ZERO {
        return Ok(false);
    }
    // Tiles of matrix units compute whole rectangles, of which the largest is a quarter of C.
    if T::is_in_tiles((n.div_ceil(2), n.div_ceil(2), k), context) {
        return Ok(false);
    }
    // A row-major C is computed as the transposed one.
    let upper = of.upper == (c.layout().order == Order::ColMajor);
    Ok(T::multiply_triangle(TriangleOf { upper, ..of }, alpha, a, b, beta, c, context))
}
