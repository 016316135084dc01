//! LU, Cholesky and QR: arguments checked in the order in which LAPACK checks them, pointers made views, and
//! [`tessera::lapack`] called.
//!
//! What is wrong with an argument is in `info` as its negative number, and told to the handler of wrong arguments.
//! A positive `info` is the number, counted from 1, of the pivot or the leading block that is to blame.
//!
//! # Safety
//!
//! All functions here are unsafe for the reasons of [`level3`](crate::level3): pointers are those of column-major
//! matrices with their leading dimensions, of as many pivots and elements of tau as LAPACK says, of `info`, and of
//! workspace that can be written as far as its first element, and as far as [`gels`] says.

use tessera::blas3::{Complex, Field, Op, Side, Uplo};
use tessera::lapack::{self, Pivot};

use crate::int::Int;
use crate::level3::{FITS, holds, view, view_mut, work};
use crate::threads::compute;
use crate::xerbla::Report;

/// The number of a row as Fortran counts, from 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct FromOne<I>(I);

impl<I: Int> Pivot for FromOne<I> {
    fn of(row: usize) -> Self {
        Self(I::of_size(row.saturating_add(1)))
    }

    fn row(self) -> usize {
        self.0.size().and_then(|number| number.checked_sub(1)).unwrap_or(usize::MAX)
    }
}

/// Elements of workspace that a routine asks for, as many times as the reference LAPACK would: who shares it with other
/// routines lets them work in blocks.
const LINES: usize = 32;

/// A number of elements as workspace tells it.
pub(crate) trait Told: Field {
    fn told(elements: usize) -> Self;
}

impl Told for f64 {
    fn told(elements: usize) -> Self {
        elements as Self
    }
}

impl Told for f32 {
    /// Rounded up where it has too many digits.
    fn told(elements: usize) -> Self {
        let rounded = elements as Self;
        let is_less = f64::from(rounded) < elements as f64;
        if is_less { rounded.next_up() } else { rounded }
    }
}

impl<R> Told for Complex<R>
where
    R: Told,
    Self: Field<Real = R>,
{
    fn told(elements: usize) -> Self {
        Self::from_re(R::told(elements))
    }
}

/// Who is told of wrong arguments, and where `info` is.
#[derive(Clone, Copy)]
pub(crate) struct Info<R, I> {
    report: R,
    at: *mut I,
}

impl<R: Report, I: Int> Info<R, I> {
    pub(crate) fn new(report: R, at: *mut I) -> Self {
        Self { report, at }
    }

    /// # Safety
    /// See the [module](self).
    unsafe fn set(self, info: I) {
        // SAFETY: the caller's promise.
        unsafe { self.at.write(info) };
    }

    /// # Safety
    /// See the [module](self).
    unsafe fn wrong(self, argument: i32) {
        // SAFETY: the caller's promise.
        unsafe { self.set(I::of(argument.wrapping_neg())) };
        self.report.wrong(argument);
    }

    /// Sets it to what a factorisation says.
    ///
    /// # Safety
    /// See the [module](self).
    unsafe fn found(self, index: Option<usize>) {
        let number = index.map_or(I::of(0), |index| I::of_size(index.saturating_add(1)));
        // SAFETY: the caller's promise.
        unsafe { self.set(number) };
    }
}

/// The first argument that is wrong, of pairs of a number and whether it is right.
macro_rules! check {
    ($info:ident, $($argument:literal: $right:expr;)*) => {
        $(if !$right {
            // SAFETY: the caller's promise.
            return unsafe { $info.wrong($argument) };
        })*
    };
}

/// A size, or the end: the argument of that number is negative.
macro_rules! size {
    ($info:ident, $argument:literal, $size:expr) => {
        match $size.size() {
            Some(size) => size,
            // SAFETY: the caller's promise.
            None => return unsafe { $info.wrong($argument) },
        }
    };
}

/// Workspace: where it is and how long, -1 being a question.
type Workspace<T, I> = (*mut T, I);

/// Whether only the size of the workspace is asked for.
fn is_question<I: Int>(len: I) -> bool {
    len == I::of(-1)
}

