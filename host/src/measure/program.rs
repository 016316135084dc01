//! Which program wrote a document, on which day, and what it was told.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The program that wrote a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The day, as in 2026-11-22, by UTC.
    pub date: String,
    /// The words of its command line.
    pub command: Vec<String>,
}

impl Program {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        let told = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            date: today(),
            command: std::iter::once("tessera".to_owned()).chain(told).collect(),
        }
    }
}

/// The day, by UTC.
pub(crate) fn today() -> String {
    date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400)
}

/// The day that many days after 1 January 1970, in the Gregorian calendar.
fn date(days: u64) -> String {
    // Years are counted from March, so that a leap day is a year's last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        let dates = [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29")];
        for (days, expected) in dates.into_iter().chain([(20_779, "2026-11-22")]) {
            assert_eq!(date(days), expected);
        }
    }
}
