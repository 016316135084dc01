//! Guesses about alpha and beta: the value that explains the result is solved for, then tested.

use super::guess::Guess;
use super::pattern::{Factor, Pattern};
use super::scene::{Sample, Scene, Survey};
use crate::scalar::{Scalar, ScalarTypes};

/// Wrong elements without which any value could be made to fit.
const LEAST: usize = 3;

impl<T: ScalarTypes> Scene<'_, T> {
    pub(super) fn wrong_factor(&self, survey: &Survey, factor: Factor) -> Vec<Guess<'_>> {
        let (alpha, beta) = (self.alpha, self.beta);
        let own = if factor == Factor::Alpha { alpha } else { beta };
        if factor == Factor::Beta && self.before.is_none() || survey.wrong.len() < LEAST {
            return Vec::new();
        }
        let likely = [
            0.0,
            1.0,
            -1.0,
            2.0,
            -own,
            alpha,
            beta,
            alpha * beta,
            alpha * alpha,
            1.0 / own,
            own + 1.0,
        ];
        let mut values = likely.to_vec();
        values.extend(self.solved(&survey.wrong, factor, &likely));
        values.retain(|value| value.is_finite() && *value != own);
        if T::TYPES.is_integer() {
            values.retain(|value| value.trunc() == *value && value.abs() < f64::from(1 << 30));
        }
        // Beta one too large is an old C that was added on top, which has a name of its own.
        values.retain(|value| factor == Factor::Alpha || *value != beta + 1.0 || beta == -1.0);
        let guess = |value| {
            Guess::value(Pattern::WrongFactor { factor, value }, move |row, col| {
                let (alpha, beta) = match factor {
                    Factor::Alpha => (value, beta),
                    Factor::Beta => (alpha, value),
                };
                self.store_with(row, col, &self.dot(row, col, 0..self.depth), alpha, beta)
            })
        };
        values.into_iter().map(guess).collect()
    }

    /// The factor that fits the wrong elements best by least squares; a likely one where it is near.
    fn solved(&self, wrong: &[Sample], factor: Factor, likely: &[f64]) -> Option<f64> {
        let (mut over, mut under) = (0.0, 0.0);
        for sample in wrong {
            let product = self.dot(sample.row, sample.col, 0..self.depth).value();
            let old = self.before.map_or(0.0, |before| before.at(sample.row, sample.col).to_f64());
            let old = if self.before.is_some() { old } else { 0.0 };
            let (term, rest) = match factor {
                Factor::Alpha if self.beta == 0.0 => (product, 0.0),
                Factor::Alpha => (product, self.beta * old),
                Factor::Beta => (old, self.alpha * product),
            };
            over += (sample.found - rest) * term;
            under += term * term;
        }
        let value = over / under;
        if !value.is_finite() {
            return None;
        }
        let rounded = T::Acc::from_f64(value).to_f64();
        let near = |likely: &&f64| (value - **likely).abs() <= 1e-4 * likely.abs().max(1e-3);
        // A typed value has few digits; take it where it is next to what was solved for.
        let typed = (value * 1e4).round() / 1e4;
        let close = (value - typed).abs() <= 1e-6 * value.abs();
        Some(likely.iter().find(near).copied().unwrap_or(if close { typed } else { rounded }))
    }
}
