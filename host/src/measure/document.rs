//! What a measurement found, as a document.

use serde::{Deserialize, Serialize};

use super::Program;

/// What was measured, the rows, and what has none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document<H, R> {
    /// What holds for all rows.
    #[serde(flatten)]
    pub head: H,
    /// What wrote it; documents of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// What was found, in the order in which it is shown.
    pub rows: Vec<R>,
    /// What has no row.
    pub skipped: Vec<Skipped>,
}

impl<H, R> Document<H, R> {
    /// One of this process, in which nothing was found yet.
    #[must_use]
    pub fn new(head: H) -> Self {
        Self { head, program: Some(Program::this()), rows: Vec::new(), skipped: Vec::new() }
    }

    /// Adds why an implementation has no row, at one size (m, n and k) or at none; what is said already
    /// is not said again.
    pub(crate) fn skip(&mut self, kernel: &str, size: Option<[usize; 3]>, reason: String) {
        let skipped = Skipped { kernel: kernel.to_owned(), size, reason };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }
}

/// An implementation that has no row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The implementation.
    pub kernel: String,
    /// Rows, columns and steps; `None` where it takes part at no size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<[usize; 3]>,
    /// Why.
    pub reason: String,
}
