//! Packing of complex numbers for the tiles of real ones; [`crate::complex`] says why.

use std::ops::Range;

use gemm_spec::Element as _;

use crate::pack::{self, Pack};
use crate::parts::Parts;
use crate::vector::PartsVector;

/// Elements of a line that are packed before those of the next, where a line's are contiguous: those of a cache line, since
/// lines may be as far apart as pushes them out of the L1.
const STEPS_AT_ONCE: usize = 8;

/// Packs panels of A. Rows and steps of the panels are real, those of `from` complex: line `2 * i` and the next
/// at step `2 * p` and the next are the square of element (i, p), whose parts are at
/// `from + 2 * (i * along + p * step)`.
///
/// # Safety
/// As [`pack`](pack::pack), of those elements; lines, steps and width are even, and the width is one of whole registers.
#[inline(always)]
pub(crate) unsafe fn pack_a<V: PartsVector, const CONJUGATED: bool>(
    panels: &Pack<V::Element, V::Element>,
    width: usize,
) where
    V::Element: Parts,
{
    let &Pack { along, lines, k, .. } = panels;
    if along == 1 {
        for p in 0..k / 2 {
            // SAFETY: a step that exists.
            unsafe { column_of_a::<V, CONJUGATED>(panels, p, width) };
        }
    } else {
        for first in (0..lines).step_by(width) {
            for p in (0..k / 2).step_by(STEPS_AT_ONCE) {
                let steps = p..(k / 2).min(p.wrapping_add(STEPS_AT_ONCE));
                // SAFETY: lines and steps that exist.
                unsafe { block_of_a::<V, CONJUGATED>(panels, first, steps, width) };
            }
        }
    }
}

/// A step of all panels, whose elements are contiguous.
///
/// # Safety
/// As [`pack_a`]; it exists.
#[inline(always)]
unsafe fn column_of_a<V: PartsVector, const CONJUGATED: bool>(
    panels: &Pack<V::Element, V::Element>,
    p: usize,
    width: usize,
) where
    V::Element: Parts,
{
    let &Pack { from, step, lines, k, to, .. } = panels;
    let zero = V::Element::ZERO;
    // SAFETY: the CPU has the instruction set of `V`.
    let conjugate = unsafe { V::of_parts(zero, -zero) };
    // SAFETY: as above.
    let by_i = unsafe { V::of_parts(-zero, zero) };
    let from = from.wrapping_add(p.wrapping_mul(step).wrapping_mul(2));
    let mut panel = to.wrapping_add(p.wrapping_mul(width).wrapping_mul(2));
    for first in (0..lines).step_by(width) {
        for at in (0..width).step_by(V::LANES) {
            let line = first.wrapping_add(at);
            let from = from.wrapping_add(line);
            let register = if line.wrapping_add(V::LANES) <= lines {
                // SAFETY: lines of this step.
                unsafe { V::load(from) }
            } else if line < lines {
                // SAFETY: the CPU has the instruction set of `V`.
                let mask = unsafe { V::mask(lines.wrapping_sub(line)) };
                // SAFETY: the lines that are left.
                unsafe { V::load_masked(from, mask) }
            } else {
                break;
            };
            let register = match CONJUGATED {
                // SAFETY: the CPU has the instruction set of `V`.
                true => unsafe { register.change_signs(conjugate) },
                false => register,
            };
            // SAFETY: a register of the first column in the panel.
            unsafe { register.store(panel.wrapping_add(at)) };
            // SAFETY: the CPU has the instruction set of `V`.
            let exchanged = unsafe { register.exchange_parts() };
            // SAFETY: as above.
            let times_i = unsafe { exchanged.change_signs(by_i) };
            // SAFETY: a register of the second column.
            unsafe { times_i.store(panel.wrapping_add(width).wrapping_add(at)) };
        }
        panel = panel.wrapping_add(width.wrapping_mul(k));
    }
}

