//! Packing of complex numbers for the tiles of real ones; [`crate::complex`] says why.

use crate::pack::Pack;
use crate::parts::Parts;

/// Packs panels of A. Rows and steps of the panels are real, those of `from` complex: line `2 * i` and the next
/// at step `2 * p` and the next are the square of element (i, p), whose parts are at
/// `from + 2 * (i * along + p * step)`.
///
/// # Safety
/// As [`pack`](crate::pack::pack), of those elements; lines, steps and width are even.
#[inline(always)]
pub(crate) unsafe fn pack_a<T: Parts, const CONJUGATED: bool>(panels: &Pack<T, T>, width: usize) {
    let &Pack { from, along, step, lines, k, to } = panels;
    let from = from.cast::<[T; 2]>();
    let mut to = to;
    for first in (0..lines).step_by(width) {
        let count = width.min(lines.wrapping_sub(first)) / 2;
        let from = from.wrapping_add((first / 2).wrapping_mul(along));
        if along == 1 {
            // SAFETY: the lines of this panel, which exist, and its place.
            unsafe { panel_of_a::<T, CONJUGATED>(from, (1, step), count, k / 2, to, width) };
        } else {
            // SAFETY: as above.
            unsafe { panel_of_a::<T, CONJUGATED>(from, (along, step), count, k / 2, to, width) };
        }
        to = to.wrapping_add(width.wrapping_mul(k));
    }
}

/// A panel of `count` complex lines.
///
/// # Safety
/// As [`pack_a`].
#[inline(always)]
unsafe fn panel_of_a<T: Parts, const CONJUGATED: bool>(
    from: *const [T; 2],
    (along, step): (usize, usize),
    count: usize,
    steps: usize,
    to: *mut T,
    width: usize,
) {
    for p in 0..steps {
        let from = from.wrapping_add(p.wrapping_mul(step));
        let to = to.wrapping_add(p.wrapping_mul(2).wrapping_mul(width)).cast::<[T; 2]>();
        let second = to.wrapping_add(width / 2);
        for i in 0..width / 2 {
            let [re, im] = if i < count {
                // SAFETY: one of the panel's lines, at a step that exists.
                unsafe { from.wrapping_add(i.wrapping_mul(along)).read() }
            } else {
                [T::ZERO; 2]
            };
            let im = if CONJUGATED { -im } else { im };
            // SAFETY: its place in the first column.
            unsafe { to.wrapping_add(i).write([re, im]) };
            // SAFETY: its place in the second column.
            unsafe { second.wrapping_add(i).write([-im, re]) };
        }
    }
}

/// Packs panels of B. Steps are real and twice those of `from`, columns are not: step `2 * p` holds the real parts
/// of the elements at `from + j * along + 2 * p * step`, the next step the imaginary ones.
///
/// # Safety
/// As [`pack_a`], but lines and width need not be even.
#[inline(always)]
pub(crate) unsafe fn pack_b<T: Parts, const CONJUGATED: bool>(panels: &Pack<T, T>, width: usize) {
    let &Pack { from, along, step, lines, k, to } = panels;
    let mut to = to;
    for first in (0..lines).step_by(width) {
        let count = width.min(lines.wrapping_sub(first));
        let from = from.wrapping_add(first.wrapping_mul(along));
        for p in 0..k / 2 {
            let from = from.wrapping_add(p.wrapping_mul(2).wrapping_mul(step));
            let re_to = to.wrapping_add(p.wrapping_mul(2).wrapping_mul(width));
            let im_to = re_to.wrapping_add(width);
            for j in 0..width {
                let [re, im] = if j < count {
                    let from = from.wrapping_add(j.wrapping_mul(along)).cast::<[T; 2]>();
                    // SAFETY: one of the panel's columns, at a step that exists.
                    unsafe { from.read() }
                } else {
                    [T::ZERO; 2]
                };
                // SAFETY: its place in the row of real parts.
                unsafe { re_to.wrapping_add(j).write(re) };
                // SAFETY: its place in the row of imaginary parts.
                unsafe { im_to.wrapping_add(j).write(if CONJUGATED { -im } else { im }) };
            }
        }
        to = to.wrapping_add(width.wrapping_mul(k));
    }
}
