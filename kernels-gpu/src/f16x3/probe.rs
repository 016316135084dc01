//! The helper that examines samples of C for precision that limbs lose.
//!
//! Elements of a row that are small beside its largest lose bits. That harms no element of C whose
//! terms are dominated by large ones. It harms all of them where the small elements of A's rows
//! meet the large ones of B's columns, as they do if each k index is a quantity in a unit of its
//! own. A block examines eight neighbours in one row of C: it sums the magnitudes of their terms,
//! and the magnitudes whose other operand is small.

use cuda_std::memory::{Global, global, global_mut};
use cuda_std::{shared, thread, warp};
use gemm_spec::params::ProbeParams;
use gemm_spec::split::{
    FULL_PRECISION, OUT_OF_RANGE, PROBE_COLUMNS, loses_precision, probed, scale_factors,
};

use crate::limbs::HELPER_THREADS;
use crate::limbs::split::raise_flags;
use crate::parts::entries::entry;
use crate::parts::unroll::unroll;

const COLUMNS: usize = PROBE_COLUMNS as usize;
const WARPS: u32 = HELPER_THREADS / 32;
/// k elements of a thread whose reads are in flight together.
const AT_ONCE: usize = 4;

entry! {
    /// # Safety
    /// 1. `a` and `b` are valid for m by k and k by n elements, with strides `a_row` and `a_step`,
    ///    `b_step` and `b_col`; the m rows are those from `first` on of `rows`; there are m and n
    ///    exponents; `flags` is valid.
    /// 2. A block has 256 threads and the shared memory of the kernel's spec; m, n >= 1.
    pub unsafe fn f16x3_probe(params: ProbeParams) {
        // SAFETY: the obligations are the same.
        unsafe { probe(params) };
    }
}

/// # Safety
/// The obligations of the entry.
#[inline(always)]
unsafe fn probe(params: ProbeParams) {
    let ProbeParams { rows, first, m, n, k, a_row, a_step, b_step, b_col, .. } = params;
    // SAFETY: obligation 1, of A.
    let a = unsafe { global(params.a) };
    // SAFETY: obligation 1, of B.
    let b = unsafe { global(params.b) };
    // SAFETY: obligation 1, of the flags.
    let flags = unsafe { global_mut(params.flags) };
    // SAFETY: obligation 1, of the m exponents.
    let a_exponents = unsafe { global(params.a_exponents) };
    // SAFETY: obligation 1, of the n exponents.
    let b_exponents = unsafe { global(params.b_exponents) };
    let linear = thread::thread_idx_x();
    let (row, col0) = probed(thread::block_idx_x(), rows, n);
    // Rows before `first` wrap around and become the largest numbers.
    let row = row.wrapping_sub(first);
    if row >= m {
        return;
    }
    // SAFETY: obligation 1.
    let (a_first, a_second) =
        scale_factors(unsafe { a_exponents.wrapping_add(row as usize).read() });
    let line = a.wrapping_add((u64::from(row) * a_row) as usize);
    // Beyond the last column, the last one again.
    let col = |j: usize| (col0 + j as u32).min(n - 1);
    let mut columns: [Global<f32>; COLUMNS] = [b; COLUMNS];
    let mut scales = [(0.0f32, 0.0f32); COLUMNS];
    unroll!(for J in 0..8 {
        columns[J] = b.wrapping_add((u64::from(col(J)) * b_col) as usize);
        // SAFETY: obligation 1.
        scales[J] = scale_factors(unsafe { b_exponents.wrapping_add(col(J) as usize).read() });
    });
    let mut size = [0.0f32; COLUMNS];
    let mut meets = [0.0f32; COLUMNS];
    let mut first = linear;
    while first < k {
        // In flight together.
        let mut x = [0.0f32; AT_ONCE];
        let mut y = [[0.0f32; COLUMNS]; AT_ONCE];
        unroll!(for I in 0..4 {
            let step = first.saturating_add(I as u32 * HELPER_THREADS);
            if step < k {
                // SAFETY: obligation 1.
                x[I] = unsafe { line.wrapping_add((u64::from(step) * a_step) as usize).read() };
                let apart = (u64::from(step) * b_step) as usize;
                unroll!(for J in 0..8 {
                    // SAFETY: obligation 1.
                    y[I][J] = unsafe { columns[J].wrapping_add(apart).read() };
                });
            }
        });
        unroll!(for I in 0..4 {
            let x = (x[I] * a_first * a_second).abs();
            unroll!(for J in 0..8 {
                let y = (y[I][J] * scales[J].0 * scales[J].1).abs();
                size[J] += x * y;
                meets[J] += if small(x) { y } else { 0.0 };
                meets[J] += if small(y) { x } else { 0.0 };
            });
        });
        first = first.saturating_add(AT_ONCE as u32 * HELPER_THREADS);
    }

    // --- reduction over the threads of the block ---
    // SAFETY: obligation 2 gives the bytes; the barrier separates writes and reads.
    let partial = unsafe { shared::launch_sized::<f32>() };
    unroll!(for J in 0..8 {
        // SAFETY: all lanes are here.
        let size = unsafe { warp_sum(size[J]) };
        // SAFETY: as above.
        let meets = unsafe { warp_sum(meets[J]) };
        let lane = linear % 32;
        if lane == 0 {
            let at = partial.wrapping_add((linear / 32) as usize * 2 * COLUMNS + 2 * J);
            // SAFETY: the first of two words for each warp and column.
            unsafe { at.write(size) };
            // SAFETY: the second of them.
            unsafe { at.wrapping_add(1).write(meets) };
        }
    });
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    if linear < 32 {
        let (mut size, mut meets) = (0.0, 0.0);
        let mut of_warp = 0;
        while of_warp < WARPS {
            let at = of_warp as usize * 2 * COLUMNS + 2 * (linear as usize % COLUMNS);
            // SAFETY: written before the barrier.
            size += unsafe { partial.wrapping_add(at).read() };
            // SAFETY: as above.
            meets += unsafe { partial.wrapping_add(at + 1).read() };
            of_warp += 1;
        }
        // SAFETY: obligation 1; all lanes of the warp are here.
        unsafe {
            raise_flags(flags, if loses_precision(size, meets, k) { OUT_OF_RANGE } else { 0 })
        };
    }
}

/// Whether limbs do not represent a scaled magnitude in full.
#[inline(always)]
fn small(x: f32) -> bool {
    x < FULL_PRECISION && x != 0.0
}

/// The sum over all lanes of the warp.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn warp_sum(value: f32) -> f32 {
    let mut value = value;
    let mut distance = 16;
    while distance > 0 {
        // SAFETY: the caller's promise.
        let other = unsafe { warp::shuffle_xor(warp::FULL, value.to_bits(), distance) };
        value += f32::from_bits(other);
        distance /= 2;
    }
    value
}

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Probe(ProbeParams): f16x3_probe);
