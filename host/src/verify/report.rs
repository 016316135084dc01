//! What a check found.

use std::fmt;

use serde::Serialize;

/// One element that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mismatch {
    /// Row of C.
    pub row: usize,
    /// Column of C.
    pub col: usize,
    /// What the result holds.
    pub found: f64,
    /// What the reference says.
    pub expected: f64,
}

/// What was checked element by element beside a check that looks at whole rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampled {
    /// Elements compared.
    pub checked: usize,
    /// Those that are wrong.
    pub bad: usize,
    /// Largest error, in units of `u * (|alpha||A||B| + |beta||C0|)`.
    pub max_error: f64,
    /// Largest error allowed, in the same units; 0 where results must be exact.
    pub bound: f64,
}

/// What a check found.
///
/// Errors are in units of the type's roundoff `u` times a magnitude: `|alpha||A||B| + |beta||C0|` of
/// the element where elements are compared, `|alpha| ‖a_i‖₂ ‖B‖_F + |beta| ‖c0_i‖₂` of the row where
/// rows are checked by random vectors. Where `bound` is 0 the result must be exact, and errors are
/// plain differences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Report {
    /// How the result was checked: `full`, `freivalds`, `sample` or `none`.
    pub method: &'static str,
    /// Whether nothing wrong was found.
    pub ok: bool,
    /// Largest error found; infinite where a number and something else disagree.
    pub max_error: f64,
    /// Largest error allowed, in the same units.
    pub bound: f64,
    /// How many of `unit` were checked.
    pub checked: usize,
    /// What `checked` and `bad` count: `elements` or `rows`.
    pub unit: &'static str,
    /// Those that are wrong.
    pub bad: usize,
    /// Elements of the wrong ones that hold a NaN where a number is expected.
    pub nan: usize,
    /// Elements of the wrong ones that still hold what the buffer held before the run.
    pub unwritten: usize,
    /// The first wrong element in row order, where one could be named.
    pub first: Option<Mismatch>,
    /// The rows that were compared element by element beside the random vectors.
    pub sampled: Option<Sampled>,
}

impl Report {
    /// The report on a result that nobody looked at.
    pub(super) fn unchecked() -> Self {
        Self {
            method: "none",
            ok: true,
            max_error: 0.0,
            bound: 0.0,
            checked: 0,
            unit: "elements",
            bad: 0,
            nan: 0,
            unwritten: 0,
            first: None,
            sampled: None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, checked, unit, bad, max_error, bound, .. } = *self;
        if *self == Self::unchecked() {
            return f.write_str("not checked");
        }
        let verdict = if self.ok { "ok" } else { "WRONG" };
        write!(f, "{verdict} ({method}): ")?;
        if self.bad > 0 {
            write!(f, "{bad} of ")?;
        }
        write!(f, "{checked} {unit}")?;
        if self.bad > 0 {
            f.write_str(" wrong")?;
        }
        if bound == 0.0 {
            write!(f, ", largest error {max_error:.3}, must be exact")?;
        } else {
            write!(f, ", largest error {max_error:.3} u, allowed {bound:.1} u")?;
        }
        if let Some(Sampled { checked, bad, max_error, bound }) = self.sampled {
            write!(f, "; {checked} elements sampled, {bad} wrong, {max_error:.3} of {bound:.1} u")?;
        }
        if self.nan > 0 {
            write!(f, "; {} NaN", self.nan)?;
        }
        if self.unwritten > 0 {
            write!(f, "; {} never written", self.unwritten)?;
        }
        if let Some(Mismatch { row, col, found, expected }) = self.first {
            write!(f, "; C({row},{col}) is {found:e}, expected {expected:e}")?;
        }
        Ok(())
    }
}