/// Some steps of the panel whose first line is `first`.
///
/// # Safety
/// As [`pack_a`]; they exist.
#[inline(always)]
unsafe fn block_of_a<V: PartsVector, const CONJUGATED: bool>(
    panels: &Pack<V::Element, V::Element>,
    first: usize,
    steps: Range<usize>,
    width: usize,
) where
    V::Element: Parts,
{
    let &Pack { from, along, step, lines, k, to } = panels;
    let count = width.min(lines.wrapping_sub(first));
    // Tiles read whole registers.
    let (count, filled) = (count / 2, count.next_multiple_of(V::LANES) / 2);
    let from = from.cast::<[V::Element; 2]>().wrapping_add((first / 2).wrapping_mul(along));
    let to = to.wrapping_add(first.wrapping_mul(k)).cast::<[V::Element; 2]>();
    for i in 0..filled {
        let from = from.wrapping_add(i.wrapping_mul(along));
        for p in steps.clone() {
            let [re, im] = if i < count {
                // SAFETY: one of the panel's lines, at a step that exists.
                unsafe { from.wrapping_add(p.wrapping_mul(step)).read() }
            } else {
                [V::Element::ZERO; 2]
            };
            let im = if CONJUGATED { -im } else { im };
            let to = to.wrapping_add(p.wrapping_mul(width).wrapping_add(i));
            // SAFETY: its place in the first column.
            unsafe { to.write([re, im]) };
            // SAFETY: its place in the second column.
            unsafe { to.wrapping_add(width / 2).write([-im, re]) };
        }
    }
}

/// Packs panels of B. Steps are real and twice those of `from`, columns are not: step `2 * p` holds the real parts
/// of the elements at `from + j * along + 2 * p * step`, the next step the imaginary ones.
///
/// # Safety
/// As [`pack_a`], but lines and width need not be even, nor is the width one of registers.
#[inline(always)]
pub(crate) unsafe fn pack_b<V: PartsVector, const CONJUGATED: bool>(
    panels: &Pack<V::Element, V::Element>,
    width: usize,
) where
    V::Element: Parts,
{
    let &Pack { step, lines, k, to, .. } = panels;
    if step != 1 {
        for p in 0..k / 2 {
            // SAFETY: a step that exists.
            unsafe { row_of_b::<V::Element, CONJUGATED>(panels, p, width) };
        }
        return;
    }
    // Parts that are contiguous are steps of real numbers.
    // SAFETY: the caller's promises.
    unsafe { pack::pack::<V>(panels, width) };
    if CONJUGATED {
        for first in (0..lines).step_by(width) {
            let count = width.min(lines.wrapping_sub(first));
            let panel = to.wrapping_add(first.wrapping_mul(k));
            for step in (1..k).step_by(2) {
                let row = panel.wrapping_add(step.wrapping_mul(width));
                for j in 0..count {
                    let at = row.wrapping_add(j);
                    // SAFETY: an imaginary part, which was packed above.
                    let im = unsafe { at.read() };
                    // SAFETY: its place.
                    unsafe { at.write(-im) };
                }
            }
        }
    }
}

/// A step of all panels.
///
/// # Safety
/// As [`pack_b`]; it exists.
#[inline(always)]
unsafe fn row_of_b<T: Parts, const CONJUGATED: bool>(panels: &Pack<T, T>, p: usize, width: usize) {
    let &Pack { from, along, step, lines, k, to } = panels;
    let mut from = from.wrapping_add(p.wrapping_mul(2).wrapping_mul(step));
    let mut to = to.wrapping_add(p.wrapping_mul(2).wrapping_mul(width));
    for _ in 0..lines / width {
        // SAFETY: columns of whole panels, and the two rows of parts there.
        unsafe { part_rows::<T, CONJUGATED>(from, along, width, to, width) };
        from = from.wrapping_add(width.wrapping_mul(along));
        to = to.wrapping_add(width.wrapping_mul(k));
    }
    let rest = lines % width;
    if rest > 0 {
        // SAFETY: the columns of the last panel.
        unsafe { part_rows::<T, CONJUGATED>(from, along, rest, to, width) };
        for j in (rest..width).chain(width.wrapping_add(rest)..width.wrapping_mul(2)) {
            // SAFETY: places in the same rows that have no column.
            unsafe { to.wrapping_add(j).write(T::ZERO) };
        }
    }
}

/// The real parts of some columns' elements in one row, the imaginary ones in the next, `width` behind it.
///
/// # Safety
/// As [`pack_b`]: the elements can be read, and both rows written.
#[inline(always)]
unsafe fn part_rows<T: Parts, const CONJUGATED: bool>(
    from: *const T,
    along: usize,
    count: usize,
    to: *mut T,
    width: usize,
) {
    for j in 0..count {
        let from = from.wrapping_add(j.wrapping_mul(along)).cast::<[T; 2]>();
        // SAFETY: an element of the step.
        let [re, im] = unsafe { from.read() };
        // SAFETY: its place in the row of real parts.
        unsafe { to.wrapping_add(j).write(re) };
        let im = if CONJUGATED { -im } else { im };
        // SAFETY: its place in the row of imaginary parts.
        unsafe { to.wrapping_add(j).wrapping_add(width).write(im) };
    }
}
