//! The types of matrix elements, by name.

use core::fmt;

/// What an element of a matrix is stored as. Which of them are multiplied together is said by
/// [`Types`](crate::Types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// 32-bit two's complement integers.
    I32,
    /// 8-bit two's complement integers.
    I8,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
}

impl DType {
    /// Every element type.
    pub const ALL: [Self; 6] = [Self::F32, Self::F64, Self::I32, Self::I8, Self::F16, Self::BF16];

    /// Its name in reports and errors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I8 => "i8",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        }
    }

    /// Whether arithmetic is that of integers: exact, and wrapping.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        match self {
            Self::I32 | Self::I8 => true,
            Self::F32 | Self::F64 | Self::F16 | Self::BF16 => false,
        }
    }

    /// Bytes in one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }

    /// The largest relative error of one rounding to this type, `2^-24` for f32; zero where
    /// arithmetic is exact.
    #[must_use]
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Self::F32 => (f32::EPSILON / 2.0) as f64,
            Self::F64 => f64::EPSILON / 2.0,
            Self::I32 | Self::I8 => 0.0,
            Self::F16 => 1.0 / (1 << 11) as f64,
            Self::BF16 => 1.0 / (1 << 8) as f64,
        }
    }
}

impl DType {
    /// The largest finite value; infinite for integers, which wrap.
    #[must_use]
    pub const fn largest(self) -> f64 {
        match self {
            Self::F32 => f32::MAX as f64,
            Self::F64 => f64::MAX,
            Self::I32 | Self::I8 => f64::INFINITY,
            Self::F16 => 65504.0,
            Self::BF16 => f32::from_bits(0x7f7f_0000) as f64,
        }
    }

    /// Whether every number of another type is one of this.
    #[must_use]
    pub const fn holds(self, other: Self) -> bool {
        match other {
            Self::F64 => matches!(self, Self::F64),
            Self::F32 => matches!(self, Self::F32 | Self::F64),
            Self::I32 => matches!(self, Self::I32 | Self::F64),
            Self::I8 => true,
            Self::F16 => matches!(self, Self::F16 | Self::F32 | Self::F64),
            Self::BF16 => matches!(self, Self::BF16 | Self::F32 | Self::F64),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What products are added up in, and what alpha and beta are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccType {
    /// [`DType::F32`]
    F32,
    /// [`DType::F64`]
    F64,
    /// [`DType::I32`]
    I32,
}

impl AccType {
    /// The same as a type of elements.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F64 => DType::F64,
            Self::I32 => DType::I32,
        }
    }
}

impl fmt::Display for AccType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dtype().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roundoff_is_half_the_gap_above_one() {
        assert_eq!(DType::F32.unit_roundoff(), 2f64.powi(-24));
        assert_eq!(DType::F64.unit_roundoff(), 2f64.powi(-53));
        assert_eq!(DType::F16.unit_roundoff(), 2f64.powi(-11));
        assert_eq!(DType::BF16.unit_roundoff(), 2f64.powi(-8));
    }

    #[test]
    fn the_largest_values_are_those_of_the_types() {
        assert_eq!(DType::F16.largest(), crate::f16::MAX.to_f64());
        assert_eq!(DType::BF16.largest(), crate::bf16::MAX.to_f64());
        assert_eq!(DType::F32.largest(), f64::from(f32::MAX));
    }

    #[test]
    fn what_holds_another_type_loses_nothing_of_it() {
        for dtype in DType::ALL {
            assert!(dtype.holds(dtype) && (dtype.holds(DType::I8)), "{dtype}");
            let wider = |other: &DType| other.holds(dtype) && other.size() < dtype.size();
            assert_eq!(DType::ALL.iter().find(|other| wider(other)), None, "{dtype}");
        }
        assert!(DType::F64.holds(DType::I32) && !DType::F32.holds(DType::I32));
        assert!(!DType::F32.holds(DType::F64) && !DType::F16.holds(DType::BF16));
    }
}
