//! Routines of level 2: arguments checked in BLAS' order, matrices and vectors made views, [`tessera::blas2`] called.
//!
//! Of C's row-major matrices the numbers of wrong arguments are those of the transposed call, as in
//! [`cblas`](crate::cblas).
//!
//! # Safety
//!
//! All functions here ask for what [`level3`](crate::level3) asks, of matrices in the order that the caller names, and
//! of vectors whose elements are as far apart as their increment says; with a negative one the first element lies last.

use std::ops::Range;

use tessera::blas2;
use tessera::blas3::{Diag, Field, Op, Uplo, View, ViewMut};
use tessera::{Layout, Order};

use crate::int::Int;
use crate::level3::{FITS, holds, work};
use crate::threads::compute;
use crate::xerbla::Report;

/// The first argument that is wrong, of pairs of a number and whether it is right.
macro_rules! check {
    ($report:ident, $($argument:literal: $right:expr;)*) => {
        $(if !$right {
            return $report.wrong($argument);
        })*
    };
}

/// Whether an increment is one.
fn moves<I: Int>(increment: I) -> bool {
    increment != I::of(0)
}

/// A vector's elements in memory: the first of them, how far apart they are, and whether they begin at the other end.
#[derive(Clone, Copy)]
struct Line {
    step: usize,
    reversed: bool,
}

impl Line {
    fn of<I: Int>(increment: I) -> Self {
        let offset = increment.offset();
        Self { step: offset.unsigned_abs(), reversed: offset < 0 }
    }

    /// Elements as a matrix of one column.
    fn layout(self, len: usize) -> Layout {
        if self.step == 1 { Layout::col_major(len) } else { Layout::row_major(self.step) }
    }
}

/// Elements of a vector that are copied at once, where it begins at its other end.
const PIECE: usize = 128;

/// Calls with a vector, or with one piece of it after the other.
///
/// # Safety
/// See the [module](self).
unsafe fn in_pieces<T: Field>(
    (at, line): (*const T, Line),
    len: usize,
    mut with: impl FnMut(Range<usize>, View<'_, T>),
) {
    if !line.reversed {
        // SAFETY: the caller's promise.
        let whole = unsafe { View::from_raw(at, len, 1, line.layout(len)) };
        return with(0..len, whole);
    }
    for first in (0..len).step_by(PIECE) {
        let end = len.min(first.saturating_add(PIECE));
        let mut piece = [T::ZERO; PIECE];
        for (index, element) in (first..end).zip(&mut piece) {
            let from_start = len.wrapping_sub(index).wrapping_sub(1);
            // SAFETY: the caller's promise: an element of the vector.
            *element = unsafe { at.wrapping_add(from_start.wrapping_mul(line.step)).read() };
        }
        let rows = end.wrapping_sub(first);
        let view = View::new(&piece, rows, 1, Layout::col_major(rows)).expect(FITS);
        with(first..end, view);
    }
}

/// A vector to write, which is turned round before and after where it begins at its other end.
///
/// # Safety
/// See the [module](self).
unsafe fn in_place<T: Field>(
    (at, line): (*mut T, Line),
    len: usize,
    with: impl FnOnce(ViewMut<'_, T>),
) {
    // SAFETY: the caller's promise.
    let mut y = unsafe { ViewMut::from_raw(at, len, 1, line.layout(len)) };
    let turn = |y: &mut ViewMut<'_, T>| {
        for index in 0..if line.reversed { len / 2 } else { 0 } {
            let other = len.wrapping_sub(index).wrapping_sub(1);
            let (here, there) = (y.get(index, 0), y.get(other, 0));
            y.set(index, 0, there);
            y.set(other, 0, here);
        }
    };
    turn(&mut y);
    with(y.reborrow());
    turn(&mut y);
}

/// A stored matrix and its order: of C's row-major ones rows and columns are counted as the transposed call has them.
#[derive(Clone, Copy)]
pub(crate) struct Stored<P, I> {
    pub(crate) at: P,
    pub(crate) ld: I,
    pub(crate) order: Order,
}

impl<P, I: Int> Stored<P, I> {
    fn layout(&self) -> Layout {
        Layout { order: self.order, ld: self.ld.size().unwrap_or(0) }
    }

    /// Rows and columns in the order in which BLAS checks them.
    fn sizes(&self, m: I, n: I) -> (I, I) {
        if self.order == Order::RowMajor { (n, m) } else { (m, n) }
    }
}

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn gemv<T: Field, I: Int>(
    report: impl Report,
    op: Option<Op>,
    sizes: (I, I),
    alpha: T,
    a: Stored<*const T, I>,
    (x, step_of_x): (*const T, I),
    beta: T,
    (y, step_of_y): (*mut T, I),
) {
    let Some(op) = op else { return report.wrong(1) };
    let (first, second) = a.sizes(sizes.0, sizes.1);
    let Some(first) = first.size() else { return report.wrong(2) };
    let Some(second) = second.size() else { return report.wrong(3) };
    check! { report,
        6: holds(a.ld, first);
        8: moves(step_of_x);
        11: moves(step_of_y);
    }
    let (m, n) = if a.order == Order::RowMajor { (second, first) } else { (first, second) };
    if m == 0 || n == 0 || alpha == T::ZERO && beta == T::ONE {
        return;
    }
    // SAFETY: the caller's promise.
    let a = unsafe { View::from_raw(a.at, m, n, a.layout()) };
    let (rows, k) = if op == Op::NoTrans { (m, n) } else { (n, m) };
    compute(work::<T>(m, n, 1), |context| {
        let with_y = |mut y: ViewMut<'_, T>| {
            let piece = |of: Range<usize>, x: View<'_, T>| {
                let beta = if of.start == 0 { beta } else { T::ONE };
                let part = if op == Op::NoTrans { a.part(0..m, of) } else { a.part(of, 0..n) };
                blas2::gemv(op, alpha, part, x, beta, y.reborrow(), context).expect(FITS);
            };
            // SAFETY: the caller's promise.
            unsafe { in_pieces((x, Line::of(step_of_x)), k, piece) };
        };
        // SAFETY: the caller's promise.
        unsafe { in_place((y, Line::of(step_of_y)), rows, with_y) };
    });
}

