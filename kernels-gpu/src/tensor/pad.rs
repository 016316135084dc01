//! Copies of operands whose lines TMA cannot address.

use cuda_std::memory::{global, global_mut};
use cuda_std::thread;
use gemm_spec::params::PadParams;
use gemm_spec::tensor::PAD_GROUP;

use crate::parts::entries::entry;

/// Elements that are stored by one instruction.
#[repr(C, align(16))]
struct Group([u16; PAD_GROUP as usize]);

entry! {
    /// Copies lines, a block one line at a time, a thread a group of elements at a time. The last group
    /// of a line is filled with zeros.
    ///
    /// # Safety
    /// `from` is valid for `rows` lines of `width` elements at `ld`, `to`, aligned to 16 bytes, for as many
    /// at `pitch`, a multiple of eight and at least `width`; nobody else uses `to`.
    pub unsafe fn tensor_pad(params: PadParams) {
        // SAFETY: the obligations are the same.
        unsafe { pad(params) };
    }
}

/// # Safety
/// The obligations of the entry.
#[inline(always)]
unsafe fn pad(params: PadParams) {
    let PadParams { rows, width, from, ld, to, pitch } = params;
    // SAFETY: it is valid in the whole launch.
    let from = unsafe { global(from) };
    // SAFETY: so is this.
    let to = unsafe { global_mut(to) };
    let mut row = thread::block_idx_x();
    while row < rows {
        let line = from.wrapping_add((u64::from(row) * ld) as usize);
        let copy = to.wrapping_add((u64::from(row) * pitch) as usize);
        let mut first = thread::thread_idx_x() * PAD_GROUP;
        while first < width {
            let mut group = Group([0; PAD_GROUP as usize]);
            let mut at = 0;
            while at < PAD_GROUP {
                if first + at < width {
                    // SAFETY: the guard; the line is valid for `width` elements.
                    group.0[at as usize] =
                        unsafe { line.wrapping_add((first + at) as usize).read() };
                }
                at += 1;
            }
            // SAFETY: the copy's line has room for whole groups, and this one belongs to this
            // thread alone.
            unsafe { copy.wrapping_add(first as usize).cast::<Group>().write(group) };
            first += thread::block_dim_x() * PAD_GROUP;
        }
        row += thread::grid_dim_x();
    }
}

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Pad(PadParams): tensor_pad);
