//! The verdict on a result, as documents hold it.

use serde::{Deserialize, Deserializer, Serialize};

use crate::scalar::ScalarTypes;
use crate::verify::{Guarded, Report};

/// The verdict on one result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// How it was checked.
    pub method: String,
    /// Whether it is right.
    pub ok: bool,
    /// Largest error found, in the units that `docs/measuring.md` explains; infinite where an element is
    /// no number, which JSON writes as `null`.
    #[serde(deserialize_with = "or_infinite")]
    pub max_error: f64,
    /// Largest error allowed, in the same units.
    #[serde(deserialize_with = "or_infinite")]
    pub bound: f64,
    /// What is wrong, in words, where something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Verdict {
    /// What a check has found in a guarded buffer. A write outside of C is an error whatever C holds.
    pub(crate) fn new<T: ScalarTypes>(report: &Report, c: &Guarded<T>) -> Self {
        let mut verdict = Self::of(report);
        if let Err(error) = c.intact() {
            verdict.ok = false;
            verdict.detail = Some(error.to_string());
        }
        verdict
    }

    /// What a check has found.
    pub(crate) fn of(report: &Report) -> Self {
        Self {
            method: report.method.to_owned(),
            ok: report.ok,
            max_error: report.max_error,
            bound: report.bound,
            detail: (!report.ok).then(|| report.to_string()),
        }
    }

    /// Both verdicts as one: the first that is wrong, and the larger error.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let max_error = self.max_error.max(other.max_error);
        let worse = if self.ok && !other.ok { other } else { self };
        Self { max_error, ..worse }
    }
}

fn or_infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ok: bool, max_error: f64) -> Verdict {
        let method = "full".to_owned();
        Verdict { method, ok, max_error, bound: 1.0, detail: (!ok).then(|| "wrong".to_owned()) }
    }

    #[test]
    fn the_first_wrong_verdict_stands_with_the_largest_error() {
        let (right, wrong) = (verdict(true, 0.5), verdict(false, 0.25));
        for both in [right.clone().and(wrong.clone()), wrong.clone().and(right.clone())] {
            assert_eq!(both, Verdict { max_error: 0.5, ..wrong.clone() });
        }
        assert_eq!(right.clone().and(verdict(true, 0.75)), verdict(true, 0.75));
    }

    #[test]
    fn a_result_without_numbers_is_written_and_read() {
        let wrong = verdict(false, f64::INFINITY);
        let text = serde_json::to_string(&wrong).unwrap();
        assert!(text.contains("\"max_error\":null"), "{text}");
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), wrong);
    }
}
