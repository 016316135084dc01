//! Squares transposed in AVX and AVX-512 registers, for operands whose k elements are contiguous.

use std::arch::x86_64::*;

/// Four columns of eight rows, from `from` on; row follows row at `along`.
///
/// # Safety
/// The CPU has AVX; those elements can be read.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "what is no load needs the instruction set alone"
)]
pub(crate) unsafe fn f32_8x4(from: *const f32, along: usize) -> [__m256; 4] {
    // SAFETY: the CPU has AVX; each load is of four elements that can be read.
    unsafe {
        // Rows i and i + 4.
        let halves = |row: usize| {
            let at = |row: usize| from.wrapping_add(row.wrapping_mul(along));
            let low = _mm256_castps128_ps256(_mm_loadu_ps(at(row)));
            _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(at(row + 4)))
        };
        let (r0, r1, r2, r3) = (halves(0), halves(1), halves(2), halves(3));
        let (t0, t1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
        let (t2, t3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
        [
            _mm256_shuffle_ps::<0x44>(t0, t2),
            _mm256_shuffle_ps::<0xee>(t0, t2),
            _mm256_shuffle_ps::<0x44>(t1, t3),
            _mm256_shuffle_ps::<0xee>(t1, t3),
        ]
    }
}

/// Two columns of four rows, from `from` on; row follows row at `along`.
///
/// # Safety
/// The CPU has AVX; those elements can be read.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "what is no load needs the instruction set alone"
)]
pub(crate) unsafe fn f64_4x2(from: *const f64, along: usize) -> [__m256d; 2] {
    // SAFETY: the CPU has AVX; each load is of two elements that can be read.
    unsafe {
        // Rows i and i + 2.
        let halves = |row: usize| {
            let at = |row: usize| from.wrapping_add(row.wrapping_mul(along));
            let low = _mm256_castpd128_pd256(_mm_loadu_pd(at(row)));
            _mm256_insertf128_pd::<1>(low, _mm_loadu_pd(at(row + 2)))
        };
        let (r0, r1) = (halves(0), halves(1));
        [_mm256_unpacklo_pd(r0, r1), _mm256_unpackhi_pd(r0, r1)]
    }
}

/// 16 columns of 16 rows, from `from` on, zeros where the mask has none; row follows row at `along` bytes. Each row is
/// one load: rows may be as far apart as pushes them out of the L1.
///
/// # Safety
/// The CPU has AVX-512F; those elements can be read.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "what is no load needs the instruction set alone"
)]
pub(crate) unsafe fn f32_16x16(from: *const f32, along: usize, mask: __mmask16) -> [__m512; 16] {
    // SAFETY: the CPU has AVX-512F; each four rows can be read, as far as the mask says.
    unsafe {
        let r = [
            f32_4x16(from, along, mask),
            f32_4x16(from.wrapping_byte_add(along.wrapping_mul(4)), along, mask),
            f32_4x16(from.wrapping_byte_add(along.wrapping_mul(8)), along, mask),
            f32_4x16(from.wrapping_byte_add(along.wrapping_mul(12)), along, mask),
        ];
        let mut columns = [_mm512_setzero_ps(); 16];
        for c in 0..4 {
            let (low0, low1) = (
                _mm512_shuffle_f32x4::<0x44>(r[0][c], r[1][c]),
                _mm512_shuffle_f32x4::<0x44>(r[2][c], r[3][c]),
            );
            let (high0, high1) = (
                _mm512_shuffle_f32x4::<0xee>(r[0][c], r[1][c]),
                _mm512_shuffle_f32x4::<0xee>(r[2][c], r[3][c]),
            );
            columns[c] = _mm512_shuffle_f32x4::<0x88>(low0, low1);
            columns[c + 4] = _mm512_shuffle_f32x4::<0xdd>(low0, low1);
            columns[c + 8] = _mm512_shuffle_f32x4::<0x88>(high0, high1);
            columns[c + 12] = _mm512_shuffle_f32x4::<0xdd>(high0, high1);
        }
        columns
    }
}