/// `symv` and `hemv`: of real numbers they are the same.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn hemv<T: Field, I: Int>(
    report: impl Report,
    uplo: Option<Uplo>,
    n: I,
    alpha: T,
    a: Stored<*const T, I>,
    (x, step_of_x): (*const T, I),
    beta: T,
    (y, step_of_y): (*mut T, I),
) {
    let Some(uplo) = uplo else { return report.wrong(1) };
    let Some(n) = n.size() else { return report.wrong(2) };
    check! { report,
        5: holds(a.ld, n);
        7: moves(step_of_x);
        10: moves(step_of_y);
    }
    if n == 0 || alpha == T::ZERO && beta == T::ONE {
        return;
    }
    // SAFETY: the caller's promise.
    let a = unsafe { View::from_raw(a.at, n, n, a.layout()) };
    let (of_x, of_y) = (Line::of(step_of_x), Line::of(step_of_y));
    // One thread: the product is as fast as memory.
    compute(0, |context| {
        let with_y = |mut y: ViewMut<'_, T>| {
            if !of_x.reversed {
                // SAFETY: the caller's promise.
                let x = unsafe { View::from_raw(x, n, 1, of_x.layout(n)) };
                return blas2::hemv(uplo, alpha, a, x, beta, y, context).expect(FITS);
            }
            let with_x = |of: Range<usize>, x: View<'_, T>| {
                let beta = if of.start == 0 { beta } else { T::ONE };
                let mut add = |op, part: View<'_, T>, rows: Range<usize>, beta| {
                    let y = y.reborrow().part(rows, 0..1);
                    blas2::gemv(op, alpha, part, x, beta, y, context).expect(FITS);
                };
                // What is stored beside the piece's own block, above it or below, and what is stored across.
                let (before, after) = (0..of.start, of.end..n);
                let columns = |rows: &Range<usize>| a.part(rows.clone(), of.clone());
                let rows = |cols: &Range<usize>| a.part(of.clone(), cols.clone());
                match uplo {
                    Uplo::Lower => {
                        add(Op::ConjTrans, rows(&before), before.clone(), beta);
                        add(Op::NoTrans, columns(&after), after.clone(), beta);
                    }
                    Uplo::Upper => {
                        add(Op::NoTrans, columns(&before), before.clone(), beta);
                        add(Op::ConjTrans, rows(&after), after.clone(), beta);
                    }
                }
                let (block, y) = (a.part(of.clone(), of.clone()), y.reborrow().part(of, 0..1));
                blas2::hemv(uplo, alpha, block, x, beta, y, context).expect(FITS);
            };
            // SAFETY: the caller's promise.
            unsafe { in_pieces((x, of_x), n, with_x) };
        };
        // SAFETY: the caller's promise.
        unsafe { in_place((y, of_y), n, with_y) };
    });
}

