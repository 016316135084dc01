//! The two 16-bit types, and the instructions that differ between them.

use cuda_std::arch::sm90::{convert, wgmma};

pub(super) use cuda_std::arch::sm90::wgmma::Sums;

/// A 16-bit floating-point type by its bits.
pub(super) trait Number {
    /// Two numbers rounded to nearest even, the first in the low half.
    fn pair(first: f32, second: f32) -> u32;
    /// The value of these bits.
    fn value(bits: u16) -> f32;
}

/// The products of a type whose sums a thread holds in `EIGHTS * 8` registers.
pub(super) trait Products<const EIGHTS: usize>: Number {
    /// A product behind a fence; with `ADD` false it begins the sum.
    ///
    /// # Safety
    /// Those of the instruction, see [`wgmma`].
    unsafe fn fenced<const ADD: bool, const A_ACROSS: bool, const B_ACROSS: bool>(
        sums: &mut Sums<EIGHTS>,
        a: u64,
        b: u64,
    );

    /// A further product.
    ///
    /// # Safety
    /// Those of the instruction, see [`wgmma`].
    unsafe fn add<const A_ACROSS: bool, const B_ACROSS: bool>(
        sums: &mut Sums<EIGHTS>,
        a: u64,
        b: u64,
    );

    /// Waits until all groups but the youngest `PENDING` have ended.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together.
    unsafe fn wait<const PENDING: u32>(sums: &mut Sums<EIGHTS>);
}

/// IEEE 754 binary16.
pub(super) struct F16;

impl Number for F16 {
    #[inline(always)]
    fn pair(first: f32, second: f32) -> u32 {
        convert::f16_pair(first, second)
    }

    #[inline(always)]
    fn value(bits: u16) -> f32 {
        convert::f16_value(bits)
    }
}

/// The upper half of a binary32.
pub(super) struct Bf16;

impl Number for Bf16 {
    #[inline(always)]
    fn pair(first: f32, second: f32) -> u32 {
        convert::bf16_pair(first, second)
    }

    #[inline(always)]
    fn value(bits: u16) -> f32 {
        convert::bf16_value(bits)
    }
}

macro_rules! products {
    ($($number:ty, $eights:literal: $add:ident, $fenced:ident, $wait:ident;)+) => {$(
        impl Products<$eights> for $number {
            #[inline(always)]
            unsafe fn fenced<const ADD: bool, const A_ACROSS: bool, const B_ACROSS: bool>(
                sums: &mut Sums<$eights>,
                a: u64,
                b: u64,
            ) {
                // SAFETY: the caller's promises.
                unsafe { wgmma::$fenced::<ADD, A_ACROSS, B_ACROSS>(sums, a, b) };
            }

            #[inline(always)]
            unsafe fn add<const A_ACROSS: bool, const B_ACROSS: bool>(
                sums: &mut Sums<$eights>,
                a: u64,
                b: u64,
            ) {
                // SAFETY: the caller's promises.
                unsafe { wgmma::$add::<true, A_ACROSS, B_ACROSS>(sums, a, b) };
            }

            #[inline(always)]
            unsafe fn wait<const PENDING: u32>(sums: &mut Sums<$eights>) {
                // SAFETY: the caller's promise.
                unsafe { wgmma::$wait::<PENDING>(sums) };
            }
        }
    )+};
}

products! {
    F16, 8: f16_n128, fenced_f16_n128, wait_n128;
    F16, 16: f16_n256, fenced_f16_n256, wait_n256;
    Bf16, 8: bf16_n128, fenced_bf16_n128, wait_n128;
    Bf16, 16: bf16_n256, fenced_bf16_n256, wait_n256;
}
