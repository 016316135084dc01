//! Products by the dozen: groups of equal shape with an array of pointers, and matrices at a fixed distance.
//!
//! They are computed one after the other, each on as many threads as it is worth.
//!
//! # Safety
//!
//! As in [`level3`], of each product; and arrays have an element for each group or each product.

use tessera::blas3::Op;

use crate::device::Number;
use crate::int::Int;
use crate::level3;
use crate::xerbla::Report;

/// The number of an argument in the list of the single product, as one of the batch's list.
#[derive(Clone, Copy)]
struct Renumbered<R> {
    report: R,
    number: fn(i32) -> i32,
}

impl<R: Report> Report for Renumbered<R> {
    fn wrong(self, argument: i32) {
        self.report.wrong((self.number)(argument));
    }

    fn routine(&self) -> &'static str {
        self.report.routine()
    }
}

/// Groups of products: an element of each array for a group, but of `a`, `b` and `c` one for a product.
pub(crate) struct Groups<T, I, L> {
    pub(crate) op_a: *const L,
    pub(crate) op_b: *const L,
    pub(crate) m: *const I,
    pub(crate) n: *const I,
    pub(crate) k: *const I,
    pub(crate) alpha: *const T,
    pub(crate) a: *const *const T,
    pub(crate) lda: *const I,
    pub(crate) b: *const *const T,
    pub(crate) ldb: *const I,
    pub(crate) beta: *const T,
    pub(crate) c: *const *mut T,
    pub(crate) ldc: *const I,
    pub(crate) group_size: *const I,
    pub(crate) count: I,
}

/// An element of an array.
///
/// # Safety
/// There is one.
unsafe fn at<T: Copy>(array: *const T, index: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { array.wrapping_add(index).read() }
}

/// # Safety
/// See the [module](self).
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "elements of the group's index, of arrays with one for each group"
)]
pub(crate) unsafe fn grouped<T: Number, I: Int, L: Copy>(
    report: impl Report,
    groups: &Groups<T, I, L>,
    op: fn(L) -> Option<Op>,
    row_major: bool,
) {
    let Some(count) = groups.count.size() else { return report.wrong(14) };
    let mut first = 0;
    for group in 0..count {
        // SAFETY: the caller's promise: an element for each group.
        let (op_a, op_b, m, n, k, alpha, lda, ldb, beta, ldc, size) = unsafe {
            (
                op(at(groups.op_a, group)),
                op(at(groups.op_b, group)),
                at(groups.m, group),
                at(groups.n, group),
                at(groups.k, group),
                at(groups.alpha, group),
                at(groups.lda, group),
                at(groups.ldb, group),
                at(groups.beta, group),
                at(groups.ldc, group),
                at(groups.group_size, group),
            )
        };
        let Some(size) = size.size() else { return report.wrong(15) };
        for product in first..first + size {
            // SAFETY: the caller's promise: an element for each product.
            let (a, b, c) =
                unsafe { (at(groups.a, product), at(groups.b, product), at(groups.c, product)) };
            let (a, b, c) = ((a, lda), (b, ldb), (c, ldc));
            let (ops, sizes, a, b) = match row_major {
                false => ((op_a, op_b), (m, n, k), a, b),
                true => ((op_b, op_a), (n, m, k), b, a),
            };
            // SAFETY: the caller's promise for this product.
            unsafe { level3::gemm(report, ops, sizes, alpha, a, b, beta, c) };
        }
        first += size;
    }
}

/// Products of one shape, whose matrices are a stride apart.
#[derive(Clone, Copy)]
pub(crate) struct Fixed<T, I> {
    pub(crate) ops: (Option<Op>, Option<Op>),
    pub(crate) sizes: (I, I, I),
    pub(crate) alpha: T,
    pub(crate) a: (*const T, I, I),
    pub(crate) b: (*const T, I, I),
    pub(crate) beta: T,
    pub(crate) c: (*mut T, I, I),
    pub(crate) count: I,
}

impl<T, I> Fixed<T, I> {
    /// The products of the transposed matrices.
    pub(crate) fn turned(self) -> Self {
        let (m, n, k) = self.sizes;
        let ops = (self.ops.1, self.ops.0);
        Self { ops, sizes: (n, m, k), a: self.b, b: self.a, ..self }
    }
}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn strided<T: Number, I: Int>(report: impl Report, all: &Fixed<T, I>) {
    // Behind each leading dimension stands a stride.
    let number = |argument| match argument {
        10.. => argument + if argument == 13 { 2 } else { 1 },
        _ => argument,
    };
    let report = Renumbered { report, number };
    let &Fixed { ops, sizes, alpha, a, b, beta, c, count } = all;
    let Some(count) = count.size() else { return report.report.wrong(17) };
    for index in 0..count {
        let Ok(index) = isize::try_from(index) else { return };
        let apart = |stride: I| index.wrapping_mul(stride.offset());
        let a = (a.0.wrapping_offset(apart(a.2)), a.1);
        let b = (b.0.wrapping_offset(apart(b.2)), b.1);
        let c = (c.0.wrapping_offset(apart(c.2)), c.1);
        // SAFETY: the caller's promise for this product.
        unsafe { level3::gemm(report, ops, sizes, alpha, a, b, beta, c) };
    }
}
