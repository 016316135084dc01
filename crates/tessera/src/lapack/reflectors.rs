//! Some reflectors as one product of blocks: `H(0) * H(1) * ... = I - V * T * V^H`.
//!
//! V has ones on its diagonal and zeros above, neither of which is stored, and T is an upper triangle.

use cpu_gemm::{CpuContext, Factor, Field, Task, View, ViewMut};
use gemm_spec::Layout;

use super::column::{add_multiple, conjugate_dot};
use super::copy::{copy, dense, subtract};
use super::reflector::reflect;
use crate::blas3::{Diag, Op, Products as _, Side, Uplo, half, triangular, trmm};
use crate::error::Error;

/// Reflectors of a block at most.
pub const PANEL: usize = 64;

/// Columns of a panel that is factored one column after the other.
const LEAF: usize = 8;

/// Room for the triangle T of a block.
pub(super) struct Triangle<T>([T; PANEL * PANEL]);

impl<T: Field> Triangle<T> {
    pub(super) fn new() -> Self {
        Self([T::ZERO; PANEL * PANEL])
    }

    /// T of that many reflectors, to be computed.
    pub(super) fn of(&mut self, count: usize) -> ViewMut<'_, T> {
        let view = ViewMut::new(&mut self.0, count, count, Layout::col_major(count));
        view.expect("invariant: a block is no larger than a panel")
    }
}

/// Factors `A = Q * R`, A having no more columns than rows and no more than [`PANEL`]: R is the upper triangle, the
/// reflectors' vectors are below it, and T is that of all reflectors.
pub(super) fn factor<T: Field>(
    a: ViewMut<'_, T>,
    tau: &mut [T],
    t: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (rows, cols) = (a.rows(), a.cols());
    if cols <= LEAF {
        by_columns(a, tau, t, context);
        return Ok(());
    }
    let cut = half(cols, LEAF);
    let (of_left, of_right) = tau.split_at_mut(cut);
    let (mut left, mut right) = a.split_cols(cut);
    let (top, bottom) = t.split_rows(cut);
    let (mut first, beside) = top.split_cols(cut);
    let mut last = bottom.part(0..cols - cut, cut..cols);
    factor(left.reborrow(), of_left, first.reborrow(), context)?;
    let block = Block { v: left.as_view(), t: first.as_view() };
    let mut room = [T::ZERO; PANEL * PANEL / 2];
    block.apply(Side::Left, Op::ConjTrans, right.reborrow(), &mut room, context);
    let mut below = right.part(cut..rows, 0..cols - cut);
    factor(below.reborrow(), of_right, last.reborrow(), context)?;
    let (v, next) = (left.as_view().part(cut..rows, 0..cut), below.as_view());
    let (of_first, of_last) = (first.as_view(), last.as_view());
    between(v, of_first, next, of_last, beside, context)
}

/// The rectangle of T between two blocks of reflectors: `-T1 * V1^H * V2 * T2`, of the rows that V2 has.
fn between<T: Field>(
    v1: View<'_, T>,
    t1: View<'_, T>,
    v2: View<'_, T>,
    t2: View<'_, T>,
    mut beside: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (rows, k1, k2) = (v1.rows(), v1.cols(), v2.cols());
    for row in 0..k1 {
        for col in 0..k2 {
            beside.set(row, col, v1.get(col, row).conj());
        }
    }
    let (op, unit) = (Op::NoTrans, Diag::Unit);
    let square = v2.part(0..k2, 0..k2);
    trmm(Side::Right, Uplo::Lower, op, unit, T::ONE, square, beside.reborrow(), context)?;
    let first = Factor::plain(v1.part(k2..rows, 0..k1)).transposed().conjugated();
    let second = Factor::plain(v2.part(k2..rows, 0..k2));
    context.product(T::ONE, first, second, T::ONE, beside.reborrow());
    let diag = Diag::NonUnit;
    trmm(Side::Left, Uplo::Upper, op, diag, -T::ONE, t1, beside.reborrow(), context)?;
    trmm(Side::Right, Uplo::Upper, op, diag, T::ONE, t2, beside, context)
}

/// [`factor`], one column after the other.
fn by_columns<T: Field>(
    mut a: ViewMut<'_, T>,
    tau: &mut [T],
    mut t: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (rows, cols) = (a.rows(), a.cols());
    for (step, of_step) in tau.iter_mut().enumerate() {
        let (before, from) = a.reborrow().part(0..rows, 0..cols).split_cols(step);
        let (mut column, others) = from.split_cols(1);
        *of_step = reflect(column.reborrow().part(step..rows, 0..1), context);
        let v = column.as_view().part(step + 1..rows, 0..1);
        let mut others = others.part(step..rows, 0..cols - step - 1);
        for col in 0..others.cols() {
            let other = others.reborrow().part(0..rows - step, col..col + 1);
            apply_one((*of_step).conj(), v, other, context);
        }
        extend(before.as_view(), v, *of_step, step, t.reborrow(), context);
    }
}

