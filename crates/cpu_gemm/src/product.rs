//! A product as pointers and strides, turned so that the columns of C are contiguous.

use std::ops::Range;

use gemm_spec::{GemmTypes, Layout, Order, Problem, epilogue};

use crate::completion::Completion;
use crate::kernels::OwnSums;
use crate::near::Near;
use crate::sum::engine_sum;

/// `C = alpha * A * B + beta * C` with C's columns contiguous: a row-major C is computed as the
/// transposed product, `C^T = B^T * A^T`, whose elements are the same sums.
///
/// Whoever uses one promises that A, B and C can be read, and C written, at every row and column,
/// and that nobody else uses C meanwhile, but who is told of its complete parts, which nobody uses any more.
pub(crate) struct Product<T: GemmTypes> {
    pub(crate) m: usize,
    pub(crate) n: usize,
    /// Steps to sum; none where alpha is zero.
    pub(crate) k: usize,
    pub(crate) alpha: T::Acc,
    pub(crate) beta: T::Acc,
    pub(crate) a: *const T::A,
    /// From one row of A to the next, in elements.
    pub(crate) a_row: usize,
    /// From one column of A to the next.
    pub(crate) a_col: usize,
    pub(crate) b: *const T::B,
    /// From one row of B to the next.
    pub(crate) b_row: usize,
    /// From one column of B to the next.
    pub(crate) b_col: usize,
    pub(crate) c: *mut T::C,
    /// From one column of C to the next.
    pub(crate) ldc: usize,
    /// Whether it is the transposed product, so that A is the caller's B and B the caller's A.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "matrix units ask for it"))]
    pub(crate) swapped: bool,
    /// Who is told of parts of C that are complete.
    pub(crate) completion: Option<Completion>,
}

/// Whether the columns of C are contiguous as they are, so that the product need not be transposed.
pub(crate) fn has_columns<T: GemmTypes>(problem: &Problem<T>) -> bool {
    problem.c.order == Order::ColMajor || is_column(problem)
}

/// One column whose elements are contiguous is a column, whatever its order is called.
fn is_column<T: GemmTypes>(problem: &Problem<T>) -> bool {
    problem.n == 1 && problem.c.ld == 1
}

impl<T: GemmTypes> Product<T> {
    /// The product of a problem that [has columns](has_columns) and whose buffers were checked.
    pub(crate) fn new(problem: &Problem<T>, a: &[T::A], b: &[T::B], c: &mut [T::C]) -> Self {
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
            ldc: if is_column(problem) { problem.m } else { problem.c.ld },
            swapped: false,
            completion: None,
        }
    }

    /// The same for tiles of operands that are near.
    #[inline]
    pub(crate) fn near(&self) -> Near<T::Acc>
    where
        T: OwnSums,
    {
        let &Self { m, n, k, alpha, beta, a, a_row, a_col, b, b_row, b_col, c, ldc, .. } = self;
        let (a_step, b_step, conjugated) = (a_col, b_row, (false, false));
        Near { m, n, k, a, a_row, a_step, b, b_step, b_col, c, ldc, alpha, beta, conjugated }
    }

    /// Tells who is to be told that those rows and columns of C are complete.
    ///
    /// # Safety
    /// They are, the caller has this part of C, and the product's promises.
    pub(crate) unsafe fn tell_complete(&self, rows: Range<usize>, cols: Range<usize>) {
        if let Some(completion) = self.completion {
            // SAFETY: whoever has set it promises that it is there as long as the product is computed.
            unsafe { completion.tell(rows, cols) };
        }
    }

    /// The same, known to be the transposed product.
    pub(crate) fn swapped(self) -> Self {
        Self { swapped: true, ..self }
    }
}

#[cfg(target_arch = "x86_64")]
impl<T: GemmTypes> Product<T> {
    /// The product that those rows and columns of C are.
    pub(crate) fn part(&self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let Self { a_row, b_col, ldc, .. } = *self;
        Self {
            m: rows.len(),
            n: cols.len(),
            a: self.a.wrapping_add(rows.start * a_row),
            b: self.b.wrapping_add(cols.start * b_col),
            c: self.c.wrapping_add(rows.start + cols.start * ldc),
            completion: self.completion.map(|whole| whole.from(rows.start, cols.start)),
            ..*self
        }
    }
}

impl<T: GemmTypes> Product<T> {
    /// Computes it by the definition, in no memory but that of the operands: with the bits of vector units, slowly.
    ///
    /// # Safety
    /// The product's promises.
    pub(crate) unsafe fn by_definition(&self) {
        let &Self { m, n, k, alpha, beta, a_row, a_col, b_row, b_col, ldc, .. } = self;
        for col in 0..n {
            for row in 0..m {
                // SAFETY: an element of A, which can be read.
                let a = |p| unsafe { self.a.wrapping_add(row * a_row + p * a_col).read() };
                // SAFETY: an element of B, which can be read.
                let b = |p| unsafe { self.b.wrapping_add(p * b_row + col * b_col).read() };
                let sum = engine_sum(k, |p, sum| T::mul_add(a(p), b(p), sum));
                let c = self.c.wrapping_add(row + col * ldc);
                // SAFETY: an element of C, which nobody else uses, and which is read where beta is not zero.
                let value = epilogue(alpha, sum, beta, || unsafe { c.read() });
                // SAFETY: the same element.
                unsafe { c.write(value) };
            }
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
