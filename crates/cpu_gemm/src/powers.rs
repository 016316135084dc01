//! Powers of two by multiply-adds, for loops that the compiler makes vector instructions of.

use gemm_spec::Accumulator;
use gemm_spec::fusion::Powers;

/// Powers of two up to 1 as polynomials, with the same bits on every CPU.
///
/// The standard library's are a call for each number.
pub(crate) struct PolynomialPowers;

impl Powers for PolynomialPowers {
    /// `2^(x - n)` as a polynomial, where n is the integer next to x, times `2^n`: within a unit in the last place.
    /// No activation asks for an x above zero.
    #[inline(always)]
    fn exp2(x: f32) -> f32 {
        /// Interpolates `2^f` at the Chebyshev nodes of [-1/2, 1/2], to 3e-9 of it.
        const TERMS: [f32; 7] = [
            1.0,
            std::f32::consts::LN_2,
            0.240_226_5,
            0.055_503_27,
            0.009_618_057,
            0.001_340_042_8,
            0.000_154_614_45,
        ];
        /// The exponent of the least normal number.
        const LEAST: f32 = -126.0;
        /// Numbers next to it are integers, and their low bits count them from it on.
        const INTEGERS: f32 = 12_582_912.0;
        let within = if x > LEAST { x } else { LEAST };
        let counted = within + INTEGERS;
        let f = within - (counted - INTEGERS);
        let mut sum = Accumulator::mul_add(TERMS[6], f, TERMS[5]);
        sum = Accumulator::mul_add(sum, f, TERMS[4]);
        sum = Accumulator::mul_add(sum, f, TERMS[3]);
        sum = Accumulator::mul_add(sum, f, TERMS[2]);
        sum = Accumulator::mul_add(sum, f, TERMS[1]);
        sum = Accumulator::mul_add(sum, f, TERMS[0]);
        // The bias of the exponent is that of one; all that is not counted is shifted out.
        let power = f32::from_bits((counted.to_bits() << 23).wrapping_add(1f32.to_bits()));
        if x < LEAST { 0.0 } else { sum * power }
    }

    #[inline(always)]
    fn reciprocal(x: f32) -> f32 {
        x.recip()
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::Activation;
    use gemm_spec::fusion::HostPowers;

    use super::*;

    #[test]
    fn powers_are_within_a_unit_in_the_last_place() {
        for step in 0..=1_280_000 {
            let x = step as f32 * -1e-4;
            let (found, wanted) = (PolynomialPowers::exp2(x), f64::from(x).exp2());
            if x < -126.0 {
                assert_eq!(found, 0.0, "{x}");
                continue;
            }
            let error = (f64::from(found) - wanted).abs() / wanted;
            assert!(error <= f64::from(f32::EPSILON), "{x} is off by {error:e}");
        }
        assert_eq!(PolynomialPowers::exp2(0.0), 1.0);
        assert_eq!(PolynomialPowers::exp2(-0.0), 1.0);
        assert_eq!(PolynomialPowers::exp2(-126.0), f32::MIN_POSITIVE);
        assert_eq!(PolynomialPowers::exp2(-1e6), 0.0);
        assert_eq!(PolynomialPowers::exp2(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn activations_are_those_of_the_standard_library_to_rounding() {
        for activation in Activation::ALL {
            for step in -30_000..=30_000i16 {
                let x = f32::from(step) * 3e-4;
                let found = activation.apply::<PolynomialPowers>(x);
                let wanted = activation.apply::<HostPowers>(x);
                let off = (found - wanted).abs();
                assert!(off <= 4e-7 * wanted.abs(), "{} of {x} is {found}", activation.name());
            }
            for x in [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 0.0] {
                let found = activation.apply::<PolynomialPowers>(x);
                assert_eq!(
                    found,
                    activation.apply::<HostPowers>(x),
                    "{} of {x}",
                    activation.name()
                );
            }
            assert!(activation.apply::<PolynomialPowers>(f32::NAN).is_nan());
        }
    }
}
