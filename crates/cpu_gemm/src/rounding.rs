//! Elements of 16 bits: widened when they are packed, rounded when they are stored.
//!
//! Between the two everything is f32, in the same panels, tiles and order as a product of f32: the sums
//! are the same, and each is rounded once, after alpha and beta; where C is f32 the tiles store it
//! themselves. Both conversions are loops over
//! runs of elements that the compiler makes vector instructions of, for each instruction set.

use gemm_spec::{Accumulator, Convert, Element, epilogue};

use crate::pack::Pack;
use crate::vector::Vector;

/// Packs panels of that width as [`pack`](crate::pack::pack), of widened elements.
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn pack<V: Vector, T: Convert<V::Element>>(
    panels: &Pack<T, V::Element>,
    width: usize,
) {
    let &Pack { from, along, step, lines, k, to } = panels;
    for first in (0..lines).step_by(width) {
        let count = width.min(lines - first);
        let from = from.wrapping_add(first.wrapping_mul(along));
        let to = to.wrapping_add(first.wrapping_mul(k));
        // The panel's lines begin at `first`, and `first * k` elements stand before it, since all panels
        // before are whole.
        if along == 1 {
            if count == width {
                // SAFETY: the panel has all its lines, which lie side by side.
                unsafe { copy_steps::<V, T>(from, step, width, k, to, width) };
            } else {
                // SAFETY: the panel has `count` lines, which lie side by side.
                unsafe { copy_steps::<V, T>(from, step, count, k, to, width) };
            }
        } else if step == 1 {
            // SAFETY: the panel has `count` lines, whose steps lie side by side.
            unsafe { turn::<V, T>(from, along, count, k, to, width) };
        } else {
            // SAFETY: the panel has `count` lines of k steps.
            unsafe { copy_singly(from, (along, step), (0, count), (0, k), to, width) };
        }
        for p in 0..k {
            for i in count..width {
                let at = p.wrapping_mul(width).wrapping_add(i);
                // SAFETY: the place of a line that there is not: a panel has `width` of them.
                unsafe { to.wrapping_add(at).write(V::Element::ZERO) };
            }
        }
    }
}

/// Elements that are widened together: all are read before any is written, so that the compiler need not
/// ask whether the one is the other.
const RUN: usize = 8;

/// A run of elements.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn widened<T: Convert<Acc>, Acc>(from: *const T) -> [Acc; RUN] {
    // SAFETY: the caller's promise; an array asks for no more alignment than its elements.
    let elements = unsafe { from.cast::<[T; RUN]>().read() };
    elements.map(T::widen)
}

/// Step by step, the lines of each being contiguous.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn copy_steps<V: Vector, T: Convert<V::Element>>(
    from: *const T,
    step: usize,
    count: usize,
    k: usize,
    to: *mut V::Element,
    width: usize,
) {
    let registers = count / V::LANES * V::LANES;
    let whole = registers + (count - registers) / RUN * RUN;
    for p in 0..k {
        let read = from.wrapping_add(p.wrapping_mul(step));
        let write = to.wrapping_add(p.wrapping_mul(width));
        for i in (0..registers).step_by(V::LANES) {
            // SAFETY: the CPU has the instruction set of `V`; those lines are among the `count`, at this k element.
            let register = unsafe { V::widened(read.wrapping_add(i)) };
            // SAFETY: their places in the panel.
            unsafe { register.store(write.wrapping_add(i)) };
        }
        for i in (registers..whole).step_by(RUN) {
            // SAFETY: the same of a run.
            let run: [V::Element; RUN] = unsafe { widened(read.wrapping_add(i)) };
            // SAFETY: their places in the panel.
            unsafe { write.wrapping_add(i).cast::<[V::Element; RUN]>().write(run) };
        }
        for i in whole..count {
            // SAFETY: one of the `count` lines, at this step.
            let value = unsafe { read.wrapping_add(i).read() };
            // SAFETY: its place in the panel.
            unsafe { write.wrapping_add(i).write(value.widen()) };
        }
    }
}

/// The steps of each line are contiguous: blocks are widened and transposed in registers where there are
/// instructions for it, what is left in squares, and what is left then is copied singly.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn turn<V: Vector, T: Convert<V::Element>>(
    from: *const T,
    along: usize,
    count: usize,
    k: usize,
    to: *mut V::Element,
    width: usize,
) {
    let block = match size_of::<T>() {
        1 => V::BLOCK_OF_BYTES,
        2 => V::BLOCK_OF_HALVES,
        _ => None,
    };
    let (mut lines, mut steps) = (0, 0);
    if let Some((block_lines, block_steps)) = block {
        (lines, steps) = (count / block_lines * block_lines, k / block_steps * block_steps);
        for i in (0..lines).step_by(block_lines) {
            for p in (0..steps).step_by(block_steps) {
                let from = from.wrapping_add(i.wrapping_mul(along).wrapping_add(p));
                let to = to.wrapping_add(p.wrapping_mul(width).wrapping_add(i));
                // SAFETY: a block of the first `lines` and `steps`, and its place in the panel.
                unsafe { V::transpose_widened(from, along, to, width) };
            }
        }
    }
    // SAFETY: lines and steps beside the blocks, which exist.
    unsafe { turn_squares::<V, T>(from, along, (lines, count), (0, steps), to, width) };
    // SAFETY: all lines, at the steps behind the blocks.
    unsafe { turn_squares::<V, T>(from, along, (0, count), (steps, k), to, width) };
}

