//! The arithmetic that every implementation shares.

use core::fmt;

use crate::DType;

/// An element type and the operations that a matrix product needs.
///
/// Products are added up in [`Element::Acc`], of which alpha and beta are too: the type itself, but
/// f32 for the types of 16 bits, whose C is rounded once, at the end, and i32 for i8.
///
/// The host and the device use the same definitions, so that two implementations that add the same
/// products in the same order give the same bits.
pub trait Element: Copy + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The type of sums, and of alpha and beta.
    type Acc: Element<Acc = Self::Acc>;
    /// The type of an element of C: the type itself, but i32 for i8, and f32 for the wide types of 16
    /// bits.
    type Out: Element<Acc = Self::Acc, Out = Self::Out>;

    /// Whether elements of C are narrower than sums, so that each sum is rounded when it is stored.
    const ROUNDS: bool = size_of::<Self::Out>() < size_of::<Self::Acc>();

    /// The type's tag.
    const DTYPE: DType;
    /// Additive identity.
    const ZERO: Self;
    /// Multiplicative identity.
    const ONE: Self;

    /// `self * b + c` in the type of sums: one rounding for floats, wrapping for integers.
    #[must_use]
    fn mul_add(self, b: Self, c: Self::Acc) -> Self::Acc;

    /// `self * b` in the type of sums: rounded for floats, wrapping for integers.
    #[must_use]
    fn mul(self, b: Self) -> Self::Acc;

    /// The same value in the type of sums.
    #[must_use]
    fn widen(self) -> Self::Acc;

    /// The nearest value of this type, the even one of two: infinite beyond the largest, NaN for NaN.
    #[must_use]
    fn narrow(value: Self::Acc) -> Self;
}

/// What a type of its own sums has.
macro_rules! own_sums {
    () => {
        type Acc = Self;
        type Out = Self;

        #[inline(always)]
        fn widen(self) -> Self {
            self
        }

        #[inline(always)]
        fn narrow(value: Self) -> Self {
            value
        }
    };
}

macro_rules! float_element {
    ($float:ident) => {
        impl Element for $float {
            own_sums!();

            const DTYPE: DType = match size_of::<$float>() {
                4 => DType::F32,
                _ => DType::F64,
            };
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

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

float_element!(f32);
float_element!(f64);

impl Element for i32 {
    own_sums!();

    const DTYPE: DType = DType::I32;
    const ZERO: Self = 0;
    const ONE: Self = 1;

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.wrapping_mul(b).wrapping_add(c)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.wrapping_mul(b)
    }
}

impl Element for i8 {
    type Acc = i32;
    type Out = i32;

    const DTYPE: DType = DType::I8;
    const ZERO: Self = 0;
    const ONE: Self = 1;

    #[inline(always)]
    fn mul_add(self, b: Self, c: i32) -> i32 {
        self.mul(b).wrapping_add(c)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> i32 {
        i32::from(self) * i32::from(b)
    }

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
            value as i8
        }
    }
}

/// The value stored to C for an accumulated sum: `alpha * acc + beta * c`, rounded to the element's
/// type at the end.
///
/// `c` is called only where `beta` is not zero: with `beta == 0` C is never read, so what it held,
/// NaN included, does not matter. A NaN `beta` is not zero and gives NaN.
#[inline(always)]
pub fn epilogue<T: Element>(alpha: T::Acc, acc: T::Acc, beta: T::Acc, c: impl FnOnce() -> T) -> T {
    T::narrow(if beta == T::Acc::ZERO {
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
        let stored = epilogue::<f32>(2.0, 3.0, 0.0, || panic!("C was read"));
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
        assert_eq!(<i32 as Element>::mul(1 << 20, 1 << 12), 0);
    }
}
