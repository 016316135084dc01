//! Routines on column-major matrices: arguments checked in the order in which BLAS checks them, pointers made
//! views, and [`tessera::blas3`] called.
//!
//! All functions here are unsafe for the same reasons, those of BLAS.
//!
//! # Safety
//!
//! Each pointer is that of a column-major matrix with its leading dimension: what [`tessera::blas3`] promises to
//! read can be read, what it writes can be written, and nobody else uses the result meanwhile. Nothing is asked
//! of the pointer where a size is zero, or alpha is.

use tessera::Layout;
use tessera::blas3::{self, Diag, Field, Op, Side, Uplo, View, ViewMut};

use crate::device::{self, Call, General, Means, Number, Stored};
use crate::int::Int;
use crate::xerbla::{Report, Routine};

/// The first argument that is wrong, of pairs of a number and whether it is right.
macro_rules! check {
    ($report:ident, $($argument:literal: $right:expr;)*) => {
        $(if !$right {
            return $report.wrong($argument);
        })*
    };
}

/// Whether a leading dimension is enough for columns of `rows` elements.
pub(crate) fn holds<I: Int>(ld: I, rows: usize) -> bool {
    ld.size().is_some_and(|ld| ld >= rows.max(1))
}

/// A leading dimension that was checked.
#[inline]
fn leading<I: Int>(ld: I) -> usize {
    ld.size().unwrap_or(0)
}

/// A view of a matrix to read.
///
/// # Safety
/// See the [module](self).
#[inline]
pub(crate) unsafe fn view<'a, T, I: Int>(
    at: *const T,
    rows: usize,
    cols: usize,
    ld: I,
) -> View<'a, T> {
    let layout = Layout::col_major(ld.size().unwrap_or(0));
    // SAFETY: the caller's promise.
    unsafe { View::from_raw(at, rows, cols, layout) }
}

/// A view of a matrix to write.
///
/// # Safety
/// See the [module](self).
pub(crate) unsafe fn view_mut<'a, T, I: Int>(
    at: *mut T,
    rows: usize,
    cols: usize,
    ld: I,
) -> ViewMut<'a, T> {
    let layout = Layout::col_major(ld.size().unwrap_or(0));
    // SAFETY: the caller's promise; columns do not overlap, as `holds` has checked.
    unsafe { ViewMut::from_raw(at, rows, cols, layout) }
}

/// Multiply-adds of real numbers.
pub(crate) fn work<T: Field>(m: usize, n: usize, k: usize) -> usize {
    let each = if T::IS_COMPLEX { 4 } else { 1 };
    m.saturating_mul(n).saturating_mul(k).saturating_mul(each)
}

/// What the checks of this module leave nothing to say against.
pub(crate) const FITS: &str = "invariant: the arguments were checked";

/// A stored matrix of which `op` has these rows and columns.
fn stored(op: Op, rows: usize, cols: usize) -> (usize, usize) {
    if op == Op::NoTrans { (rows, cols) } else { (cols, rows) }
}

/// The sizes of a general product whose arguments are right.
pub(crate) struct Sizes {
    pub(crate) ops: (Op, Op),
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Rows and columns of A and of B as they are stored.
    pub(crate) of_a: (usize, usize),
    pub(crate) of_b: (usize, usize),
}

impl Sizes {
    /// The product of operands; `None` where C is left as it is.
    #[inline(always)]
    pub(crate) fn product<T: Number, I: Int>(
        &self,
        alpha: T,
        (a, lda): (*const T, I),
        (b, ldb): (*const T, I),
        beta: T,
        (c, ldc): (*mut T, I),
    ) -> Option<General<T>> {
        let &Self { ops, m, n, k, of_a, of_b } = self;
        if m == 0 || n == 0 || (alpha == T::ZERO || k == 0) && beta == T::ONE {
            return None;
        }
        let (a, b) = (Stored::read(a, of_a, leading(lda)), Stored::read(b, of_b, leading(ldb)));
        let c = Stored::written(c, (m, n), leading(ldc));
        Some(General { ops, alpha, a, b, beta, c })
    }
}

