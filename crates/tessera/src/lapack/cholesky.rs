//! Cholesky's factors of a symmetric or Hermitian matrix that is positive definite, and the systems that they solve.

use std::cmp::Ordering;

use cpu_gemm::{CpuContext, Field, RealNumber as _, View, ViewMut};
use gemm_spec::Layout;

use super::column::{add_multiple, multiply_by};
use crate::blas3::{Diag, Op, Side, Uplo, check_size, half, herk, trsm};
use crate::error::Error;

/// Factors `A = L * L^H` ([`Uplo::Lower`]) or `A = U^H * U` in place, of the named triangle.
///
/// `Some` index where A is not positive definite: of the first leading block that is not, less one. The
/// factorisation ends there.
///
/// # Errors
/// [`Error::Operand`] where A is not square.
pub fn potrf<T: Field>(
    uplo: Uplo,
    a: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<Option<usize>, Error> {
    check_size("potrf", "A", (a.rows(), a.cols()), (a.rows(), a.rows()))?;
    // A^T = U^T * (U^T)^H.
    let lower = if uplo == Uplo::Lower { a } else { a.transposed() };
    factor(lower, context)
}

/// Solves `A * X = B` by the factor that [`potrf`] has left; X takes the place of B.
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit; nothing is written.
pub fn potrs<T: Field>(
    uplo: Uplo,
    factor: View<'_, T>,
    mut b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let n = b.rows();
    check_size("potrs", "A", (factor.rows(), factor.cols()), (n, n))?;
    let (first, second) = match uplo {
        Uplo::Lower => (Op::NoTrans, Op::ConjTrans),
        Uplo::Upper => (Op::ConjTrans, Op::NoTrans),
    };
    for op in [first, second] {
        trsm(Side::Left, uplo, op, Diag::NonUnit, T::ONE, factor, b.reborrow(), context)?;
    }
    Ok(())
}

/// Solves `A * X = B`: A becomes its factor, as [`potrf`] leaves it, and B becomes X, unless A is not positive
/// definite.
///
/// # Errors
/// As [`potrs`].
pub fn posv<T: Field>(
    uplo: Uplo,
    mut a: ViewMut<'_, T>,
    b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<Option<usize>, Error> {
    let n = b.rows();
    check_size("posv", "A", (a.rows(), a.cols()), (n, n))?;
    let indefinite = potrf(uplo, a.reborrow(), context)?;
    if indefinite.is_none() {
        potrs(uplo, a.as_view(), b, context)?;
    }
    Ok(indefinite)
}

/// Rows of a block on the diagonal that is factored one column after the other.
const LEAF: usize = 32;

/// The lower triangle, by halves.
fn factor<T: Field>(a: ViewMut<'_, T>, context: &CpuContext) -> Result<Option<usize>, Error> {
    let n = a.rows();
    if n <= LEAF {
        return Ok(by_columns(a, context));
    }
    let cut = half(n, LEAF);
    let (top, bottom) = a.split_rows(cut);
    let mut first = top.part(0..cut, 0..cut);
    if let Some(row) = factor(first.reborrow(), context)? {
        return Ok(Some(row));
    }
    let (mut beside, mut last) = bottom.split_cols(cut);
    let (op, diag, first) = (Op::ConjTrans, Diag::NonUnit, first.as_view());
    trsm(Side::Right, Uplo::Lower, op, diag, T::ONE, first, beside.reborrow(), context)?;
    let (minus, one) = ((-T::ONE).re(), T::ONE.re());
    let beside = beside.as_view();
    herk(Uplo::Lower, Op::NoTrans, minus, beside, one, last.reborrow(), context)?;
    Ok(factor(last, context)?.map(|row| row + cut))
}

/// A block, one column after the other, in a copy whose columns are contiguous.
fn by_columns<T: Field>(mut a: ViewMut<'_, T>, context: &CpuContext) -> Option<usize> {
    let n = a.rows();
    let mut room = [T::ZERO; LEAF * LEAF];
    let copy = ViewMut::new(&mut room, n, n, Layout::col_major(n));
    let mut copy = copy.expect("invariant: there is room for a block");
    let triangle = || (0..n).flat_map(|col| (col..n).map(move |row| (row, col)));
    triangle().for_each(|(row, col)| copy.set(row, col, a.get(row, col)));
    let mut indefinite = None;
    for col in 0..n {
        let pivot = copy.get(col, col).re();
        // A NaN is not positive.
        if pivot.partial_cmp(&<T::Real as Field>::ZERO) != Some(Ordering::Greater) {
            copy.set(col, col, T::from_re(pivot));
            indefinite = Some(col);
            break;
        }
        let root = pivot.sqrt();
        copy.set(col, col, T::from_re(root));
        let (column, mut others) = copy.reborrow().part(0..n, col..n).split_cols(1);
        let mut column = column.part(col + 1..n, 0..1);
        let reciprocal = <T::Real as Field>::ONE.divide(root);
        multiply_by(T::from_re(reciprocal), column.reborrow(), context);
        let column = column.as_view();
        let len = column.rows();
        for other in 0..len {
            let by = -column.get(other, 0).conj();
            let part = others.reborrow().part(col + 1 + other..n, other..other + 1);
            add_multiple(by, column.part(other..len, 0..1), part, context);
        }
    }
    triangle().for_each(|(row, col)| a.set(row, col, copy.get(row, col)));
    indefinite
}
