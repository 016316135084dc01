//! What is known of a line, a row of A or a column of B: the power of two that makes it integers, and how far
//! these are from it.

use super::moduli::System;
use crate::amx::pack::LINES;

/// Exponents of lines' largest elements within which no scaled number, and no element of C on its way back,
/// leaves the range of f64.
const RANGE: i32 = 400;

/// Sums of a line are those of its elements p with equal p modulo this, whatever the storage order.
const PARTIAL: usize = 8;

/// Less than one by more than an element is changed by rounding it to an integer.
const ROUNDED_UP: f64 = 1.0 - 1.0 / (1_u64 << 37) as f64;

/// A row of A or a column of B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// A power of two: times this the elements are rounded to integers, of as many bits as the moduli are for at most,
    /// whose norm stays below the bound.
    pub(super) scale: f64,
    /// The integers times this, rounded down, are below 128, and times `unit` no more than the elements'
    /// magnitudes.
    pub(super) magnitude: f64,
    pub(super) unit: f64,
    /// The sum of magnitudes; no number where the line cannot be scaled.
    pub(super) sum: f64,
}

impl Line {
    /// Of zeros.
    pub(super) const ZERO: Self = Self { scale: 1.0, magnitude: 1.0, unit: 1.0, sum: 0.0 };

    fn new<const N: usize>(known: &[Partial; PARTIAL], largest: f64, k: usize) -> Self {
        let squares: f64 = known.iter().map(|part| part.squares).sum();
        let sum: f64 = known.iter().map(|part| part.sum).sum();
        if largest == 0.0 && sum == 0.0 {
            return Self::ZERO;
        }
        // NaN and infinity are in the sum.
        if !sum.is_finite() || exponent(largest).abs() > RANGE {
            return Self { scale: 0.0, magnitude: 0.0, unit: 0.0, sum: f64::NAN };
        }
        // Rounding may add half a unit to each element.
        let room = System::<N>::largest_norm() - (k as f64).sqrt() / 2.0;
        // A line that is little more than one element has room for more than the bits of which residues are exact.
        let of_norm = exponent(room / squares.sqrt());
        let scale = power_of_two(of_norm.min(System::<N>::BITS - 1 - exponent(largest)));
        let unit = power_of_two(exponent(largest) - 6);
        // The largest integer is 2^44 or more, as no more than 2^17 of it have the norm.
        Self { scale, magnitude: ROUNDED_UP / (scale * unit), unit, sum }
    }
}

/// Sums over the elements p of a line with one p modulo [`PARTIAL`].
#[derive(Clone, Copy, Default)]
struct Partial {
    squares: f64,
    sum: f64,
}

