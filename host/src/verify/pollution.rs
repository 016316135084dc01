//! Where a NaN or an infinity of the operands comes through to C.

use rayon::prelude::*;

use super::project::WHAT;
use super::source::{Source, View, real};
use super::{VerifyError, reserved};
use crate::scalar::{Scalar, ScalarTypes};

/// The rows and columns of C that hold nothing finite, because their row of A or their column of B
/// does not, or because alpha or beta is not finite.
pub(super) struct Pollution {
    everything: bool,
    pub(super) rows: Vec<bool>,
    pub(super) cols: Vec<bool>,
}

impl Pollution {
    pub(super) fn of<T: ScalarTypes>(source: &Source<'_, T>) -> Result<Self, VerifyError> {
        let factors = [source.problem.alpha, source.problem.beta];
        Ok(Self {
            everything: factors.iter().any(|factor| !factor.to_f64().is_finite()),
            rows: rows_with_pollution(source.a)?,
            cols: rows_with_pollution(source.b.transposed())?,
        })
    }

    /// Whether element (row, col) of C cannot be finite.
    pub(super) fn reaches<T: ScalarTypes>(
        &self,
        source: &Source<'_, T>,
        row: usize,
        col: usize,
    ) -> bool {
        let old = |c: View<'_, T::C>| !real(c.at(row, col)).is_finite();
        self.everything || self.rows[row] || self.cols[col] || source.c_before.is_some_and(old)
    }

    /// Takes back the errors of rows that the vectors say nothing about, and makes those infinite
    /// in which something finite stands where it cannot, or the other way round.
    pub(super) fn correct<T: ScalarTypes>(
        &self,
        source: &Source<'_, T>,
        c: View<'_, T::C>,
        errors: &mut [f64],
    ) {
        errors.par_iter_mut().enumerate().for_each(|(row, error)| {
            let finite = |value: T::C| real(value).is_finite();
            let old = |c: View<'_, T::C>| (0..c.cols).any(|col| !finite(c.at(row, col)));
            if self.everything || self.rows[row] || source.c_before.is_some_and(old) {
                *error = 0.0;
            }
            if (0..c.cols).any(|col| finite(c.at(row, col)) == self.reaches(source, row, col)) {
                *error = f64::INFINITY;
            }
        });
    }
}

fn rows_with_pollution<T: Scalar>(view: View<'_, T>) -> Result<Vec<bool>, VerifyError> {
    let mut polluted = reserved(view.rows, WHAT)?;
    polluted.resize(view.rows, false);
    for line in 0..view.lines() {
        for (at, value) in view.line(line).iter().enumerate() {
            polluted[if view.by_rows() { line } else { at }] |= !real(*value).is_finite();
        }
    }
    Ok(polluted)
}
