//! A product as pointers and strides, turned so that the columns of C are contiguous.

use crate::scalar::Scalar;
use gemm_spec::{Layout, Order, Problem};

/// `C = alpha * A * B + beta * C` with C's columns contiguous: a row-major C is computed as the
/// transposed product, `C^T = B^T * A^T`, whose elements are the same sums.
///
/// Whoever uses one promises that A, B and C can be read, and C written, at every row and column,
/// and that nobody else uses C meanwhile.
pub(super) struct Product<T: Scalar> {
    pub(super) m: usize,
    pub(super) n: usize,
    /// Steps to sum; none where alpha is zero.
    pub(super) k: usize,
    pub(super) alpha: T::Acc,
    pub(super) beta: T::Acc,
    pub(super) a: *const T,
    /// From one row of A to the next, in elements.
    pub(super) a_row: usize,
    /// From one column of A to the next.
    pub(super) a_col: usize,
    pub(super) b: *const T,
    /// From one row of B to the next.
    pub(super) b_row: usize,
    /// From one column of B to the next.
    pub(super) b_col: usize,
    pub(super) c: *mut T::Out,
    /// From one column of C to the next.
    pub(super) ldc: usize,
}

impl<T: Scalar> Product<T> {
    /// The product of a problem whose buffers were checked.
    pub(super) fn new(problem: &Problem<T>, a: &[T], b: &[T], c: &mut [T::Out]) -> Self {
        // One column whose elements are contiguous is a column, whatever its order is called.
        let is_column = problem.n == 1 && problem.c.ld == 1;
        let (problem, a, b) = match problem.c.order {
            Order::RowMajor if !is_column => (problem.transposed(), b, a),
            _ => (*problem, a, b),
        };
        let ((a_row, a_col), (b_row, b_col)) = (strides(problem.a), strides(problem.b));
        Self {
            m: problem.m,
            n: problem.n,
            k: problem.effective_k(),
            alpha: problem.alpha,
            beta: problem.beta,
            a: a.as_ptr(),
            // From one row to the next of one row is as good as anything.
            a_row: if problem.m == 1 { 1 } else { a_row },
            a_col,
            b: b.as_ptr(),
            b_row,
            b_col,
            c: c.as_mut_ptr(),
            ldc: if is_column { problem.m } else { problem.c.ld },
        }
    }
}

/// From one row to the next, and from one column to the next.
fn strides(layout: Layout) -> (usize, usize) {
    match layout.order {
        Order::RowMajor => (layout.ld, 1),
        Order::ColMajor => (1, layout.ld),
    }
}