/// 16 columns of four rows: quarter q of register c is column 4 * q + c.
///
/// # Safety
/// As [`f32_16x16`].
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "what is no load needs the instruction set alone"
)]
unsafe fn f32_4x16(from: *const f32, along: usize, mask: __mmask16) -> [__m512; 4] {
    // SAFETY: the CPU has AVX-512F; each row can be read, as far as the mask says.
    unsafe {
        let at = |row: usize| from.wrapping_byte_add(row.wrapping_mul(along));
        let row = |row: usize| _mm512_maskz_loadu_ps(mask, at(row));
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
        let (t0, t1) = (_mm512_unpacklo_ps(r0, r1), _mm512_unpackhi_ps(r0, r1));
        let (t2, t3) = (_mm512_unpacklo_ps(r2, r3), _mm512_unpackhi_ps(r2, r3));
        [
            _mm512_shuffle_ps::<0x44>(t0, t2),
            _mm512_shuffle_ps::<0xee>(t0, t2),
            _mm512_shuffle_ps::<0x44>(t1, t3),
            _mm512_shuffle_ps::<0xee>(t1, t3),
        ]
    }
}

/// Eight columns of eight rows, as [`f32_16x16`].
///
/// # Safety
/// The CPU has AVX-512F; those elements can be read.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "what is no load needs the instruction set alone"
)]
pub(crate) unsafe fn f64_8x8(from: *const f64, along: usize, mask: __mmask8) -> [__m512d; 8] {
    // SAFETY: the CPU has AVX-512F; each row can be read, as far as the mask says.
    unsafe {
        let at = |row: usize| from.wrapping_add(row.wrapping_mul(along));
        let row = |row: usize| _mm512_maskz_loadu_pd(mask, at(row));
        let mut columns = [_mm512_setzero_pd(); 8];
        let even = [
            _mm512_unpacklo_pd(row(0), row(1)),
            _mm512_unpacklo_pd(row(2), row(3)),
            _mm512_unpacklo_pd(row(4), row(5)),
            _mm512_unpacklo_pd(row(6), row(7)),
        ];
        let odd = [
            _mm512_unpackhi_pd(row(0), row(1)),
            _mm512_unpackhi_pd(row(2), row(3)),
            _mm512_unpackhi_pd(row(4), row(5)),
            _mm512_unpackhi_pd(row(6), row(7)),
        ];
        for (c, r) in [(0, even), (1, odd)] {
            let (low0, low1) = (
                _mm512_shuffle_f64x2::<0x44>(r[0], r[1]),
                _mm512_shuffle_f64x2::<0x44>(r[2], r[3]),
            );
            let (high0, high1) = (
                _mm512_shuffle_f64x2::<0xee>(r[0], r[1]),
                _mm512_shuffle_f64x2::<0xee>(r[2], r[3]),
            );
            columns[c] = _mm512_shuffle_f64x2::<0x88>(low0, low1);
            columns[c + 2] = _mm512_shuffle_f64x2::<0xdd>(low0, low1);
            columns[c + 4] = _mm512_shuffle_f64x2::<0x88>(high0, high1);
            columns[c + 6] = _mm512_shuffle_f64x2::<0xdd>(high0, high1);
        }
        columns
    }
}

/// Copies 8 by 8 elements: (i, p) from `from + i * along + p` to `to + p * width + i`.
///
/// # Safety
/// The CPU has AVX; those elements can be read and written.
#[inline(always)]
pub(crate) unsafe fn f32_8x8(from: *const f32, along: usize, to: *mut f32, width: usize) {
    for col in [0, 4] {
        let mut to = to.wrapping_add(width.wrapping_mul(col));
        // SAFETY: half of the columns, which can be read.
        for column in unsafe { f32_8x4(from.wrapping_add(col), along) } {
            // SAFETY: the CPU has AVX, and the column's eight elements can be written.
            unsafe { _mm256_storeu_ps(to, column) };
            to = to.wrapping_add(width);
        }
    }
}

