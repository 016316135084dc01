//! AVX-512: 32 registers of 64 bytes. A tile is 3 registers by 8 columns: 24 hold sums, 3 a column of
//! A, one an element of B.

use std::arch::x86_64::*;

use crate::kernels::{self, InstructionSet, compiled_for};
use crate::pack::{self, Pack};
use crate::rounding::{self, Rounded};
use crate::tile::Tile;
use crate::times_column;
use crate::transpose;
use crate::vector::Vector;

/// The instruction set.
pub(crate) struct Avx512;

impl InstructionSet for Avx512 {
    const VECTORS: usize = 3;
    const COLS: usize = 8;
    compiled_for!("avx512f,fma");
}

impl Vector for __m512 {
    type Element = f32;
    type Mask = __mmask16;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: above.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: above.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> Self::Mask {
        __mmask16::MAX >> (16 - lanes)
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f32, mask: Self::Mask) {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm512_mask_storeu_ps(to, mask, self) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm512_fmadd_ps(self, b, c) }
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm512_mul_ps(self, b) }
    }

    const SIDE: usize = 8;

    #[inline(always)]
    unsafe fn transpose(from: *const f32, along: usize, to: *mut f32, width: usize) {
        // SAFETY: the caller's promises.
        unsafe { transpose::f32_8x8(from, along, to, width) }
    }

    const ROW_STEPS: usize = 16;

    #[inline(always)]
    unsafe fn add_rows(self, from: *const f32, along: usize, b: *const f32, b_step: usize) -> Self {
        // SAFETY: sixteen elements of each of as many rows can be read.
        let columns = unsafe { transpose::f32_16x16(from, along, __mmask16::MAX) };
        // SAFETY: so can as many elements of B.
        unsafe { times_column::add_columns(self, columns, b, b_step) }
    }

    #[inline(always)]
    unsafe fn add_parts_of_rows(
        self,
        from: *const f32,
        along: usize,
        b: *const f32,
        b_step: usize,
        steps: usize,
    ) -> Self {
        // SAFETY: the CPU has AVX-512F.
        let mask = unsafe { Self::mask(steps) };
        // SAFETY: that many elements of each row can be read, and the mask keeps to them.
        let columns = unsafe { transpose::f32_16x16(from, along, mask) };
        // SAFETY: so can as many elements of B.
        unsafe { times_column::add_some_columns(self, &columns, b, b_step, steps) }
    }
}

impl Vector for __m512d {
    type Element = f64;
    type Mask = __mmask8;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        unsafe { _mm512_set1_pd(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: above.
        unsafe { _mm512_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: above.
        unsafe { _mm512_storeu_pd(to, self) }
    }

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> Self::Mask {
        __mmask8::MAX >> (8 - lanes)
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f64, mask: Self::Mask) -> Self {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm512_maskz_loadu_pd(mask, from) }
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f64, mask: Self::Mask) {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm512_mask_storeu_pd(to, mask, self) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm512_fmadd_pd(self, b, c) }
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm512_mul_pd(self, b) }
    }

    const SIDE: usize = 4;

    #[inline(always)]
    unsafe fn transpose(from: *const f64, along: usize, to: *mut f64, width: usize) {
        // SAFETY: the caller's promises.
        unsafe { transpose::f64_4x4(from, along, to, width) }
    }

    const ROW_STEPS: usize = 8;

    #[inline(always)]
    unsafe fn add_rows(self, from: *const f64, along: usize, b: *const f64, b_step: usize) -> Self {
        // SAFETY: eight elements of each of as many rows can be read.
        let columns = unsafe { transpose::f64_8x8(from, along, __mmask8::MAX) };
        // SAFETY: so can as many elements of B.
        unsafe { times_column::add_columns(self, columns, b, b_step) }
    }

    #[inline(always)]
    unsafe fn add_parts_of_rows(
        self,
        from: *const f64,
        along: usize,
        b: *const f64,
        b_step: usize,
        steps: usize,
    ) -> Self {
        // SAFETY: the CPU has AVX-512F.
        let mask = unsafe { Self::mask(steps) };
        // SAFETY: that many elements of each row can be read, and the mask keeps to them.
        let columns = unsafe { transpose::f64_8x8(from, along, mask) };
        // SAFETY: so can as many elements of B.
        unsafe { times_column::add_some_columns(self, &columns, b, b_step, steps) }
    }
}
