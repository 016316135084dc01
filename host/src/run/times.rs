//! The times of a row.

use crate::measure::Timing;

/// Times of one result.
pub(super) struct Times {
    pub(super) seconds: f64,
    /// Runs that they are the median of; none where they were predicted.
    pub(super) runs: usize,
    /// To the device, kernel, from the device.
    pub(super) split: Option<(f64, f64, f64)>,
    /// What is wrong with the product that the seconds are of, where it is not the one that is checked.
    pub(super) differs: Option<String>,
}

impl Times {
    pub(super) fn of(timing: &Timing) -> Self {
        Self { seconds: timing.median, runs: timing.runs, split: None, differs: None }
    }

    pub(super) fn predicted(seconds: f64) -> Self {
        Self { seconds, runs: 0, split: None, differs: None }
    }
}
