//! AVX-512: 32 registers of 64 bytes. A tile is 3 registers by 8 columns: 24 hold sums, 3 a column of
//! A, one an element of B.

use std::arch::x86_64::*;

use gemm_spec::{Convert, DType, Element};

use crate::kernels::{self, InstructionSet, compiled_for};
use crate::pack::{self, Pack};
use crate::rounding::{self, Rounded};
use crate::tile::Tile;
use crate::times_column;
use crate::transpose;
use crate::vector::{self, PartsVector, Vector, transposes};

/// The instruction set.
pub(crate) struct Avx512;

impl InstructionSet for Avx512 {
    const VECTORS: usize = 3;
    const NEAR_VECTORS: usize = 4;
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

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm512_add_ps(self, b) }
    }

    transposes!(f32, 8 by f32_8x8, 4 by f32_lines);

    const BLOCK_OF_HALVES: Option<(usize, usize)> = Some((16, 32));

    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "operations on registers, which need the instruction set alone, and stores of one argument"
    )]
    unsafe fn transpose_widened<T: Element>(
        from: *const T,
        along: usize,
        to: *mut f32,
        width: usize,
    ) {
        // SAFETY: the caller's promises: 32 elements of 16 bits of each of 16 rows can be read, two of them as one
        // of 32 bits, and 16 elements of each of 32 steps can be written.
        unsafe {
            let along = along.wrapping_mul(size_of::<T>());
            let pairs = transpose::f32_16x16(from.cast(), along, __mmask16::MAX);
            let mut to = to;
            for pair in pairs {
                let pair = _mm512_castps_si512(pair);
                let (even, odd) = if T::DTYPE == DType::BF16 {
                    let upper = _mm512_set1_epi32(-0x1_0000);
                    let even = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pair));
                    (even, _mm512_castsi512_ps(_mm512_and_si512(pair, upper)))
                } else {
                    let even = _mm512_cvtepi32_epi16(pair);
                    let odd = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(pair));
                    (_mm512_cvtph_ps(even), _mm512_cvtph_ps(odd))
                };
                even.store(to);
                odd.store(to.wrapping_add(width));
                to = to.wrapping_add(width.wrapping_mul(2));
            }
        }
    }

    #[inline(always)]
    unsafe fn widened<T: Convert<f32>>(from: *const T) -> Self {
        if T::DTYPE == DType::F16 {
            // SAFETY: the caller's promises: 16 elements of 16 bits.
            let halves = unsafe { _mm256_loadu_si256(from.cast()) };
            // SAFETY: the CPU has AVX-512F.
            return unsafe { _mm512_cvtph_ps(halves) };
        }
        // SAFETY: the caller's promises.
        unsafe { vector::widened_singly(from) }
    }

    const TRANSPOSES_ROWS: bool = true;

    #[inline(always)]
    unsafe fn transpose_rows(
        from: *const f32,
        along: usize,
        steps: usize,
        to: *mut f32,
        width: usize,
    ) {
        for first in (0..steps).step_by(Self::LANES) {
            let count = steps.wrapping_sub(first).min(Self::LANES);
            // SAFETY: the CPU has AVX-512F.
            let mask = unsafe { Self::mask(count) };
            let from = from.wrapping_add(first);
            // SAFETY: that many elements of each row can be read, and the mask keeps to them.
            let columns =
                unsafe { transpose::f32_16x16(from, along.wrapping_mul(size_of::<f32>()), mask) };
            let mut to = to.wrapping_add(first.wrapping_mul(width));
            for (step, column) in columns.into_iter().enumerate() {
                if step < count {
                    // SAFETY: the place of that step's column.
                    unsafe { column.store(to) };
                }
                to = to.wrapping_add(width);
            }
        }
    }

    const ROW_STEPS: usize = 16;

    #[inline(always)]
    unsafe fn add_rows(self, from: *const f32, along: usize, b: *const f32, b_step: usize) -> Self {
        // SAFETY: sixteen elements of each of as many rows can be read.
        let columns = unsafe {
            transpose::f32_16x16(from, along.wrapping_mul(size_of::<f32>()), __mmask16::MAX)
        };
        // SAFETY: so can as many elements of B.
        unsafe { times_column::add_columns(self, columns, b, b_step) }
    }

    #[inline(always)]
    unsafe fn add_rows_apart(
        self,
        from: *const f32,
        along: usize,
        b: *const f32,
        b_step: usize,
        split: usize,
    ) -> (Self, Self) {
        // SAFETY: the caller's promises: a square of elements.
        let columns = unsafe {
            transpose::f32_16x16(from, along.wrapping_mul(size_of::<f32>()), __mmask16::MAX)
        };
        // SAFETY: an element of B for each column.
        unsafe { times_column::add_columns_apart(self, columns, b, b_step, split) }
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
        let columns =
            unsafe { transpose::f32_16x16(from, along.wrapping_mul(size_of::<f32>()), mask) };
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

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm512_add_pd(self, b) }
    }

    transposes!(f64, 4 by f64_4x4, 2 by f64_lines);

    const TRANSPOSES_ROWS: bool = true;

    #[inline(always)]
    unsafe fn transpose_rows(
        from: *const f64,
        along: usize,
        steps: usize,
        to: *mut f64,
        width: usize,
    ) {
        for first in (0..steps).step_by(Self::LANES) {
            let count = steps.wrapping_sub(first).min(Self::LANES);
            // SAFETY: the CPU has AVX-512F.
            let mask = unsafe { Self::mask(count) };
            let from = from.wrapping_add(first);
            // SAFETY: that many elements of each row can be read, and the mask keeps to them.
            let columns = unsafe { transpose::f64_8x8(from, along, mask) };
            let mut to = to.wrapping_add(first.wrapping_mul(width));
            for (step, column) in columns.into_iter().enumerate() {
                if step < count {
                    // SAFETY: the place of that step's column.
                    unsafe { column.store(to) };
                }
                to = to.wrapping_add(width);
            }
        }
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
    unsafe fn add_rows_apart(
        self,
        from: *const f64,
        along: usize,
        b: *const f64,
        b_step: usize,
        split: usize,
    ) -> (Self, Self) {
        // SAFETY: the caller's promises: a square of elements.
        let columns = unsafe { transpose::f64_8x8(from, along, __mmask8::MAX) };
        // SAFETY: an element of B for each column.
        unsafe { times_column::add_columns_apart(self, columns, b, b_step, split) }
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

impl PartsVector for __m512 {
    #[inline(always)]
    unsafe fn exchange_parts(self) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        unsafe { _mm512_permute_ps::<0b10_11_00_01>(self) }
    }

    #[inline(always)]
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one instruction")]
    unsafe fn change_signs(self, signs: Self) -> Self {
        // SAFETY: above.
        unsafe {
            let (bits, signs) = (_mm512_castps_si512(self), _mm512_castps_si512(signs));
            _mm512_castsi512_ps(_mm512_xor_si512(bits, signs))
        }
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm512_div_ps(self, b) }
    }
}

impl PartsVector for __m512d {
    #[inline(always)]
    unsafe fn exchange_parts(self) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        unsafe { _mm512_permute_pd::<0b01_01_01_01>(self) }
    }

    #[inline(always)]
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one instruction")]
    unsafe fn change_signs(self, signs: Self) -> Self {
        // SAFETY: above.
        unsafe {
            let (bits, signs) = (_mm512_castpd_si512(self), _mm512_castpd_si512(signs));
            _mm512_castsi512_pd(_mm512_xor_si512(bits, signs))
        }
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm512_div_pd(self, b) }
    }
}
