//! Products by the dozen: groups of equal shape with an array of pointers, and matrices at a fixed distance.
//!
//! All arguments are checked before the first product, on the caller's thread: a handler of errors may leave by a
//! jump. Small products are then computed side by side, in no certain order; what comes before a wrong group is
//! computed.
//!
//! # Safety
//!
//! As in [`level3`], of each product; arrays have an element for each group or each product; and no two products write
//! the same element, or one what another reads.

use std::convert::Infallible;
use std::ops::Range;

use tessera::CpuContext;
use tessera::blas3::{self, NearShape, Op};

use crate::device::{self, General, Number};
use crate::int::Int;
use crate::level3::{self, Sizes};
use crate::threads;
use crate::xerbla::{Report, Routine};

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

/// What products of a batch have in common, whose arguments are right.
struct Common<T, I> {
    sizes: Sizes,
    alpha: T,
    beta: T,
    /// Leading dimensions of A, B and C.
    ld: (I, I, I),
    /// The number of the first of them.
    first: usize,
    near: Option<NearShape<T>>,
}

/// A, B and C of a product.
type Matrices<T> = (*const T, *const T, *mut T);

impl<T: Number, I: Int> Common<T, I> {
    /// # Safety
    /// See the [module](self), of the first of them.
    unsafe fn new(
        sizes: Sizes,
        (alpha, beta): (T, T),
        ld: (I, I, I),
        (first, matrices): (usize, Matrices<T>),
    ) -> Self {
        let mut common = Self { sizes, alpha, beta, ld, first, near: None };
        if device::is_plain() {
            // SAFETY: the caller's promise: the host can use the operands where the settings are the usual ones.
            common.near = common.product(matrices).and_then(|it| unsafe { it.near_shape() });
        }
        common
    }

    /// The product of some matrices; `None` where C is left as it is.
    fn product(&self, (a, b, c): Matrices<T>) -> Option<General<T>> {
        let &Self { ref sizes, alpha, beta, ld: (lda, ldb, ldc), .. } = self;
        sizes.product(alpha, (a, lda), (b, ldb), beta, (c, ldc))
    }

    /// Multiply-adds of one of them.
    fn work(&self) -> usize {
        level3::work::<T>(self.sizes.m, self.sizes.n, self.sizes.k)
    }
}

/// Computes `count` products, whose matrices are given by their numbers.
///
/// # Safety
/// See the [module](self), of all of them.
unsafe fn compute<T: Number, I: Int>(
    routine: Routine,
    count: usize,
    all: &[Common<T, I>],
    matrices: impl Fn(usize) -> Matrices<T> + Sync,
) {
    // The last that begin there or before.
    let common = |number| {
        let after = all.partition_point(|common| common.first <= number);
        after.checked_sub(1).and_then(|at| all.get(at..))
    };
    if !device::is_plain() {
        for number in 0..count {
            if let Some([common, ..]) = common(number)
                && let Some(product) = common.product(matrices(number))
            {
                // SAFETY: the caller's promise.
                unsafe { level3::multiply(routine, &common.sizes, product) }
            }
        }
        return;
    }
    let work = all.iter().map(Common::work).max().unwrap_or(0);
    threads::compute(work.saturating_mul(count), |cpu| {
        let some = |numbers: Range<usize>, cpu: &CpuContext| -> Result<(), Infallible> {
            let mut left = common(numbers.start).unwrap_or_default();
            for number in numbers {
                while let [_, next, ..] = left
                    && next.first <= number
                {
                    left = &left[1..];
                }
                let Some(common) = left.first() else { break };
                let (a, b, c) = matrices(number);
                match &common.near {
                    // SAFETY: the caller's promise: matrices as those of the first.
                    Some(near) => unsafe { near.multiply_at(a, b, c) },
                    None => {
                        if let Some(product) = common.product((a, b, c)) {
                            // SAFETY: the caller's promise: the host can use them where the settings are the usual ones.
                            unsafe { product.on_cpu(cpu) }
                        }
                    }
                }
            }
            Ok(())
        };
        let Ok(()) = blas3::each_product(count, work, cpu, some);
    });
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
    let arrays = Arrays { a: groups.a, b: groups.b, c: groups.c, row_major };
    let (mut all, mut first, mut wrong) = (Vec::new(), 0usize, None);
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
        let (ops, sizes, ld) = match row_major {
            false => ((op_a, op_b), (m, n, k), (lda, ldb, ldc)),
            true => ((op_b, op_a), (n, m, k), (ldb, lda, ldc)),
        };
        let Some(size) = size.size() else {
            wrong = Some(15);
            break;
        };
        if size == 0 {
            continue;
        }
        match level3::checked(ops, sizes, ld) {
            Ok(sizes) => {
                // SAFETY: the caller's promise: an element for each product.
                let matrices = unsafe { arrays.of(first) };
                // SAFETY: the caller's promise.
                all.push(unsafe { Common::new(sizes, (alpha, beta), ld, (first, matrices)) });
                first = first.saturating_add(size);
            }
            Err(argument) => {
                wrong = Some(argument);
                break;
            }
        }
    }
    // SAFETY: the caller's promise: an element for each product.
    let matrices = |number| unsafe { arrays.of(number) };
    // SAFETY: the caller's promise.
    unsafe { compute(report.routine(), first, &all, matrices) }
    if let Some(argument) = wrong {
        report.wrong(argument);
    }
}

