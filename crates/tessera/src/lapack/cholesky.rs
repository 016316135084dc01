//! Cholesky's factors of a symmetric or Hermitian matrix that is positive definite, and the systems that they solve.

use std::cmp::Ordering;

use cpu_gemm::{CpuContext, Field, RealNumber as _, View, ViewMut};

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
        return Ok(by_columns(a));
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
fn by_columns<T: Field>(mut a: ViewMut<'_, T>) -> Option<usize> {
    let n = a.rows();
    let mut columns = [[T::ZERO; LEAF]; LEAF];
    for (col, column) in columns.iter_mut().enumerate().take(n) {
        for (row, element) in column.iter_mut().enumerate().take(n).skip(col) {
            *element = a.get(row, col);
        }
    }
    let indefinite = factor_columns(&mut columns, n);
    for (col, column) in columns.iter().enumerate().take(n) {
        for (row, &element) in column.iter().enumerate().take(n).skip(col) {
            a.set(row, col, element);
        }
    }
    indefinite
}

/// The first `n` of these columns, in plain loops: they are too short for those that are compiled for each instruction set.
fn factor_columns<T: Field>(columns: &mut [[T; LEAF]; LEAF], n: usize) -> Option<usize> {
    for col in 0..n {
        let (done, others) = columns.split_at_mut(col + 1);
        let (pivot, below) = done[col][col..n].split_at_mut(1);
        let of_diagonal = pivot[0].re();
        // A NaN is not positive.
        if of_diagonal.partial_cmp(&<T::Real as Field>::ZERO) != Some(Ordering::Greater) {
            pivot[0] = T::from_re(of_diagonal);
            return Some(col);
        }
        let root = of_diagonal.sqrt();
        pivot[0] = T::from_re(root);
        let reciprocal = T::from_re(<T::Real as Field>::ONE.divide(root));
        for element in below.iter_mut() {
            *element = *element * reciprocal;
        }
        for (at, other) in others.iter_mut().enumerate().take(below.len()) {
            let from = &below[at..];
            let by = -from[0].conj();
            for (element, &factor) in other[col + 1 + at..n].iter_mut().zip(from) {
                *element = *element + factor * by;
            }
        }
    }
    None
}
