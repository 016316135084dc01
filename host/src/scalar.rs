//! What the host needs of an element type beyond its arithmetic.

use std::fmt;

use gemm_spec::Element;
use kernels_gpu::{EmulatedEntry, EmulatedFn};

use crate::cpu::implementation::{CpuFn, CpuImpl};
use crate::gpu::DeviceElement;

/// An element type that the host can fill, print, poison, compare and multiply.
pub trait Scalar: Element + PartialOrd + Default + fmt::Display + DeviceElement {
    /// What a result buffer holds before a run, so that an element nobody wrote is recognised: a NaN
    /// for floats, a rare value for integers.
    const POISON: Self;

    /// The value as f64; exact for every type here.
    fn to_f64(self) -> f64;

    /// The nearest value of this type; integers saturate, and NaN becomes 0 there.
    fn from_f64(value: f64) -> Self;

    /// Whether both have the same bits, so that NaN equals itself and 0 differs from -0.
    fn same_bits(self, other: Self) -> bool;

    /// Whether this is a NaN.
    fn is_nan(self) -> bool;

    /// The values that differ from this one in a single bit, from the lowest bit up.
    fn bit_flips(self) -> impl Iterator<Item = Self>;

    /// The form of a CPU implementation for this type.
    #[doc(hidden)]
    fn cpu_fn(implementation: &CpuImpl) -> CpuFn<Self>;

    /// A kernel's entry for the emulator, where it is one for this type.
    #[doc(hidden)]
    fn emulated_fn(entry: EmulatedEntry) -> Option<EmulatedFn<Self>>;
}

macro_rules! float_scalar {
    ($float:ident, $entry:ident, $poison:expr) => {
        impl Scalar for $float {
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

            fn cpu_fn(implementation: &CpuImpl) -> CpuFn<Self> {
                implementation.$float
            }

            fn emulated_fn(entry: EmulatedEntry) -> Option<EmulatedFn<Self>> {
                match entry {
                    EmulatedEntry::$entry(function) => Some(function),
                    _ => None,
                }
            }
        }
    };
}

// Quiet NaNs with a payload of their own.
float_scalar!(f32, F32, 0x7fd0_dead);
float_scalar!(f64, F64, 0x7ffd_dead_dead_dead);

impl Scalar for i32 {
    const POISON: Self = 0x5a5a_dead;

    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    fn from_f64(value: f64) -> Self {
        value as i32
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
        (0..i32::BITS).map(move |bit| self ^ (1 << bit))
    }

    fn cpu_fn(implementation: &CpuImpl) -> CpuFn<Self> {
        implementation.i32
    }

    fn emulated_fn(entry: EmulatedEntry) -> Option<EmulatedFn<Self>> {
        match entry {
            EmulatedEntry::I32(function) => Some(function),
            _ => None,
        }
    }
}

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
    }
}
