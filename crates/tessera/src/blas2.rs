//! Those routines of level 2 of BLAS that LAPACK spends time in: a matrix times a vector, also a symmetric or Hermitian
//! one, an update of rank one, and a triangular solve of one right-hand side.
//!
//! Vectors are views of one column in any storage order, so that their elements may be apart. The routines are those of
//! [`blas3`](crate::blas3) with one column, and keep its promises; of real numbers the bits are those that the column
//! would have among others, so that one right-hand side gets what many get. [`symv`] and [`hemv`] read each element once
//! for two sums, and have bits of their own.

use std::ops::Range;

use cpu_gemm::{
    Conjugates, CpuContext, Factor, Field, View, ViewMut, add_multiple, add_multiple_and_dot,
    add_multiples, conjugate_dot, dot,
};
use gemm_spec::Order;

use crate::blas3::{Diag, Op, Products as _, Side, Uplo, check_size, trsm};
use crate::error::Error;

/// `y = alpha * op(A) * x + beta * y`.
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit together; y is then unchanged.
pub fn gemv<T: Field>(
    op: Op,
    alpha: T,
    a: View<'_, T>,
    x: View<'_, T>,
    beta: T,
    mut y: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let a = op.of(a);
    let (rows, k) = (y.rows(), a.view.cols());
    check_size("gemv", "y", (rows, y.cols()), (rows, 1))?;
    check_size("gemv", "op(A)", (a.view.rows(), k), (rows, k))?;
    check_size("gemv", "x", (x.rows(), x.cols()), (k, 1))?;
    let is_in_columns = a.view.layout().order == Order::ColMajor;
    if T::IS_COMPLEX && alpha != T::ZERO && k > 0 {
        // What is packed for products of complex numbers is worth its copy only where there are many columns.
        if is_in_columns && !a.conjugated {
            add_columns(alpha, a.view, x, beta, y, context);
            return Ok(());
        }
        if !is_in_columns && x.column(0).is_some() {
            dot_rows(alpha, a, x, beta, &mut y, context);
            return Ok(());
        }
    }
    context.product(alpha, a, Factor::plain(x), beta, y);
    Ok(())
}

/// Rows whose sums are taken at once.
const ROWS: usize = 128;

/// `y = alpha * A * x + beta * y`, column by column.
fn add_columns<T: Field>(
    alpha: T,
    a: View<'_, T>,
    x: View<'_, T>,
    beta: T,
    mut y: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (rows, k) = (a.rows(), a.cols());
    for first in (0..rows).step_by(ROWS) {
        let end = rows.min(first + ROWS);
        let mut sums = [T::ZERO; ROWS];
        let block = a.part(first..end, 0..k);
        let sums = &mut sums[..end - first];
        let (mut p, column) = (0, |p| block.column(p).unwrap_or_default());
        while p + 4 <= k {
            let of_four = [p, p + 1, p + 2, p + 3];
            add_multiples(of_four.map(|p| x.get(p, 0)), of_four.map(column), sums, context);
            p += 4;
        }
        for p in p..k {
            add_multiple(x.get(p, 0), column(p), sums, context);
        }
        for (row, &mut sum) in (first..end).zip(sums) {
            finish(alpha, sum, beta, &mut y, row);
        }
    }
}

/// `y = alpha * A * x + beta * y`, row by row, where rows and x lie side by side.
fn dot_rows<T: Field>(
    alpha: T,
    a: Factor<'_, T>,
    x: View<'_, T>,
    beta: T,
    y: &mut ViewMut<'_, T>,
    context: &CpuContext,
) {
    let rows = a.view.transposed();
    for row in 0..y.rows() {
        if let (Some(line), Some(x)) = (rows.column(row), x.column(0)) {
            let sum = match a.conjugated {
                true => conjugate_dot(line, x, context),
                false => dot(line, x, context),
            };
            finish(alpha, sum, beta, y, row);
        }
    }
}

/// `y = alpha * sum + beta * y` of one element, which is not read where beta is zero.
fn finish<T: Field>(alpha: T, sum: T, beta: T, y: &mut ViewMut<'_, T>, row: usize) {
    let before = if beta == T::ZERO { T::ZERO } else { beta * y.get(row, 0) };
    y.set(row, 0, before.add_product(alpha, sum));
}

/// `A = alpha * x * y^T + A`, or with [`Op::ConjTrans`] `A = alpha * x * y^H + A`.
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit together; A is then unchanged.
pub fn ger<T: Field>(
    op: Op,
    alpha: T,
    x: View<'_, T>,
    y: View<'_, T>,
    a: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    check_size("ger", "x", (x.rows(), x.cols()), (a.rows(), 1))?;
    check_size("ger", "y", (y.rows(), y.cols()), (a.cols(), 1))?;
    if alpha == T::ZERO {
        return Ok(());
    }
    let conjugates = op == Op::ConjTrans;
    // The lines of A are its columns; else A^T = alpha * y * x^T + A^T.
    let (mut a, along, across, of_along) = match a.layout().order {
        Order::ColMajor => (a, x, y, false),
        Order::RowMajor => (a.transposed(), y, x, conjugates),
    };
    let of_across = conjugates && !of_along;
    let take = |of: View<'_, T>, at, conjugated| {
        let element: T = of.get(at, 0);
        if conjugated { element.conj() } else { element }
    };
    let rows = a.rows();
    for first in (0..rows).step_by(ROWS) {
        let end = rows.min(first + ROWS);
        let mut piece = [T::ZERO; ROWS];
        for (at, element) in (first..end).zip(&mut piece) {
            *element = take(along, at, of_along);
        }
        let mut block = a.reborrow().part(first..end, 0..across.rows());
        for col in 0..block.cols() {
            let by = alpha * take(across, col, of_across);
            if let Some(column) = block.column_mut(col) {
                add_multiple(by, &piece, column, context);
            }
        }
    }
    Ok(())
}

