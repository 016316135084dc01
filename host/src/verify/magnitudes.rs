//! How large errors can be before any is seen: from the sizes of rows and columns, in `O(n²)`.

use super::bound::{self, Format};
use super::profile::{Profile, largest};
use super::project::WHAT;
use super::source::Source;
use super::{VerifyError, reserved};
use crate::scalar::{Scalar, ScalarTypes};

/// Sums of integers up to here are exact in f64.
const EXACT_F64: f64 = (1u64 << 53) as f64;
/// Magnitudes whose squares f64 can add up, either way.
const SQUARABLE: std::ops::Range<f64> = 1e-140..1e140;

/// What the operands' sizes say about the result's.
pub(super) struct Magnitudes {
    pub(super) format: Format,
    /// Whether operands and factors are.
    pub(super) finite: bool,
    /// Whether integers of these sizes have exact sums that the elements hold, and exact ones in the
    /// check.
    pub(super) exact: bool,
    /// Whether a correct result can leave the type's range.
    pub(super) may_overflow: bool,
    /// `‖a_i‖₂` of each row.
    a_rows: Vec<f64>,
    b_norm: f64,
    /// `‖c0_i‖₂` of each row, if C0 is read.
    c_rows: Vec<f64>,
}

impl Magnitudes {
    pub(super) fn of<T: ScalarTypes>(source: &Source<'_, T>) -> Result<Self, VerifyError> {
        let format = Format::of(T::TYPES);
        let (alpha, beta) = (source.problem.alpha.to_f64(), source.problem.beta.to_f64());
        let (a, b) = (Profile::of(source.a)?, Profile::of(source.b)?);
        let c = source.c_before.map(Profile::of).transpose()?;
        for profile in [&a, &b].into_iter().chain(&c) {
            if profile.max() != 0.0 && !SQUARABLE.contains(&profile.max()) {
                return Err(VerifyError::Range { magnitude: profile.max() });
            }
        }
        let old = |size: fn(&Profile) -> f64| c.as_ref().map_or(0.0, |c| beta.abs() * size(c));
        let product = a.product_bound(&b);
        let element = alpha.abs() * product + old(Profile::max);
        let row = a.col.max.iter().zip(&b.row.sum).map(|(a, b)| a * b).sum::<f64>();
        let row = alpha.abs() * row + old(|c| largest(&c.row.sum));
        // A little less than the range: the roundings may carry a sum over its edge.
        let reach = alpha.abs().max(1.0) * product + old(Profile::max);
        let roots = |squares: Vec<f64>| squares.into_iter().map(f64::sqrt).collect();
        Ok(Self {
            format,
            finite: [&a, &b].into_iter().chain(&c).all(|profile| profile.finite)
                && alpha.is_finite()
                && beta.is_finite(),
            exact: element <= format.exact_limit.min(1.0 / T::TYPES.c().unit_roundoff())
                && row <= EXACT_F64,
            may_overflow: !bound::within(reach, format.element_max * 0.99),
            b_norm: b.norm(),
            a_rows: roots(a.row.squares),
            c_rows: c.map_or(vec![], |c| roots(c.row.squares)),
        })
    }

    /// The unit of each row's error.
    pub(super) fn units<T: ScalarTypes>(
        &self,
        source: &Source<'_, T>,
        bound: f64,
    ) -> Result<Vec<f64>, VerifyError> {
        let (alpha, beta) = (source.problem.alpha.to_f64(), source.problem.beta.to_f64());
        let lost = bound::underflow(source.depth(), alpha, self.format);
        let floor = source.problem.n as f64 * lost / bound;
        let unit = |(row, a): (usize, &f64)| {
            let old = self.c_rows.get(row).map_or(0.0, |c| beta.abs() * c);
            self.format.roundoff * (alpha.abs() * a * self.b_norm + old) + floor
        };
        let mut units = reserved(self.a_rows.len(), WHAT)?;
        units.extend(self.a_rows.iter().enumerate().map(unit));
        let factors_finite = alpha.is_finite() && beta.is_finite();
        match units.iter().find(|unit: &&f64| !unit.is_finite()) {
            // An endless unit would let everything pass.
            Some(&unit) if factors_finite => Err(VerifyError::Range { magnitude: unit }),
            _ => Ok(units),
        }
    }
}
