//! Conversions between f32 and pairs of 16-bit floats in one register.

use core::arch::asm;

/// Two numbers rounded to f16, the first in the low half: `cvt.rn.f16x2.f32 pair, second, first;`.
#[inline(always)]
#[must_use]
pub fn f16_pair(first: f32, second: f32) -> u32 {
    let pair: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!(
            "cvt.rn.f16x2.f32 {pair}, {second}, {first};",
            pair = out(reg32) pair,
            second = in(reg32) second,
            first = in(reg32) first,
            options(pure, nomem, nostack)
        );
    }
    pair
}

/// Two numbers rounded to bf16, the first in the low half: `cvt.rn.bf16x2.f32 pair, second, first;`.
#[inline(always)]
#[must_use]
pub fn bf16_pair(first: f32, second: f32) -> u32 {
    let pair: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!(
            "cvt.rn.bf16x2.f32 {pair}, {second}, {first};",
            pair = out(reg32) pair,
            second = in(reg32) second,
            first = in(reg32) first,
            options(pure, nomem, nostack)
        );
    }
    pair
}

/// The bf16 of these bits: they are the high half of an f32.
#[inline(always)]
#[must_use]
pub fn bf16_value(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The f16 of these bits: `cvt.f32.f16 value, bits;`.
#[inline(always)]
#[must_use]
pub fn f16_value(bits: u16) -> f32 {
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
