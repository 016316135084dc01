//! Packing: panels of a factor copied so that a tile reads them from front to back.
//!
//! A panel is `width` rows of A (or columns of B) over the steps of a block of k. In the copy the
//! `width` elements of one step lie side by side, and step follows step; panel follows panel. Rows
//! and columns are both given by strides, so a transposed factor is packed without a copy of its own.

use gemm_spec::Element;

use crate::cache_line;
use crate::prefetch::prefetch;
use crate::vector::Vector;

/// Panels to pack.
pub(crate) struct Pack<T, Packed> {
    /// Element (i, p) is at `from + i * along + p * step`.
    pub(crate) from: *const T,
    /// See `from`.
    pub(crate) along: usize,
    /// See `from`.
    pub(crate) step: usize,
    /// Rows (or columns); the last panel is filled up with zeros.
    pub(crate) lines: usize,
    /// k elements.
    pub(crate) k: usize,
    /// Where the copy goes: panel q begins at `to + q * width * k`.
    pub(crate) to: *mut Packed,
}

/// Packs panels of that width, which is a constant wherever this is inlined.
///
/// # Safety
/// `from` can be read at `(i, p)` for all `i < lines` and `p < k`; `to` can be written for all panels,
/// and nobody else uses it meanwhile. The CPU has the instruction set of `V`.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "each call packs some lines and steps of the panels, and has the others' argument"
)]
pub(crate) unsafe fn pack<V: Vector>(panels: &Pack<V::Element, V::Element>, width: usize) {
    let &Pack { from, along, step, lines, k, to } = panels;
    let (whole, rest) = (lines / width, lines % width);
    let panel = width.wrapping_mul(k);
    let last = to.wrapping_add(whole.wrapping_mul(panel));
    // SAFETY: lines and steps that exist, and their places in the panels, which nobody else uses: `whole` panels
    // have all their lines, the last has `rest`, and what fills it up is within it.
    unsafe {
        if along == 1 {
            // A few steps of each panel: reads run along the lines, as in memory, and writes
            // along the panels.
            let (mut from, mut to, mut left) = (from, to, k);
            while left > 0 {
                let steps = left.min(STEPS_AT_ONCE);
                let (mut read, mut write) = (from, to);
                for _ in 0..whole {
                    copy_steps(read, step, width, steps, write, width);
                    read = read.wrapping_add(width);
                    write = write.wrapping_add(panel);
                }
                copy_steps(read, step, rest, steps, write, width);
                from = from.wrapping_add(step.wrapping_mul(steps));
                to = to.wrapping_add(width.wrapping_mul(steps));
                left = left.wrapping_sub(steps);
            }
        } else if step == 1 {
            let (mut from, mut to) = (from, to);
            for _ in 0..whole {
                turn::<V>(from, along, width, k, to, width);
                from = from.wrapping_add(width.wrapping_mul(along));
                to = to.wrapping_add(panel);
            }
            turn::<V>(from, along, rest, k, to, width);
        } else {
            let (mut from, mut to) = (from, to);
            for _ in 0..whole {
                copy_singly(from, (along, step), (0, width), (0, k), to, width);
                from = from.wrapping_add(width.wrapping_mul(along));
                to = to.wrapping_add(panel);
            }
            copy_singly(from, (along, step), (0, rest), (0, k), to, width);
        }
        if rest > 0 {
            for p in 0..k {
                for i in rest..rest.next_multiple_of(V::LANES).min(width) {
                    last.wrapping_add(p.wrapping_mul(width).wrapping_add(i))
                        .write(V::Element::ZERO);
                }
            }
        }
    }
}

/// Steps that are copied from one panel's lines before the next panel's, where lines lie side by side, and
/// how far ahead of the copy they are asked for.
const STEPS_AT_ONCE: usize = 2;
/// See `STEPS_AT_ONCE`.
const STEPS_AHEAD: usize = 4;

/// Step by step, the lines of each being contiguous.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn copy_steps<T: Copy>(
    mut from: *const T,
    step: usize,
    count: usize,
    k: usize,
    mut to: *mut T,
    width: usize,
) {
    for _ in 0..k {
        let ahead = from.wrapping_add(step.wrapping_mul(STEPS_AHEAD));
        for line in (0..count).step_by(cache_line::elements::<T>()) {
            prefetch(ahead.wrapping_add(line));
        }
        // SAFETY: the caller's promises: `count` lines of this step, and the panel's place for them.
        unsafe { std::ptr::copy_nonoverlapping(from, to, count) };
        from = from.wrapping_add(step);
        to = to.wrapping_add(width);
    }
}