/// Where the matrices of each product are.
struct Arrays<T> {
    a: *const *const T,
    b: *const *const T,
    c: *const *mut T,
    row_major: bool,
}

// SAFETY: the arrays are only read, and what is done with the pointers in them is for whoever has them.
unsafe impl<T> Sync for Arrays<T> {}

impl<T> Arrays<T> {
    /// The matrices of the column-major product.
    ///
    /// # Safety
    /// Each array has an element for that product.
    unsafe fn of(&self, product: usize) -> Matrices<T> {
        // SAFETY: the caller's promise.
        let a = unsafe { at(self.a, product) };
        // SAFETY: the caller's promise.
        let b = unsafe { at(self.b, product) };
        // SAFETY: the caller's promise.
        let c = unsafe { at(self.c, product) };
        if self.row_major { (b, a, c) } else { (a, b, c) }
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

impl<T, I: Int> Fixed<T, I> {
    /// The matrices of one of the products.
    fn matrices(&self, number: usize) -> Matrices<T> {
        let apart = |stride: I| number.cast_signed().wrapping_mul(stride.offset());
        let a = self.a.0.wrapping_offset(apart(self.a.2));
        let b = self.b.0.wrapping_offset(apart(self.b.2));
        (a, b, self.c.0.wrapping_offset(apart(self.c.2)))
    }

    /// The products of the transposed matrices.
    pub(crate) fn turned(self) -> Self {
        let (m, n, k) = self.sizes;
        let ops = (self.ops.1, self.ops.0);
        Self { ops, sizes: (n, m, k), a: self.b, b: self.a, ..self }
    }
}

// SAFETY: it names matrices; what is done with them is for whoever makes products of it.
unsafe impl<T: Sync, I: Sync> Sync for Fixed<T, I> {}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn strided<T: Number, I: Int>(report: impl Report, all: &Fixed<T, I>) {
    // Behind each leading dimension stands a stride.
    let number = |argument| match argument {
        10.. => argument + if argument == 13 { 2 } else { 1 },
        _ => argument,
    };
    let &Fixed { ops, sizes, alpha, a, b, beta, c, count } = all;
    let Some(count) = count.size() else { return report.wrong(17) };
    if count == 0 {
        return;
    }
    let ld = (a.1, b.1, c.1);
    let sizes = match level3::checked(ops, sizes, ld) {
        Ok(sizes) => sizes,
        Err(argument) => return report.wrong(number(argument)),
    };
    // SAFETY: the caller's promise.
    let common = unsafe { Common::new(sizes, (alpha, beta), ld, (0, all.matrices(0))) };
    // SAFETY: the caller's promise.
    unsafe { compute(report.routine(), count, &[common], |number| all.matrices(number)) }
}
