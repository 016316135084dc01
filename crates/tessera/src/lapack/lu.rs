//! LU with partial pivoting, and the systems that it solves.

use cpu_gemm::{CpuContext, Factor, Field, RealNumber as _, Task, View, ViewMut};

use super::at_once::{are_for_two, at_once};
use super::column::{add_multiple, largest, multiply_by};
use super::pivots::{Pivot, Sequence, interchange};
use crate::blas3::{Diag, Op, Products as _, Side, Uplo, check_size, half, triangular, trsm};
use crate::error::Error;

/// Factors `A = P * L * U` in place: U is the upper triangle, L is below it, with ones on its diagonal, and row
/// `i` was interchanged with row `pivots[i]`, for each `i` in turn.
///
/// `Some` index of the first pivot that is exactly zero: U is then singular; the other columns are factored all the same.
///
/// # Errors
/// [`Error::Operand`] where there are not as many pivots as rows or columns, whichever are fewer; nothing is written.
pub fn getrf<T: Field, P: Pivot>(
    a: ViewMut<'_, T>,
    pivots: &mut [P],
    context: &CpuContext,
) -> Result<Option<usize>, Error> {
    check_pivots("getrf", pivots, a.rows().min(a.cols()))?;
    Ok(factor(a, pivots, context))
}

/// Solves `op(A) * X = B` by the factors that [`getrf`] has left; X takes the place of B.
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit, or a pivot is no row; nothing is written.
pub fn getrs<T: Field, P: Pivot>(
    op: Op,
    factors: View<'_, T>,
    pivots: &[P],
    mut b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let n = b.rows();
    check_size("getrs", "A", (factors.rows(), factors.cols()), (n, n))?;
    check_pivots("getrs", pivots, n)?;
    if let Some(pivot) = pivots.iter().find(|pivot| pivot.row() >= n) {
        let (rows, wanted) = (pivot.row().saturating_add(1), (n, 1));
        return Err(Error::Operand {
            routine: "getrs",
            matrix: "a pivot's row",
            rows,
            cols: 1,
            wanted,
        });
    }
    let solve = |uplo, diag, b: ViewMut<'_, T>| {
        trsm(Side::Left, uplo, op, diag, T::ONE, factors, b, context)
    };
    if op == Op::NoTrans {
        interchange(pivots, Sequence::Forward, b.reborrow(), context);
        solve(Uplo::Lower, Diag::Unit, b.reborrow())?;
        solve(Uplo::Upper, Diag::NonUnit, b)
    } else {
        solve(Uplo::Upper, Diag::NonUnit, b.reborrow())?;
        solve(Uplo::Lower, Diag::Unit, b.reborrow())?;
        interchange(pivots, Sequence::Backward, b, context);
        Ok(())
    }
}

