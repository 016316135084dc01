//! From sums of residues back to numbers.

use super::lines::Line;
use super::moduli::System;
use crate::amx::pack::LINES;

/// Elements of a micro-tile.
pub(super) const ELEMENTS: usize = LINES * LINES;

/// Residues of a micro-tile by all moduli.
pub(super) type Residues<const N: usize> = [[i8; ELEMENTS]; N];

/// What a unit offers for a micro-tile.
#[derive(Clone, Copy)]
pub(super) struct Restore<const N: usize> {
    pub(super) reduce: unsafe fn(&[i32; ELEMENTS], usize, &mut [i8; ELEMENTS]),
    pub(super) restore: unsafe fn(&Residues<N>, &Sides<'_>, &mut [f64; ELEMENTS]),
    pub(super) admits: unsafe fn(&[i32; ELEMENTS], &Sides<'_>) -> bool,
}

/// A micro-tile's lines.
pub(super) struct Sides<'l> {
    pub(super) a: &'l Panel,
    pub(super) b: &'l Panel,
    pub(super) k: usize,
}

/// What is known of the lines of a panel once they are packed.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Panel {
    /// What the integers are multiplied by to become elements again.
    back: [f64; LINES],
    /// What a byte of magnitude counts.
    unit: [f64; LINES],
    /// Half of what a line was rounded to: nothing where its elements were integers.
    half: [f64; LINES],
    /// The sum of magnitudes.
    sum: [f64; LINES],
}

impl Panel {
    /// Of lines, those rounded as bits.
    pub(super) fn new(lines: &[Line], rounded: u32) -> Self {
        let nothing = [0.0; LINES];
        let mut panel = Self { back: nothing, unit: nothing, half: nothing, sum: nothing };
        for (index, line) in lines.iter().enumerate() {
            panel.back[index] = 1.0 / line.scale;
            panel.unit[index] = line.unit;
            panel.half[index] = if rounded >> index & 1 == 1 { 0.5 / line.scale } else { 0.0 };
            panel.sum[index] = line.sum;
        }
        panel
    }
}

/// Sums modulo a modulus, the nearest to zero.
#[expect(clippy::cast_possible_truncation, reason = "whole numbers within the range")]
fn reduce<const N: usize>(sums: &[i32; ELEMENTS], modulus: usize, to: &mut [i8; ELEMENTS]) {
    let modulus = i32::from(System::<N>::MODULI[modulus]);
    for (to, &sum) in to.iter_mut().zip(sums) {
        let least = sum.rem_euclid(modulus);
        *to = if least > modulus / 2 { least - modulus } else { least } as i8;
    }
}

/// Numbers by their residues, and by the scales of their lines: the Chinese remainder theorem. Sums of each part
/// of the weights are exact, and so is what is left of them after multiples of P are taken away.
fn restore<const N: usize>(residues: &Residues<N>, sides: &Sides<'_>, to: &mut [f64; ELEMENTS]) {
    let p = System::<N>::P;
    for (index, to) in to.iter_mut().enumerate() {
        let (row, col) = (index % LINES, index / LINES);
        let (mut high, mut middle, mut low) = (0.0, 0.0, 0.0);
        for (residues, weight) in residues.iter().zip(&System::<N>::WEIGHTS) {
            let residue = f64::from(residues[index]);
            high = residue.mul_add(weight.high, high);
            middle = residue.mul_add(weight.middle, middle);
            low = residue.mul_add(weight.low, low);
        }
        let times = ((high + middle) * System::<N>::RECIPROCAL).round_ties_even();
        let high = (-times).mul_add(p.high, high);
        let middle = (-times).mul_add(p.middle, middle);
        let low = (-times).mul_add(p.low, low);
        *to = (high + (middle + low)) * (sides.b.back[col] * sides.a.back[row]);
    }
}

/// How many times the unit roundoff of the sum of magnitudes the roundings may add up to: a quarter of the bound of
/// a chain of multiply-adds, which is k. Roundings seldom add up, in neither.
fn allowed(k: f64) -> f64 {
    (k / 4.0).max(2.0 * k.sqrt()) * (f64::EPSILON / 2.0)
}

/// Whether what the rounding of the lines may have changed is within what a chain of multiply-adds may err by, for
/// each element: `sums` are of magnitudes rounded down, so that the sum of the products' magnitudes is no less.
///
/// Lines that do not exist are rounded by nothing.
#[inline(always)]
fn admits(sums: &[i32; ELEMENTS], sides: &Sides<'_>) -> bool {
    let &Sides { a, b, k } = sides;
    let k = k as f64;
    let allowed = allowed(k);
    let mut admitted = true;
    for (col, sums) in sums.chunks_exact(LINES).enumerate() {
        let (unit, half, sum) = (b.unit[col] * allowed, b.half[col], b.sum[col]);
        for (row, &product) in sums.iter().enumerate() {
            let allowed = f64::from(product) * (a.unit[row] * unit);
            let rounded = a.half[row] * sum + half * a.sum[row] + k * a.half[row] * half;
            // A line that cannot be scaled makes this no number.
            admitted &= rounded <= allowed;
        }
    }
    admitted
}

