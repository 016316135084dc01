//! Packing by AVX-512: elements are scaled into words' order first, then become bytes of all planes.

use std::arch::x86_64::*;

use super::{Form, LINES, Line, ROUNDER, STEP, Step, System};

/// Elements of a step, scaled and rounded: of each 32 bytes that a plane has of them the first bytes of the
/// eight words, then the second, the third, and the fourth.
#[repr(C, align(64))]
struct Scaled([f64; LINES * STEP]);

/// Bytes that are written together, and their elements: a cache line.
const CHUNK: usize = 64;

/// [`super::pack`] by AVX-512.
///
/// # Safety
/// As there; the CPU has those features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
pub(in super::super) unsafe fn pack<const N: usize>(step: &Step<'_>) -> u32 {
    let mut scaled = std::mem::MaybeUninit::<Scaled>::uninit();
    let to = scaled.as_mut_ptr().cast::<f64>();
    let factors = Factors::of(step.lines);
    let order = match (step.along == 1, step.apart == 1, step.form) {
        (true, _, Form::Groups) => lines_to_groups,
        (true, _, Form::Lines) => lines_to_lines,
        (false, true, Form::Groups) => elements_to_groups,
        (false, true, Form::Lines) => elements_to_lines,
        (false, false, _) => any,
    };
    // SAFETY: the caller's promises; `to` holds the elements of a step.
    let inexact = unsafe { order(step, &factors, to) };
    for chunk in 0..LINES * STEP / CHUNK {
        // SAFETY: 64 elements, all written above; 64 bytes of each plane, at a multiple of 64.
        unsafe { bytes::<N>(step, &factors, chunk, to.wrapping_add(chunk * CHUNK)) };
    }
    inexact
}

/// What the lines are multiplied by.
#[repr(C, align(64))]
struct Factors {
    scale: [f64; LINES],
    magnitude: [f64; LINES],
}

impl Factors {
    fn of(lines: &[Line]) -> Self {
        let mut factors = Self { scale: [0.0; LINES], magnitude: [0.0; LINES] };
        for (index, line) in lines.iter().enumerate() {
            factors.scale[index] = line.scale;
            factors.magnitude[index] = line.magnitude;
        }
        factors
    }
}

/// The lowest bits of a mask.
#[expect(clippy::cast_possible_truncation, reason = "eight bits")]
fn first(count: usize) -> __mmask8 {
    ((1_u32 << count.min(8)) - 1) as u8
}

/// Eight of a line's or of eight lines' elements, scaled, and those rounded.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const f64, mask: __mmask8, scale: __m512d) -> (__m512d, __mmask8) {
    // SAFETY: elements that the mask does not have are not read.
    let scaled = _mm512_mul_pd(unsafe { _mm512_maskz_loadu_pd(mask, from) }, scale);
    let whole = _mm512_roundscale_pd::<_MM_FROUND_TO_NEAREST_INT>(scaled);
    (whole, _mm512_mask_cmp_pd_mask::<_CMP_NEQ_UQ>(mask, whole, scaled))
}

/// Rows of eight as columns of eight.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512d; 8]) -> [__m512d; 8] {
    let zero = _mm512_setzero_pd();
    // Even columns of two rows, and odd columns.
    let (mut even, mut odd) = ([zero; 4], [zero; 4]);
    for pair in 0..4 {
        let (above, below) = (rows[2 * pair], rows[2 * pair + 1]);
        even[pair] = _mm512_unpacklo_pd(above, below);
        odd[pair] = _mm512_unpackhi_pd(above, below);
    }
    let mut columns = [zero; 8];
    for (first, [a, b, c, d]) in [even, odd].into_iter().enumerate() {
        let low = [_mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0x88>(c, d)];
        let high = [_mm512_shuffle_f64x2::<0xdd>(a, b), _mm512_shuffle_f64x2::<0xdd>(c, d)];
        columns[first] = _mm512_shuffle_f64x2::<0x88>(low[0], low[1]);
        columns[first + 2] = _mm512_shuffle_f64x2::<0x88>(high[0], high[1]);
        columns[first + 4] = _mm512_shuffle_f64x2::<0xdd>(low[0], low[1]);
        columns[first + 6] = _mm512_shuffle_f64x2::<0xdd>(high[0], high[1]);
    }
    columns
}

/// # Safety
/// As [`pack`]; eight numbers at `to`, which begins at a multiple of 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put(to: *mut f64, at: usize, numbers: __m512d) {
    // SAFETY: the caller's promise.
    unsafe { _mm512_store_pd(to.wrapping_add(at), numbers) };
}

/// The factors of eight lines.
#[inline]
#[target_feature(enable = "avx512f")]
fn eight(factors: &[f64; LINES], line: usize) -> __m512d {
    let factors = &factors[line..line + 8];
    // SAFETY: eight numbers.
    unsafe { _mm512_loadu_pd(factors.as_ptr()) }
}

