//! The reduction over warps that share k, through shared memory to C.
//!
//! Each slice of a block has accumulated its k elements for the whole tile. All slices write their
//! accumulators to a matrix of their own; then every thread adds some elements over the slices, in
//! order, and stores them.

use cuda_std::memory::Shared;
use cuda_std::thread;
use gemm_spec::Accumulator;

use super::fragments::{Acc, COLS_APART, Place, ROWS_APART};
use super::gemm::Gemm;
use super::quad::Quad;
use super::unroll::unroll;

/// Pitch of a slice's matrix: four more than the columns, so that four rows use different banks.
pub(crate) const fn pitch(cols: usize) -> usize {
    cols + 4
}

/// A lane's position: its slice and its first row and column in the tile.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) slice: usize,
    pub(crate) row: usize,
    pub(crate) col: usize,
}

/// The extents of a tile, and the slices and threads that work on it.
#[derive(Clone, Copy)]
pub(crate) struct Team {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) slices: usize,
    pub(crate) threads: usize,
}

/// Reduces and stores the accumulators of a tile that begins at `place`.
///
/// # Safety
/// 1. `partial` has room for a matrix of the team's rows at [`pitch`] of its columns for each
///    slice, and nobody accesses it. All threads of the block are here.
/// 2. `gemm.c` is valid for C; the blocks' elements from `first_row` and `first_col` on are
///    disjoint.
#[inline(always)]
pub(crate) unsafe fn store_slices<T: Accumulator, const ROWS: usize>(
    gemm: &Gemm<T>,
    partial: Shared<T>,
    (team, lane): (Team, Lane),
    place: Place,
    acc: &Acc<T, ROWS>,
) {
    let pitch = pitch(team.cols);
    let own = partial.wrapping_add((lane.slice * team.rows + lane.row) * pitch + lane.col);
    unroll!(for I in 0..16 {
        if I < ROWS {
            let row = own.wrapping_add((I / 4 * ROWS_APART + I % 4) * pitch);
            let [s0, s1, s2, s3, s4, s5, s6, s7] = acc[I];
            // SAFETY: obligation 1; each lane has elements of its own, in quads.
            unsafe { row.cast::<Quad<T>>().write(Quad([s0, s1, s2, s3])) };
            let row = row.wrapping_add(COLS_APART);
            // SAFETY: the same of the other half of its columns.
            unsafe { row.cast::<Quad<T>>().write(Quad([s4, s5, s6, s7])) };
        }
    });
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let in_quads = gemm.c_in_quads() && place.col.is_multiple_of(4);
    let mut at = thread::thread_idx_x() as usize;
    let quads = team.cols / 4;
    while at < team.rows * quads {
        let (row_in_tile, col_in_tile) = (at / quads, at % quads * 4);
        let from = partial.wrapping_add(row_in_tile * pitch + col_in_tile);
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
        let (row, col) = (place.row + row_in_tile as u32, place.col + col_in_tile as u32);
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