/// `c = (I - tau * v * v^H) * c` of a column, v without its 1.
fn apply_one<T: Field>(tau: T, v: View<'_, T>, c: ViewMut<'_, T>, context: &CpuContext) {
    let (mut first, below) = c.split_rows(1);
    let by = tau * (first.get(0, 0) + conjugate_dot(v, below.as_view(), context));
    first.set(0, 0, first.get(0, 0) - by);
    add_multiple(-by, v, below, context);
}

/// Column `step` of T: of the reflector with that v, without its 1, and tau, behind those of the columns before.
fn extend<T: Field>(
    before: View<'_, T>,
    v: View<'_, T>,
    tau: T,
    step: usize,
    mut t: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let rows = before.rows();
    t.set(step, step, tau);
    for row in 0..step {
        let other = before.part(step + 1..rows, row..row + 1);
        let dot = before.get(step, row).conj() + conjugate_dot(other, v, context);
        t.set(row, step, -tau * dot);
    }
    for row in 0..step {
        let sum =
            (row..step).fold(T::ZERO, |sum, p| sum.add_product(t.get(row, p), t.get(p, step)));
        t.set(row, step, sum);
    }
}

/// Computes T of reflectors whose vectors are there, as many as `t` has columns.
pub(super) fn triangle_of<T: Field>(
    v: View<'_, T>,
    tau: &[T],
    t: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (rows, count) = (v.rows(), t.cols());
    let mut t = t;
    if count <= LEAF {
        for (step, &of_step) in tau.iter().enumerate() {
            let (before, column) =
                (v.part(0..rows, 0..step), v.part(step + 1..rows, step..step + 1));
            extend(before, column, of_step, step, t.reborrow(), context);
        }
        return Ok(());
    }
    let cut = half(count, LEAF);
    let (of_left, of_right) = tau.split_at(cut);
    let (top, bottom) = t.split_rows(cut);
    let (mut first, beside) = top.split_cols(cut);
    let mut last = bottom.part(0..count - cut, cut..count);
    let (left, right) = (v.part(0..rows, 0..cut), v.part(cut..rows, cut..count));
    triangle_of(left, of_left, first.reborrow(), context)?;
    triangle_of(right, of_right, last.reborrow(), context)?;
    let (of_first, of_last) = (first.as_view(), last.as_view());
    between(left.part(cut..rows, 0..cut), of_first, right, of_last, beside, context)
}

/// A block of reflectors.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, T> {
    pub(super) v: View<'a, T>,
    pub(super) t: View<'a, T>,
}

impl<T: Field> Block<'_, T> {
    /// `C = op(H) * C`, or `C = C * op(H)`. The room holds what as many columns, or rows, of C need as it has lines of
    /// as many elements as there are reflectors.
    ///
    /// Of real numbers the transposed block is meant by [`Op::Trans`] as well.
    pub(super) fn apply(
        self,
        side: Side,
        op: Op,
        c: ViewMut<'_, T>,
        room: &mut [T],
        context: &CpuContext,
    ) {
        let (v, t) = (Factor::plain(self.v), Factor::plain(self.t));
        let (t, upper) = match op {
            Op::NoTrans => (t, true),
            Op::Trans | Op::ConjTrans => (t.transposed().conjugated(), false),
        };
        // C * H is the transposed matrix of H^T * C^T, and H^T = I - conj(V) * T^T * V^T.
        let (v, t, upper, mut c) = match side {
            Side::Left => (v, t, upper, c),
            Side::Right => (v.conjugated(), t.transposed(), !upper, c.transposed()),
        };
        let at_once = room.len() / self.v.cols().max(1);
        while c.cols() > 0 {
            let cols = c.cols().min(at_once);
            let (part, rest) = c.split_cols(cols);
            apply_left(v, t, upper, part, room, context);
            c = rest;
        }
    }
}

/// `C = (I - V * T * V^H) * C`.
fn apply_left<T: Field>(
    v: Factor<'_, T>,
    t: Factor<'_, T>,
    upper: bool,
    c: ViewMut<'_, T>,
    room: &mut [T],
    context: &CpuContext,
) {
    let (rows, count, cols) = (v.view.rows(), v.view.cols(), c.cols());
    let layout = dense(c.layout(), count, cols);
    let w = ViewMut::new(room, count, cols, layout);
    let mut w = w.expect("invariant: there is room for these columns");
    let (mut top, mut bottom) = c.split_rows(count);
    let (square, below) = (v.part(0..count, 0..count), v.part(count..rows, 0..count));
    copy(top.as_view(), w.reborrow());
    let multiply = Task { solve: false, upper: true, unit: true };
    triangular(multiply, T::ONE, square.transposed().conjugated(), w.reborrow(), context);
    let c = Factor::plain(bottom.as_view());
    context.product(T::ONE, below.transposed().conjugated(), c, T::ONE, w.reborrow());
    let by_t = Task { solve: false, upper, unit: false };
    triangular(by_t, T::ONE, t, w.reborrow(), context);
    context.product(-T::ONE, below, Factor::plain(w.as_view()), T::ONE, bottom.reborrow());
    let back = Task { upper: false, ..multiply };
    triangular(back, T::ONE, square, w.reborrow(), context);
    subtract(w.as_view(), top.reborrow(), context);
}
