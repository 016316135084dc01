//! What the host needs of an element type beyond what the library needs.

use gemm_spec::{Convert, bf16, f16};

/// An element type that the host can fill, print, poison and compare.
///
/// The trait is sealed, as the library's is.
pub trait Scalar: tessera::Element {
    /// What a result buffer holds before a run, so that an element nobody wrote is recognised: a NaN
    /// for floats, a rare value for integers.
    const POISON: Self;

    /// The value as f64; exact for every type here.
    fn to_f64(self) -> f64;

    /// The nearest value of this type; integers saturate, and NaN becomes 0 there.
    fn from_f64(value: f64) -> Self;

    /// The numbers that round to this value, from the least to the largest: the value alone for types
    /// that sums are of, whose results are not rounded again.
    fn rounded_from(self) -> (f64, f64);

    /// Whether both have the same bits, so that NaN equals itself and 0 differs from -0.
    fn same_bits(self, other: Self) -> bool;

    /// Whether this is a NaN.
    fn is_nan(self) -> bool;

    /// The values that differ from this one in a single bit, from the lowest bit up.
    fn bit_flips(self) -> impl Iterator<Item = Self>;
}

/// The types of a product whose operands the host can fill, print, poison and compare: all that the
/// library multiplies.
pub trait ScalarTypes: tessera::GemmTypes<A: Scalar, B: Scalar, Acc: Scalar, C: Scalar> {}

impl<T: tessera::GemmTypes<A: Scalar, B: Scalar, Acc: Scalar, C: Scalar>> ScalarTypes for T {}

macro_rules! float_scalar {
    ($float:ident, $poison:expr) => {
        impl Scalar for $float {
            const POISON: Self = $float::from_bits($poison);

            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            #[allow(clippy::cast_possible_truncation, reason = "rounded, where it is f32")]
            fn from_f64(value: f64) -> Self {
                value as $float
            }

            #[inline]
            fn rounded_from(self) -> (f64, f64) {
                (self.to_f64(), self.to_f64())
            }

            #[inline]
            fn same_bits(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }

            #[inline]
            fn is_nan(self) -> bool {
                $float::is_nan(self)
            }

            fn bit_flips(self) -> impl Iterator<Item = Self> {
                let bits = self.to_bits();
                (0..8 * size_of::<Self>()).map(move |bit| $float::from_bits(bits ^ (1 << bit)))
            }
        }
    };
}

// Quiet NaNs with a payload of their own.
float_scalar!(f32, 0x7fd0_dead);
float_scalar!(f64, 0x7ffd_dead_dead_dead);

macro_rules! half_scalar {
    ($half:ident, $poison:expr, $beyond:expr) => {
        impl Scalar for $half {
            const POISON: Self = $half::from_bits($poison);

            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self.widen())
            }

            #[inline]
            fn from_f64(value: f64) -> Self {
                Self::narrow(to_odd(value))
            }

            #[inline]
            fn rounded_from(self) -> (f64, f64) {
                // Infinity stands where the next value would.
                let size = |bits: u16| match $half::from_bits(bits).to_f64() {
                    size if size.is_infinite() => $beyond,
                    size => size,
                };
                let magnitude = self.to_bits() & 0x7fff;
                let upper = |bits: u16| (size(bits) + size(bits + 1)) / 2.0;
                let (low, high) = match magnitude {
                    _ if self.is_nan() => (f64::NAN, f64::NAN),
                    0 => (-upper(0), upper(0)),
                    _ if self.to_f64().is_infinite() => (upper(magnitude - 1), f64::INFINITY),
                    _ => (upper(magnitude - 1), upper(magnitude)),
                };
                if self.to_f64() < 0.0 { (-high, -low) } else { (low, high) }
            }

            #[inline]
            fn same_bits(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }

            #[inline]
            fn is_nan(self) -> bool {
                $half::is_nan(self)
            }

            fn bit_flips(self) -> impl Iterator<Item = Self> {
                let bits = self.to_bits();
                (0..u16::BITS).map(move |bit| $half::from_bits(bits ^ (1 << bit)))
            }
        }
    };
}

