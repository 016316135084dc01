//! QR and LQ by blocks of reflectors, and products with their unitary factor.

use cpu_gemm::{CpuContext, Factor, Field, Task, View, ViewMut};

use super::copy::copy;
use super::reflectors::{Block, PANEL, Triangle, factor, triangle_of};
use crate::blas3::{Op, Side, check_size, triangular};
use crate::error::Error;

/// Factors `A = Q * R` in place: R is the upper triangle, or trapezoid, and below it are the vectors of the reflectors
/// `I - tau[i] * v * v^H` of whose product, in their order, Q consists.
///
/// # Errors
/// [`Error::Operand`] where there are not as many elements of tau as rows or columns, whichever are fewer; nothing is
/// written.
pub fn geqrf<T: Field>(
    mut a: ViewMut<'_, T>,
    tau: &mut [T],
    context: &CpuContext,
) -> Result<(), Error> {
    let (rows, cols) = (a.rows(), a.cols());
    let count = rows.min(cols);
    check_tau("geqrf", tau, count)?;
    let mut room = Room::new(count.min(PANEL) * cols.saturating_sub(PANEL));
    let mut triangle = Triangle::new();
    for first in (0..count).step_by(PANEL) {
        let width = PANEL.min(count - first);
        let part = a.reborrow().part(first..rows, first..cols);
        let (mut panel, rest) = part.split_cols(width);
        let mut t = triangle.of(width);
        let of_panel = &mut tau[first..first + width];
        factor(panel.reborrow(), of_panel, t.reborrow(), context)?;
        let block = Block { v: panel.as_view(), t: t.as_view() };
        block.apply(Side::Left, Op::ConjTrans, rest, room.as_slice(), context);
    }
    Ok(())
}

/// Factors `A = L * Q` in place: L is the lower triangle, or trapezoid, and right of it are the conjugates of the
/// vectors of the reflectors `I - tau[i] * v * v^H` whose conjugate transposes, the last first, are Q.
///
/// # Errors
/// As [`geqrf`].
pub fn gelqf<T: Field>(
    mut a: ViewMut<'_, T>,
    tau: &mut [T],
    context: &CpuContext,
) -> Result<(), Error> {
    check_tau("gelqf", tau, a.rows().min(a.cols()))?;
    // A^H = Q^H * L^H.
    conjugate(a.reborrow());
    geqrf(a.reborrow().transposed(), tau, context)?;
    conjugate(a);
    Ok(())
}

/// `C = op(Q) * C`, or `C = C * op(Q)`, Q being that of [`geqrf`]: `a` has the reflectors below its diagonal, one for
/// each of its columns. Of complex numbers [`Op::Trans`] stands for [`Op::ConjTrans`].
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit; nothing is written.
pub fn ormqr<T: Field>(
    side: Side,
    op: Op,
    a: View<'_, T>,
    tau: &[T],
    c: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (order, others) = match side {
        Side::Left => (c.rows(), c.cols()),
        Side::Right => (c.cols(), c.rows()),
    };
    let count = a.cols();
    check_size("ormqr", "A", (a.rows(), count), (order, count.min(order)))?;
    check_tau("ormqr", tau, count)?;
    let mut c = c;
    let mut room = Room::new(count.min(PANEL) * others);
    let mut triangle = Triangle::new();
    let blocks = count.div_ceil(PANEL);
    for step in 0..blocks {
        // Q * C begins with the last reflector, and C * Q with the first.
        let is_forward = (side == Side::Left) != (op == Op::NoTrans);
        let first = PANEL * if is_forward { step } else { blocks - 1 - step };
        let width = PANEL.min(count - first);
        let v = a.part(first..order, first..first + width);
        let mut t = triangle.of(width);
        triangle_of(v, &tau[first..first + width], t.reborrow(), context)?;
        let part = match side {
            Side::Left => c.reborrow().part(first..order, 0..others),
            Side::Right => c.reborrow().part(0..others, first..order),
        };
        let block = Block { v, t: t.as_view() };
        block.apply(side, op, part, room.as_slice(), context);
    }
    Ok(())
}

/// `C = op(Q) * C`, or `C = C * op(Q)`, Q being that of [`gelqf`]: `a` has the reflectors right of its diagonal, one for
/// each of its rows. The matrix of reflectors is conjugated and, at the end, is as it was.
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit; nothing is written.
pub fn ormlq<T: Field>(
    side: Side,
    op: Op,
    mut a: ViewMut<'_, T>,
    tau: &[T],
    c: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    // Q is the conjugate transpose of what ormqr multiplies by.
    let op = if op == Op::NoTrans { Op::ConjTrans } else { Op::NoTrans };
    conjugate(a.reborrow());
    let done = ormqr(side, op, a.as_view().transposed(), tau, c, context);
    conjugate(a);
    done
}

