//! A step of 32 lines as bytes: the residues of the scaled elements by each modulus, and their magnitudes.

use super::lines::Line;
use super::moduli::System;
use crate::amx::pack::{Form, LINES, TILE};

/// Elements of k in a step.
pub(super) const STEP: usize = 64;
/// Planes of packed bytes by that many moduli: residues, then magnitudes.
pub(super) const fn planes(moduli: usize) -> usize {
    moduli + 1
}
/// Added to a number below 2^51, this leaves it rounded to an integer in the low bits.
pub(super) const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// A step of 32 lines.
pub(super) struct Step<'l> {
    /// Element (line, p) is at `from + line * along + p * apart`.
    pub(super) from: *const f64,
    pub(super) along: usize,
    pub(super) apart: usize,
    /// What of the lines and of k exists; the rest is zeros.
    pub(super) lines: &'l [Line],
    pub(super) k: usize,
    pub(super) form: Form,
    /// The step in the first plane, and bytes from plane to plane.
    pub(super) to: *mut u8,
    pub(super) plane: usize,
}

/// Packs a step; says of which lines an element was no integer, as bits.
pub(super) type PackFn = unsafe fn(&Step<'_>) -> u32;

/// The byte of an element in the step of a plane.
fn byte(form: Form, line: usize, p: usize) -> usize {
    let within = match form {
        Form::Lines => line % 16 * 64 + p,
        Form::Groups => p / 4 * 64 + line % 16 * 4 + p % 4,
    };
    line / 16 * TILE + within
}

/// The nearest residue of an integer of 53 bits, or the one after it, as a byte; of one of 57 bits the nearest.
///
/// The quotient errs by what the reciprocal is off by, 2^-53 of it: so the residue of 53 bits by one at most, and half a
/// modulus and one is 127 at most. That of 57 bits errs by less than a modulus, and is reduced once more.
#[expect(clippy::cast_possible_truncation, reason = "a whole number of a byte's range")]
fn residue<const N: usize>(whole: f64, modulus: u8) -> u8 {
    let modulus = f64::from(modulus);
    let reduced = |whole: f64| {
        let quotient = whole.mul_add(1.0 / modulus, ROUNDER) - ROUNDER;
        (-quotient).mul_add(modulus, whole)
    };
    let once = reduced(whole);
    let nearest = if System::<N>::REDUCES_TWICE { reduced(once) } else { once };
    (nearest as i8).cast_unsigned()
}

/// The magnitude of an integer times a factor, rounded down: below 128.
#[expect(clippy::cast_possible_truncation, reason = "to be rounded down")]
#[expect(clippy::cast_sign_loss, reason = "a magnitude")]
fn magnitude(whole: f64, factor: f64) -> u8 {
    (whole.abs() * factor) as u8
}

/// Packs a step, number by number.
///
/// # Safety
/// The elements can be read, and the step can be written in all planes; nobody else uses it meanwhile.
pub(super) unsafe fn pack<const N: usize>(step: &Step<'_>) -> u32 {
    let &Step { from, along, apart, lines, k, form, to, plane } = step;
    let mut inexact = 0;
    for line in 0..LINES {
        let known = lines.get(line).copied().unwrap_or(Line::ZERO);
        for p in 0..STEP {
            let mut whole = 0.0;
            if line < lines.len() && p < k {
                let at = from.wrapping_add(line * along).wrapping_add(p * apart);
                // SAFETY: a line and an element that exist.
                let scaled = unsafe { at.read() } * known.scale;
                whole = scaled.round_ties_even();
                inexact |= u32::from(whole != scaled) << line;
            }
            let to = to.wrapping_add(byte(form, line, p));
            let residues = System::<N>::MODULI.map(|modulus| residue::<N>(whole, modulus));
            let bytes = residues.into_iter().chain([magnitude(whole, known.magnitude)]);
            for (index, byte) in bytes.enumerate() {
                // SAFETY: a byte of the step of this plane, which is this thread's to write.
                unsafe { to.wrapping_add(index * plane).write(byte) };
            }
        }
    }
    inexact
}

/// [`pack`] by AVX-512.
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amx::residues::moduli::{FEW, MANY};

    /// Where quotients are nearest to halves, and the numbers largest.
    fn residues_are_theirs<const N: usize>() {
        let largest = 1_i64 << System::<N>::BITS;
        // Whole numbers of more than 53 bits that are f64.
        let unit = largest >> 53;
        for modulus in System::<N>::MODULI {
            let whole = i64::from(modulus);
            for below in 0..2000 {
                let about = (largest / whole - 1 - below * 977) * whole + whole / 2;
                for number in -3..=3 {
                    let number = (about / unit + number) * unit;
                    for number in [number, -number] {
                        let byte = residue::<N>(number as f64, modulus);
                        let residue = i64::from(byte.cast_signed());
                        assert_eq!((number - residue) % whole, 0, "{number} modulo {modulus}");
                    }
                }
            }
        }
    }

    #[test]
    fn residues_of_the_largest_numbers_are_theirs() {
        residues_are_theirs::<FEW>();
        residues_are_theirs::<MANY>();
    }
}
