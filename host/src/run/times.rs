//! The times of a row.

/// Times of one result.
pub(super) struct Times {
    pub(super) seconds: f64,
    pub(super) runs: usize,
    /// To the device, kernel, from the device.
    pub(super) split: Option<(f64, f64, f64)>,
    /// What is wrong with the product that the seconds are of, where it is not the one that is checked.
    pub(super) differs: Option<String>,
}

impl Times {
    pub(super) fn of(seconds: f64, runs: usize) -> Self {
        Self { seconds, runs, split: None, differs: None }
    }
}