/// Tells how much workspace helps other routines that share it.
///
/// # Safety
/// See the [module](self).
unsafe fn tell<T: Told>(at: *mut T, elements: usize) {
    // SAFETY: the caller's promise.
    unsafe { at.write(T::told(elements.max(1))) };
}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn getrf<T: Field, I: Int>(
    info: Info<impl Report, I>,
    (m, n): (I, I),
    (a, lda): (*mut T, I),
    pivots: *mut I,
) {
    let (m, n) = (size!(info, 1, m), size!(info, 2, n));
    check! { info, 4: holds(lda, m); }
    let steps = m.min(n);
    let mut singular = None;
    if steps > 0 {
        // SAFETY: the caller's promise.
        let a = unsafe { view_mut(a, m, n, lda) };
        // SAFETY: the caller's promise; the numbers have the layout of integers.
        let pivots = unsafe { std::slice::from_raw_parts_mut(pivots.cast::<FromOne<I>>(), steps) };
        compute(work::<T>(m, n, steps) / 3, |context| {
            singular = lapack::getrf(a, pivots, context).expect(FITS);
        });
    }
    // SAFETY: the caller's promise.
    unsafe { info.found(singular) };
}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn getrs<T: Field, I: Int>(
    info: Info<impl Report, I>,
    op: Option<Op>,
    (n, sides): (I, I),
    (a, lda): (*const T, I),
    pivots: *const I,
    (b, ldb): (*mut T, I),
) {
    // SAFETY: the caller's promise.
    let Some(op) = op else { return unsafe { info.wrong(1) } };
    let (n, sides) = (size!(info, 2, n), size!(info, 3, sides));
    check! { info,
        5: holds(lda, n);
        8: holds(ldb, n);
    }
    if n > 0 && sides > 0 {
        // SAFETY: the caller's promise; the numbers have the layout of integers.
        let pivots = unsafe { std::slice::from_raw_parts(pivots.cast::<FromOne<I>>(), n) };
        check! { info, 6: pivots.iter().all(|pivot| pivot.row() < n); }
        // SAFETY: the caller's promise.
        let a = unsafe { view(a, n, n, lda) };
        // SAFETY: the caller's promise.
        let b = unsafe { view_mut(b, n, sides, ldb) };
        compute(work::<T>(n, n, sides), |context| {
            lapack::getrs(op, a, pivots, b, context).expect(FITS);
        });
    }
    // SAFETY: the caller's promise.
    unsafe { info.found(None) };
}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn gesv<T: Field, I: Int>(
    info: Info<impl Report, I>,
    (n, sides): (I, I),
    (a, lda): (*mut T, I),
    pivots: *mut I,
    (b, ldb): (*mut T, I),
) {
    let (n, sides) = (size!(info, 1, n), size!(info, 2, sides));
    check! { info,
        4: holds(lda, n);
        7: holds(ldb, n);
    }
    let mut singular = None;
    if n > 0 {
        // SAFETY: the caller's promise.
        let a = unsafe { view_mut(a, n, n, lda) };
        // SAFETY: the caller's promise; the numbers have the layout of integers.
        let pivots = unsafe { std::slice::from_raw_parts_mut(pivots.cast::<FromOne<I>>(), n) };
        // SAFETY: the caller's promise.
        let b = unsafe { view_mut(b, n, sides, ldb) };
        compute(work::<T>(n, n, n / 3 + sides), |context| {
            singular = lapack::gesv(a, pivots, b, context).expect(FITS);
        });
    }
    // SAFETY: the caller's promise.
    unsafe { info.found(singular) };
}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn potrf<T: Field, I: Int>(
    info: Info<impl Report, I>,
    uplo: Option<Uplo>,
    n: I,
    (a, lda): (*mut T, I),
) {
    // SAFETY: the caller's promise.
    let Some(uplo) = uplo else { return unsafe { info.wrong(1) } };
    let n = size!(info, 2, n);
    check! { info, 4: holds(lda, n); }
    let mut indefinite = None;
    if n > 0 {
        // SAFETY: the caller's promise.
        let a = unsafe { view_mut(a, n, n, lda) };
        compute(work::<T>(n, n, n) / 6, |context| {
            indefinite = lapack::potrf(uplo, a, context).expect(FITS);
        });
    }
    // SAFETY: the caller's promise.
    unsafe { info.found(indefinite) };
}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn potrs<T: Field, I: Int>(
    info: Info<impl Report, I>,
    uplo: Option<Uplo>,
    (n, sides): (I, I),
    (a, lda): (*const T, I),
    (b, ldb): (*mut T, I),
) {
    // SAFETY: the caller's promise.
    let Some(uplo) = uplo else { return unsafe { info.wrong(1) } };
    let (n, sides) = (size!(info, 2, n), size!(info, 3, sides));
    check! { info,
        5: holds(lda, n);
        7: holds(ldb, n);
    }
    if n > 0 && sides > 0 {
        // SAFETY: the caller's promise.
        let a = unsafe { view(a, n, n, lda) };
        // SAFETY: the caller's promise.
        let b = unsafe { view_mut(b, n, sides, ldb) };
        compute(work::<T>(n, n, sides), |context| {
            lapack::potrs(uplo, a, b, context).expect(FITS);
        });
    }
    // SAFETY: the caller's promise.
    unsafe { info.found(None) };
}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn posv<T: Field, I: Int>(
    info: Info<impl Report, I>,
    uplo: Option<Uplo>,
    (n, sides): (I, I),
    (a, lda): (*mut T, I),
    (b, ldb): (*mut T, I),
) {
    // SAFETY: the caller's promise.
    let Some(uplo) = uplo else { return unsafe { info.wrong(1) } };
    let (n, sides) = (size!(info, 2, n), size!(info, 3, sides));
    check! { info,
        5: holds(lda, n);
        7: holds(ldb, n);
    }
    let mut indefinite = None;
    if n > 0 {
        // SAFETY: the caller's promise.
        let a = unsafe { view_mut(a, n, n, lda) };
        // SAFETY: the caller's promise.
        let b = unsafe { view_mut(b, n, sides, ldb) };
        compute(work::<T>(n, n, n / 6 + sides), |context| {
            indefinite = lapack::posv(uplo, a, b, context).expect(FITS);
        });
    }
    // SAFETY: the caller's promise.
    unsafe { info.found(indefinite) };
}

