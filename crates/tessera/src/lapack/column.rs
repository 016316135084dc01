//! Columns of matrices, wherever their elements lie: as slices where they lie side by side, else in pieces that are
//! copied.

use cpu_gemm::{CpuContext, Field, RealNumber as _, View, ViewMut};

/// `y = y + alpha * x` of two columns.
pub(super) fn add_multiple<T: Field>(
    alpha: T,
    x: View<'_, T>,
    mut y: ViewMut<'_, T>,
    context: &CpuContext,
) {
    if y.rows() == 0 {
        return;
    }
    if let (Some(x), Some(y)) = (x.column(0), y.column_mut(0)) {
        return cpu_gemm::add_multiple(alpha, x, y, context);
    }
    for row in 0..y.rows() {
        let sum = y.get(row, 0).add_product(alpha, x.get(row, 0));
        y.set(row, 0, sum);
    }
}

/// The sum of the products of the conjugates of `x` and the elements of `y`.
pub(super) fn conjugate_dot<T: Field>(x: View<'_, T>, y: View<'_, T>, context: &CpuContext) -> T {
    if y.rows() == 0 {
        return T::ZERO;
    }
    if let (Some(x), Some(y)) = (x.column(0), y.column(0)) {
        return cpu_gemm::conjugate_dot(x, y, context);
    }
    (0..y.rows()).fold(T::ZERO, |sum, row| sum.add_product(x.get(row, 0).conj(), y.get(row, 0)))
}

/// `x = alpha * x` of a column.
pub(super) fn multiply_by<T: Field>(alpha: T, mut x: ViewMut<'_, T>, context: &CpuContext) {
    if x.rows() == 0 {
        return;
    }
    if let Some(x) = x.column_mut(0) {
        return cpu_gemm::multiply_by(alpha, x, context);
    }
    for row in 0..x.rows() {
        let product = alpha * x.get(row, 0);
        x.set(row, 0, product);
    }
}

/// The square root of the sum of squares of a column, without needless overflow or underflow.
pub(super) fn norm<T: Field>(x: View<'_, T>, context: &CpuContext) -> T::Real {
    /// Elements of a piece.
    const PIECE: usize = 64;
    if x.rows() == 0 {
        return <T::Real as Field>::ZERO;
    }
    if let Some(x) = x.column(0) {
        return cpu_gemm::norm(x, context);
    }
    let mut so_far = <T::Real as Field>::ZERO;
    for start in (0..x.rows()).step_by(PIECE) {
        let mut piece = [T::ZERO; PIECE];
        let len = PIECE.min(x.rows() - start);
        for (at, element) in piece.iter_mut().enumerate().take(len) {
            *element = x.get(start + at, 0);
        }
        so_far = cpu_gemm::norm(&[so_far, cpu_gemm::norm(&piece, context)], context);
    }
    so_far
}

/// The row of the first of the largest elements of a column, as [`cpu_gemm::largest`].
pub(super) fn largest<T: Field>(x: View<'_, T>, context: &CpuContext) -> usize {
    if let Some(x) = x.column(0) {
        return cpu_gemm::largest(x, context);
    }
    let magnitude = |row| {
        let x = x.get(row, 0);
        x.re().abs() + x.im().abs()
    };
    let (mut found, mut largest) = (0, magnitude(0));
    for row in 1..x.rows() {
        let value = magnitude(row);
        if value > largest {
            (found, largest) = (row, value);
        }
    }
    found
}
