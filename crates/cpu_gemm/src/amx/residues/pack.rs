//! A step of 32 lines as bytes: the residues of the scaled elements by each modulus, and their magnitudes.

use super::lines::Line;
use super::moduli::{COUNT, MODULI};
use crate::amx::pack::{Form, LINES, TILE};

/// Elements of k in a step.
pub(super) const STEP: usize = 64;
/// Planes of packed bytes: residues, then magnitudes.
pub(super) const PLANES: usize = COUNT + 1;
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

/// The nearest residue of an integer of 53 bits, or the one after it, as a byte.
///
/// The quotient errs by what the reciprocal is off by, 2^-53 of it: so the residue by one at most, and half a modulus
/// and one is 127 at most.
#[expect(clippy::cast_possible_truncation, reason = "a whole number of a byte's range")]
fn residue(whole: f64, modulus: u8) -> u8 {
    let modulus = f64::from(modulus);
    let quotient = whole.mul_add(1.0 / modulus, ROUNDER) - ROUNDER;
    ((-quotient).mul_add(modulus, whole) as i8).cast_unsigned()
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
pub(super) unsafe fn pack(step: &Step<'_>) -> u32 {
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
            let residues = MODULI.map(|modulus| residue(whole, modulus));
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

    /// Where quotients are nearest to halves, and the numbers largest.
    #[test]
    fn residues_of_the_largest_numbers_are_theirs() {
        for modulus in MODULI.map(i64::from) {
            for below in 0..2000 {
                let about = ((1_i64 << 53) / modulus - 1 - below * 977) * modulus + modulus / 2;
                for whole in about - 3..=about + 3 {
                    let byte = u8::try_from(modulus).expect("it is one");
                    for whole in [whole, -whole] {
                        let residue = i64::from(residue(whole as f64, byte).cast_signed());
                        assert_eq!((whole - residue) % modulus, 0, "{whole} modulo {modulus}");
                    }
                }
            }
        }
    }
}