half_scalar!(f16, 0x7ead, 65536.0);
half_scalar!(bf16, 0x7fad, f64::from_bits((1023 + 128) << 52));

/// The f32 next to a value towards zero, its last bit set unless it is the value itself: to be rounded
/// again to fewer bits it is as good as the value, which the nearest f32 is not.
fn to_odd(value: f64) -> f32 {
    let near = f32::from_f64(value);
    let wide = f64::from(near);
    if wide == value || value.is_nan() {
        return near;
    }
    let towards_zero = if wide.abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(towards_zero | 1)
}

macro_rules! integer_scalar {
    ($integer:ident, $poison:expr) => {
        impl Scalar for $integer {
            const POISON: Self = $poison;

            #[inline]
            fn rounded_from(self) -> (f64, f64) {
                (self.to_f64(), self.to_f64())
            }

            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            #[expect(
                clippy::cast_possible_truncation,
                reason = "towards zero, to the nearest that fits"
            )]
            fn from_f64(value: f64) -> Self {
                value as $integer
            }

            #[inline]
            fn same_bits(self, other: Self) -> bool {
                self == other
            }

            #[inline]
            fn is_nan(self) -> bool {
                false
            }

            fn bit_flips(self) -> impl Iterator<Item = Self> {
                (0..$integer::BITS).map(move |bit| self ^ (1 << bit))
            }
        }
    };
}

integer_scalar!(i32, 0x5a5a_dead);
integer_scalar!(i8, 0x5a);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_recognised_by_its_bits_alone() {
        assert!(f32::POISON.is_nan() && f64::POISON.is_nan());
        assert!(f32::POISON.same_bits(f32::POISON));
        assert!(!f32::POISON.same_bits(f32::NAN));
        assert!(!0.0f64.same_bits(-0.0));
        assert!(i32::POISON.same_bits(i32::POISON) && !i32::POISON.is_nan());
        assert!(f16::POISON.is_nan() && !f16::POISON.same_bits(f16::NAN));
        assert!(bf16::POISON.is_nan() && !bf16::POISON.same_bits(bf16::NAN));
    }

    /// What rounds to a value is what lies between the middles to its neighbours.
    fn cells_meet<T: Scalar>(of: fn(u16) -> T) {
        let infinity = (0..0x7fff).find(|&bits| of(bits).to_f64().is_infinite()).unwrap();
        let mut end = -T::ZERO.rounded_from().0;
        assert!(T::ZERO.rounded_from().1 == end && end > 0.0);
        for bits in 1..=infinity {
            let value = of(bits);
            let (low, high) = value.rounded_from();
            assert_eq!(low, end, "{bits:#06x}");
            end = high;
            assert!(T::from_f64(low.next_up()).same_bits(value), "{bits:#06x}");
            assert!(!T::from_f64(low.next_down()).same_bits(value), "{bits:#06x}");
            let even = if bits % 2 == 0 { bits } else { bits - 1 };
            assert!(T::from_f64(low).same_bits(of(even)), "{bits:#06x}");
            assert_eq!(of(bits | 0x8000).rounded_from(), (-high, -low), "{bits:#06x}");
            assert!(T::from_f64(value.to_f64()).same_bits(value), "{bits:#06x}");
        }
        assert_eq!(end, f64::INFINITY);
        let (low, high) = of(0x7fff).rounded_from();
        assert!(low.is_nan() && high.is_nan() && T::from_f64(f64::NAN).is_nan());
        assert!(T::from_f64(-1e300).same_bits(of(infinity | 0x8000)));
        assert!(T::from_f64(-1e-300).same_bits(of(0x8000)));
    }

    #[test]
    fn an_f64_goes_to_the_nearest_value_of_16_bits() {
        cells_meet(f16::from_bits);
        cells_meet(bf16::from_bits);
    }

    #[test]
    fn types_that_sums_are_of_round_nothing_again() {
        assert_eq!(1.5f32.rounded_from(), (1.5, 1.5));
        assert_eq!(7i32.rounded_from(), (7.0, 7.0));
    }
}
