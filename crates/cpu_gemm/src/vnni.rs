//! AVX-512 with VNNI: products of four numbers of 8 bits, added up in lanes of 32. Tiles are those of
//! `avx512`.

use std::arch::x86_64::*;

use gemm_spec::Element;

use crate::groups::{self, Group};
use crate::kernels::{self, InstructionSet, compiled_for};
use crate::pack::{self, Pack};
use crate::rounding::{self, Rounded};
use crate::tile::Tile;
use crate::transpose;
use crate::vector::{Vector, no_transpose};

/// The instruction set.
pub(crate) struct Vnni;

impl InstructionSet for Vnni {
    const VECTORS: usize = 3;
    const COLS: usize = 8;
    compiled_for!("avx512f,avx512bw,avx512vnni,fma");
}

impl Vnni {
    /// Whether this CPU has it.
    pub(crate) fn is_available() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("fma")
    }
}

/// Sixteen sums of 32 bits, or as many [quads](groups::Quads).
#[derive(Clone, Copy)]
pub(crate) struct Quads512(__m512i);

impl Vector for Quads512 {
    type Element = i32;
    type Mask = __mmask16;
    const LANES: usize = 16;
    const COMPENSATES: bool = groups::Quads::COMPENSATES;

    #[inline(always)]
    unsafe fn splat(value: i32) -> Self {
        // SAFETY: the caller's promises, as in all that follows.
        Self(unsafe { _mm512_set1_epi32(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: above.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: above.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> Self::Mask {
        __mmask16::MAX >> (16 - lanes)
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const i32, mask: Self::Mask) -> Self {
        // SAFETY: above; lanes without their bit touch no memory.
        Self(unsafe { _mm512_maskz_loadu_epi32(mask, from) })
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut i32, mask: Self::Mask) {
        // SAFETY: above; lanes without their bit touch no memory.
        unsafe { _mm512_mask_storeu_epi32(to, mask, self.0) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: the CPU has AVX-512F.
        let product = unsafe { _mm512_mullo_epi32(self.0, b.0) };
        // SAFETY: the CPU has AVX-512F.
        Self(unsafe { _mm512_add_epi32(product, c.0) })
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: above.
        Self(unsafe { _mm512_mullo_epi32(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: above.
        Self(unsafe { _mm512_add_epi32(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn step(self, b: Self, c: Self) -> Self {
        // SAFETY: above.
        Self(unsafe { _mm512_dpbusd_epi32(c.0, self.0, b.0) })
    }

    const BLOCK_OF_BYTES: Option<(usize, usize)> = Some((16, 64));

    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "operations on registers, which need the instruction set alone, and stores of one argument"
    )]
    unsafe fn transpose_widened<T: Element>(
        from: *const T,
        along: usize,
        to: *mut i32,
        width: usize,
    ) {
        // SAFETY: the caller's promises: 64 bytes of each of 16 rows can be read, four of them as one element of 32
        // bits, and 16 elements of each of 64 steps can be written.
        unsafe {
            let quads = transpose::f32_16x16(from.cast(), along, __mmask16::MAX);
            let mut to = to;
            for quad in quads {
                let quad = _mm512_castps_si512(quad);
                let steps = [
                    _mm512_srai_epi32::<24>(_mm512_slli_epi32::<24>(quad)),
                    _mm512_srai_epi32::<24>(_mm512_slli_epi32::<16>(quad)),
                    _mm512_srai_epi32::<24>(_mm512_slli_epi32::<8>(quad)),
                    _mm512_srai_epi32::<24>(quad),
                ];
                for step in steps {
                    Self(step).store(to);
                    to = to.wrapping_add(width);
                }
            }
        }
    }

    no_transpose!();
}
