//! Copies of parts of matrices, and differences, along the lines in which they lie.

use cpu_gemm::{CpuContext, Field, View, ViewMut};
use gemm_spec::{Layout, Order};

use super::column::add_multiple;

/// Copies all elements to a matrix of the same size.
pub(super) fn copy<T: Field>(from: View<'_, T>, to: ViewMut<'_, T>) {
    let (from, mut to) = along_lines(from, to);
    for col in 0..to.cols() {
        match (from.column(col), to.column_mut(col)) {
            (Some(from), Some(to)) => to.copy_from_slice(from),
            _ => (0..to.rows()).for_each(|row| to.set(row, col, from.get(row, col))),
        }
    }
}

/// `to = to - from`.
pub(super) fn subtract<T: Field>(from: View<'_, T>, to: ViewMut<'_, T>, context: &CpuContext) {
    let (from, mut to) = along_lines(from, to);
    for col in 0..to.cols() {
        let (rows, part) = (0..to.rows(), col..col + 1);
        let to = to.reborrow().part(rows.clone(), part.clone());
        add_multiple(-T::ONE, from.part(rows, part), to, context);
    }
}

/// Both transposed where the lines of the second are its rows.
fn along_lines<'a, 'b, T>(from: View<'a, T>, to: ViewMut<'b, T>) -> (View<'a, T>, ViewMut<'b, T>) {
    match to.layout().order {
        Order::ColMajor => (from, to),
        Order::RowMajor => (from.transposed(), to.transposed()),
    }
}

/// The layout of a dense matrix of that size whose lines are those of another.
pub(super) fn dense(like: Layout, rows: usize, cols: usize) -> Layout {
    match like.order {
        Order::ColMajor => Layout::col_major(rows),
        Order::RowMajor => Layout::row_major(cols),
    }
}
