//! The element types, the accumulators, and the arithmetic that every implementation shares.

use core::fmt;

use crate::{DType, GemmTypes};

/// A type that elements of a matrix are stored as.
pub trait Element: Copy + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The type's tag.
    const DTYPE: DType;
    /// Additive identity.
    const ZERO: Self;
    /// Multiplicative identity.
    const ONE: Self;
}

/// An element type whose products can be added up in `Acc`.
pub trait Convert<Acc>: Element {
    /// The same value as an accumulator.
    #[must_use]
    fn widen(self) -> Acc;

    /// The nearest value of this type, the even one of two: infinite beyond the largest, NaN for NaN.
    /// Integers saturate.
    #[must_use]
    fn narrow(value: Acc) -> Self;
}

/// A type that products are added up in, of which alpha and beta are too.
///
/// The host and the device use the same definitions, so that two implementations that add the same
/// products in the same order give the same bits.
pub trait Accumulator: Convert<Self> + GemmTypes<A = Self, B = Self, Acc = Self, C = Self> {
    /// `self * b + c`: one rounding for floats, wrapping for integers.
    #[must_use]
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// `self * b`: rounded for floats, wrapping for integers.
    #[must_use]
    fn mul(self, b: Self) -> Self;
}

/// An accumulator needs no conversion.
macro_rules! own_accumulator {
    ($($acc:ident),+) => {$(
        impl Convert<$acc> for $acc {
            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn narrow(value: Self) -> Self {
                value
            }
        }
    )+};
}

own_accumulator!(f32, f64, i32);

macro_rules! float_element {
    ($float:ident, $dtype:ident) => {
        impl Element for $float {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
        }

        impl Accumulator for $float {
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                {
                    core::$float::math::mul_add(self, b, c)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    <$float>::mul_add(self, b, c)
                }
            }

            #[inline(always)]
            fn mul(self, b: Self) -> Self {
                self * b
            }
        }
    };
}

float_element!(f32, F32);
float_element!(f64, F64);

macro_rules! integer_element {
    ($integer:ident, $dtype:ident) => {
        impl Element for $integer {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = 0;
            const ONE: Self = 1;
        }
    };
}

integer_element!(i32, I32);
integer_element!(i8, I8);

impl Accumulator for i32 {
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.wrapping_mul(b).wrapping_add(c)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.wrapping_mul(b)
    }
}

/// Integers that fit into 32 bits with room for a product: it is exact, and sums of them wrap.
macro_rules! narrow_integer {
    ($($integer:ident),+) => {$(
        impl Convert<i32> for $integer {
            #[inline(always)]
            fn widen(self) -> i32 {
                self as i32
            }

            #[inline(always)]
            fn narrow(value: i32) -> Self {
                if value < Self::MIN as i32 {
                    Self::MIN
                } else if value > Self::MAX as i32 {
                    Self::MAX
                } else {
                    #[allow(clippy::cast_possible_truncation, reason = "it is in range here")]
                    let narrow = value as Self;
                    narrow
                }
            }
        }
    )+};
}

narrow_integer!(i8);

/// The value stored to C for an accumulated sum: `alpha * acc + beta * c`, rounded to the type
/// of C at the end.
///
/// `c` is called only where `beta` is not zero: with `beta == 0` C is never read, so what it held,
/// NaN included, does not matter. A NaN `beta` is not zero and gives NaN.
#[inline(always)]
pub fn epilogue<Acc: Accumulator, C: Convert<Acc>>(
    alpha: Acc,
    acc: Acc,
    beta: Acc,
    c: impl FnOnce() -> C,
) -> C {
    C::narrow(if beta == Acc::ZERO {
        alpha.mul(acc)
    } else {
        alpha.mul_add(acc, beta.mul(c().widen()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beta_zero_never_reads_c() {
        let stored = epilogue::<f32, f32>(2.0, 3.0, 0.0, || panic!("C was read"));
        assert_eq!(stored, 6.0);
    }

    #[test]
    fn beta_nan_is_not_zero() {
        assert!(epilogue(1.0, 1.0, f64::NAN, || 1.0f64).is_nan());
        assert!(epilogue(f32::NAN, 1.0, 0.0, || 1.0f32).is_nan());
    }

    #[test]
    fn floats_round_once_and_integers_wrap() {
        let eps = f32::EPSILON;
        // (1 + eps)(1 - eps) - 1 = -eps^2: a product rounded by itself would give zero.
        assert_eq!((1.0 + eps).mul_add(1.0 - eps, -1.0), -eps * eps);
        assert_eq!(i32::MAX.mul_add(2, 3), 1);
        assert_eq!(<i32 as Accumulator>::mul(1 << 20, 1 << 12), 0);
    }
}