/// `y = alpha * A * x + beta * y` with a symmetric A, of which one triangle is read.
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit together; y is then unchanged.
pub fn symv<T: Field>(
    uplo: Uplo,
    alpha: T,
    a: View<'_, T>,
    x: View<'_, T>,
    beta: T,
    y: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    of_a_triangle("symv", false, uplo, alpha, a, x, beta, y, context)
}

/// `y = alpha * A * x + beta * y` with a Hermitian A, of which one triangle is read, and of its diagonal the real parts;
/// of real numbers [`symv`].
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit together; y is then unchanged.
pub fn hemv<T: Field>(
    uplo: Uplo,
    alpha: T,
    a: View<'_, T>,
    x: View<'_, T>,
    beta: T,
    y: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    of_a_triangle("hemv", true, uplo, alpha, a, x, beta, y, context)
}

/// The product with a matrix of which one triangle is stored. Each element is read once: it is multiplied by an element
/// of x, and its counterpart by another.
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
fn of_a_triangle<T: Field>(
    name: &'static str,
    hermitian: bool,
    uplo: Uplo,
    alpha: T,
    a: View<'_, T>,
    x: View<'_, T>,
    beta: T,
    mut y: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let n = a.rows();
    check_size(name, "A", (n, a.cols()), (n, n))?;
    check_size(name, "x", (x.rows(), x.cols()), (n, 1))?;
    check_size(name, "y", (y.rows(), y.cols()), (n, 1))?;
    for row in 0..n {
        let before = if beta == T::ZERO { T::ZERO } else { beta * y.get(row, 0) };
        y.set(row, 0, before);
    }
    if alpha == T::ZERO {
        return Ok(());
    }
    // The columns of the stored triangle are contiguous; those of a row-major one are the rows of A.
    let (a, uplo, conjugates) = match (a.layout().order, hermitian) {
        (Order::ColMajor, false) => (a, uplo, Conjugates::None),
        (Order::ColMajor, true) => (a, uplo, Conjugates::Dot),
        (Order::RowMajor, false) => (a.transposed(), uplo.flipped(), Conjugates::None),
        (Order::RowMajor, true) => (a.transposed(), uplo.flipped(), Conjugates::Added),
    };
    // Nothing of the other triangle, which may be anybody's.
    let stored =
        |rows: Range<usize>, col: usize| a.part(rows, col..col + 1).column(0).unwrap_or_default();
    let part_of_x = |rows: Range<usize>| {
        let mut part = [T::ZERO; ROWS];
        for (row, part) in rows.zip(&mut part) {
            *part = x.get(row, 0);
        }
        part
    };
    let mut add = |rows: Range<usize>, sums: &[T; ROWS]| {
        for (row, &sum) in rows.zip(sums) {
            let element = y.get(row, 0).add_product(alpha, sum);
            y.set(row, 0, element);
        }
    };
    for first in (0..n).step_by(ROWS) {
        let end = n.min(first + ROWS);
        let (x_here, mut sums_here) = (part_of_x(first..end), [T::ZERO; ROWS]);
        for col in first..end {
            let rows = if uplo == Uplo::Lower { col + 1..end } else { first..col };
            let here = rows.start - first..rows.end - first;
            let (by, x, sums) = (x_here[col - first], &x_here[here.clone()], &mut sums_here[here]);
            let dot = add_multiple_and_dot(by, stored(rows, col), x, sums, conjugates, context);
            let diagonal = a.get(col, col);
            let diagonal = if hermitian { T::from_re(diagonal.re()) } else { diagonal };
            let sum = &mut sums_here[col - first];
            *sum = (*sum + dot).add_product(diagonal, by);
        }
        let others = if uplo == Uplo::Lower { end..n } else { 0..first };
        for start in others.clone().step_by(ROWS) {
            let rows = start..others.end.min(start + ROWS);
            let (x_there, mut sums_there) = (part_of_x(rows.clone()), [T::ZERO; ROWS]);
            for col in first..end {
                let (by, column) = (x_here[col - first], stored(rows.clone(), col));
                let dot = add_multiple_and_dot(
                    by,
                    column,
                    &x_there,
                    &mut sums_there,
                    conjugates,
                    context,
                );
                sums_here[col - first] = sums_here[col - first] + dot;
            }
            add(rows, &sums_there);
        }
        add(first..end, &sums_here);
    }
    Ok(())
}

/// Solves `op(A) * x = b` with a triangular A; x takes the place of b.
///
/// # Errors
/// [`Error::Operand`] where A is not square or does not fit b, which is then unchanged.
pub fn trsv<T: Field>(
    uplo: Uplo,
    op: Op,
    diag: Diag,
    a: View<'_, T>,
    b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    check_size("trsv", "b", (b.rows(), b.cols()), (a.cols(), 1))?;
    trsm(Side::Left, uplo, op, diag, T::ONE, a, b, context)
}
