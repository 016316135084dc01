//! Squares transposed in AVX registers, for packing factors whose steps of k are contiguous.

use std::arch::x86_64::*;

/// Copies 8 by 8 elements: (i, p) from `from + i * along + p` to `to + p * width + i`.
///
/// # Safety
/// The CPU has AVX; those elements can be read and written.
#[inline(always)]
pub(super) unsafe fn f32_8x8(from: *const f32, along: usize, to: *mut f32, width: usize) {
    // SAFETY: the caller's promises. Row i of the square is eight elements from `from + i * along`.
    unsafe {
        // Register i holds columns 0 to 3 of rows i and i + 4, register i + 4 columns 4 to 7.
        let halves = |row: usize, col: usize| {
            let at = |row: usize| from.wrapping_add(row.wrapping_mul(along).wrapping_add(col));
            let low = _mm256_castps128_ps256(_mm_loadu_ps(at(row)));
            _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(at(row + 4)))
        };
        for col in [0, 4] {
            let (r0, r1, r2, r3) = (halves(0, col), halves(1, col), halves(2, col), halves(3, col));
            let (t0, t1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
            let (t2, t3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
            let lines = [
                _mm256_shuffle_ps::<0x44>(t0, t2),
                _mm256_shuffle_ps::<0xee>(t0, t2),
                _mm256_shuffle_ps::<0x44>(t1, t3),
                _mm256_shuffle_ps::<0xee>(t1, t3),
            ];
            let mut to = to.wrapping_add(width.wrapping_mul(col));
            for line in lines {
                _mm256_storeu_ps(to, line);
                to = to.wrapping_add(width);
            }
        }
    }
}

/// Copies 4 by 4 elements: (i, p) from `from + i * along + p` to `to + p * width + i`.
///
/// # Safety
/// The CPU has AVX; those elements can be read and written.
#[inline(always)]
pub(super) unsafe fn f64_4x4(from: *const f64, along: usize, to: *mut f64, width: usize) {
    // SAFETY: the caller's promises. Row i of the square is four elements from `from + i * along`.
    unsafe {
        // Columns `col` and `col + 1` of rows i and i + 2.
        let halves = |row: usize, col: usize| {
            let at = |row: usize| from.wrapping_add(row.wrapping_mul(along).wrapping_add(col));
            let low = _mm256_castpd128_pd256(_mm_loadu_pd(at(row)));
            _mm256_insertf128_pd::<1>(low, _mm_loadu_pd(at(row + 2)))
        };
        for col in [0, 2] {
            let (r0, r1) = (halves(0, col), halves(1, col));
            let to = to.wrapping_add(width.wrapping_mul(col));
            _mm256_storeu_pd(to, _mm256_unpacklo_pd(r0, r1));
            _mm256_storeu_pd(to.wrapping_add(width), _mm256_unpackhi_pd(r0, r1));
        }
    }
}
