//! Which rows were interchanged, and the interchanges themselves.

use cpu_gemm::{CpuContext, ViewMut};
use gemm_spec::Order;

use crate::stripes::each_stripe;

/// The number of a row: `usize`, counted from 0, or what a caller's own interface counts in.
pub trait Pivot: Copy + Send + Sync {
    /// The number of the row with that index.
    fn of(row: usize) -> Self;

    /// The index of the row; of a number that is none, whatever is larger than any.
    fn row(self) -> usize;
}

impl Pivot for usize {
    fn of(row: usize) -> Self {
        row
    }

    fn row(self) -> usize {
        self
    }
}

/// In which order interchanges are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequence {
    Forward,
    Backward,
}

/// Elements that are moved from which on a second thread pays.
const LEAST_SHARED: usize = 1 << 16;
/// Parts for each thread, so that one that wakes late leaves its own to the others.
const PARTS_PER_THREAD: usize = 4;

/// Interchanges row `i` and row `pivots[i]`, for each `i`.
pub(super) fn interchange<T: Copy + Send, P: Pivot>(
    pivots: &[P],
    sequence: Sequence,
    a: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let threads = context.threads().min(a.cols());
    if threads < 2 || pivots.len().saturating_mul(a.cols()) < LEAST_SHARED {
        return by_columns(pivots, sequence, a);
    }
    let width = a.cols().div_ceil(threads * PARTS_PER_THREAD);
    each_stripe(a, width, context, |part| by_columns(pivots, sequence, part));
}

/// The same on one thread, column by column: a column stays in the nearest cache meanwhile.
fn by_columns<T: Copy, P: Pivot>(pivots: &[P], sequence: Sequence, mut a: ViewMut<'_, T>) {
    let cols = a.cols();
    if a.layout().order == Order::RowMajor {
        for (row, other) in steps(pivots, sequence).filter(|(row, other)| row != other) {
            for col in 0..cols {
                let (here, there) = (a.get(row, col), a.get(other, col));
                a.set(row, col, there);
                a.set(other, col, here);
            }
        }
        return;
    }
    for col in 0..cols {
        if let Some(column) = a.column_mut(col) {
            steps(pivots, sequence).for_each(|(row, other)| column.swap(row, other));
        }
    }
}

/// The interchanges in their order.
fn steps<P: Pivot>(pivots: &[P], sequence: Sequence) -> impl Iterator<Item = (usize, usize)> {
    let count = pivots.len();
    (0..count).map(move |step| {
        let row = if sequence == Sequence::Forward { step } else { count - 1 - step };
        (row, pivots[row].row())
    })
}
