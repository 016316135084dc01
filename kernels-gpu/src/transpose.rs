//! `transpose`: a matrix written with rows and columns exchanged.
//!
//! Computes  T (cols,rows) at pitch, of M (rows,cols) at ld
//! Operands  M and T, whose lines are contiguous; elements of 2, 4 or 8 bytes, moved as they are
//! Launch    block (32,8,1); along x, a tile of 32 x 32 at a time, from tile to tile
//! Shared    a tile, with a column more than it needs
//! Requires  rows, cols >= 1; addresses that are multiples of an element
//! Cost      each element is read and written once
//! Bound by  memory
//! Source    "An Efficient Matrix Transpose in CUDA C/C++"
//!
//! Kernels that find their operands by their addresses read them row by row. A column-major operand on the
//! device is copied to rows by this first.

use cuda_std::memory::{global, global_mut};
use cuda_std::{shared, thread};
use gemm_spec::index::ceil_div;
use gemm_spec::params::TransposeParams;
use gemm_spec::transpose::{PITCH, ROWS, SIDE};
#[cfg(not(target_arch = "nvptx64"))]
use gemm_spec::{Block, HelperEntry, HelperRole};

use crate::parts::entries::entry;

/// What the host needs to launch it.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const ENTRY: HelperEntry = HelperEntry {
    role: HelperRole::Transpose,
    symbol: "transpose",
    block: Block { x: SIDE, y: ROWS },
    min_blocks: 8,
    shared_bytes: gemm_spec::transpose::SHARED_BYTES,
};

entry! {
    /// Exchanges rows and columns.
    ///
    /// # Safety
    /// `from` is valid for `rows` lines of `cols` elements of `size` bytes at `ld`, `to` for `cols` lines of
    /// `rows` at `pitch`, both aligned to their elements; nobody else uses `to`. The launch has the block and
    /// the shared memory of [`ENTRY`].
    pub unsafe fn transpose(params: TransposeParams) {
        match params.size {
            // SAFETY: the obligations are the same.
            8 => unsafe { exchange::<u64>(params) },
            // SAFETY: so they are.
            4 => unsafe { exchange::<u32>(params) },
            // SAFETY: and so.
            _ => unsafe { exchange::<u16>(params) },
        }
    }
}

/// # Safety
/// The obligations of the entry, for elements of that size.
#[inline(always)]
unsafe fn exchange<T: Copy>(params: TransposeParams) {
    let TransposeParams { rows, cols, from, ld, to, pitch, size: _ } = params;
    // SAFETY: it is valid in the whole launch.
    let from = unsafe { global(from.cast::<T>()) };
    // SAFETY: so is this.
    let to = unsafe { global_mut(to.cast::<T>()) };
    // SAFETY: the launch has a tile of the largest elements.
    let tile = unsafe { shared::launch_sized::<[T; (SIDE * PITCH) as usize]>() }.cast::<T>();
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    // Never zero, so that no division of it can panic.
    let across = ceil_div(cols, SIDE).max(1);
    let tiles = across * ceil_div(rows, SIDE);
    let mut at = thread::block_idx_x();
    while at < tiles {
        let (first_row, first_col) = (at / across * SIDE, at % across * SIDE);
        let mut line = ty;
        while line < SIDE {
            let (row, col) = (first_row + line, first_col + tx);
            if row < rows && col < cols {
                let place = from.wrapping_add((u64::from(row) * ld) as usize + col as usize);
                // SAFETY: the guard.
                let element = unsafe { place.read() };
                let slot = tile.wrapping_add((line * PITCH + tx) as usize);
                // SAFETY: the slot is in the tile and belongs to this thread alone.
                unsafe { slot.write(element) };
            }
            line += ROWS;
        }
        // Before use: what is read next was written by other threads.
        // SAFETY: all threads of the block have the same tiles.
        unsafe { thread::sync_threads() };
        let mut line = ty;
        while line < SIDE {
            let (row, col) = (first_col + line, first_row + tx);
            if row < cols && col < rows {
                let slot = tile.wrapping_add((tx * PITCH + line) as usize);
                // SAFETY: the slot was written: the guard is that of the thread which did.
                let element = unsafe { slot.read() };
                let place = to.wrapping_add((u64::from(row) * pitch) as usize + col as usize);
                // SAFETY: the guard; each element belongs to one thread.
                unsafe { place.write(element) };
            }
            line += ROWS;
        }
        // Before overwrite: a thread that is ahead must not load the next tile while others read.
        // SAFETY: as above.
        unsafe { thread::sync_threads() };
        at += thread::grid_dim_x();
    }
}

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Transpose(TransposeParams): transpose);
