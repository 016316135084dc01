//! Numbers of bytes as text.

const DECIMAL: [&str; 9] = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
const BINARY: [&str; 9] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"];

/// In units of powers of 1000, with three decimals.
#[must_use]
pub fn decimal(bytes: u128) -> String {
    scaled(bytes, 1000.0, DECIMAL)
}

/// In units of powers of 1024, with three decimals.
#[must_use]
pub fn binary(bytes: u128) -> String {
    scaled(bytes, 1024.0, BINARY)
}

fn scaled(bytes: u128, base: f64, units: [&str; 9]) -> String {
    if (bytes as f64) < base {
        return format!("{bytes} bytes");
    }
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    format!("{value:.3} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_matrices_of_10240_are_slightly_over_1_2_gb() {
        assert_eq!(decimal(3 * 419_430_400), "1.258 GB");
        assert_eq!(binary(3 * 419_430_400), "1.172 GiB");
    }

    #[test]
    fn units_cover_everything() {
        assert_eq!(decimal(0), "0 bytes");
        assert_eq!(binary(1023), "1023 bytes");
        assert_eq!(binary(1024), "1.000 KiB");
        assert!(decimal(u128::MAX).ends_with(" YB"));
    }
}