/// Checks the arguments of a general product, in whose list the first size has the number `sizes_at`, lda, ldb and
/// ldc those of `lds_at`. `None` where one is wrong, and has been told.
#[inline(always)]
pub(crate) fn general<I: Int>(
    report: impl Report,
    ops: (Option<Op>, Option<Op>),
    sizes: (I, I, I),
    lds: (I, I, I),
    sizes_at: i32,
    lds_at: [i32; 3],
) -> Option<Sizes> {
    match numbered(ops, sizes, lds, sizes_at, lds_at) {
        Ok(sizes) => Some(sizes),
        Err(argument) => {
            report.wrong(argument);
            None
        }
    }
}

/// Checks the arguments of `gemm`; `Err` with the number of the first that is wrong.
pub(crate) fn checked<I: Int>(
    ops: (Option<Op>, Option<Op>),
    sizes: (I, I, I),
    lds: (I, I, I),
) -> Result<Sizes, i32> {
    numbered(ops, sizes, lds, SIZES_OF_GEMM, LDS_OF_GEMM)
}

/// The numbers of m, and of lda, ldb and ldc, in the list of `gemm`.
pub(crate) const SIZES_OF_GEMM: i32 = 3;
pub(crate) const LDS_OF_GEMM: [i32; 3] = [8, 10, 13];

#[inline(always)]
fn numbered<I: Int>(
    (op_a, op_b): (Option<Op>, Option<Op>),
    (m, n, k): (I, I, I),
    (lda, ldb, ldc): (I, I, I),
    sizes_at: i32,
    lds_at: [i32; 3],
) -> Result<Sizes, i32> {
    let op_a = op_a.ok_or(1)?;
    let op_b = op_b.ok_or(2)?;
    let m = m.size().ok_or(sizes_at)?;
    let n = n.size().ok_or(sizes_at.wrapping_add(1))?;
    let k = k.size().ok_or(sizes_at.wrapping_add(2))?;
    let (of_a, of_b) = (stored(op_a, m, k), stored(op_b, k, n));
    for (ld, rows, argument) in
        [(lda, of_a.0, lds_at[0]), (ldb, of_b.0, lds_at[1]), (ldc, m, lds_at[2])]
    {
        if !holds(ld, rows) {
            return Err(argument);
        }
    }
    Ok(Sizes { ops: (op_a, op_b), m, n, k, of_a, of_b })
}

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
#[inline(always)]
pub(crate) unsafe fn gemm<T: Number, I: Int>(
    report: impl Report,
    ops: (Option<Op>, Option<Op>),
    sizes: (I, I, I),
    alpha: T,
    (a, lda): (*const T, I),
    (b, ldb): (*const T, I),
    beta: T,
    (c, ldc): (*mut T, I),
) {
    let lds = (lda, ldb, ldc);
    let Some(sizes) = general(report, ops, sizes, lds, SIZES_OF_GEMM, LDS_OF_GEMM) else { return };
    let Some(product) = sizes.product(alpha, (a, lda), (b, ldb), beta, (c, ldc)) else { return };
    // SAFETY: the caller's promise.
    unsafe { multiply(report.routine(), &sizes, product) }
}

/// A product whose arguments are right.
///
/// # Safety
/// See the [module](self).
#[inline(always)]
pub(crate) unsafe fn multiply<T: Number>(routine: Routine, sizes: &Sizes, product: General<T>) {
    // SAFETY: the caller's promise.
    if device::is_plain() && unsafe { product.near() } {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { larger(routine, [sizes.m, sizes.n, sizes.k], product) }
}

/// A product in whose time that of a call does not count; by itself, so that what each name has of its own is short.
///
/// # Safety
/// See the [module](self).
#[inline(never)]
unsafe fn larger<T: Number>(routine: Routine, sizes: [usize; 3], product: General<T>) {
    let [m, n, k] = sizes;
    let call = Call { routine, sizes: &sizes, work: work::<T>(m, n, k) };
    // SAFETY: the caller's promise.
    unsafe { device::gemm(call, product) }
}

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn symm<T: Number, I: Int>(
    report: impl Report,
    hermitian: bool,
    (side, uplo): (Option<Side>, Option<Uplo>),
    (m, n): (I, I),
    alpha: T,
    (a, lda): (*const T, I),
    (b, ldb): (*const T, I),
    beta: T,
    (c, ldc): (*mut T, I),
) {
    let Some(side) = side else { return report.wrong(1) };
    let Some(uplo) = uplo else { return report.wrong(2) };
    let Some(m) = m.size() else { return report.wrong(3) };
    let Some(n) = n.size() else { return report.wrong(4) };
    let order = if side == Side::Left { m } else { n };
    check! { report,
        7: holds(lda, order);
        9: holds(ldb, m);
        12: holds(ldc, m);
    }
    if m == 0 || n == 0 || alpha == T::ZERO && beta == T::ONE {
        return;
    }
    let operands = [
        Stored::read(a, (order, order), leading(lda)),
        Stored::read(b, (m, n), leading(ldb)),
        Stored::written(c, (m, n), leading(ldc)),
    ];
    let work = work::<T>(m, n, order);
    let call = Call { routine: report.routine(), sizes: &[m, n], work };
    let body = |means: &Means<'_>, [a, b, c]: [Stored<T>; 3]| {
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let b = unsafe { b.view() };
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let c = unsafe { c.view_mut() };
        let routine = if hermitian { blas3::hemm } else { blas3::symm };
        routine(side, uplo, alpha, a, b, beta, c, means).expect(FITS);
    };
    // SAFETY: the caller's promise.
    unsafe { device::compute(call, operands, body) }
}

