//! One Householder reflector: `H = I - tau * v * v^H`, v beginning with 1.

use cpu_gemm::{CpuContext, Field, RealNumber, ViewMut};

use super::column::{multiply_by, norm};

/// How often numbers that are too small are scaled up: as often as any finite one may need.
const MOST_SCALINGS: usize = 20;

/// Finds the reflector whose conjugate transpose turns the column into a multiple of the first unit vector, that being
/// real. The column becomes that number, and below it v without its 1. Gives tau.
pub(super) fn reflect<T: Field>(mut column: ViewMut<'_, T>, context: &CpuContext) -> T {
    let rows = column.rows();
    if rows == 0 {
        return T::ZERO;
    }
    let mut alpha = column.get(0, 0);
    let mut below = column.reborrow().part(1..rows, 0..1);
    let mut length = norm(below.as_view(), context);
    let zero = <T::Real as Field>::ZERO;
    if length == zero && alpha.im() == zero {
        return T::ZERO;
    }
    let of_whole = |alpha: T, length| {
        let length = hypotenuse([alpha.re(), alpha.im(), length]);
        if alpha.re() >= zero { -length } else { length }
    };
    let mut beta = of_whole(alpha, length);
    let least = T::Real::SAFE_MIN.divide(T::Real::EPSILON);
    let mut scalings = 0;
    if beta.abs() < least {
        // Both may be inaccurate.
        let up = <T::Real as Field>::ONE.divide(least);
        while beta.abs() < least && scalings < MOST_SCALINGS {
            scalings += 1;
            multiply_by(T::from_re(up), below.reborrow(), context);
            (beta, alpha) = (beta * up, T::from_parts(alpha.re() * up, alpha.im() * up));
        }
        length = norm(below.as_view(), context);
        beta = of_whole(alpha, length);
    }
    let tau = T::from_parts((beta - alpha.re()).divide(beta), (-alpha.im()).divide(beta));
    multiply_by(T::ONE.divide(alpha - T::from_re(beta)), below, context);
    for _ in 0..scalings {
        beta = beta * least;
    }
    column.set(0, 0, T::from_re(beta));
    tau
}

/// The square root of the sum of three squares, without needless overflow.
fn hypotenuse<R: RealNumber>(parts: [R; 3]) -> R {
    let largest =
        parts.iter().fold(R::ZERO, |most, part| if part.abs() > most { part.abs() } else { most });
    if largest == R::ZERO || !largest.is_finite() {
        // A NaN, or an infinity, is what the sum is.
        return parts.iter().fold(R::ZERO, |sum, part| sum + part.abs());
    }
    let sum = parts.iter().fold(R::ZERO, |sum, part| {
        let part = part.divide(largest);
        sum.add_product(part, part)
    });
    largest * sum.sqrt()
}
