//! Elements of 8 bits: each packed element of 32 bits holds several k elements, which one instruction
//! multiplies and adds up.
//!
//! ```text
//!   quads (VNNI)    a + 128: four numbers from 0 to 255      b: four numbers from -128 to 127
//!   pairs (AVX2)    a: two numbers of 16 bits                b: two numbers of 16 bits
//! ```
//!
//! The instruction for quads takes one factor without a sign, so A is packed with 128 added. What that
//! adds to a sum, 128 times a column of B, is known when B is packed: behind each panel of B stand the
//! numbers that its columns' sums begin with, less by just that. All of it is exact modulo 2^32, so the
//! bits are those of `serial`.

use crate::pack::Pack;

/// How k elements are arranged in a packed element.
pub(crate) trait Group {
    /// Steps in a packed element, 4 at most.
    const STEPS: usize;
    /// Whether sums begin with a zero-point compensation, which follows the panel of B, see [`starts`].
    const COMPENSATES: bool;

    /// Some steps of a row of A; those behind the last are zero.
    fn of_a(steps: [i8; 4]) -> i32;

    /// Some steps of a column of B; those behind the last are zero.
    fn of_b(steps: [i8; 4]) -> i32;
}

/// Four steps, of A with 128 added.
pub(crate) struct Quads;

impl Group for Quads {
    const STEPS: usize = 4;
    const COMPENSATES: bool = true;

    #[inline(always)]
    fn of_a(steps: [i8; 4]) -> i32 {
        // Adding 128 modulo 256 turns the top bit over.
        i32::from_le_bytes(steps.map(i8::cast_unsigned)) ^ i32::from_le_bytes([0x80; 4])
    }

    #[inline(always)]
    fn of_b(steps: [i8; 4]) -> i32 {
        i32::from_le_bytes(steps.map(i8::cast_unsigned))
    }
}

/// Two steps, widened to 16 bits.
pub(crate) struct Pairs;

impl Group for Pairs {
    const STEPS: usize = 2;
    const COMPENSATES: bool = false;

    #[inline(always)]
    fn of_a(steps: [i8; 4]) -> i32 {
        i32::from(steps[0]) & 0xffff | i32::from(steps[1]) << 16
    }

    #[inline(always)]
    fn of_b(steps: [i8; 4]) -> i32 {
        Self::of_a(steps)
    }
}

/// Packs panels of A.
///
/// # Safety
/// As [`pack`](crate::pack::pack), a panel having a packed element for each group of steps.
#[inline(always)]
pub(crate) unsafe fn pack_a<G: Group>(panels: &Pack<i8, i32>, width: usize) {
    let groups = panels.k.div_ceil(G::STEPS);
    for first in (0..panels.lines).step_by(width) {
        let to = panels.to.wrapping_add(first.wrapping_mul(groups));
        // SAFETY: the caller's promises; all panels before this one are whole.
        unsafe { panel::<G>(panels, first, width, to, G::of_a) };
    }
}

/// Packs panels of B, and behind each the numbers that sums begin with, where there are such.
///
/// # Safety
/// As [`pack_a`], a panel having as many elements more as it is wide where sums begin with a number.
#[inline(always)]
pub(crate) unsafe fn pack_b<G: Group>(panels: &Pack<i8, i32>, width: usize) {
    let groups = panels.k.div_ceil(G::STEPS);
    for first in (0..panels.lines).step_by(width) {
        let to = panels.to.wrapping_add(first.wrapping_mul(groups + usize::from(G::COMPENSATES)));
        // SAFETY: the lines can be read, and this is the panel's place, since all before it are whole.
        unsafe { panel::<G>(panels, first, width, to, G::of_b) };
        if G::COMPENSATES {
            // SAFETY: the panel is written, and the place behind it is its own, too.
            unsafe { starts(to, groups, width) };
        }
    }
}

/// Lines whose elements are read together where they lie side by side.
const RUN: usize = 8;

/// Packs the panel that begins with a line.
///
/// # Safety
/// As [`pack_a`]; `to` is the panel's place.
#[inline(always)]
unsafe fn panel<G: Group>(
    panels: &Pack<i8, i32>,
    first: usize,
    width: usize,
    to: *mut i32,
    group: impl Fn([i8; 4]) -> i32,
) {
    let &Pack { from, along, step, lines, k, .. } = panels;
    let count = width.min(lines - first);
    let from = from.wrapping_add(first.wrapping_mul(along));
    let whole = if along == 1 { count / RUN * RUN } else { 0 };
    for (index, p) in (0..k).step_by(G::STEPS).enumerate() {
        let steps = G::STEPS.min(k - p);
        let from = from.wrapping_add(p.wrapping_mul(step));
        let to = to.wrapping_add(index.wrapping_mul(width));
        for i in (0..whole).step_by(RUN) {
            let mut runs = [[0; RUN]; 4];
            for (s, run) in runs.iter_mut().enumerate().take(steps) {
                let from = from.wrapping_add(s.wrapping_mul(step).wrapping_add(i));
                // SAFETY: as many of the `count` lines, which lie side by side, at one of the steps.
                *run = unsafe { from.cast::<[i8; RUN]>().read() };
            }
            let packed: [i32; RUN] = std::array::from_fn(|i| group(runs.map(|run| run[i])));
            // SAFETY: their places in the panel.
            unsafe { to.wrapping_add(i).cast::<[i32; RUN]>().write(packed) };
        }
        for i in whole..count {
            let from = from.wrapping_add(i.wrapping_mul(along));
            let mut values = [0; 4];
            for (s, value) in values.iter_mut().enumerate().take(steps) {
                // SAFETY: one of the `count` lines at one of the steps.
                *value = unsafe { from.wrapping_add(s.wrapping_mul(step)).read() };
            }
            // SAFETY: its place in the panel.
            unsafe { to.wrapping_add(i).write(group(values)) };
        }
        for i in count..width {
            // SAFETY: the place of a line that there is not: a panel has `width` of them.
            unsafe { to.wrapping_add(i).write(0) };
        }
    }
}

/// Writes behind a panel of B what the sums of its columns begin with: -128 times the column.
///
/// # Safety
/// The panel can be read, and the elements behind it written.
#[inline(always)]
unsafe fn starts(panel: *mut i32, groups: usize, width: usize) {
    let end = panel.wrapping_add(groups.wrapping_mul(width));
    for i in 0..width {
        let mut sum = 0i32;
        for index in 0..groups {
            // SAFETY: the caller's promise.
            let group = unsafe { panel.wrapping_add(index.wrapping_mul(width) + i).read() };
            for byte in group.to_le_bytes() {
                sum = sum.wrapping_add(i32::from(byte.cast_signed()));
            }
        }
        // SAFETY: the caller's promise.
        unsafe { end.wrapping_add(i).write(sum.wrapping_mul(-128)) };
    }
}