/// Whether a rank-k update knows a transposition: of real numbers both are the same, of complex ones each routine
/// has its own.
fn knows<T: Field>(hermitian: bool, op: Op) -> bool {
    match op {
        Op::NoTrans => true,
        Op::Trans => !hermitian,
        Op::ConjTrans => hermitian || !T::IS_COMPLEX,
    }
}

/// `syrk` and `herk`, whose factors are real numbers given as `T`.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn syrk<T: Number, I: Int>(
    report: impl Report,
    hermitian: bool,
    (uplo, op): (Option<Uplo>, Option<Op>),
    (n, k): (I, I),
    alpha: T,
    (a, lda): (*const T, I),
    beta: T,
    (c, ldc): (*mut T, I),
) {
    let Some(uplo) = uplo else { return report.wrong(1) };
    let Some(op) = op.filter(|&op| knows::<T>(hermitian, op)) else { return report.wrong(2) };
    let Some(n) = n.size() else { return report.wrong(3) };
    let Some(k) = k.size() else { return report.wrong(4) };
    let of_a = stored(op, n, k);
    check! { report,
        7: holds(lda, of_a.0);
        10: holds(ldc, n);
    }
    if n == 0 || (alpha == T::ZERO || k == 0) && beta == T::ONE {
        return;
    }
    let operands = [Stored::read(a, of_a, leading(lda)), Stored::written(c, (n, n), leading(ldc))];
    let work = work::<T>(n, n, k) / 2;
    let call = Call { routine: report.routine(), sizes: &[n, k], work };
    let body = |means: &Means<'_>, [a, c]: [Stored<T>; 2]| {
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let c = unsafe { c.view_mut() };
        let done = match hermitian {
            true => blas3::herk(uplo, op, alpha.re(), a, beta.re(), c, means),
            false => blas3::syrk(uplo, op, alpha, a, beta, c, means),
        };
        done.expect(FITS);
    };
    // SAFETY: the caller's promise.
    unsafe { device::compute(call, operands, body) }
}