/// # Safety
/// As [`pack`]; `to` holds the elements of a step; elements of lines are side by side.
#[target_feature(enable = "avx512f")]
unsafe fn lines_to_groups(step: &Step<'_>, factors: &Factors, to: *mut f64) -> u32 {
    let mut inexact = 0;
    for line in (0..LINES).step_by(8) {
        let scale = eight(&factors.scale, line);
        let mask = first(step.lines.len().saturating_sub(line));
        let mut any = 0;
        for p in 0..STEP {
            let from = step.from.wrapping_add(line).wrapping_add(p * step.apart);
            let mask = if p < step.k { mask } else { 0 };
            // SAFETY: elements that exist, as the mask has them.
            let (whole, differ) = unsafe { load(from, mask, scale) };
            any |= differ;
            let at = line / 16 * 1024 + p / 4 * 64 + line % 16 * 4 + p % 4 * 8;
            // SAFETY: within the step.
            unsafe { put(to, at, whole) };
        }
        inexact |= u32::from(any) << line;
    }
    inexact
}

/// # Safety
/// As [`lines_to_groups`].
#[target_feature(enable = "avx512f")]
unsafe fn lines_to_lines(step: &Step<'_>, factors: &Factors, to: *mut f64) -> u32 {
    let mut inexact = 0;
    for line in (0..LINES).step_by(8) {
        let scale = eight(&factors.scale, line);
        let mask = first(step.lines.len().saturating_sub(line));
        let mut any = 0;
        for (half, rest) in (0..2).flat_map(|half| (0..4).map(move |rest| (half, rest))) {
            let rows = std::array::from_fn(|word| {
                let p = half * 32 + word * 4 + rest;
                let from = step.from.wrapping_add(line).wrapping_add(p * step.apart);
                let mask = if p < step.k { mask } else { 0 };
                // SAFETY: elements that exist, as the mask has them.
                let (whole, differ) = unsafe { load(from, mask, scale) };
                any |= differ;
                whole
            });
            for (index, words) in transpose(rows).into_iter().enumerate() {
                // SAFETY: within the step.
                unsafe { put(to, (line + index) * STEP + half * 32 + rest * 8, words) };
            }
        }
        inexact |= u32::from(any) << line;
    }
    inexact
}

/// # Safety
/// As [`pack`]; `to` holds the elements of a step; elements along k are side by side.
#[target_feature(enable = "avx512f")]
unsafe fn elements_to_groups(step: &Step<'_>, factors: &Factors, to: *mut f64) -> u32 {
    let mut inexact = 0;
    for line in (0..LINES).step_by(8) {
        for p in (0..STEP).step_by(8) {
            let rows = std::array::from_fn(|index| {
                let line = line + index;
                let exists = line < step.lines.len();
                let mask = if exists { first(step.k.saturating_sub(p)) } else { 0 };
                let from = step.from.wrapping_add(line * step.along).wrapping_add(p);
                let scale = _mm512_set1_pd(factors.scale[line]);
                // SAFETY: elements that exist, as the mask has them.
                let (whole, differ) = unsafe { load(from, mask, scale) };
                inexact |= u32::from(differ != 0) << line;
                whole
            });
            for (index, lines) in transpose(rows).into_iter().enumerate() {
                let p = p + index;
                let at = line / 16 * 1024 + p / 4 * 64 + line % 16 * 4 + p % 4 * 8;
                // SAFETY: within the step.
                unsafe { put(to, at, lines) };
            }
        }
    }
    inexact
}

/// # Safety
/// As [`elements_to_groups`].
#[target_feature(enable = "avx512f")]
unsafe fn elements_to_lines(step: &Step<'_>, factors: &Factors, to: *mut f64) -> u32 {
    let mut inexact = 0;
    let quads = [0, 1, 2, 3].map(|first| {
        let [a, b, c, d] = [first, first + 4, first + 8, first + 12];
        _mm512_setr_epi64(a, b, c, d, a, b, c, d)
    });
    for line in 0..LINES {
        let scale = _mm512_set1_pd(factors.scale[line]);
        let count = if line < step.lines.len() { step.k } else { 0 };
        let mut any = 0;
        for half in [0, 32] {
            let parts: [_; 4] = std::array::from_fn(|part| {
                let p = half + part * 8;
                let from = step.from.wrapping_add(line * step.along).wrapping_add(p);
                // SAFETY: elements that exist, as the mask has them.
                let (whole, differ) = unsafe { load(from, first(count.saturating_sub(p)), scale) };
                any |= differ;
                whole
            });
            for (rest, &quads) in quads.iter().enumerate() {
                let low = _mm512_permutex2var_pd(parts[0], quads, parts[1]);
                let high = _mm512_permutex2var_pd(parts[2], quads, parts[3]);
                let words = _mm512_shuffle_f64x2::<0x44>(low, high);
                // SAFETY: within the step.
                unsafe { put(to, line * STEP + half + rest * 8, words) };
            }
        }
        inexact |= u32::from(any != 0) << line;
    }
    inexact
}

