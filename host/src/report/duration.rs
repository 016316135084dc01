//! Durations as text, one function for each unit.

/// Seconds: three decimals from one second up, three significant digits below.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() || seconds <= 0.0 {
        return format!("{seconds:.3}");
    }
    if seconds >= 0.1 {
        return format!("{seconds:.3}");
    }
    // 0.05 has its first digit at the second decimal: two more make three digits.
    #[expect(clippy::cast_possible_truncation, reason = "whole, and below 400 for any f64")]
    let first_digit = -seconds.log10().floor() as usize;
    format!("{seconds:.*}", first_digit + 2)
}

/// Minutes with three decimals, as in the seeds' table.
#[must_use]
pub fn minutes(seconds: f64) -> String {
    format!("{:.3}", seconds / 60.0)
}

/// Hours with three decimals, as in the seeds' table.
#[must_use]
pub fn hours(seconds: f64) -> String {
    format!("{:.3}", seconds / 3600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_keep_three_digits() {
        for (value, text) in [
            (24_881.302, "24881.302"),
            (1.0, "1.000"),
            (0.24, "0.240"),
            (0.1, "0.100"),
            (0.05, "0.0500"),
            (0.012_345, "0.0123"),
            (0.000_012_34, "0.0000123"),
            (0.001, "0.00100"),
            (0.0, "0.000"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }

    #[test]
    fn minutes_and_hours_are_rounded_not_cut() {
        assert_eq!(minutes(24_881.302), "414.688");
        assert_eq!(hours(57.002), "0.016");
    }
}