/// `geqrf`, or `gelqf`, which factors by rows.
///
/// # Safety
/// See the [module](self).
pub(crate) unsafe fn geqrf<T: Told, I: Int>(
    info: Info<impl Report, I>,
    by_rows: bool,
    (m, n): (I, I),
    (a, lda): (*mut T, I),
    tau: *mut T,
    (workspace, len): Workspace<T, I>,
) {
    let (m, n) = (size!(info, 1, m), size!(info, 2, n));
    check! { info, 4: holds(lda, m); }
    let count = m.min(n);
    let (lines, others) = if by_rows { (m, n) } else { (n, m) };
    if !is_question(len) {
        let least = if others > 0 { lines } else { 1 };
        check! { info, 7: holds(len, least); }
        if count > 0 {
            // SAFETY: the caller's promise.
            let a = unsafe { view_mut(a, m, n, lda) };
            // SAFETY: the caller's promise.
            let tau = unsafe { std::slice::from_raw_parts_mut(tau, count) };
            compute(work::<T>(m, n, count), |context| {
                let routine = if by_rows { lapack::gelqf } else { lapack::geqrf };
                routine(a, tau, context).expect(FITS);
            });
        }
    }
    let elements = if count > 0 { lines.saturating_mul(LINES) } else { 1 };
    // SAFETY: the caller's promise.
    unsafe { tell(workspace, elements) };
    // SAFETY: the caller's promise.
    unsafe { info.found(None) };
}

/// `orgqr` and `ungqr`.
///
/// # Safety
/// See the [module](self).
pub(crate) unsafe fn orgqr<T: Told, I: Int>(
    info: Info<impl Report, I>,
    (m, n, k): (I, I, I),
    (a, lda): (*mut T, I),
    tau: *const T,
    (workspace, len): Workspace<T, I>,
) {
    let (m, n) = (size!(info, 1, m), size!(info, 2, n));
    check! { info, 2: n <= m; }
    let k = size!(info, 3, k);
    check! { info,
        3: k <= n;
        5: holds(lda, m);
    }
    if !is_question(len) {
        check! { info, 8: holds(len, n); }
        if n > 0 {
            // SAFETY: the caller's promise.
            let a = unsafe { view_mut(a, m, n, lda) };
            // SAFETY: the caller's promise; where there are none the address may be anything.
            let tau = if k > 0 { unsafe { std::slice::from_raw_parts(tau, k) } } else { &[] };
            compute(work::<T>(m, n, k), |context| {
                lapack::orgqr(a, tau, context).expect(FITS);
            });
        }
    }
    // SAFETY: the caller's promise.
    unsafe { tell(workspace, n.max(1).saturating_mul(LINES)) };
    // SAFETY: the caller's promise.
    unsafe { info.found(None) };
}

