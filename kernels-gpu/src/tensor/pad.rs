//! Copies of operands whose lines TMA cannot address.

use cuda_std::memory::{Global, global, global_mut};
use cuda_std::thread;
use gemm_spec::params::{PadCopy, PadParams};
use gemm_spec::tensor::{PAD_GROUP, threads_of_line};

use crate::parts::entries::entry;
use crate::parts::unroll::unroll;

/// Elements that are stored by one instruction.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Group([u16; PAD_GROUP as usize]);

/// Elements that are read by one instruction where they begin at a multiple of their bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Four([u16; 4]);

/// The same of two elements.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
struct Two([u16; 2]);

entry! {
    /// Copies lines, a thread a group of elements at a time, as many threads a line as it has groups, or all of
    /// the block. The last group of a line is filled with zeros.
    ///
    /// # Safety
    /// `from` is valid for `rows` lines of `width` elements, `each` of them at `ld` and the next ones `stride`
    /// behind the first of those, `to`, aligned to 16 bytes, for `rows` lines at `pitch`, a multiple of eight
    /// and at least `width`; nobody else uses `to`. The same holds of the second operand where the grid has two
    /// blocks along y.
    pub unsafe fn tensor_pad(params: PadParams) {
        // SAFETY: the obligations are the same.
        unsafe { pad(params, thread::block_idx_y() != 0) };
    }
}

/// # Safety
/// The obligations of the entry, of this operand.
#[inline(always)]
unsafe fn pad(params: PadParams, second: bool) {
    let PadCopy { rows, width, from, ld, each, stride, to, pitch } = params.copy(second);
    // Never zero, so that no division by it can panic.
    let each = each.max(1);
    // SAFETY: it is valid in the whole launch.
    let from = unsafe { global(from) };
    // SAFETY: so is this.
    let to = unsafe { global_mut(to) };
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let lanes = threads_of_line(width, threads);
    let lines = threads / lanes;
    let mut row = thread::block_idx_x() * lines + thread / lanes;
    while row < rows {
        let (matrix, at) = (row / each, row % each);
        let line = from.wrapping_add((u64::from(matrix) * stride + u64::from(at) * ld) as usize);
        let copy = to.wrapping_add((u64::from(row) * pitch) as usize);
        let mut first = thread % lanes * PAD_GROUP;
        while first < width {
            // SAFETY: the line is valid for `width` elements.
            let group = unsafe { read_group(line.wrapping_add(first as usize), width - first) };
            // SAFETY: the copy's line has room for whole groups, and this one belongs to this
            // thread alone.
            unsafe { copy.wrapping_add(first as usize).cast::<Group>().write(group) };
            first += lanes * PAD_GROUP;
        }
        row += thread::grid_dim_x() * lines;
    }
}

/// A group of elements, or as many of them as are left before the line ends, followed by zeros.
///
/// # Safety
/// That many are valid.
#[inline(always)]
unsafe fn read_group(from: Global<u16>, left: u32) -> Group {
    let mut group = [0; PAD_GROUP as usize];
    if left < PAD_GROUP {
        unroll!(for AT in 0..8 {
            if (AT as u32) < left {
                // SAFETY: the caller's promise.
                group[AT] = unsafe { from.wrapping_add(AT).read() };
            }
        });
        return Group(group);
    }
    let (fours, twos) = (from.cast::<Four>(), from.cast::<Two>());
    if fours.is_aligned() {
        unroll!(for AT in 0..2 {
            // SAFETY: the whole group is valid, and the place suits the type.
            let Four(part) = unsafe { fours.wrapping_add(AT).read() };
            unroll!(for J in 0..4 {
                group[4 * AT + J] = part[J];
            });
        });
    } else if twos.is_aligned() {
        unroll!(for AT in 0..4 {
            // SAFETY: as above.
            let Two(part) = unsafe { twos.wrapping_add(AT).read() };
            group[2 * AT] = part[0];
            group[2 * AT + 1] = part[1];
        });
    } else {
        unroll!(for AT in 0..8 {
            // SAFETY: the whole group is valid.
            group[AT] = unsafe { from.wrapping_add(AT).read() };
        });
    }
    Group(group)
}

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Pad(PadParams): tensor_pad);