/// Solves `A * X = B`: A becomes its factors, as [`getrf`] leaves them, and B becomes X, unless A is singular.
///
/// # Errors
/// As [`getrf`] and [`getrs`]; nothing is written.
pub fn gesv<T: Field, P: Pivot>(
    mut a: ViewMut<'_, T>,
    pivots: &mut [P],
    b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<Option<usize>, Error> {
    let n = b.rows();
    check_size("gesv", "A", (a.rows(), a.cols()), (n, n))?;
    let singular = getrf(a.reborrow(), pivots, context)?;
    if singular.is_none() {
        getrs(Op::NoTrans, a.as_view(), pivots, b, context)?;
    }
    Ok(singular)
}

fn check_pivots<P>(routine: &'static str, pivots: &[P], wanted: usize) -> Result<(), Error> {
    check_size(routine, "the pivots' list", (pivots.len(), 1), (wanted, 1))
}

/// Columns of a panel that is factored one column after the other.
const LEAF: usize = 8;

/// [`getrf`], there being as many pivots as there must be.
fn factor<T: Field, P: Pivot>(
    a: ViewMut<'_, T>,
    pivots: &mut [P],
    context: &CpuContext,
) -> Option<usize> {
    let (cols, steps) = (a.cols(), pivots.len());
    if steps == 0 {
        return None;
    }
    if cols <= LEAF {
        return by_columns(a, pivots, context);
    }
    let (mut left, right) = a.split_cols(cut(steps));
    let (of_left, of_right) = pivots.split_at_mut(left.cols());
    let first = factor(left.reborrow(), of_left, context);
    let second = factor_updated(left.as_view(), of_left, right, of_right, context);
    complete((first, left), (second, of_right), context)
}

/// How many columns are factored before the others.
fn cut(steps: usize) -> usize {
    if steps <= LEAF { steps } else { half(steps, LEAF) }
}

/// Makes the interchanges of the right columns in the left ones; gives the first pivot that is zero.
fn complete<T: Field, P: Pivot>(
    (first, left): (Option<usize>, ViewMut<'_, T>),
    (second, of_right): (Option<usize>, &mut [P]),
    context: &CpuContext,
) -> Option<usize> {
    let (rows, cut) = (left.rows(), left.cols());
    interchange(of_right, Sequence::Forward, left.part(cut..rows, 0..cut), context);
    for pivot in of_right {
        *pivot = P::of(pivot.row() + cut);
    }
    first.or(second.map(|column| column + cut))
}

/// Columns from which on the update before a factorisation is divided: threads that have nothing else to do make part of
/// it while the first columns are factored, which the others wait for.
const DIVIDED: usize = 128;

/// Updates columns by those that have been factored, and factors what is below these.
fn factor_updated<T: Field, P: Pivot>(
    factored: View<'_, T>,
    of_factored: &[P],
    mut a: ViewMut<'_, T>,
    pivots: &mut [P],
    context: &CpuContext,
) -> Option<usize> {
    let (rows, cols, above) = (a.rows(), a.cols(), factored.cols());
    if pivots.len() < DIVIDED || !are_for_two(context) {
        update(factored, of_factored, a.reborrow(), context);
        return factor(a.part(above..rows, 0..cols), pivots, context);
    }
    let (mut left, mut right) = a.split_cols(cut(pivots.len()));
    let (of_left, of_right) = pivots.split_at_mut(left.cols());
    let (first, ()) = at_once(
        context,
        || factor_updated(factored, of_factored, left.reborrow(), of_left, context),
        || update(factored, of_factored, right.reborrow(), context),
    );
    let left = left.part(above..rows, 0..of_left.len());
    let right = right.part(above..rows, 0..cols - of_left.len());
    let second = factor_updated(left.as_view(), of_left, right, of_right, context);
    complete((first, left), (second, of_right), context)
}

/// What columns become that stand beside those that have been factored.
fn update<T: Field, P: Pivot>(
    factored: View<'_, T>,
    pivots: &[P],
    mut a: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (rows, cut) = (factored.rows(), factored.cols());
    interchange(pivots, Sequence::Forward, a.reborrow(), context);
    let (mut top, bottom) = a.split_rows(cut);
    let lower = Factor::plain(factored.part(0..cut, 0..cut));
    let task = Task { solve: true, upper: false, unit: true };
    triangular(task, T::ONE, lower, top.reborrow(), context);
    let below = Factor::plain(factored.part(cut..rows, 0..cut));
    context.product(-T::ONE, below, Factor::plain(top.as_view()), T::ONE, bottom);
}

/// A panel, one column after the other.
fn by_columns<T: Field, P: Pivot>(
    mut a: ViewMut<'_, T>,
    pivots: &mut [P],
    context: &CpuContext,
) -> Option<usize> {
    let (rows, cols) = (a.rows(), a.cols());
    let mut zero = None;
    for (step, to) in pivots.iter_mut().enumerate() {
        let below = step + largest(a.as_view().part(step..rows, step..step + 1), context);
        *to = P::of(below);
        let pivot = a.get(below, step);
        if pivot == T::ZERO {
            zero = zero.or(Some(step));
            continue;
        }
        if below != step {
            for col in 0..cols {
                let (here, there) = (a.get(step, col), a.get(below, col));
                a.set(step, col, there);
                a.set(below, col, here);
            }
        }
        let (mut column, mut others) = a.reborrow().part(0..rows, step..cols).split_cols(1);
        let mut column = column.reborrow().part(step + 1..rows, 0..1);
        divide(column.reborrow(), pivot, context);
        for col in 0..others.cols() {
            let by = -others.get(step, col);
            let part = others.reborrow().part(step + 1..rows, col..col + 1);
            add_multiple(by, column.as_view(), part, context);
        }
    }
    zero
}

/// Divides a column by a pivot: by its reciprocal, unless that overflows.
fn divide<T: Field>(mut column: ViewMut<'_, T>, pivot: T, context: &CpuContext) {
    let larger = if pivot.re().abs() > pivot.im().abs() { pivot.re() } else { pivot.im() };
    if larger.abs() >= T::Real::SAFE_MIN {
        return multiply_by(T::ONE.divide(pivot), column, context);
    }
    for row in 0..column.rows() {
        let quotient = column.get(row, 0).divide(pivot);
        column.set(row, 0, quotient);
    }
}
