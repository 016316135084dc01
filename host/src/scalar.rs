//! What the host needs of an element type beyond its arithmetic.

use gemm_spec::{Element, WideBf16, WideF16, bf16, f16};

use crate::cpu::implementation::ForRung;

/// Evaluates an expression with the Rust type of an element type in place of a name:
/// `with_type!(dtype, T => size_of::<T>())`.
#[macro_export]
macro_rules! with_type {
    ($dtype:expr, $name:ident => $value:expr) => {
        match $dtype {
            gemm_spec::DType::F32 => {
                type $name = f32;
                $value
            }
            gemm_spec::DType::F64 => {
                type $name = f64;
                $value
            }
            gemm_spec::DType::I32 => {
                type $name = i32;
                $value
            }
            gemm_spec::DType::I8 => {
                type $name = i8;
                $value
            }
            gemm_spec::DType::F16 => {
                type $name = gemm_spec::f16;
                $value
            }
            gemm_spec::DType::BF16 => {
                type $name = gemm_spec::bf16;
                $value
            }
            gemm_spec::DType::F16F32 => {
                type $name = gemm_spec::WideF16;
                $value
            }
            gemm_spec::DType::BF16F32 => {
                type $name = gemm_spec::WideBf16;
                $value
            }
        }
    };
}
pub(crate) use with_type;

/// What a type of its own sums has.
macro_rules! own_factors {
    () => {
        #[inline]
        fn rounded_from(self) -> (f64, f64) {
            (self.to_f64(), self.to_f64())
        }

        #[inline]
        fn factor(value: f64) -> Self {
            Self::from_f64(value)
        }

        #[inline]
        fn factor_to_f64(factor: Self) -> f64 {
            factor.to_f64()
        }
    };
}

/// An element type that the host can fill, print, poison, compare and multiply.
///
/// The trait is sealed, as the library's is.
#[expect(private_bounds, reason = "what seals it")]
pub trait Scalar: tessera::Element<C = <Self as Scalar>::Result> + ForRung {
    /// `Out` once more, with what is known of it. Fields of structs name this one: rustdoc 1.95 loses its
    /// way from `Out`.
    #[doc(hidden)]
    type Result: Scalar<
            Result = <Self as Scalar>::Result,
            C = <Self as Scalar>::Result,
            Acc = <Self as Element>::Acc,
            Out = <Self as Scalar>::Result,
        >;

    /// What a result buffer holds before a run, so that an element nobody wrote is recognised: a NaN
    /// for floats, a rare value for integers.
    const POISON: Self;

    /// The value as f64; exact for every type here.
    fn to_f64(self) -> f64;

    /// The nearest value of this type; integers saturate, and NaN becomes 0 there.
    fn from_f64(value: f64) -> Self;

    /// The numbers that round to this value, from the least to the largest: the value alone for types
    /// of their own sums, whose results are not rounded again.
    fn rounded_from(self) -> (f64, f64);

    /// The nearest value of the type of alpha and beta, as [`Scalar::from_f64`].
    fn factor(value: f64) -> Self::Acc;

    /// A factor, or a sum, as f64; exact for every type here.
    fn factor_to_f64(factor: Self::Acc) -> f64;

    /// Whether both have the same bits, so that NaN equals itself and 0 differs from -0.
    fn same_bits(self, other: Self) -> bool;

    /// Whether this is a NaN.
    fn is_nan(self) -> bool;

    /// The values that differ from this one in a single bit, from the lowest bit up.
    fn bit_flips(self) -> impl Iterator<Item = Self>;
}

macro_rules! float_scalar {
    ($float:ident, $poison:expr) => {
        impl Scalar for $float {
            type Result = Self;

            own_factors!();

            const POISON: Self = $float::from_bits($poison);

            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            fn from_f64(value: f64) -> Self {
                value as $float
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
            type Result = Self;

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
            fn factor(value: f64) -> f32 {
                value as f32
            }

            #[inline]
            fn factor_to_f64(factor: f32) -> f64 {
                f64::from(factor)
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

/// What does not concern C is that of the type of 16 bits itself.
macro_rules! wide_scalar {
    ($wide:ident($half:ident)) => {
        impl Scalar for $wide {
            type Result = f32;

            const POISON: Self = Self($half::POISON);

            #[inline]
            fn to_f64(self) -> f64 {
                Scalar::to_f64(self.0)
            }

            #[inline]
            fn from_f64(value: f64) -> Self {
                // The type has a conversion of its own by that name, which rounds twice.
                Self(Scalar::from_f64(value))
            }

            #[inline]
            fn rounded_from(self) -> (f64, f64) {
                self.0.rounded_from()
            }

            #[inline]
            fn factor(value: f64) -> f32 {
                $half::factor(value)
            }

            #[inline]
            fn factor_to_f64(factor: f32) -> f64 {
                $half::factor_to_f64(factor)
            }

            #[inline]
            fn same_bits(self, other: Self) -> bool {
                self.0.same_bits(other.0)
            }

            #[inline]
            fn is_nan(self) -> bool {
                Scalar::is_nan(self.0)
            }

            fn bit_flips(self) -> impl Iterator<Item = Self> {
                self.0.bit_flips().map(Self)
            }
        }
    };
}

wide_scalar!(WideF16(f16));
wide_scalar!(WideBf16(bf16));

/// The f32 next to a value towards zero, its last bit set unless it is the value itself: to be rounded
/// again to fewer bits it is as good as the value, which the nearest f32 is not.
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
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
            type Result = i32;

            const POISON: Self = $poison;

            #[inline]
            fn rounded_from(self) -> (f64, f64) {
                (self.to_f64(), self.to_f64())
            }

            #[inline]
            fn factor(value: f64) -> i32 {
                value as i32
            }

            #[inline]
            fn factor_to_f64(factor: i32) -> f64 {
                f64::from(factor)
            }

            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline]
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
        cells_meet(|bits| WideF16(f16::from_bits(bits)));
        cells_meet(|bits| WideBf16(bf16::from_bits(bits)));
    }

    /// Sizes in bytes are reckoned by the tags, buffers are made of the types.
    #[test]
    fn tags_of_results_are_those_of_the_types() {
        fn same<T: Scalar>() {
            assert_eq!(T::DTYPE.out(), T::Out::DTYPE);
        }
        for dtype in gemm_spec::DType::ALL {
            with_type!(dtype, T => same::<T>());
        }
    }

    #[test]
    fn types_of_their_own_sums_round_nothing_again() {
        assert_eq!([f32::ROUNDS, f64::ROUNDS, i32::ROUNDS, i8::ROUNDS], [false; 4]);
        assert_eq!([WideF16::ROUNDS, WideBf16::ROUNDS], [false; 2]);
        assert_eq!([f16::ROUNDS, bf16::ROUNDS], [true; 2]);
        assert_eq!(1.5f32.rounded_from(), (1.5, 1.5));
    }
}