impl<const N: usize> Restore<N> {
    /// Plain Rust, for any CPU.
    pub(super) const PLAIN: Self = Self {
        reduce: |sums, modulus, to| reduce::<N>(sums, modulus, to),
        restore: |residues, sides, to| restore(residues, sides, to),
        admits: |sums, sides| admits(sums, sides),
    };

    /// The same by AVX-512, which the CPU must have.
    #[cfg(target_arch = "x86_64")]
    pub(super) const AVX512: Self =
        Self { reduce: avx512::reduce::<N>, restore: avx512::restore::<N>, admits: avx512::admits };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::*;

    /// # Safety
    /// The CPU has those features.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    pub(super) unsafe fn reduce<const N: usize>(
        sums: &[i32; ELEMENTS],
        modulus: usize,
        to: &mut [i8; ELEMENTS],
    ) {
        let modulus = i32::from(System::<N>::MODULI[modulus]);
        let reciprocal = _mm512_set1_ps(1.0 / modulus as f32);
        let modulus = _mm512_set1_epi32(modulus);
        // A quotient of 24 bits may be some off; that of what is left is not.
        let nearer = |sums| {
            let quotients = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), reciprocal);
            _mm512_sub_epi32(sums, _mm512_mullo_epi32(_mm512_cvtps_epi32(quotients), modulus))
        };
        for (to, sums) in to.chunks_exact_mut(16).zip(sums.chunks_exact(16)) {
            // SAFETY: sixteen sums.
            let sums = unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
            let bytes = _mm512_cvtepi32_epi8(nearer(nearer(sums)));
            // SAFETY: sixteen bytes.
            unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), bytes) };
        }
    }

    /// # Safety
    /// The CPU has those features.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    pub(super) unsafe fn restore<const N: usize>(
        residues: &Residues<N>,
        sides: &Sides<'_>,
        to: &mut [f64; ELEMENTS],
    ) {
        let zero = _mm512_setzero_pd();
        let p = System::<N>::P;
        let p = [p.high, p.middle, p.low].map(|part| _mm512_set1_pd(part));
        let reciprocal = _mm512_set1_pd(System::<N>::RECIPROCAL);
        for (index, to) in to.chunks_exact_mut(16).enumerate() {
            let (row, col) = (index % 2 * 16, index / 2);
            let mut sums = [[zero; 3]; 2];
            for (residues, weight) in residues.iter().zip(&System::<N>::WEIGHTS) {
                // SAFETY: sixteen of the residues.
                let bytes =
                    unsafe { _mm_loadu_si128(residues.as_ptr().wrapping_add(index * 16).cast()) };
                let whole = _mm512_cvtepi8_epi32(bytes);
                let halves = [_mm512_castsi512_si256(whole), _mm512_extracti64x4_epi64::<1>(whole)];
                let weight =
                    [weight.high, weight.middle, weight.low].map(|part| _mm512_set1_pd(part));
                for (sums, half) in sums.iter_mut().zip(halves) {
                    let residue = _mm512_cvtepi32_pd(half);
                    for (sum, weight) in sums.iter_mut().zip(weight) {
                        *sum = _mm512_fmadd_pd(residue, weight, *sum);
                    }
                }
            }
            let of_column = _mm512_set1_pd(sides.b.back[col]);
            for (half, [high, middle, low]) in sums.into_iter().enumerate() {
                let times = _mm512_roundscale_pd::<_MM_FROUND_TO_NEAREST_INT>(_mm512_mul_pd(
                    _mm512_add_pd(high, middle),
                    reciprocal,
                ));
                let high = _mm512_fnmadd_pd(times, p[0], high);
                let middle = _mm512_fnmadd_pd(times, p[1], middle);
                let low = _mm512_fnmadd_pd(times, p[2], low);
                let whole = _mm512_add_pd(high, _mm512_add_pd(middle, low));
                let rows = sides.a.back.as_ptr().wrapping_add(row + half * 8);
                // SAFETY: eight of a panel's numbers.
                let of_rows = unsafe { _mm512_loadu_pd(rows) };
                let number = _mm512_mul_pd(whole, _mm512_mul_pd(of_column, of_rows));
                // SAFETY: eight of the sixteen.
                unsafe { _mm512_storeu_pd(to.as_mut_ptr().wrapping_add(half * 8), number) };
            }
        }
    }

    /// # Safety
    /// The CPU has those features.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
    pub(super) unsafe fn admits(sums: &[i32; ELEMENTS], sides: &Sides<'_>) -> bool {
        super::admits(sums, sides)
    }
}
