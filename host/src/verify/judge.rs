//! The verdict on one element, and the tally of many.

use super::bound::{self, Format};
use super::report::Mismatch;
use super::source::Source;
use crate::scalar::{Scalar, ScalarTypes};

/// Judges elements of C against their reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    /// Largest error allowed, in the units of [`Judge::error`].
    pub(super) bound: f64,
    exact: bool,
    endless: bool,
    format: Format,
    /// Units that are added for what is lost below the normal range.
    floor: f64,
    /// The sum is at most this many times the result: alpha may shrink what overflowed before.
    amplify: f64,
}

impl Judge {
    /// With `exact`, only the reference itself is right. With `endless`, the reference is taken to
    /// be not finite only because finite operands add up to more than f64 holds.
    pub(super) fn new<T: ScalarTypes>(source: &Source<'_, T>, exact: bool, endless: bool) -> Self {
        let format = Format::of(T::TYPES);
        let alpha = source.problem.alpha.to_f64();
        let bound = source.elementwise();
        let amplify = if source.depth() == 0 { 1.0 } else { (1.0 / alpha.abs()).max(1.0) };
        Self {
            bound: if exact { 0.0 } else { bound },
            exact,
            endless,
            format,
            floor: bound::underflow(source.depth(), alpha, format) / bound,
            amplify,
        }
    }

    /// How far `expected` is from what rounds to `found`: in units of `u * scale`, or the difference
    /// itself where results must be exact. Infinite where one is a number and the other is not.
    ///
    /// `scale` is `|alpha||A||B| + |beta||C0|` of the element.
    pub(super) fn error<T: Scalar>(&self, found: T, expected: f64, scale: f64) -> f64 {
        let (low, high) = found.rounded_from();
        let found = found.to_f64();
        if found == expected {
            return 0.0;
        }
        if !expected.is_finite() {
            let both_nan = found.is_nan() && expected.is_nan();
            // In which way a sum leaves f64 depends on its order.
            let agree = both_nan || (self.endless && !found.is_finite());
            return if agree { 0.0 } else { f64::INFINITY };
        }
        if !found.is_finite() && self.may_overflow_to(found, expected, scale) {
            return 0.0;
        }
        if found.is_nan() {
            return f64::INFINITY;
        }
        if self.exact {
            let nearest = T::from_f64(expected).to_f64();
            return if found == nearest { 0.0 } else { (found - nearest).abs() };
        }
        let difference = (low - expected).max(expected - high).max(0.0);
        if difference == 0.0 {
            0.0
        } else if scale == 0.0 {
            f64::INFINITY
        } else {
            difference / (self.format.roundoff * scale + self.floor)
        }
    }

    /// Whether a correct sum may end in this infinity or NaN although the reference is finite: its
    /// positive or its negative terms alone leave the type's range.
    fn may_overflow_to(&self, found: f64, expected: f64, scale: f64) -> bool {
        // The roundings on the way may carry a sum over the edge.
        let edge = self.format.max * (1.0 - (self.bound + 1.0) * self.format.roundoff);
        let passes = |terms: f64| terms / 2.0 * self.amplify >= edge;
        let (up, down) = (passes(scale + expected), passes(scale - expected));
        if found.is_nan() {
            up && down
        } else if found > 0.0 {
            up
        } else {
            down
        }
    }

    /// Counts one element.
    pub(super) fn count<T: Scalar>(&self, tally: &mut Tally, element: Element<T>) {
        let Element { row, col, found, before, expected, scale } = element;
        let error = self.error(found, expected, scale);
        let wrong = !bound::within(error, self.bound);
        let untouched = match before {
            Some(before) => wrong && found.same_bits(before),
            None => (wrong || found.is_nan()) && found.same_bits(T::POISON),
        };
        tally.checked += 1;
        tally.max_error = tally.max_error.max(error);
        if untouched {
            tally.unwritten += 1;
        } else if wrong && found.is_nan() {
            tally.nan += 1;
        }
        if wrong || untouched {
            tally.bad += 1;
            tally.note(Mismatch { row, col, found: found.to_f64(), expected });
        }
    }
}

/// One element of C and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Element<T> {
    pub(super) row: usize,
    pub(super) col: usize,
    pub(super) found: T,
    /// What the buffer held, where the problem reads it; else it was poisoned.
    pub(super) before: Option<T>,
    pub(super) expected: f64,
    pub(super) scale: f64,
}

/// What was found among a number of elements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) checked: usize,
    pub(super) bad: usize,
    pub(super) nan: usize,
    pub(super) unwritten: usize,
    pub(super) max_error: f64,
    pub(super) first: Option<Mismatch>,
}

impl Tally {
    /// Keeps the first mismatch in row order.
    pub(super) fn note(&mut self, found: Mismatch) {
        if self.first.is_none_or(|first| (found.row, found.col) < (first.row, first.col)) {
            self.first = Some(found);
        }
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        self.checked += other.checked;
        self.bad += other.bad;
        self.nan += other.nan;
        self.unwritten += other.unwritten;
        self.max_error = self.max_error.max(other.max_error);
        if let Some(first) = other.first {
            self.note(first);
        }
        self
    }

    /// The same tally with rows and columns exchanged.
    pub(super) fn transposed(mut self) -> Self {
        self.first = self.first.map(|m| Mismatch { row: m.col, col: m.row, ..m });
        self
    }
}