/// `ger`, `geru`, and `gerc`, which conjugates y.
///
/// # Safety
/// See the [module](self).
pub(crate) unsafe fn ger<T: Field, I: Int>(
    report: impl Report,
    conjugates: bool,
    sizes: (I, I),
    alpha: T,
    (x, step_of_x): (*const T, I),
    (y, step_of_y): (*const T, I),
    a: Stored<*mut T, I>,
) {
    let (first, second) = a.sizes(sizes.0, sizes.1);
    let Some(first) = first.size() else { return report.wrong(1) };
    let Some(second) = second.size() else { return report.wrong(2) };
    // The transposed call has y first.
    let is_transposed = a.order == Order::RowMajor;
    let steps = if is_transposed { (step_of_y, step_of_x) } else { (step_of_x, step_of_y) };
    check! { report,
        5: moves(steps.0);
        7: moves(steps.1);
        9: holds(a.ld, first);
    }
    let (m, n) = if is_transposed { (second, first) } else { (first, second) };
    if m == 0 || n == 0 || alpha == T::ZERO {
        return;
    }
    // SAFETY: the caller's promise.
    let mut whole = unsafe { ViewMut::from_raw(a.at, m, n, a.layout()) };
    let op = if conjugates { Op::ConjTrans } else { Op::Trans };
    // One thread: the update is as fast as memory.
    compute(0, |context| {
        let with_x = |rows: Range<usize>, x: View<'_, T>| {
            let with_y = |cols: Range<usize>, y: View<'_, T>| {
                let part = whole.reborrow().part(rows.clone(), cols);
                blas2::ger(op, alpha, x, y, part, context).expect(FITS);
            };
            // SAFETY: the caller's promise.
            unsafe { in_pieces((y, Line::of(step_of_y)), n, with_y) };
        };
        // SAFETY: the caller's promise.
        unsafe { in_pieces((x, Line::of(step_of_x)), m, with_x) };
    });
}

/// # Safety
/// See the [module](self).
pub(crate) unsafe fn trsv<T: Field, I: Int>(
    report: impl Report,
    uplo: Option<Uplo>,
    op: Option<Op>,
    diag: Option<Diag>,
    n: I,
    a: Stored<*const T, I>,
    (x, step): (*mut T, I),
) {
    let Some(uplo) = uplo else { return report.wrong(1) };
    let Some(op) = op else { return report.wrong(2) };
    let Some(diag) = diag else { return report.wrong(3) };
    let Some(n) = n.size() else { return report.wrong(4) };
    check! { report,
        6: holds(a.ld, n);
        8: moves(step);
    }
    if n == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    let a = unsafe { View::from_raw(a.at, n, n, a.layout()) };
    compute(work::<T>(n, n, 1) / 2, |context| {
        let solve = |x: ViewMut<'_, T>| {
            blas2::trsv(uplo, op, diag, a, x, context).expect(FITS);
        };
        // SAFETY: the caller's promise.
        unsafe { in_place((x, Line::of(step)), n, solve) };
    });
}
