//! `C = alpha * A * B + beta * C` of views whose elements may be narrower than the sums.

use gemm_spec::{Element, GemmTypes, Order, epilogue};

use crate::context::CpuContext;
use crate::error::Error;
use crate::gemm::threads_for;
use crate::near::NearShape;
use crate::product::Product;
use crate::sum::engine_sum;
use crate::types::CpuTypes;
use crate::view::{View, ViewMut};
use crate::way::{self, Way};

/// `C = alpha * A * B + beta * C` of views, on the threads of a context: [`gemm`](crate::gemm()) of matrices that
/// share their memory with others.
///
/// With `beta == 0` C is not read, with `alpha == 0` neither A nor B is. The bits are those of
/// [`gemm`](crate::gemm()). Where the system refuses memory for packed panels the product is computed without, by a
/// plain loop.
///
/// # Errors
/// [`Error::Sizes`] where the sizes do not fit together; C is then unchanged.
pub fn gemm_typed<T: CpuTypes>(
    alpha: T::Acc,
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    beta: T::Acc,
    mut c: ViewMut<'_, T::C>,
    context: &CpuContext,
) -> Result<(), Error> {
    check_sizes(&a, &b, &c)?;
    if c.rows() == 0 || c.cols() == 0 {
        return Ok(());
    }
    if a.cols() == 0 || alpha == T::Acc::ZERO {
        plain::<T>(T::Acc::ZERO, a, b, beta, c, 0);
        return Ok(());
    }
    // An error comes before anything is written.
    if multiply::<T>(alpha, a, b, beta, c.reborrow(), context).is_err() {
        plain::<T>(alpha, a, b, beta, c, a.cols());
    }
    Ok(())
}

/// What a product of [`gemm_typed`] has in common with others whose operands lie alike, where all are so small that they
/// are computed on the caller's thread in no memory but theirs, and A, B and C are of the type of the sums.
pub fn near_typed<T: CpuTypes>(
    alpha: T::Acc,
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    beta: T::Acc,
    mut c: ViewMut<'_, T::C>,
    context: &CpuContext,
) -> Option<NearShape<T::Acc>> {
    check_sizes(&a, &b, &c).ok()?;
    let is_empty = c.rows() == 0 || c.cols() == 0 || a.cols() == 0;
    if is_empty || alpha == T::Acc::ZERO {
        return None;
    }
    let way = Way::Units(context.units());
    match c.layout().order {
        Order::ColMajor => {
            way::near_shape(&product::<T>(alpha, a, b, beta, &mut c, false), way, context)
        }
        Order::RowMajor => {
            let (a, b, mut c) = (b.transposed(), a.transposed(), c.transposed());
            let product = product::<T::Transposed>(alpha, a, b, beta, &mut c, true);
            way::near_shape(&product, way, context)
        }
    }
}

/// Whether A is m by k and B k by n, where C is m by n.
///
/// # Errors
/// [`Error::Sizes`].
pub(crate) fn check_sizes<A, B, C>(
    a: &View<'_, A>,
    b: &View<'_, B>,
    c: &ViewMut<'_, C>,
) -> Result<(), Error> {
    let (a, b, c) = ((a.rows(), a.cols()), (b.rows(), b.cols()), (c.rows(), c.cols()));
    if (a.0, b.0, b.1) == (c.0, a.1, c.1) { Ok(()) } else { Err(Error::Sizes { a, b, c }) }
}

/// The product by whatever way suits it, C not being empty and k at least 1.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
pub(crate) fn multiply<T: CpuTypes>(
    alpha: T::Acc,
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    beta: T::Acc,
    c: ViewMut<'_, T::C>,
    context: &CpuContext,
) -> Result<(), Error> {
    match c.layout().order {
        Order::ColMajor => with_columns::<T>(alpha, a, b, beta, c, false, context),
        Order::RowMajor => {
            let (a, b, c) = (b.transposed(), a.transposed(), c.transposed());
            with_columns::<T::Transposed>(alpha, a, b, beta, c, true, context)
        }
    }
}

/// The same with the columns of C contiguous.
fn with_columns<T: CpuTypes>(
    alpha: T::Acc,
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    beta: T::Acc,
    mut c: ViewMut<'_, T::C>,
    swapped: bool,
    context: &CpuContext,
) -> Result<(), Error> {
    let product = product::<T>(alpha, a, b, beta, &mut c, swapped);
    let threads = threads_for((product.m, product.n, product.k), context);
    // SAFETY: the views hold the elements of the product, which fit together; C is a view that nobody else has.
    unsafe { way::multiply(&product, Way::Units(context.units()), context, threads) }
}

/// The product of views that fit together, the columns of C being contiguous.
pub(crate) fn product<T: GemmTypes>(
    alpha: T::Acc,
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    beta: T::Acc,
    c: &mut ViewMut<'_, T::C>,
    swapped: bool,
) -> Product<T> {
    let ((a_row, a_col), (b_row, b_col)) = (a.strides(), b.strides());
    let (m, n, k) = (c.rows(), c.cols(), a.cols());
    Product {
        m,
        n,
        k,
        alpha,
        beta,
        a: a.as_ptr(),
        // From one row to the next of one row is as good as anything.
        a_row: if m == 1 { 1 } else { a_row },
        a_col,
        b: b.as_ptr(),
        b_row,
        b_col,
        ldc: c.layout().ld,
        c: c.as_mut_ptr(),
        swapped,
        completion: None,
    }
}

/// The first steps of the product by the definition, in no memory but that of the operands.
pub(crate) fn plain<T: GemmTypes>(
    alpha: T::Acc,
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    beta: T::Acc,
    mut c: ViewMut<'_, T::C>,
    steps: usize,
) {
    for col in 0..c.cols() {
        for row in 0..c.rows() {
            let sum = engine_sum(steps, |p, sum| T::mul_add(a.get(row, p), b.get(p, col), sum));
            let value = epilogue(alpha, sum, beta, || c.get(row, col));
            c.set(row, col, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::{Layout, bf16};

    use super::*;

    #[test]
    fn without_memory_a_product_is_the_same() {
        let a: Vec<bf16> = (0..12u8).map(|at| bf16::from_f32(f32::from(at))).collect();
        let b: Vec<bf16> = (0..20u8).map(|at| bf16::from_f32(f32::from(at) / 8.0)).collect();
        let (mut c, mut expected) = (vec![3.0f32; 15], vec![3.0; 15]);
        let a = View::new(&a, 3, 4, Layout::row_major(4)).unwrap();
        let b = View::new(&b, 4, 5, Layout::col_major(4)).unwrap();
        let layout = Layout::row_major(5);
        let view = ViewMut::new(&mut c, 3, 5, layout).unwrap();
        plain::<(bf16, f32)>(1.5, a, b, -2.0, view, 4);
        let view = ViewMut::new(&mut expected, 3, 5, layout).unwrap();
        gemm_typed::<(bf16, f32)>(1.5, a, b, -2.0, view, &CpuContext::alone()).unwrap();
        assert_eq!(c, expected);
    }
}
