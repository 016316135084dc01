//! `C = alpha * A * B + beta * C` of views of real or complex numbers.

use gemm_spec::Order;

use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Factor, Field};
use crate::gemm_typed::check_sizes;
use crate::near::NearShape;
use crate::sum::{CHAIN, in_superblocks, superblock};
use crate::view::ViewMut;

/// `C = alpha * A * B + beta * C` of views, on the threads of a context.
///
/// With `beta == 0` C is not read, with `alpha == 0` neither A nor B is. Small products run on fewer threads.
/// The bits are the same for any number of threads, and of real numbers those of [`gemm`](crate::gemm()).
///
/// Products of complex numbers are sums of `re * re`, then `-im * im`, and so on, for each part: twice as many
/// multiply-adds as there are k elements, added up in the order of [`engine_sum`](crate::engine_sum).
///
/// Where the system refuses memory for packed panels the product is computed without, by a plain loop.
///
/// # Errors
/// [`Error::Sizes`] where the sizes do not fit together; C is then unchanged.
pub fn gemm_views<T: Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    mut c: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    check_sizes(&a.view, &b.view, &c)?;
    if c.rows() == 0 || c.cols() == 0 {
        return Ok(());
    }
    if a.view.cols() == 0 || alpha == T::ZERO {
        scale(beta, &mut c);
        return Ok(());
    }
    if !gemm_near(alpha, a, b, beta, &mut c, context) {
        T::multiply(alpha, a, b, beta, c, context);
    }
    Ok(())
}

/// [`gemm_views`] of products so small that they run on the caller's thread and nothing is packed ahead, and in which
/// nothing can fail. `false`, and nothing is done, for all others.
///
/// It is inlined, so that a caller who can do without what [`gemm_views`] needs beyond it pays nothing for it.
#[inline]
pub fn gemm_near<T: Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    c: &mut ViewMut<'_, T>,
    context: &CpuContext,
) -> bool {
    let shape = NearShape::of(alpha, a, b, beta, c, context);
    if let Some(shape) = &shape {
        // SAFETY: the views are there, and C is one that nobody else has.
        unsafe { shape.multiply() };
    }
    shape.is_some()
}

/// Whether [`gemm_views`] computes a product of that m, n and k in matrix units, if its elements are of no extreme
/// range.
#[must_use]
pub fn views_use_matrix_units<T: Field>([m, n, k]: [usize; 3], context: &CpuContext) -> bool {
    T::is_in_tiles((m, n, k), context)
}

/// What [`gemm_views`] computes, by the definition, in no memory but that of the operands.
pub(crate) fn plain<T: Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
) {
    let k = a.view.cols();
    plain_elements(alpha, k, |row, p| a.get(row, p), |p, col| b.get(p, col), beta, c);
}

/// The same of elements of A and B that functions give.
pub(crate) fn plain_elements<T: Field>(
    alpha: T,
    k: usize,
    a: impl Fn(usize, usize) -> T,
    b: impl Fn(usize, usize) -> T,
    beta: T,
    mut c: ViewMut<'_, T>,
) {
    for col in 0..c.cols() {
        for row in 0..c.rows() {
            // A complex product is two steps of each part.
            let steps = if T::IS_COMPLEX { 2 } else { 1 };
            let lengths = (CHAIN / steps, superblock::<T::Real>() / steps);
            let add_product = |p, sum: T| sum.add_product(a(row, p), b(p, col));
            let add = |sum: T, other| sum + other;
            let sum = in_superblocks(k, lengths, T::ZERO, add_product, add);
            let old = if beta == T::ZERO { T::ZERO } else { beta * c.get(row, col) };
            c.set(row, col, old.add_product(alpha, sum));
        }
    }
}

/// `C = beta * C`; with `beta == 0` C is not read, with `beta == 1` not written.
pub fn scale<T: Field>(beta: T, c: &mut ViewMut<'_, T>) {
    if beta == T::ONE {
        return;
    }
    let mut c = match c.layout().order {
        Order::ColMajor => c.reborrow(),
        Order::RowMajor => c.reborrow().transposed(),
    };
    for col in 0..c.cols() {
        for row in 0..c.rows() {
            let value = if beta == T::ZERO { T::ZERO } else { beta * c.get(row, col) };
            c.set(row, col, value);
        }
    }
}

/// The product with the columns of C contiguous: itself, or the transposed one.
pub(crate) fn with_columns<'a, 'c, T>(
    a: Factor<'a, T>,
    b: Factor<'a, T>,
    c: ViewMut<'c, T>,
) -> (Factor<'a, T>, Factor<'a, T>, ViewMut<'c, T>) {
    match c.layout().order {
        Order::ColMajor => (a, b, c),
        Order::RowMajor => (b.transposed(), a.transposed(), c.transposed()),
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::Layout;

    use super::*;
    use crate::field::Complex;
    use crate::view::View;

    #[test]
    fn without_memory_a_product_is_the_same() {
        let a: Vec<f64> = (0..12).map(f64::from).collect();
        let b: Vec<f64> = (0..20).map(|at| f64::from(at) / 8.0).collect();
        let (mut c, mut expected) = (vec![3.0; 15], vec![3.0; 15]);
        let a = Factor::plain(View::new(&a, 3, 4, Layout::row_major(4)).unwrap());
        let b = Factor::plain(View::new(&b, 4, 5, Layout::col_major(4)).unwrap());
        let layout = Layout::row_major(5);
        plain(1.5, a, b, -2.0, ViewMut::new(&mut c, 3, 5, layout).unwrap());
        let view = ViewMut::new(&mut expected, 3, 5, layout).unwrap();
        gemm_views(1.5, a, b, -2.0, view, &CpuContext::alone()).unwrap();
        assert_eq!(c, expected);
    }

    /// Complex numbers, whose chains are half as long, and more of them than one superblock has.
    #[test]
    fn without_memory_sums_are_in_the_same_order() {
        let number = |at: usize| Complex::new((at as f32).sin(), (at as f32).cos());
        let (m, n, k) = (3, 5, 700);
        // Of a real A the two products of a part are added in any order.
        let a: Vec<_> = (0..m * k).map(|at| Complex::new(number(at).re, 0.0)).collect();
        let b: Vec<_> = (0..k * n).map(|at| number(at + 7)).collect();
        let (mut c, mut expected) = (vec![number(1); m * n], vec![number(1); m * n]);
        let a = Factor::plain(View::new(&a, m, k, Layout::row_major(k)).unwrap());
        let b = Factor::plain(View::new(&b, k, n, Layout::col_major(k)).unwrap());
        let (alpha, beta) = (Complex::new(1.5, 0.0), Complex::new(-2.0, 0.0));
        let layout = Layout::col_major(m);
        plain(alpha, a, b, beta, ViewMut::new(&mut c, m, n, layout).unwrap());
        let view = ViewMut::new(&mut expected, m, n, layout).unwrap();
        gemm_views(alpha, a, b, beta, view, &CpuContext::alone()).unwrap();
        assert_eq!(c, expected);
    }
}