/// Of a normal number.
fn exponent(number: f64) -> i32 {
    (number.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Looks at up to 32 lines of k elements: element (line, p) is at `from + line * along + p * apart`.
pub(super) type LookFn = unsafe fn(*const f64, (usize, usize), usize, usize) -> [Line; LINES];

/// Looks at lines, one after the other.
///
/// # Safety
/// They can be read.
pub(super) unsafe fn look<const N: usize>(
    from: *const f64,
    (along, apart): (usize, usize),
    lines: usize,
    k: usize,
) -> [Line; LINES] {
    let mut found = [Line::ZERO; LINES];
    for (line, found) in found.iter_mut().enumerate().take(lines) {
        let (mut known, mut largest) = ([Partial::default(); PARTIAL], 0.0);
        for p in 0..k {
            let at = from.wrapping_add(line * along).wrapping_add(p * apart);
            // SAFETY: the caller's promise.
            let magnitude = unsafe { at.read() }.abs();
            let Partial { squares, sum } = &mut known[p % PARTIAL];
            // NaN shows in the sum.
            largest = if magnitude > largest { magnitude } else { largest };
            *squares += magnitude * magnitude;
            *sum += magnitude;
        }
        *found = Line::new::<N>(&known, largest, k);
    }
    found
}

/// Elements of k that are looked at for eight lines before they are for the next eight.
#[cfg(target_arch = "x86_64")]
const AT_ONCE: usize = 64;

/// [`look`] by AVX-512.
///
/// # Safety
/// As there; the CPU has those features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) unsafe fn look_avx512<const N: usize>(
    from: *const f64,
    (along, apart): (usize, usize),
    lines: usize,
    k: usize,
) -> [Line; LINES] {
    use std::arch::x86_64::*;

    /// Of eight lines, or of eight p of one line.
    #[derive(Clone, Copy)]
    struct Eight {
        largest: __m512d,
        squares: __m512d,
        sum: __m512d,
    }
    const fn bits(count: usize) -> u8 {
        if count >= 8 { 0xff } else { (1 << count) - 1 }
    }
    let none = Eight {
        largest: _mm512_setzero_pd(),
        squares: _mm512_setzero_pd(),
        sum: _mm512_setzero_pd(),
    };
    let add = |eight: &mut Eight, from: *const f64, mask: u8| {
        // SAFETY: elements that exist, as the mask has them.
        let magnitude = _mm512_abs_pd(unsafe { _mm512_maskz_loadu_pd(mask, from) });
        // The second where one is NaN, which shows in the sum.
        eight.largest = _mm512_max_pd(magnitude, eight.largest);
        eight.squares = _mm512_add_pd(eight.squares, _mm512_mul_pd(magnitude, magnitude));
        eight.sum = _mm512_add_pd(eight.sum, magnitude);
    };
    let numbers = |vector: __m512d| {
        let mut numbers = [0.0; 8];
        // SAFETY: eight numbers.
        unsafe { _mm512_storeu_pd(numbers.as_mut_ptr(), vector) };
        numbers
    };
    let mut found = [Line::ZERO; LINES];
    if along == 1 {
        let mut all = [[none; PARTIAL]; LINES / 8];
        for first in (0..k).step_by(AT_ONCE) {
            for (index, eights) in all.iter_mut().enumerate() {
                let mask = bits(lines.saturating_sub(index * 8));
                let mut own = *eights;
                let from = from.wrapping_add(index * 8);
                let end = k.min(first + AT_ONCE);
                let mut p = first;
                while p + PARTIAL <= end {
                    for (part, eight) in own.iter_mut().enumerate() {
                        add(eight, from.wrapping_add((p + part) * apart), mask);
                    }
                    p += PARTIAL;
                }
                for (part, eight) in own.iter_mut().enumerate().take(end - p) {
                    add(eight, from.wrapping_add((p + part) * apart), mask);
                }
                *eights = own;
            }
        }
        for (index, eights) in all.iter().enumerate() {
            let largest =
                eights.iter().fold(none.largest, |most, eight| _mm512_max_pd(eight.largest, most));
            let (largest, squares) = (numbers(largest), eights.map(|eight| numbers(eight.squares)));
            let sums = eights.map(|eight| numbers(eight.sum));
            let here = lines.saturating_sub(index * 8).min(8);
            for (line, found) in found[index * 8..].iter_mut().enumerate().take(here) {
                let known: [_; PARTIAL] = std::array::from_fn(|part| Partial {
                    squares: squares[part][line],
                    sum: sums[part][line],
                });
                *found = Line::new::<N>(&known, largest[line], k);
            }
        }
    } else if apart == 1 {
        for (line, found) in found.iter_mut().enumerate().take(lines) {
            let from = from.wrapping_add(line * along);
            let mut eight = none;
            for p in (0..k).step_by(PARTIAL) {
                add(&mut eight, from.wrapping_add(p), bits(k - p));
            }
            let (squares, sums) = (numbers(eight.squares), numbers(eight.sum));
            let known: [_; PARTIAL] =
                std::array::from_fn(|part| Partial { squares: squares[part], sum: sums[part] });
            *found = Line::new::<N>(&known, _mm512_reduce_max_pd(eight.largest), k);
        }
    } else {
        // SAFETY: the caller's promise.
        return unsafe { look::<N>(from, (along, apart), lines, k) };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amx::residues::moduli::FEW;

    #[test]
    fn scaled_norms_fill_the_bound_and_stay_below_it() {
        let line = |elements: &[f64]| {
            // SAFETY: a slice can be read.
            unsafe { look::<FEW>(elements.as_ptr(), (elements.len(), 1), 1, elements.len())[0] }
        };
        let most = System::<FEW>::largest_norm();
        for factor in [1.0, 3.7e-80, 1.9e100] {
            // Enough of them that their norm leaves less room than the bits of each.
            let elements: Vec<f64> = (1..20_000).map(|p| factor * (f64::from(p).sin())).collect();
            let found = line(&elements);
            let rounded = elements.iter().map(|x| (x * found.scale).round_ties_even().powi(2));
            let norm = rounded.sum::<f64>().sqrt();
            assert!(norm < most && norm > 0.49 * most, "{norm}");
            let largest = elements.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            assert!((64.0..128.0).contains(&(largest / found.unit)));
            let byte = (largest * found.scale).round_ties_even() * found.magnitude;
            assert!(byte <= largest / found.unit && byte > 0.999 * largest / found.unit);
        }
        // One element is the norm, and keeps all of its bits.
        for alone in [1.0, 1.4, 2.0_f64.next_down()] {
            let whole = alone * line(&[alone, 0.0]).scale;
            assert!((2f64.powi(52)..2f64.powi(53)).contains(&whole), "{alone}: {whole}");
        }
        assert_eq!(line(&[0.0, -0.0]), Line::ZERO);
        for odd in [f64::NAN, f64::INFINITY, 1e300, 1e-300, f64::MIN_POSITIVE / 8.0] {
            assert!(
                line(&[1.0, odd].map(|x| if odd < 1.0 { odd } else { x })).sum.is_nan(),
                "{odd}"
            );
        }
    }
}