/// Writes the first columns of Q, that of [`geqrf`], in place of its first reflectors, as many as there are of tau.
///
/// # Errors
/// [`Error::Operand`] where A has fewer rows than columns, or fewer columns than there are reflectors; nothing is
/// written.
pub fn orgqr<T: Field>(
    mut a: ViewMut<'_, T>,
    tau: &[T],
    context: &CpuContext,
) -> Result<(), Error> {
    let (rows, cols, count) = (a.rows(), a.cols(), tau.len());
    check_size("orgqr", "A", (rows, cols), (rows.max(cols), cols.max(count)))?;
    // Behind the reflectors are columns of the identity.
    for col in count..cols {
        for row in 0..rows {
            a.set(row, col, if row == col { T::ONE } else { T::ZERO });
        }
    }
    let mut room = Room::new(count.min(PANEL) * cols.saturating_sub(1));
    let mut triangle = Triangle::new();
    for first in (0..count).step_by(PANEL).rev() {
        let width = PANEL.min(count - first);
        let (mut above, below) = a.reborrow().part(0..rows, first..cols).split_rows(first);
        above = above.part(0..first, 0..width);
        for row in 0..first {
            (0..width).for_each(|col| above.set(row, col, T::ZERO));
        }
        let (mut panel, rest) = below.split_cols(width);
        let mut t = triangle.of(width);
        triangle_of(panel.as_view(), &tau[first..first + width], t.reborrow(), context)?;
        let block = Block { v: panel.as_view(), t: t.as_view() };
        block.apply(Side::Left, Op::NoTrans, rest, room.as_slice(), context);
        columns_of(panel.reborrow(), t, context);
    }
    Ok(())
}

/// The first columns of `I - V * T * V^H`, in place of V: with M being `T * V1^H`, an upper triangle as T is,
/// `I - V1 * M` and below it `-V2 * M`.
fn columns_of<T: Field>(panel: ViewMut<'_, T>, mut t: ViewMut<'_, T>, context: &CpuContext) {
    let width = panel.cols();
    let (mut top, bottom) = panel.split_rows(width);
    let upper = Task { solve: false, upper: true, unit: false };
    // M^T = conj(V1) * T^T.
    let v1 = Factor::plain(top.as_view());
    clear_below(t.reborrow());
    let unit_lower = Task { solve: false, upper: false, unit: true };
    triangular(unit_lower, T::ONE, v1.conjugated(), t.reborrow().transposed(), context);
    let m = Factor::plain(t.as_view());
    triangular(
        Task { upper: false, ..upper },
        -T::ONE,
        m.transposed(),
        bottom.transposed(),
        context,
    );
    let mut room = [T::ZERO; PANEL * PANEL];
    let mut square = ViewMut::new(&mut room, width, width, gemm_spec::Layout::col_major(width))
        .expect("invariant: a block is no larger than a panel");
    copy(t.as_view(), square.reborrow());
    triangular(unit_lower, -T::ONE, v1, square.reborrow(), context);
    for col in 0..width {
        for row in 0..width {
            let one = if row == col { T::ONE } else { T::ZERO };
            top.set(row, col, one + square.get(row, col));
        }
    }
}

/// Zeros below the diagonal.
fn clear_below<T: Field>(mut t: ViewMut<'_, T>) {
    for col in 0..t.cols() {
        (col + 1..t.rows()).for_each(|row| t.set(row, col, T::ZERO));
    }
}

/// Conjugates all elements.
fn conjugate<T: Field>(mut a: ViewMut<'_, T>) {
    if !T::IS_COMPLEX {
        return;
    }
    for col in 0..a.cols() {
        for row in 0..a.rows() {
            let element = a.get(row, col).conj();
            a.set(row, col, element);
        }
    }
}

fn check_tau<T>(routine: &'static str, tau: &[T], wanted: usize) -> Result<(), Error> {
    check_size(routine, "tau", (tau.len(), 1), (wanted, 1))
}

/// Memory for products of blocks, where there is some; else a little that is always there.
struct Room<T> {
    large: Vec<T>,
    little: [T; PANEL],
}

impl<T: Field> Room<T> {
    fn new(len: usize) -> Self {
        let mut large = Vec::new();
        if large.try_reserve_exact(len).is_ok() {
            large.resize(len, T::ZERO);
        }
        Self { large, little: [T::ZERO; PANEL] }
    }

    fn as_slice(&mut self) -> &mut [T] {
        if self.large.len() < PANEL { &mut self.little } else { &mut self.large }
    }
}
