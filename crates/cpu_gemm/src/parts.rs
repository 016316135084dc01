//! The real numbers that are the parts of complex ones.

use std::ops::{Add, Div, Mul, Neg, Sub};

use gemm_spec::Accumulator;

/// A real number that is a part of complex ones.
pub(crate) trait Parts:
    Accumulator
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + PartialOrd
{
    /// The absolute value.
    fn magnitude(self) -> Self;

    /// Whether the sign is that of negative numbers; a zero has one as well.
    fn has_sign(self) -> bool;

    /// Whether it is neither zero, subnormal, infinite nor NaN.
    fn is_normal(self) -> bool;
}

macro_rules! parts {
    ($($real:ty),*) => {$(
        impl Parts for $real {
            fn magnitude(self) -> Self {
                self.abs()
            }

            fn has_sign(self) -> bool {
                self.is_sign_negative()
            }

            fn is_normal(self) -> bool {
                self.is_normal()
            }
        }
    )*};
}

parts!(f32, f64);
