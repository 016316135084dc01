//! `C = alpha * A * B + beta * C` of views of real or complex numbers.

use gemm_spec::Order;

use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Factor, Field};
use crate::view::{View, ViewMut};

/// `C = alpha * A * B + beta * C` of views, on the threads of a context.
///
/// With `beta == 0` C is not read, with `alpha == 0` neither A nor B is. Small products run on fewer threads.
/// The bits are the same for any number of threads, and of real numbers those of [`gemm`](crate::gemm()).
///
/// Products of complex numbers are sums of `re * re`, then `-im * im`, and so on, one chain of fused
/// multiply-adds for each part.
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
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    if (a.view.rows(), b.view.rows(), b.view.cols()) != (m, k, n) {
        return Err(Error::Sizes {
            a: (a.view.rows(), a.view.cols()),
            b: (b.view.rows(), b.view.cols()),
            c: (m, n),
        });
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    if k == 0 || alpha == T::ZERO {
        scale(beta, &mut c);
        return Ok(());
    }
    T::multiply(alpha, a, b, beta, c, context);
    Ok(())
}

/// What [`gemm_views`] computes, by the definition, in no memory but that of the operands.
pub(crate) fn plain<T: Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    mut c: ViewMut<'_, T>,
) {
    for col in 0..c.cols() {
        for row in 0..c.rows() {
            let steps = 0..a.view.cols();
            let sum = steps.fold(T::ZERO, |sum, p| sum.add_product(a.get(row, p), b.get(p, col)));
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

/// From one row to the next, and from one column to the next.
pub(crate) fn strides<T>(view: &View<'_, T>) -> (usize, usize) {
    match view.layout().order {
        Order::RowMajor => (view.layout().ld, 1),
        Order::ColMajor => (1, view.layout().ld),
    }
}

/// The product with the columns of C contiguous: itself, or the transposed one.
pub(crate) fn with_columns<'a, 'c, T>(
    a: Factor<'a, T>,
    b: Factor<'a, T>,
    c: ViewMut<'c, T>,
) -> (Factor<'a, T>, Factor<'a, T>, ViewMut<'c, T>, bool) {
    match c.layout().order {
        Order::ColMajor => (a, b, c, false),
        Order::RowMajor => (b.transposed(), a.transposed(), c.transposed(), true),
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::Layout;

    use super::*;

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
}
