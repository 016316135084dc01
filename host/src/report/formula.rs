//! A product as it is written down: `C = 1.5 A B - 0.5 C`.

/// The product of A and B with these factors; what adds nothing is left out.
pub(super) fn formula(alpha: f64, beta: f64) -> String {
    let product = match alpha {
        1.0 => "C = A B".to_owned(),
        -1.0 => "C = -A B".to_owned(),
        _ => format!("C = {} A B", number(alpha)),
    };
    if beta == 0.0 {
        return product;
    }
    let sign = if beta.is_sign_negative() && !beta.is_nan() { '-' } else { '+' };
    match beta.abs() {
        1.0 => format!("{product} {sign} C"),
        size => format!("{product} {sign} {} C", number(size)),
    }
}

/// With an exponent where the digits would be mostly zeros.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-4..1e15 => value.to_string(),
        _ if value.is_finite() => format!("{value:e}"),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_written_as_by_hand() {
        for (alpha, beta, written) in [
            (1.0, 0.0, "C = A B"),
            (2.0, 0.0, "C = 2 A B"),
            (1e39, 0.0, "C = 1e39 A B"),
            (-2.5e-7, -0.0, "C = -2.5e-7 A B"),
            (-1.0, 1.0, "C = -A B + C"),
            (1.5, -0.5, "C = 1.5 A B - 0.5 C"),
            (0.0, -1.0, "C = 0 A B - C"),
            (1.0, 1e-40, "C = A B + 1e-40 C"),
            (f64::INFINITY, f64::NEG_INFINITY, "C = inf A B - inf C"),
            (1.0, f64::NAN, "C = A B + NaN C"),
        ] {
            assert_eq!(formula(alpha, beta), written);
        }
    }
}