/// Whether a routine knows a transposition: of real numbers `T`, of complex ones `C`.
fn knows<T: Field>(op: Op) -> bool {
    op == Op::NoTrans || op == if T::IS_COMPLEX { Op::ConjTrans } else { Op::Trans }
}

/// `ormqr` and `unmqr`.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of LAPACK")]
pub(crate) unsafe fn ormqr<T: Told, I: Int>(
    info: Info<impl Report, I>,
    side: Option<Side>,
    op: Option<Op>,
    (m, n, k): (I, I, I),
    (a, lda): (*const T, I),
    tau: *const T,
    (c, ldc): (*mut T, I),
    (workspace, len): Workspace<T, I>,
) {
    // SAFETY: the caller's promise.
    let Some(side) = side else { return unsafe { info.wrong(1) } };
    // SAFETY: the caller's promise.
    let Some(op) = op.filter(|&op| knows::<T>(op)) else { return unsafe { info.wrong(2) } };
    let (m, n, k) = (size!(info, 3, m), size!(info, 4, n), size!(info, 5, k));
    let (order, others) = if side == Side::Left { (m, n) } else { (n, m) };
    check! { info,
        5: k <= order;
        7: holds(lda, order);
        10: holds(ldc, m);
    }
    let is_nothing = m == 0 || n == 0 || k == 0;
    if !is_question(len) {
        check! { info, 12: holds(len, others); }
        if !is_nothing {
            // SAFETY: the caller's promise.
            let a = unsafe { view(a, order, k, lda) };
            // SAFETY: the caller's promise.
            let tau = unsafe { std::slice::from_raw_parts(tau, k) };
            // SAFETY: the caller's promise.
            let c = unsafe { view_mut(c, m, n, ldc) };
            compute(work::<T>(m, n, k), |context| {
                lapack::ormqr(side, op, a, tau, c, context).expect(FITS);
            });
        }
    }
    let elements = if is_nothing { 1 } else { others.saturating_mul(LINES) };
    // SAFETY: the caller's promise.
    unsafe { tell(workspace, elements) };
    // SAFETY: the caller's promise.
    unsafe { info.found(None) };
}

/// `gels`; the first elements of the workspace, as many as A has rows or columns, whichever are fewer, are written.
///
/// # Safety
/// See the [module](self).
pub(crate) unsafe fn gels<T: Told, I: Int>(
    info: Info<impl Report, I>,
    op: Option<Op>,
    (m, n): (I, I),
    sides: I,
    (a, lda): (*mut T, I),
    (b, ldb): (*mut T, I),
    (workspace, len): Workspace<T, I>,
) {
    // SAFETY: the caller's promise.
    let Some(op) = op.filter(|&op| knows::<T>(op)) else { return unsafe { info.wrong(1) } };
    let (m, n, sides) = (size!(info, 2, m), size!(info, 3, n), size!(info, 4, sides));
    check! { info,
        6: holds(lda, m);
        8: holds(ldb, m.max(n));
    }
    let count = m.min(n);
    let mut deficient = None;
    if !is_question(len) {
        check! { info, 10: holds(len, count.saturating_add(count.max(sides))); }
        if sides > 0 && m.max(n) > 0 {
            // SAFETY: the caller's promise.
            let a = unsafe { view_mut(a, m, n, lda) };
            // SAFETY: the caller's promise.
            let b = unsafe { view_mut(b, m.max(n), sides, ldb) };
            // SAFETY: workspace was checked to be as long. Nothing of it is read before it is written.
            let tau = unsafe { std::slice::from_raw_parts_mut(workspace, count) };
            compute(work::<T>(m, n, count), |context| {
                deficient = lapack::gels(op, a, tau, b, context).expect(FITS);
            });
        }
    }
    let elements = count.saturating_add(count.max(sides).saturating_mul(LINES));
    // SAFETY: the caller's promise.
    unsafe { tell(workspace, elements) };
    // SAFETY: the caller's promise.
    unsafe { info.found(deficient) };
}
