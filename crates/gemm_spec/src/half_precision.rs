//! The element types of 16 bits, whose sums are f32.
//!
//! Both conversions are plain arithmetic on bits without a branch, so that a loop of them becomes
//! vector instructions on any CPU.

use half::{bf16, f16};

use crate::{Convert, DType, Element};

macro_rules! half_element {
    ($half:ident, $dtype:ident, $widened:ident, $narrowed:ident) => {
        impl Element for $half {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = Self::ZERO;
            const ONE: Self = Self::ONE;
        }

        impl Convert<f32> for $half {
            #[inline(always)]
            fn widen(self) -> f32 {
                $widened(self.to_bits())
            }

            #[inline(always)]
            fn narrow(value: f32) -> Self {
                Self::from_bits($narrowed(value))
            }
        }
    };
}

half_element!(f16, F16, f16_to_f32, f32_to_f16);
half_element!(bf16, BF16, bf16_to_f32, f32_to_bf16);

/// The bits of an f32 without its sign, where they are those of infinity.
const INFINITY: u32 = 0x7f80_0000;
/// Bits of the significand that f32 has and f16 has not.
const DROPPED: u32 = 13;
/// By how much the exponent's bias of f32 is above that of f16.
const REBIAS: u32 = 127 - 15;

#[inline(always)]
fn f16_to_f32(bits: u16) -> f32 {
    /// The exponent field of f16 that belongs to infinities and NaNs, as an f32 once rebiased.
    const ENDLESS: f32 = 65536.0;
    let bits = u32::from(bits);
    // Shifted into an f32, the bits represent the value times 2^-112, subnormal ones too: the
    // product with 2^112 is exact and gives those their leading bit.
    let magnitude = f32::from_bits((bits & 0x7fff) << DROPPED);
    let value = magnitude * f32::from_bits((127 + REBIAS) << 23);
    let endless = if value >= ENDLESS { INFINITY } else { 0 };
    f32::from_bits(value.to_bits() | endless | (bits & 0x8000) << 16)
}

#[inline(always)]
fn f32_to_f16(value: f32) -> u16 {
    /// The least normal f16, 2^-14, as an f32.
    const NORMAL: u32 = (127 - 14) << 23;
    const F16_INFINITY: u32 = 0x7c00;
    const F16_NAN: u32 = 0x7e00;
    let bits = value.to_bits();
    let magnitude = bits & !(1 << 31);
    // Adding half of the last place that stays, less one where the place is even, carries where it
    // should; a carry out of the largest finite value gives infinity.
    let even = magnitude >> DROPPED & 1;
    let rounded = magnitude.wrapping_add((1 << (DROPPED - 1)) - 1).wrapping_add(even);
    let normal = (rounded.wrapping_sub(REBIAS << 23) >> DROPPED).min(F16_INFINITY);
    // The last place of 0.5 is 2^-24, that of a subnormal f16: the sum is rounded to it.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < NORMAL { subnormal } else { normal };
    let unsigned = if magnitude > INFINITY { F16_NAN } else { finite };
    low_half(unsigned | bits >> 16 & 0x8000)
}

#[inline(always)]
fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[inline(always)]
fn f32_to_bf16(value: f32) -> u16 {
    const QUIET: u32 = 0x0040;
    let bits = value.to_bits();
    let even = bits >> 16 & 1;
    let rounded = bits.wrapping_add(0x7fff).wrapping_add(even) >> 16;
    // Rounding could carry a NaN's payload away.
    let nan = bits >> 16 | QUIET;
    low_half(if bits & !(1 << 31) > INFINITY { nan } else { rounded })
}