/// The same of some lines and steps, in squares.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn turn_squares<V: Vector, T: Convert<V::Element>>(
    from: *const T,
    along: usize,
    (first_line, count): (usize, usize),
    (first_step, k): (usize, usize),
    to: *mut V::Element,
    width: usize,
) {
    const { assert!(V::SIDE <= RUN) };
    let lines = first_line + (count - first_line) / V::SIDE * V::SIDE;
    let steps = first_step + (k - first_step) / V::SIDE * V::SIDE;
    for i in (first_line..lines).step_by(V::SIDE) {
        for p in (first_step..steps).step_by(V::SIDE) {
            let mut square = [[V::Element::ZERO; RUN]; RUN];
            let from = from.wrapping_add(i.wrapping_mul(along).wrapping_add(p));
            for (line, square) in square.iter_mut().enumerate().take(V::SIDE) {
                let from = from.wrapping_add(line.wrapping_mul(along));
                if V::SIDE == RUN {
                    // SAFETY: k elements before `steps` of one of the lines.
                    *square = unsafe { widened(from) };
                } else {
                    for (step, square) in square.iter_mut().enumerate().take(V::SIDE) {
                        // SAFETY: a step of one of the lines, before `steps`.
                        *square = unsafe { from.wrapping_add(step).read() }.widen();
                    }
                }
            }
            let to = to.wrapping_add(p.wrapping_mul(width).wrapping_add(i));
            // SAFETY: a square of a local, and its place in the panel.
            unsafe { V::transpose(square.as_ptr().cast(), RUN, to, width) };
        }
    }
    // SAFETY: lines and steps beside the squares, which exist.
    unsafe { copy_singly(from, (along, 1), (lines, count), (first_step, steps), to, width) };
    // SAFETY: all lines, at the steps behind the squares.
    unsafe { copy_singly(from, (along, 1), (first_line, count), (steps, k), to, width) };
}

/// Copies the elements of some lines and steps, one by one.
///
/// # Safety
/// As [`pack`].
#[inline(always)]
unsafe fn copy_singly<T: Convert<Acc>, Acc>(
    from: *const T,
    (along, step): (usize, usize),
    lines: (usize, usize),
    steps: (usize, usize),
    to: *mut Acc,
    width: usize,
) {
    for i in lines.0..lines.1 {
        for p in steps.0..steps.1 {
            let at = i.wrapping_mul(along).wrapping_add(p.wrapping_mul(step));
            // SAFETY: line `i` at step `p` exists.
            let value = unsafe { from.wrapping_add(at).read() }.widen();
            // SAFETY: its place in the panel, which nobody else uses.
            unsafe { to.wrapping_add(p.wrapping_mul(width).wrapping_add(i)).write(value) };
        }
    }
}

/// A tile's sums and where they go.
pub(crate) struct Rounded<Acc, C> {
    /// Sums of column j begin at `sums + j * sums_ld`.
    pub(crate) sums: *const Acc,
    /// See `sums`.
    pub(crate) sums_ld: usize,
    /// Elements of column j begin at `c + j * ldc`.
    pub(crate) c: *mut C,
    /// See `c`.
    pub(crate) ldc: usize,
    /// Rows of the tile.
    pub(crate) rows: usize,
    /// Columns of the tile.
    pub(crate) cols: usize,
    pub(crate) alpha: Acc,
    pub(crate) beta: Acc,
}

/// Stores a tile's sums as elements, with alpha and beta.
///
/// # Safety
/// The sums can be read and that part of C written, and read where beta is not zero; no other thread
/// uses either meanwhile.
#[inline(always)]
pub(crate) unsafe fn round<Acc: Accumulator, C: Convert<Acc>>(tile: &Rounded<Acc, C>) {
    let &Rounded { sums, sums_ld, c, ldc, rows, cols, alpha, beta } = tile;
    for col in 0..cols {
        // SAFETY: a column of the tile's sums, which nobody writes meanwhile.
        let sums = unsafe { std::slice::from_raw_parts(sums.wrapping_add(col * sums_ld), rows) };
        // SAFETY: the same column of C, another buffer, of which nobody else uses this part meanwhile.
        let c = unsafe { std::slice::from_raw_parts_mut(c.wrapping_add(col * ldc), rows) };
        for (c, &sum) in c.iter_mut().zip(sums) {
            *c = epilogue(alpha, sum, beta, || *c);
        }
    }
}
