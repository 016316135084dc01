//! Systems with more equations than unknowns, or fewer, by QR or LQ.

use cpu_gemm::{CpuContext, Field, RealNumber, View, ViewMut};

use super::qr::{gelqf, geqrf, ormlq, ormqr};
use crate::blas3::{Diag, Op, Side, Uplo, check_size, trsm};
use crate::error::Error;

/// For each column of B finds the x that comes closest to `op(A) * x = b`, or the shortest that solves it; B has as many
/// rows as A has rows or columns, whichever are more, and x takes the first ones. A has to have full rank: it becomes
/// its factors, those of [`geqrf`] or, where it has fewer rows than columns, of [`gelqf`].
///
/// Behind x, where there are more equations than unknowns, the squares of the elements of a column of B add up to that
/// of the distance.
///
/// `Some` index where the triangular factor has a zero on its diagonal; there is then no solution in B.
///
/// Of complex numbers [`Op::Trans`] stands for [`Op::ConjTrans`].
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit; nothing is written.
pub fn gels<T: Field>(
    op: Op,
    mut a: ViewMut<'_, T>,
    tau: &mut [T],
    mut b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<Option<usize>, Error> {
    let (rows, cols, sides) = (a.rows(), a.cols(), b.cols());
    let count = rows.min(cols);
    check_size("gels", "B", (b.rows(), sides), (rows.max(cols), sides))?;
    check_size("gels", "tau", (tau.len(), 1), (count, 1))?;
    if sides == 0 {
        return Ok(None);
    }
    if count == 0 {
        fill(T::ZERO, b);
        return Ok(None);
    }
    let op = if op == Op::NoTrans { Op::NoTrans } else { Op::ConjTrans };
    let of_a = Scale::of(largest(a.as_view()));
    if of_a.is_zero() {
        fill(T::ZERO, b);
        return Ok(None);
    }
    of_a.apply(a.reborrow());
    let given = if op == Op::NoTrans { rows } else { cols };
    let found = if op == Op::NoTrans { cols } else { rows };
    let of_b = Scale::of(largest(b.as_view().part(0..given, 0..sides)));
    of_b.apply(b.reborrow().part(0..given, 0..sides));
    let is_tall = rows >= cols;
    if is_tall {
        geqrf(a.reborrow(), tau, context)?;
    } else {
        gelqf(a.reborrow(), tau, context)?;
    }
    let uplo = if is_tall { Uplo::Upper } else { Uplo::Lower };
    let triangle = a.as_view().part(0..count, 0..count);
    if let Some(zero) = (0..count).find(|&at| triangle.get(at, at) == T::ZERO) {
        return Ok(Some(zero));
    }
    // With Q first and the triangle second, or the other way round.
    let is_over = is_tall == (op == Op::NoTrans);
    let q_op = match (is_tall, op == Op::NoTrans) {
        (true, true) | (false, true) => Op::ConjTrans,
        (true, false) | (false, false) => Op::NoTrans,
    };
    let multiply = |a: &mut ViewMut<'_, T>, b: &mut ViewMut<'_, T>| {
        let b = b.reborrow();
        if is_tall {
            ormqr(Side::Left, q_op, a.as_view(), tau, b, context)
        } else {
            ormlq(Side::Left, q_op, a.reborrow(), tau, b, context)
        }
    };
    if is_over {
        multiply(&mut a, &mut b)?;
    }
    let x = b.reborrow().part(0..count, 0..sides);
    let triangle = a.as_view().part(0..count, 0..count);
    trsm(Side::Left, uplo, op, Diag::NonUnit, T::ONE, triangle, x, context)?;
    if !is_over {
        fill(T::ZERO, b.reborrow().part(count..found, 0..sides));
        multiply(&mut a, &mut b)?;
    }
    let mut x = b.part(0..found, 0..sides);
    of_a.apply(x.reborrow());
    of_b.undo(x);
    Ok(None)
}

fn fill<T: Field>(value: T, mut b: ViewMut<'_, T>) {
    for col in 0..b.cols() {
        (0..b.rows()).for_each(|row| b.set(row, col, value));
    }
}

/// The largest part of any element; a NaN where there is one.
fn largest<T: Field>(a: View<'_, T>) -> T::Real {
    let mut largest = <T::Real as Field>::ZERO;
    for col in 0..a.cols() {
        for row in 0..a.rows() {
            let element = a.get(row, col);
            for part in [element.re().abs(), element.im().abs()] {
                // A NaN once found stays.
                let is_larger = part > largest || part.partial_cmp(&part).is_none();
                largest = if is_larger { part } else { largest };
            }
        }
    }
    largest
}

/// How a matrix is scaled whose largest element is too small or too large to compute with.
#[derive(Clone, Copy)]
struct Scale<R> {
    from: R,
    to: R,
}

impl<R: RealNumber> Scale<R> {
    /// That of a matrix with that largest element.
    fn of(largest: R) -> Self {
        let least = R::SAFE_MIN.divide(R::EPSILON);
        let most = R::ONE.divide(least);
        let to = match (largest < least, largest > most) {
            (true, _) => least,
            (_, true) => most,
            _ => largest,
        };
        Self { from: largest, to }
    }

    fn is_zero(self) -> bool {
        self.from == R::ZERO
    }

    fn apply<T: Field<Real = R>>(self, a: ViewMut<'_, T>) {
        if !self.is_zero() && self.from < self.to || self.from > self.to {
            multiply(self.to.divide(self.from), a);
        }
    }

    fn undo<T: Field<Real = R>>(self, a: ViewMut<'_, T>) {
        let inverse = Self { from: self.to, to: self.from };
        if !self.is_zero() {
            inverse.apply(a);
        }
    }
}

/// Multiplies all elements by a real number.
fn multiply<T: Field>(by: T::Real, mut a: ViewMut<'_, T>) {
    for col in 0..a.cols() {
        for row in 0..a.rows() {
            let element = a.get(row, col);
            let of_part = |part: T::Real| part * by;
            a.set(row, col, T::from_parts(of_part(element.re()), of_part(element.im())));
        }
    }
}
