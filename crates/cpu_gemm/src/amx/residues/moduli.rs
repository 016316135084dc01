//! The moduli and the constants of the Chinese remainder theorem.

/// Pairwise coprime, so that a number below the product of some of them is known by its residues; odd and small enough
/// that residues nearest to zero are bytes.
const ALL: [u8; 16] =
    [253, 251, 249, 247, 245, 241, 239, 233, 229, 227, 223, 211, 199, 197, 193, 191];

/// A number as three of f64, each of 42 bits at most: sums of their products with residues are exact.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) high: f64,
    pub(super) middle: f64,
    pub(super) low: f64,
}

/// Residues by the first N moduli.
pub(super) struct System<const N: usize>;

impl<const N: usize> System<N> {
    /// The moduli.
    pub(super) const MODULI: [u8; N] = {
        let mut moduli = [0; N];
        let mut index = 0;
        while index < N {
            moduli[index] = ALL[index];
            index += 1;
        }
        moduli
    };

    /// Bits of the integers of which residues are taken: with more moduli more of an element far below its line's
    /// largest is kept than elements have digits.
    pub(super) const BITS: i32 = if N > FEW { 57 } else { 53 };

    /// Whether a quotient may be off by more than a residue nearest to zero allows.
    pub(super) const REDUCES_TWICE: bool = Self::BITS > 53;

    /// The product of the moduli, P.
    const PRODUCT: u128 = {
        let mut product = 1;
        let mut index = 0;
        while index < N {
            product *= Self::MODULI[index] as u128;
            index += 1;
        }
        product
    };

    /// Bits of a part of a number below P.
    const PART: u32 = if N > FEW { 42 } else { 40 };
    /// Bits below the high part, and below the middle part.
    const HIGH: u32 = u128::BITS - Self::PRODUCT.leading_zeros() - Self::PART;
    const MIDDLE: u32 = Self::HIGH - Self::PART;

    const fn parts(number: u128) -> Parts {
        let high = number >> Self::HIGH << Self::HIGH;
        let middle = number >> Self::MIDDLE << Self::MIDDLE;
        Parts { high: high as f64, middle: (middle - high) as f64, low: (number - middle) as f64 }
    }

    /// P, and its reciprocal.
    pub(super) const P: Parts = Self::parts(Self::PRODUCT);
    pub(super) const RECIPROCAL: f64 = 1.0 / Self::PRODUCT as f64;

    /// For each modulus the number below P that is 1 modulo it and 0 modulo the others.
    pub(super) const WEIGHTS: [Parts; N] = {
        let mut weights = [Self::P; N];
        let mut index = 0;
        while index < N {
            let modulus = Self::MODULI[index] as u128;
            let others = Self::PRODUCT / modulus;
            let mut inverse = 1;
            while others % modulus * inverse % modulus != 1 {
                inverse += 1;
            }
            weights[index] = Self::parts(others * inverse);
            index += 1;
        }
        weights
    };

    /// Norms of scaled lines stay below this, whose square is below P / 2: no element of C reaches P / 2. The margin
    /// is for the rounding of norms.
    pub(super) fn largest_norm() -> f64 {
        (Self::PRODUCT as f64 / 2.0).sqrt() * (1.0 - 1e-6)
    }
}

/// Moduli with which an element of C errs by less than what vector units make of it.
pub(super) const FEW: usize = 15;
/// Moduli with which it is the exact one, rounded, where the elements of each line are of one scale.
pub(super) const MANY: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moduli_are_coprime_and_their_residues_bytes() {
        let divisor = |a: u8, b: u8| (2..=a).find(|d| a.is_multiple_of(*d) && b.is_multiple_of(*d));
        for (index, &one) in ALL.iter().enumerate() {
            assert!(one % 2 == 1 && one / 2 <= 126);
            for &other in &ALL[..index] {
                assert_eq!(divisor(one, other), None, "{one} and {other}");
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers")]
    fn weights_are_one_modulo_their_own<const N: usize>() {
        let moduli = System::<N>::MODULI;
        for (index, weight) in System::<N>::WEIGHTS.iter().enumerate() {
            let parts = [weight.high, weight.middle, weight.low];
            let number: u128 = parts.iter().map(|&part| part as u128).sum();
            for (other, &modulus) in moduli.iter().enumerate() {
                assert_eq!(number % u128::from(modulus), u128::from(index == other));
            }
            let units = [System::<N>::HIGH, System::<N>::MIDDLE, 0];
            for (part, unit) in parts.into_iter().zip(units) {
                // What the largest residues and the multiples of P make of a part has 53 bits.
                let sums = moduli.iter().fold(0.0, |sum, &one| sum + f64::from(one / 2 + 1));
                let part = part / f64::from(unit).exp2();
                assert!(part < f64::from(System::<N>::PART).exp2());
                assert!(part * sums <= f64::from(53).exp2());
            }
        }
    }

    #[test]
    fn weights_are_one_modulo_their_own_and_zero_modulo_the_others() {
        weights_are_one_modulo_their_own::<FEW>();
        weights_are_one_modulo_their_own::<MANY>();
    }
}
