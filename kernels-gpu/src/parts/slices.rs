//! The sums of warps that share k, on their way through shared memory to C.
//!
//! Each slice of a block has summed its steps of k for the whole tile. All slices write their sums to a
//! matrix of their own; then every thread adds some elements over the slices, in their order, and stores
//! them.

use cuda_std::memory::Shared;
use cuda_std::thread;
use gemm_spec::Element;

use super::fragments::{Acc, COLS_APART, Place, ROWS_APART};
use super::gemm::Gemm;
use super::quad::Quad;
use super::unroll::unroll;

/// From one row of a slice's sums to the next: what keeps four rows from meeting one bank.
pub(crate) const fn pitch(cols: usize) -> usize {
    cols + 4
}

/// A lane's place: its slice and its first row and column in the tile.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) slice: usize,
    pub(crate) row: usize,
    pub(crate) col: usize,
}

/// Who works on a tile: its rows and columns, the slices and all threads.
#[derive(Clone, Copy)]
pub(crate) struct Team {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) slices: usize,
    pub(crate) threads: usize,
}

/// Adds and stores the sums of a tile that begins at `place`.
///
/// # Safety
/// 1. `sums` has room for a matrix of the team's rows at [`pitch`] of its columns for each slice, and
///    nobody reads or writes there. All threads of the block are here.
/// 2. `gemm.c` is valid for C; the elements of all blocks from `first_row` and `first_col` on are
///    different ones.
#[inline(always)]
pub(crate) unsafe fn store_slices<T: Element<Acc = T>, const ROWS: usize>(
    gemm: &Gemm<T>,
    sums: Shared<T>,
    (team, lane): (Team, Lane),
    place: Place,
    acc: &Acc<T, ROWS>,
) {
    let pitch = pitch(team.cols);
    let own = sums.wrapping_add((lane.slice * team.rows + lane.row) * pitch + lane.col);
    unroll!(for I in 0..16 {
        if I < ROWS {
            let row = own.wrapping_add((I / 4 * ROWS_APART + I % 4) * pitch);
            let [s0, s1, s2, s3, s4, s5, s6, s7] = acc[I];
            // SAFETY: obligation 1; each lane has elements of its own.
            unsafe {
                row.cast::<Quad<T>>().write(Quad([s0, s1, s2, s3]));
                row.wrapping_add(COLS_APART).cast::<Quad<T>>().write(Quad([s4, s5, s6, s7]));
            }
        }
    });
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let in_quads = gemm.c_in_quads() && place.col.is_multiple_of(4);
    let mut at = thread::thread_idx_x() as usize;
    let quads = team.cols / 4;
    while at < team.rows * quads {
        let (within, across) = (at / quads, at % quads * 4);
        let from = sums.wrapping_add(within * pitch + across);
        let mut sum = [T::ZERO; 4];
        let mut slice = 0;
        while slice < team.slices {
            let from = from.wrapping_add(slice * team.rows * pitch).cast::<Quad<T>>();
            // SAFETY: written, and visible since the barrier.
            let quad = unsafe { from.read() }.0;
            unroll!(for J in 0..4 {
                sum[J] = T::ONE.mul_add(quad[J], sum[J]);
            });
            slice += 1;
        }
        let (row, col) = (place.row + within as u32, place.col + across as u32);
        if row >= place.first_row && row < gemm.m {
            if in_quads && col >= place.first_col && col + 4 <= gemm.n {
                // SAFETY: the guards; each element belongs to one thread.
                unsafe { gemm.store_quad(row, col, sum) };
            } else {
                unroll!(for J in 0..4 {
                    let col = col + J as u32;
                    if col >= place.first_col && col < gemm.n {
                        // SAFETY: the guards; each element belongs to one thread.
                        unsafe { gemm.store(row, col, sum[J]) };
                    }
                });
            }
        }
        at += team.threads;
    }
}
