//! Conversions between f32 and pairs of 16-bit floats in one register.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;

/// Defines the conversion of two f32 to a register with both.
macro_rules! pair {
    ($name:ident, $type:literal, $host:ident) => {
        #[doc = concat!("Two numbers rounded to ", $type, ", the first in the low half:")]
        #[doc = concat!("`cvt.rn.", $type, "x2.f32 pair, second, first;`.")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #[must_use]
        pub fn $name(first: f32, second: f32) -> u32 {
            #[cfg(target_arch = "nvptx64")]
            {
                let pair: u32;
                // SAFETY: arithmetic on registers.
                unsafe {
                    asm!(
                        concat!("cvt.rn.", $type, "x2.f32 {pair}, {second}, {first};"),
                        pair = out(reg32) pair,
                        second = in(reg32) second,
                        first = in(reg32) first,
                        options(pure, nomem, nostack)
                    );
                }
                pair
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                emulate::$host(first, second)
            }
        }
    };
}

pair!(f16_pair, "f16", f16_pair);
pair!(bf16_pair, "bf16", bf16_pair);

/// The bf16 of these bits: they are the high half of an f32.
#[inline(always)]
#[must_use]
pub fn bf16_value(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The f16 of these bits: `cvt.f32.f16 value, bits;`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn f16_value(bits: u16) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let value: f32;
        // SAFETY: arithmetic on registers.
        unsafe {
            asm!(
                "cvt.f32.f16 {value}, {bits};",
                value = out(reg32) value,
                bits = in(reg16) bits,
                options(pure, nomem, nostack)
            );
        }
        value
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::f16_value(bits)
    }
}
