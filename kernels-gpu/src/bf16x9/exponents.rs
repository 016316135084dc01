//! The helper that finds by how much the fallback scales the rows of an operand, where splitting has not.

use cuda_std::memory::{global, global_mut};
use cuda_std::{shared, thread};
use gemm_spec::params::RowExponentsParams;
use gemm_spec::split::{EXPONENT_ROWS, scale_exponent};
use gemm_spec::{HelperEntry, HelperRole};

use crate::limbs::split::warp_reduce;
use crate::limbs::{HELPER_THREADS, helper};
use crate::parts::entries::entry;
use crate::parts::unroll::unroll;

const LANES: u32 = 32;
const WARPS: u32 = HELPER_THREADS / LANES;
/// Reads of a thread that are in flight together.
const AT_ONCE: u32 = 4;

entry! {
    /// # Safety
    /// 1. `from` is valid for `rows` rows of k elements, with strides `row` and `step`; `exponents` for `rows` words,
    ///    which nobody else uses; `flags` is valid.
    /// 2. The grid has a block for each [`EXPONENT_ROWS`] rows; a block has 256 threads and the shared memory of the
    ///    kernel's spec.
    pub unsafe fn limbs_exponents(params: RowExponentsParams) {
        // SAFETY: the obligations are the same.
        unsafe { row_exponents(params) };
    }
}

/// What the host needs to launch it.
pub(crate) const ENTRY: HelperEntry =
    helper(HelperRole::RowExponents, "limbs_exponents", WARPS * EXPONENT_ROWS * 4);

/// # Safety
/// The obligations of the entry.
#[inline(always)]
unsafe fn row_exponents(params: RowExponentsParams) {
    let RowExponentsParams { rows, k, from, row: of_row, step, exponents, flags, when } = params;
    // SAFETY: obligation 1, of the flags.
    let flags = unsafe { global(flags) };
    // SAFETY: obligation 1; the helpers before this launch wrote the flags.
    if when != 0 && unsafe { flags.read() } & when == 0 {
        return;
    }
    // SAFETY: obligation 1, of the operand.
    let from = unsafe { global(from) };
    // SAFETY: obligation 1, of the exponents.
    let exponents = unsafe { global_mut(exponents) };
    let (warp, lane) = (thread::thread_idx_x() / LANES, thread::thread_idx_x() % LANES);
    let row0 = thread::block_idx_x() * EXPONENT_ROWS;
    // The bits of the largest magnitude of a row, among every `apart`th k element from the first on.
    let largest = |row: u32, first: u32, apart: u32| {
        let line = from.wrapping_add((u64::from(row) * of_row) as usize);
        let (mut at, mut largest) = (first, 0);
        while at < k {
            unroll!(for I in 0..4 {
                let at = at.saturating_add(I as u32 * apart);
                if at < k {
                    // SAFETY: obligation 1: an element of the row.
                    let x = unsafe { line.wrapping_add((u64::from(at) * step) as usize).read() };
                    largest = largest.max(x.abs().to_bits());
                }
            });
            at = at.saturating_add(AT_ONCE * apart);
        }
        largest
    };
    if step == 1 {
        // A row at a time, whose elements neighbouring lanes read.
        let mut row = row0 + warp;
        while row < rows.min(row0 + EXPONENT_ROWS) {
            // SAFETY: all lanes are here.
            let largest = unsafe { warp_reduce(largest(row, lane, LANES), u32::max) };
            if lane == 0 {
                // SAFETY: obligation 1; one thread has the row.
                unsafe { exponents.wrapping_add(row as usize).write(scale_exponent(largest)) };
            }
            row += WARPS;
        }
        return;
    }
    // A row is a lane's, and its elements are shared by the warps.
    let row = row0 + lane;
    // SAFETY: obligation 2 gives the bytes; the barrier separates writes and reads.
    let shared = unsafe { shared::launch_sized::<u32>() };
    let of_warp = if row < rows { largest(row, warp, WARPS) } else { 0 };
    // SAFETY: one word for each thread.
    unsafe { shared.wrapping_add((warp * LANES + lane) as usize).write(of_warp) };
    // SAFETY: all threads of the block are here: where k is contiguous, none is.
    unsafe { thread::sync_threads() };
    if warp == 0 && row < rows {
        let (mut largest, mut other) = (of_warp, 1);
        while other < WARPS {
            let at = (other * LANES + lane) as usize;
            // SAFETY: written before the barrier.
            largest = largest.max(unsafe { shared.wrapping_add(at).read() });
            other += 1;
        }
        // SAFETY: obligation 1; one thread has the row.
        unsafe { exponents.wrapping_add(row as usize).write(scale_exponent(largest)) };
    }
}

/// The entry as a function for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(RowExponents(RowExponentsParams): limbs_exponents);