/// Elements that are side by side in no direction.
///
/// # Safety
/// As [`pack`]; `to` holds the elements of a step.
#[target_feature(enable = "avx512f")]
unsafe fn any(step: &Step<'_>, factors: &Factors, to: *mut f64) -> u32 {
    let mut inexact = 0;
    for line in 0..LINES {
        for p in 0..STEP {
            let mut whole = 0.0;
            if line < step.lines.len() && p < step.k {
                let from = step.from.wrapping_add(line * step.along).wrapping_add(p * step.apart);
                // SAFETY: a line and an element that exist.
                let scaled = unsafe { from.read() } * factors.scale[line];
                whole = scaled.round_ties_even();
                inexact |= u32::from(whole != scaled) << line;
            }
            let byte = super::byte(step.form, line, p);
            let at = byte / 32 * 32 + byte % 4 * 8 + byte % 32 / 4;
            // SAFETY: within the step.
            unsafe { to.wrapping_add(at).write(whole) };
        }
    }
    inexact
}

/// Two times four registers: of the first to the fourth bytes of eight words.
type Words = [[__m512d; 4]; 2];

/// Bytes, of two times four registers, in words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn joined(parts: Words, bias: f64) -> __m512i {
    let mut halves = [_mm256_setzero_si256(); 2];
    for (half, [first, second, third, fourth]) in halves.iter_mut().zip(parts) {
        let word = _mm512_add_pd(first, _mm512_set1_pd(ROUNDER + bias));
        let word = _mm512_fmadd_pd(second, _mm512_set1_pd(256.0), word);
        let word = _mm512_fmadd_pd(third, _mm512_set1_pd(65_536.0), word);
        let word = _mm512_fmadd_pd(fourth, _mm512_set1_pd(16_777_216.0), word);
        *half = _mm512_cvtepi64_epi32(_mm512_castpd_si512(word));
    }
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1])
}

/// Residues by a modulus as bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
fn residues<const N: usize>(mut numbers: Words, modulus: u8) -> __m512i {
    let rounder = _mm512_set1_pd(ROUNDER);
    let reciprocal = _mm512_set1_pd(1.0 / f64::from(modulus));
    let modulus = _mm512_set1_pd(f64::from(modulus));
    let reduced = |number| {
        let quotient = _mm512_sub_pd(_mm512_fmadd_pd(number, reciprocal, rounder), rounder);
        _mm512_fnmadd_pd(quotient, modulus, number)
    };
    for number in numbers.as_flattened_mut() {
        *number = reduced(*number);
        if System::<N>::REDUCES_TWICE {
            *number = reduced(*number);
        }
    }
    // 128 is added to each byte, so that none borrows from the next, and taken away again.
    _mm512_xor_si512(joined(numbers, 128.0 * 16_843_009.0), _mm512_set1_epi8(-128))
}

/// Magnitudes as bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
fn magnitudes(mut numbers: Words, factors: [__m512d; 2]) -> __m512i {
    for (half, factor) in numbers.iter_mut().zip(factors) {
        for number in half {
            let product = _mm512_mul_pd(_mm512_abs_pd(*number), factor);
            *number = _mm512_roundscale_pd::<_MM_FROUND_TO_NEG_INF>(product);
        }
    }
    joined(numbers, 0.0)
}

/// The bytes of a chunk, in all planes.
///
/// # Safety
/// As [`pack`]; 64 elements, in the order of [`Scaled`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn bytes<const N: usize>(
    step: &Step<'_>,
    factors: &Factors,
    chunk: usize,
    from: *const f64,
) {
    let mut numbers = [[_mm512_setzero_pd(); 4]; 2];
    for (index, number) in numbers.as_flattened_mut().iter_mut().enumerate() {
        // SAFETY: eight of the chunk's elements.
        *number = unsafe { _mm512_load_pd(from.wrapping_add(index * 8)) };
    }
    let to = step.to.wrapping_add(chunk * CHUNK);
    for (index, &modulus) in System::<N>::MODULI.iter().enumerate() {
        let bytes = residues::<N>(numbers, modulus);
        // SAFETY: 64 bytes of this plane.
        unsafe { _mm512_store_si512(to.wrapping_add(index * step.plane).cast(), bytes) };
    }
    // A chunk is a group of steps of 16 lines, or a line.
    let factors = match step.form {
        Form::Groups => {
            let first = chunk / 16 * 16;
            [eight(&factors.magnitude, first), eight(&factors.magnitude, first + 8)]
        }
        Form::Lines => [_mm512_set1_pd(factors.magnitude[chunk]); 2],
    };
    let bytes = magnitudes(numbers, factors);
    // SAFETY: 64 bytes of the last plane.
    unsafe { _mm512_store_si512(to.wrapping_add(N * step.plane).cast(), bytes) };
}