/// Copies 4 by 4 elements: (i, p) from `from + i * along + p` to `to + p * width + i`.
///
/// # Safety
/// The CPU has AVX; those elements can be read and written.
#[inline(always)]
pub(crate) unsafe fn f64_4x4(from: *const f64, along: usize, to: *mut f64, width: usize) {
    for col in [0, 2] {
        let mut to = to.wrapping_add(width.wrapping_mul(col));
        // SAFETY: half of the columns, which can be read.
        for column in unsafe { f64_4x2(from.wrapping_add(col), along) } {
            // SAFETY: the CPU has AVX, and the column's four elements can be written.
            unsafe { _mm256_storeu_pd(to, column) };
            to = to.wrapping_add(width);
        }
    }
}

/// Copies four steps of four lines, or of two: (i, p) from `from + i * along + p` to `to + p * width + i`.
///
/// # Safety
/// The CPU has AVX; those elements can be read and written.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "loads and stores of those elements; what is neither needs the instruction set alone"
)]
pub(crate) unsafe fn f32_lines<const LINES: usize>(
    from: *const f32,
    along: usize,
    to: *mut f32,
    width: usize,
) {
    const { assert!(LINES == 2 || LINES == 4) };
    let line = |i: usize| from.wrapping_add(i.wrapping_mul(along));
    let place = |p: usize| to.wrapping_add(p.wrapping_mul(width));
    // SAFETY: the caller's promises: four elements of each line, and as many of each step as there are lines.
    unsafe {
        let (r0, r1) = (_mm_loadu_ps(line(0)), _mm_loadu_ps(line(1)));
        let (low, high) = (_mm_unpacklo_ps(r0, r1), _mm_unpackhi_ps(r0, r1));
        if LINES == 2 {
            _mm_storel_pd(place(0).cast(), _mm_castps_pd(low));
            _mm_storeh_pd(place(1).cast(), _mm_castps_pd(low));
            _mm_storel_pd(place(2).cast(), _mm_castps_pd(high));
            _mm_storeh_pd(place(3).cast(), _mm_castps_pd(high));
            return;
        }
        let (r2, r3) = (_mm_loadu_ps(line(2)), _mm_loadu_ps(line(3)));
        let (low2, high2) = (_mm_unpacklo_ps(r2, r3), _mm_unpackhi_ps(r2, r3));
        _mm_storeu_ps(place(0), _mm_movelh_ps(low, low2));
        _mm_storeu_ps(place(1), _mm_movehl_ps(low2, low));
        _mm_storeu_ps(place(2), _mm_movelh_ps(high, high2));
        _mm_storeu_ps(place(3), _mm_movehl_ps(high2, high));
    }
}

/// Copies two steps of an even number of lines, as [`f32_lines`].
///
/// # Safety
/// As [`f32_lines`].
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "loads and stores of those elements; what is neither needs the instruction set alone"
)]
pub(crate) unsafe fn f64_lines<const LINES: usize>(
    from: *const f64,
    along: usize,
    to: *mut f64,
    width: usize,
) {
    for i in (0..LINES).step_by(2) {
        let (from, to) = (from.wrapping_add(i.wrapping_mul(along)), to.wrapping_add(i));
        // SAFETY: the caller's promises: two elements of both lines and of each step.
        unsafe {
            let (r0, r1) = (_mm_loadu_pd(from), _mm_loadu_pd(from.wrapping_add(along)));
            _mm_storeu_pd(to, _mm_unpacklo_pd(r0, r1));
            _mm_storeu_pd(to.wrapping_add(width), _mm_unpackhi_pd(r0, r1));
        }
    }
}