/// `syr2k` and `her2k`, whose beta is a real number given as `T`.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn syr2k<T: Number, I: Int>(
    report: impl Report,
    hermitian: bool,
    (uplo, op): (Option<Uplo>, Option<Op>),
    (n, k): (I, I),
    alpha: T,
    (a, lda): (*const T, I),
    (b, ldb): (*const T, I),
    beta: T,
    (c, ldc): (*mut T, I),
) {
    let Some(uplo) = uplo else { return report.wrong(1) };
    let Some(op) = op.filter(|&op| knows::<T>(hermitian, op)) else { return report.wrong(2) };
    let Some(n) = n.size() else { return report.wrong(3) };
    let Some(k) = k.size() else { return report.wrong(4) };
    let of_both = stored(op, n, k);
    check! { report,
        7: holds(lda, of_both.0);
        9: holds(ldb, of_both.0);
        12: holds(ldc, n);
    }
    if n == 0 || (alpha == T::ZERO || k == 0) && beta == T::ONE {
        return;
    }
    let operands = [
        Stored::read(a, of_both, leading(lda)),
        Stored::read(b, of_both, leading(ldb)),
        Stored::written(c, (n, n), leading(ldc)),
    ];
    let work = work::<T>(n, n, k);
    let call = Call { routine: report.routine(), sizes: &[n, k], work };
    let body = |means: &Means<'_>, [a, b, c]: [Stored<T>; 3]| {
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let b = unsafe { b.view() };
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let c = unsafe { c.view_mut() };
        let done = match hermitian {
            true => blas3::her2k(uplo, op, alpha, a, b, beta.re(), c, means),
            false => blas3::syr2k(uplo, op, alpha, a, b, beta, c, means),
        };
        done.expect(FITS);
    };
    // SAFETY: the caller's promise.
    unsafe { device::compute(call, operands, body) }
}

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn gemmtr<T: Number, I: Int>(
    report: impl Report,
    uplo: Option<Uplo>,
    (op_a, op_b): (Option<Op>, Option<Op>),
    (n, k): (I, I),
    alpha: T,
    (a, lda): (*const T, I),
    (b, ldb): (*const T, I),
    beta: T,
    (c, ldc): (*mut T, I),
) {
    let Some(uplo) = uplo else { return report.wrong(1) };
    let Some(op_a) = op_a else { return report.wrong(2) };
    let Some(op_b) = op_b else { return report.wrong(3) };
    let Some(n) = n.size() else { return report.wrong(4) };
    let Some(k) = k.size() else { return report.wrong(5) };
    let (of_a, of_b) = (stored(op_a, n, k), stored(op_b, k, n));
    check! { report,
        8: holds(lda, of_a.0);
        10: holds(ldb, of_b.0);
        13: holds(ldc, n);
    }
    if n == 0 || (alpha == T::ZERO || k == 0) && beta == T::ONE {
        return;
    }
    let operands = [
        Stored::read(a, of_a, leading(lda)),
        Stored::read(b, of_b, leading(ldb)),
        Stored::written(c, (n, n), leading(ldc)),
    ];
    let work = work::<T>(n, n, k) / 2;
    let call = Call { routine: report.routine(), sizes: &[n, k], work };
    let body = |means: &Means<'_>, [a, b, c]: [Stored<T>; 3]| {
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let b = unsafe { b.view() };
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let c = unsafe { c.view_mut() };
        blas3::gemmtr(uplo, op_a, op_b, alpha, a, b, beta, c, means).expect(FITS);
    };
    // SAFETY: the caller's promise.
    unsafe { device::compute(call, operands, body) }
}

/// `trmm`, or `trsm`, which solves.
///
/// # Safety
/// See the [module](self); the matrix b is read and written.
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn triangular<T: Number, I: Int>(
    report: impl Report,
    solve: bool,
    (side, uplo): (Option<Side>, Option<Uplo>),
    (op, diag): (Option<Op>, Option<Diag>),
    (m, n): (I, I),
    alpha: T,
    (a, lda): (*const T, I),
    (b, ldb): (*mut T, I),
) {
    let Some(side) = side else { return report.wrong(1) };
    let Some(uplo) = uplo else { return report.wrong(2) };
    let Some(op) = op else { return report.wrong(3) };
    let Some(diag) = diag else { return report.wrong(4) };
    let Some(m) = m.size() else { return report.wrong(5) };
    let Some(n) = n.size() else { return report.wrong(6) };
    let order = if side == Side::Left { m } else { n };
    check! { report,
        9: holds(lda, order);
        11: holds(ldb, m);
    }
    if m == 0 || n == 0 {
        return;
    }
    let operands =
        [Stored::read(a, (order, order), leading(lda)), Stored::written(b, (m, n), leading(ldb))];
    let work = work::<T>(m, n, order) / 2;
    let call = Call { routine: report.routine(), sizes: &[m, n], work };
    let body = |means: &Means<'_>, [a, b]: [Stored<T>; 2]| {
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let a = unsafe { a.view() };
        // SAFETY: the caller's promise, or that of whoever has made a copy.
        let b = unsafe { b.view_mut() };
        let routine = if solve { blas3::trsm } else { blas3::trmm };
        routine(side, uplo, op, diag, alpha, a, b, means).expect(FITS);
    };
    // SAFETY: the caller's promise.
    unsafe { device::compute(call, operands, body) }
}
