//! The element types, by name.

use core::fmt;

use crate::Operand;

/// The type of the elements of A and B, and, but for [`DType::out`], of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE 754 binary32, accumulated in binary32.
    F32,
    /// IEEE 754 binary64, accumulated in binary64.
    F64,
    /// 32-bit two's complement integers; sums and products wrap.
    I32,
    /// 8-bit two's complement integers; products are exact in 32 bits, sums wrap there, and so is C.
    I8,
    /// IEEE 754 binary16, accumulated in binary32 and rounded once.
    F16,
    /// The upper half of a binary32, accumulated in binary32 and rounded once.
    BF16,
    /// [`DType::F16`] whose C is the sums' own type: no last rounding.
    F16F32,
    /// [`DType::BF16`] whose C is the sums' own type: no last rounding.
    BF16F32,
}

impl DType {
    /// Every element type, in the order in which they are listed to users.
    pub const ALL: [Self; 8] = [
        Self::F32,
        Self::F64,
        Self::I32,
        Self::I8,
        Self::F16,
        Self::BF16,
        Self::F16F32,
        Self::BF16F32,
    ];

    /// The name used on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I8 => "i8",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F16F32 => "f16_f32",
            Self::BF16F32 => "bf16_f32",
        }
    }

    /// Whether arithmetic is that of integers: exact, and wrapping.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::I8)
    }

    /// Bytes in one element of A or B.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 | Self::BF16 | Self::F16F32 | Self::BF16F32 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }

    /// Bytes in one element of an operand.
    #[must_use]
    pub const fn size_in(self, operand: Operand) -> usize {
        match operand {
            Operand::A | Operand::B => self.size(),
            Operand::C => self.out().size(),
        }
    }

    /// The largest relative error of one rounding to an element of A or B, `2^-24` for f32; zero where
    /// arithmetic is exact. Of C ask [`DType::out`].
    #[must_use]
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Self::F32 => (f32::EPSILON / 2.0) as f64,
            Self::F64 => f64::EPSILON / 2.0,
            Self::I32 | Self::I8 => 0.0,
            Self::F16 | Self::F16F32 => 1.0 / (1 << 11) as f64,
            Self::BF16 | Self::BF16F32 => 1.0 / (1 << 8) as f64,
        }
    }

    /// The type of sums, and of alpha and beta: [`crate::Element::Acc`].
    #[must_use]
    pub const fn acc(self) -> Self {
        match self {
            Self::F16 | Self::BF16 | Self::F16F32 | Self::BF16F32 => Self::F32,
            Self::I8 => Self::I32,
            own => own,
        }
    }

    /// The type of C's elements: the type itself, but that of sums for integers of 8 bits and where the
    /// name says so.
    #[must_use]
    pub const fn out(self) -> Self {
        match self {
            Self::I8 => Self::I32,
            Self::F16F32 | Self::BF16F32 => Self::F32,
            own => own,
        }
    }

    /// The type of A's and B's elements by themselves: what a file of them holds.
    #[must_use]
    pub const fn factor(self) -> Self {
        match self {
            Self::F16F32 => Self::F16,
            Self::BF16F32 => Self::BF16,
            own => own,
        }
    }

    /// The type of products of elements like these whose C is of type `out`, if there is one.
    #[must_use]
    pub fn with_out(self, out: Self) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.factor() == self.factor() && dtype.out() == out)
    }

    /// The type of that name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Element;

    #[test]
    fn names_lead_back_to_their_types() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_name("f33"), None);
    }

    #[test]
    fn roundoff_is_half_the_gap_above_one() {
        assert_eq!(DType::F32.unit_roundoff(), 2f64.powi(-24));
        assert_eq!(DType::F64.unit_roundoff(), 2f64.powi(-53));
        assert_eq!(DType::F16.unit_roundoff(), 2f64.powi(-11));
        assert_eq!(DType::BF16.unit_roundoff(), 2f64.powi(-8));
    }

    #[test]
    fn tags_of_sums_are_those_of_the_types() {
        fn same<T: Element>() {
            assert_eq!(T::DTYPE.acc(), T::Acc::DTYPE);
            assert_eq!(T::DTYPE.size(), size_of::<T>());
            assert_eq!(T::ONE.widen(), T::Acc::ONE);
            assert_eq!(T::narrow(T::Acc::ZERO), T::ZERO);
        }
        same::<f32>();
        same::<f64>();
        same::<i32>();
        same::<i8>();
        same::<crate::f16>();
        same::<crate::bf16>();
        same::<crate::WideF16>();
        same::<crate::WideBf16>();
    }

    #[test]
    fn results_can_be_asked_for_in_the_types_that_products_have() {
        for dtype in DType::ALL {
            assert_eq!(dtype.with_out(dtype.out()), Some(dtype));
            assert_eq!(dtype.factor().size(), dtype.size());
            assert_eq!(dtype.factor().unit_roundoff(), dtype.unit_roundoff());
        }
        assert_eq!(DType::F16.with_out(DType::F32), Some(DType::F16F32));
        assert_eq!(DType::BF16F32.with_out(DType::BF16), Some(DType::BF16));
        assert_eq!(DType::F16.with_out(DType::BF16), None);
        assert_eq!(DType::F32.with_out(DType::F16F32), None);
        assert_eq!(DType::I8.with_out(DType::F32), None);
    }
}
