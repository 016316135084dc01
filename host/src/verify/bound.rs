//! How large an error a correct result may have.

use gemm_spec::{AccType, Types};

use crate::scalar::Scalar;

/// What the bounds need to know of the type in which products are summed up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Largest relative error of one rounding.
    pub(super) roundoff: f64,
    /// Largest finite value.
    pub(super) max: f64,
    /// Largest finite value of the elements of C.
    pub(super) element_max: f64,
    /// Largest absolute error of one rounding below the normal range.
    pub(super) underflow: f64,
    /// Sums of integers whose magnitudes add up to no more than this are exact in any order.
    pub(super) exact_limit: f64,
}

impl Format {
    pub(super) fn of(types: Types) -> Self {
        let acc = types.acc().dtype();
        let roundoff = acc.unit_roundoff();
        let underflow = match types.acc() {
            AccType::F32 => f64::from(f32::from_bits(1)) / 2.0,
            // Half the least f64 is no f64; the least one does as well.
            AccType::F64 => f64::from_bits(1),
            AccType::I32 => 0.0,
        };
        Self {
            roundoff,
            max: acc.largest(),
            element_max: types.c().largest(),
            underflow,
            exact_limit: if acc.is_integer() { f64::INFINITY } else { 1.0 / roundoff },
        }
    }
}

/// Whether an error is allowed; a NaN never is.
pub(super) fn within(error: f64, bound: f64) -> bool {
    error <= bound
}

/// Bound for one element of C, in units of `u * (|alpha||A||B| + |beta||C0|)`.
///
/// `k + 3` can never be passed, whatever the order of the sum: k roundings of the sum, and one each
/// for alpha, beta and their sum. From k = 9 on the bound is `4 sqrt(k)`, at least 8: roundings do
/// not all point the same way, and a bound of k would hide errors that are large beside them. Sums
/// in k order of data that are all positive come to `sqrt(k)`, others stay below 5.
pub(super) fn elementwise(k: usize) -> f64 {
    let k = k as f64;
    (k + 3.0).min((4.0 * k.sqrt()).max(8.0))
}

/// Bound for one row of `C x` with random signs x, in units of
/// `u * (|alpha| ‖a_i‖₂ ‖B‖_F + |beta| ‖c0_i‖₂)`.
///
/// The random signs turn the errors of a row's elements into a random walk, so their sum is a small
/// multiple of their Euclidean norm, which the unit bounds by Cauchy and Schwarz: `max(8, 2 sqrt(k))`.
/// The second term is what the check itself rounds in f64, which is felt where `u` is that of f64:
/// sums of n terms for `B x` and `C x` and of k terms for `A (B x)`.
pub(super) fn projected(n: usize, k: usize, roundoff: f64) -> f64 {
    let (n, k) = (n as f64, k as f64);
    let own = 2.0 * (2.0 * n.sqrt() + k.sqrt()) * (f64::EPSILON / 2.0) / roundoff;
    (2.0 * k.sqrt()).max(8.0) + own
}

/// The most that the last rounding can have moved a number that became `value`: at a power of two the
/// steps on both sides differ.
pub(super) fn rounding<T: Scalar>(value: T) -> f64 {
    let (low, high) = value.rounded_from();
    let value = value.to_f64();
    (high - value).max(value - low)
}

/// What the last roundings of a row's elements may add to its sum with random signs: `widths` are what
/// [`rounding`] says of each.
///
/// The signs are drawn without a look at the roundings, so that by Hoeffding's inequality the sum passes
/// this with probability `2 exp(-32)`.
pub(super) fn rounded_row(widths: impl Iterator<Item = f64>) -> f64 {
    ROUNDED_ROW * widths.map(|width| width * width).sum::<f64>().sqrt()
}

/// See [`rounded_row`].
pub(super) const ROUNDED_ROW: f64 = 8.0;

/// What the result may lose below the type's normal range in one element, as an absolute error.
pub(super) fn underflow(k: usize, alpha: f64, format: Format) -> f64 {
    (k as f64 + 3.0) * format.underflow * alpha.abs().max(1.0)
}

#[cfg(test)]
mod tests {
    use gemm_spec::{bf16, f16};

    use super::*;

    #[test]
    fn the_elementwise_bound_never_passes_the_rigorous_one() {
        assert_eq!(elementwise(0), 3.0);
        assert_eq!(elementwise(1), 4.0);
        assert_eq!(elementwise(5), 8.0);
        assert_eq!(elementwise(10_000), 400.0);
        for k in 0..3000 {
            assert!(elementwise(k) <= k as f64 + 3.0);
            assert!(elementwise(k) <= elementwise(k + 1));
        }
    }

    #[test]
    fn a_rounding_moves_by_half_the_larger_step_at_most() {
        let eight = f16::from_f32(8.0);
        assert_eq!(rounding(eight), 2f64.powi(-8));
        assert_eq!(rounding(-eight), 2f64.powi(-8));
        assert_eq!(rounding(bf16::from_f32(9.0)), 2f64.powi(-5));
        assert_eq!(rounding(f16::ZERO), 2f64.powi(-25));
        assert_eq!(rounding(8.0f32), 0.0);
    }

    #[test]
    fn a_nan_is_never_within_a_bound() {
        assert!(within(0.0, 0.0) && within(3.0, 4.0) && !within(5.0, 4.0));
        assert!(!within(f64::NAN, 4.0) && !within(f64::INFINITY, 4.0) && !within(1.0, f64::NAN));
    }

    #[test]
    fn the_check_itself_is_felt_in_f64_only() {
        let (f32, f64) = (Format::of(Types::F32), Format::of(Types::F64));
        assert!(projected(10_240, 10_240, f32.roundoff) < 202.4);
        assert!(projected(10_240, 10_240, f64.roundoff) > 800.0);
        assert_eq!((f32.exact_limit, f64.exact_limit), (2f64.powi(24), 2f64.powi(53)));
    }
}