/// The steps of each line are contiguous: squares are transposed, what is left is copied singly.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn turn<V: Vector>(
    from: *const V::Element,
    along: usize,
    count: usize,
    k: usize,
    to: *mut V::Element,
    width: usize,
) {
    let (lines, steps) = (count / V::SIDE * V::SIDE, k / V::SIDE * V::SIDE);
    // Few lines at a time: at a stride of some power of two all lie in one set of the cache.
    for i in (0..lines).step_by(V::SIDE) {
        for p in (0..steps).step_by(V::SIDE) {
            let from = from.wrapping_add(i.wrapping_mul(along).wrapping_add(p));
            let to = to.wrapping_add(p.wrapping_mul(width).wrapping_add(i));
            // SAFETY: the square lies within the first `lines` and `steps`, and its copy in the panel.
            unsafe { V::transpose(from, along, to, width) };
        }
    }
    let mut lines = lines;
    if V::LINE_STEPS > 0 {
        if V::SIDE > 4 && count.wrapping_sub(lines) >= 4 {
            // SAFETY: four of the lines beside the squares, and all those steps.
            unsafe { turn_lines::<V, 4>(from, along, lines, steps, to, width) };
            lines = lines.wrapping_add(4);
        }
        if count.wrapping_sub(lines) >= 2 {
            // SAFETY: two of the lines that are left.
            unsafe { turn_lines::<V, 2>(from, along, lines, steps, to, width) };
            lines = lines.wrapping_add(2);
        }
    }
    // SAFETY: lines and steps beside all of these, which exist.
    unsafe { copy_singly(from, (along, 1), (lines, count), (0, steps), to, width) };
    // SAFETY: all lines, at the steps behind the squares.
    unsafe { copy_singly(from, (along, 1), (0, count), (steps, k), to, width) };
}

/// [`turn`], but where there are lines enough by registers that are written as a whole, as they will be read.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
pub(crate) unsafe fn turn_registers<V: Vector>(
    from: *const V::Element,
    along: usize,
    count: usize,
    k: usize,
    to: *mut V::Element,
    width: usize,
) {
    let whole = if V::TRANSPOSES_ROWS { count / V::LANES * V::LANES } else { 0 };
    for line in (0..whole).step_by(V::LANES) {
        let from = from.wrapping_add(line.wrapping_mul(along));
        // SAFETY: as many lines as a register has lanes, all their steps, and the places of these.
        unsafe { V::transpose_rows(from, along, k, to.wrapping_add(line), width) };
    }
    let (from, rest) = (from.wrapping_add(whole.wrapping_mul(along)), count.wrapping_sub(whole));
    // SAFETY: the lines that are left.
    unsafe { turn::<V>(from, along, rest, k, to.wrapping_add(whole), width) };
}

/// Some lines from that one on, a few steps at a time; the steps are a multiple of these.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn turn_lines<V: Vector, const LINES: usize>(
    from: *const V::Element,
    along: usize,
    line: usize,
    steps: usize,
    to: *mut V::Element,
    width: usize,
) {
    let (from, to) = (from.wrapping_add(line.wrapping_mul(along)), to.wrapping_add(line));
    for p in (0..steps).step_by(V::LINE_STEPS) {
        let to = to.wrapping_add(p.wrapping_mul(width));
        // SAFETY: those lines at steps that exist.
        unsafe { V::transpose_lines::<LINES>(from.wrapping_add(p), along, to, width) };
    }
}

/// Copies the elements of some lines and steps, one by one.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
pub(crate) unsafe fn copy_singly<T: Copy>(
    from: *const T,
    (along, step): (usize, usize),
    lines: (usize, usize),
    steps: (usize, usize),
    to: *mut T,
    width: usize,
) {
    for i in lines.0..lines.1 {
        for p in steps.0..steps.1 {
            let at = i.wrapping_mul(along).wrapping_add(p.wrapping_mul(step));
            // SAFETY: line `i` at step `p` exists.
            let value = unsafe { from.wrapping_add(at).read() };
            // SAFETY: its place in the panel, which nobody else uses.
            unsafe { to.wrapping_add(p.wrapping_mul(width).wrapping_add(i)).write(value) };
        }
    }
}
