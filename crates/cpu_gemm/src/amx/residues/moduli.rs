//! The moduli and the constants of the Chinese remainder theorem.

/// Pairwise coprime, so that a number below their product is known by its residues; odd and small enough
/// that residues nearest to zero are bytes.
pub(super) const MODULI: [u8; COUNT] =
    [253, 251, 249, 247, 245, 241, 239, 233, 229, 227, 223, 211, 199, 197];

/// How many there are.
pub(super) const COUNT: usize = 14;

/// Their product, P.
const PRODUCT: u128 = {
    let mut product = 1;
    let mut index = 0;
    while index < COUNT {
        product *= MODULI[index] as u128;
        index += 1;
    }
    product
};

/// Bits below the high part of a number of the size of [`PRODUCT`], and below its middle part.
const HIGH: u32 = 70;
const MIDDLE: u32 = 30;

/// A number as three of f64, each of 40 bits at most: sums of their products with residues are exact.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) high: f64,
    pub(super) middle: f64,
    pub(super) low: f64,
}

impl Parts {
    const fn of(number: u128) -> Self {
        let high = number >> HIGH << HIGH;
        let middle = number >> MIDDLE << MIDDLE;
        Self { high: high as f64, middle: (middle - high) as f64, low: (number - middle) as f64 }
    }
}

/// P, and its reciprocal.
pub(super) const P: Parts = Parts::of(PRODUCT);
pub(super) const RECIPROCAL: f64 = 1.0 / PRODUCT as f64;

/// For each modulus the number below P that is 1 modulo it and 0 modulo the others.
pub(super) const WEIGHTS: [Parts; COUNT] = {
    let mut weights = [P; COUNT];
    let mut index = 0;
    while index < COUNT {
        let modulus = MODULI[index] as u128;
        let others = PRODUCT / modulus;
        let mut inverse = 1;
        while others % modulus * inverse % modulus != 1 {
            inverse += 1;
        }
        weights[index] = Parts::of(others * inverse);
        index += 1;
    }
    weights
};

/// Norms of scaled lines stay below this, whose square is below P / 2: no element of C reaches P / 2. The margin
/// is for the rounding of norms.
pub(super) fn largest_norm() -> f64 {
    (PRODUCT as f64 / 2.0).sqrt() * (1.0 - 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moduli_are_coprime_and_their_residues_bytes() {
        let divisor = |a: u8, b: u8| (2..=a).find(|d| a.is_multiple_of(*d) && b.is_multiple_of(*d));
        for (index, &one) in MODULI.iter().enumerate() {
            assert!(one % 2 == 1 && one / 2 <= 126);
            for &other in &MODULI[..index] {
                assert_eq!(divisor(one, other), None, "{one} and {other}");
            }
        }
        assert_eq!(u128::BITS - PRODUCT.leading_zeros(), HIGH + 40);
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers")]
    fn weights_are_one_modulo_their_own_and_zero_modulo_the_others() {
        for (index, weight) in WEIGHTS.iter().enumerate() {
            let parts = [weight.high, weight.middle, weight.low];
            let number: u128 = parts.iter().map(|&part| part as u128).sum();
            for (other, &modulus) in MODULI.iter().enumerate() {
                assert_eq!(number % u128::from(modulus), u128::from(index == other));
            }
            for (part, unit) in parts.into_iter().zip([HIGH, MIDDLE, 0]) {
                assert!(part / f64::from(unit).exp2() < f64::from(40).exp2());
            }
        }
    }
}
