//! AVX2 with FMA: 16 registers of 32 bytes. A tile is 2 registers by 6 columns: 12 hold sums, 2 a
//! column of A, one an element of B.

use std::arch::x86_64::*;

use gemm_spec::{Convert, DType};

use crate::groups::{self, Group};
use crate::kernels::{self, InstructionSet, compiled_for};
use crate::pack::{self, Pack};
use crate::rounding::{self, Rounded};
use crate::tile::Tile;
use crate::times_column;
use crate::transpose;
use crate::vector::{self, PartsVector, Vector, no_transpose, transposes};

/// The instruction set.
pub(crate) struct Avx2;

impl InstructionSet for Avx2 {
    const VECTORS: usize = 2;
    const COLS: usize = 6;
    const PACKS_EARLY: bool = true;
    compiled_for!("avx2,fma,f16c");
}

impl Vector for __m256 {
    type Element = f32;
    type Mask = Lanes;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: above.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: above.
        unsafe { _mm256_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> Self::Mask {
        let are_all = lanes == Self::LANES;
        #[expect(clippy::cast_possible_truncation, reason = "at most eight")]
        let lanes = lanes as i32;
        // SAFETY: the CPU has AVX2.
        let lanes = unsafe { _mm256_set1_epi32(lanes) };
        // SAFETY: the CPU has AVX2.
        let indices = unsafe { _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7) };
        // SAFETY: the CPU has AVX2.
        let mask = unsafe { _mm256_cmpgt_epi32(lanes, indices) };
        Lanes { mask, are_all }
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm256_maskload_ps(from, mask.mask) }
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f32, mask: Self::Mask) {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm256_maskstore_ps(to, mask.mask, self) }
    }

    #[inline(always)]
    fn has_all_lanes(mask: Self::Mask) -> bool {
        mask.are_all
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_fmadd_ps(self, b, c) }
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_mul_ps(self, b) }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_add_ps(self, b) }
    }

    #[inline(always)]
    unsafe fn widened<T: Convert<f32>>(from: *const T) -> Self {
        if T::DTYPE == DType::F16 {
            // SAFETY: the caller's promises: eight elements of 16 bits.
            let halves = unsafe { _mm_loadu_si128(from.cast()) };
            // SAFETY: the CPU has F16C.
            return unsafe { _mm256_cvtph_ps(halves) };
        }
        // SAFETY: the caller's promises.
        unsafe { vector::widened_singly(from) }
    }

    transposes!(f32, 8 by f32_8x8, 4 by f32_lines);

    const ROW_STEPS: usize = 4;

    #[inline(always)]
    unsafe fn add_rows(self, from: *const f32, along: usize, b: *const f32, b_step: usize) -> Self {
        // SAFETY: four elements of each of the eight rows can be read.
        let columns = unsafe { transpose::f32_8x4(from, along) };
        // SAFETY: so can as many elements of B.
        unsafe { times_column::add_columns(self, columns, b, b_step) }
    }
}

/// The first lanes of a register.
///
/// Many processors take tens of cycles for a masked store, whatever its mask is, and most registers are whole.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    mask: __m256i,
    are_all: bool,
}

/// Eight sums of 32 bits, or as many [pairs](groups::Pairs).
#[derive(Clone, Copy)]
pub(crate) struct Pairs256(__m256i);

impl Vector for Pairs256 {
    type Element = i32;
    type Mask = Lanes;
    const LANES: usize = 8;
    const COMPENSATES: bool = groups::Pairs::COMPENSATES;

    #[inline(always)]
    unsafe fn splat(value: i32) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        Self(unsafe { _mm256_set1_epi32(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: above.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: above.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> Self::Mask {
        // SAFETY: above.
        unsafe { <__m256 as Vector>::mask(lanes) }
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const i32, mask: Self::Mask) -> Self {
        // SAFETY: above; lanes without their bit touch no memory.
        Self(unsafe { _mm256_maskload_epi32(from, mask.mask) })
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut i32, mask: Self::Mask) {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm256_maskstore_epi32(to, mask.mask, self.0) }
    }

    #[inline(always)]
    fn has_all_lanes(mask: Self::Mask) -> bool {
        mask.are_all
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: the CPU has AVX2.
        let product = unsafe { _mm256_mullo_epi32(self.0, b.0) };
        // SAFETY: the CPU has AVX2.
        Self(unsafe { _mm256_add_epi32(product, c.0) })
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: above.
        Self(unsafe { _mm256_mullo_epi32(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: above.
        Self(unsafe { _mm256_add_epi32(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn step(self, b: Self, c: Self) -> Self {
        // SAFETY: the CPU has AVX2.
        let product = unsafe { _mm256_madd_epi16(self.0, b.0) };
        // SAFETY: the CPU has AVX2.
        Self(unsafe { _mm256_add_epi32(c.0, product) })
    }

    no_transpose!();
}

impl Vector for __m256d {
    type Element = f64;
    type Mask = Lanes;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        unsafe { _mm256_set1_pd(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: above.
        unsafe { _mm256_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: above.
        unsafe { _mm256_storeu_pd(to, self) }
    }

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> Self::Mask {
        let are_all = lanes == Self::LANES;
        // SAFETY: the CPU has AVX2.
        let lanes = unsafe { _mm256_set1_epi64x(lanes as i64) };
        // SAFETY: the CPU has AVX2.
        let indices = unsafe { _mm256_setr_epi64x(0, 1, 2, 3) };
        // SAFETY: the CPU has AVX2.
        let mask = unsafe { _mm256_cmpgt_epi64(lanes, indices) };
        Lanes { mask, are_all }
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f64, mask: Self::Mask) -> Self {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm256_maskload_pd(from, mask.mask) }
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut f64, mask: Self::Mask) {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm256_maskstore_pd(to, mask.mask, self) }
    }

    #[inline(always)]
    fn has_all_lanes(mask: Self::Mask) -> bool {
        mask.are_all
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_fmadd_pd(self, b, c) }
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_mul_pd(self, b) }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_add_pd(self, b) }
    }

    transposes!(f64, 4 by f64_4x4, 2 by f64_lines);

    const ROW_STEPS: usize = 2;

    #[inline(always)]
    unsafe fn add_rows(self, from: *const f64, along: usize, b: *const f64, b_step: usize) -> Self {
        // SAFETY: two elements of each of the four rows can be read.
        let columns = unsafe { transpose::f64_4x2(from, along) };
        // SAFETY: so can as many elements of B.
        unsafe { times_column::add_columns(self, columns, b, b_step) }
    }
}

impl PartsVector for __m256 {
    #[inline(always)]
    unsafe fn exchange_parts(self) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        unsafe { _mm256_permute_ps::<0b10_11_00_01>(self) }
    }

    #[inline(always)]
    unsafe fn change_signs(self, signs: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_xor_ps(self, signs) }
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_div_ps(self, b) }
    }
}

impl PartsVector for __m256d {
    #[inline(always)]
    unsafe fn exchange_parts(self) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        unsafe { _mm256_permute_pd::<0b0101>(self) }
    }

    #[inline(always)]
    unsafe fn change_signs(self, signs: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_xor_pd(self, signs) }
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        // SAFETY: above.
        unsafe { _mm256_div_pd(self, b) }
    }
}