/// The low 16 bits: of what is shifted down to them all there is.
#[inline(always)]
fn low_half(bits: u32) -> u16 {
    let [low, high, _, _] = bits.to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GemmTypes;

    /// Checks every value of a type against an independent conversion.
    fn every<T: Convert<f32>>(of: fn(u16) -> T, known: fn(T) -> f64) {
        for bits in 0..=u16::MAX {
            let (value, known) = (of(bits), known(of(bits)));
            let wide = value.widen();
            if known.is_nan() {
                assert!(wide.is_nan() && T::narrow(wide) != T::narrow(wide), "{bits:#06x}");
                continue;
            }
            assert!(
                f64::from(wide) == known && wide.is_sign_negative() == (bits >> 15 == 1),
                "{bits:#06x} is {wide:e}, not {known:e}"
            );
            assert_eq!(T::narrow(wide), value, "{bits:#06x}");
            let negative = T::narrow(wide).widen().is_sign_negative();
            assert_eq!(negative, wide.is_sign_negative(), "{bits:#06x}");
        }
    }

    #[test]
    fn every_value_keeps_its_bits_there_and_back() {
        every(f16::from_bits, f16::to_f64_const);
        every(bf16::from_bits, bf16::to_f64_const);
    }

    /// Between each value and the next: the middle goes to the even one, what is beside it to the
    /// nearer one.
    fn ties<T: Convert<f32>>(of: fn(u16) -> T, largest: u16) {
        for bits in 0..largest {
            let (low, high) = (of(bits), of(bits + 1));
            // Exact: both have few bits, and a sum of f64 does not overflow.
            let middle = f64::midpoint(low.widen().into(), high.widen().into());
            #[expect(clippy::cast_possible_truncation, reason = "exact, as the comment says")]
            let middle = middle as f32;
            assert!(low.widen() < middle && middle < high.widen(), "{bits:#06x}");
            let even = if bits % 2 == 0 { low } else { high };
            for (value, nearest) in
                [(middle, even), (middle.next_down(), low), (middle.next_up(), high)]
            {
                assert_eq!(T::narrow(value), nearest, "{value:e}");
                assert_eq!(T::narrow(-value).widen(), -nearest.widen(), "{value:e}");
            }
        }
    }

    #[test]
    fn the_middle_between_two_values_goes_to_the_even_one() {
        ties(f16::from_bits, 0x7bff);
        ties(bf16::from_bits, 0x7f7f);
    }

    #[test]
    fn what_is_beyond_the_largest_is_infinite_from_half_a_place_on() {
        for (value, narrow) in [
            (65504.0, 65504.0),
            (65519.996, 65504.0),
            (65520.0, f32::INFINITY),
            (65536.0, f32::INFINITY),
            (f32::MAX, f32::INFINITY),
            (f32::INFINITY, f32::INFINITY),
        ] {
            assert_eq!(f16::narrow(value).widen(), narrow, "{value}");
            assert_eq!(f16::narrow(-value).widen(), -narrow, "{value}");
        }
        let largest = bf16::MAX.widen();
        let half_a_place = 2f32.powi(127 - 8);
        assert_eq!(bf16::narrow((largest + half_a_place).next_down()), bf16::MAX);
        assert_eq!(bf16::narrow(largest + half_a_place), bf16::INFINITY);
        assert_eq!(bf16::narrow(f32::MIN), bf16::NEG_INFINITY);
    }

    #[test]
    fn a_nan_of_any_payload_stays_one() {
        for bits in [0x7f80_0001, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff, 0x7fc0_0000, 0x7f80_ffff] {
            let nan = f32::from_bits(bits);
            assert!(f16::narrow(nan).is_nan() && bf16::narrow(nan).is_nan(), "{bits:#x}");
            assert_eq!(f16::narrow(nan).is_sign_negative(), nan.is_sign_negative());
        }
    }

    /// Every f32 whose low bits follow a pattern, against another implementation.
    #[test]
    fn narrowing_is_that_of_the_crate_half() {
        for high in 0..=u16::MAX {
            for low in [0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(high) << 16 | low);
                if value.is_nan() {
                    continue;
                }
                assert_eq!(
                    f16::narrow(value).to_bits(),
                    f16::from_f32_const(value).to_bits(),
                    "{value:e}"
                );
                assert_eq!(
                    bf16::narrow(value).to_bits(),
                    bf16::from_f32_const(value).to_bits(),
                    "{value:e}"
                );
            }
        }
    }

    #[test]
    fn sums_are_those_of_f32() {
        let third = f16::narrow(1.0 / 3.0);
        assert_eq!(<f16 as GemmTypes>::mul(third, third), third.widen() * third.widen());
        // A sum of 16 bits would lose the product of the small ones.
        let small = f16::narrow(2f32.powi(-10));
        assert_eq!(<f16 as GemmTypes>::mul_add(small, small, 1.0), 1.0 + 2f32.powi(-20));
        assert_eq!(<(bf16, f32)>::mul_add(bf16::ONE, bf16::ONE, 256.0), 257.0);
    }
}
