//! A warp's tile of C in the registers of its lanes, and how it is fed from shared memory.
//!
//! The tile has 64 columns and 4 rows for each row of a lane. Lanes are arranged as
//! [`lane_place`](gemm_spec::index::lane_place) says; each has groups of 4 x 4 elements, 16 rows and
//! 32 columns apart, so that lanes next to each other read 16 bytes next to each other:
//!
//! ```text
//!        col 4*x ..+4    32 + 4*x ..+4
//!   row  +-------------+-------------+
//!  4*y   |    4 x 4    |    4 x 4    |
//!        +-------------+-------------+
//!  16 +  |    4 x 4    |    4 x 4    |      and so on, ROWS / 4 groups
//!  4*y   +-------------+-------------+
//! ```

use cuda_std::memory::SharedAddress;
use gemm_spec::Accumulator;

use super::gemm::Gemm;
use super::unroll::unroll;

/// Columns of a warp's tile.
pub(crate) const WARP_COLS: usize = 64;
/// Rows of a warp's tile for each row of a lane.
pub(crate) const LANES_Y: usize = 4;
/// Columns of C of a lane.
pub(crate) const COLS: usize = 8;
/// Rows from one group of a lane to the next.
pub(crate) const ROWS_APART: usize = 16;
/// Columns from one group of a lane to the next.
pub(crate) const COLS_APART: usize = 32;

/// A lane's accumulators.
pub(crate) type Acc<T, const ROWS: usize> = [[T; COLS]; ROWS];

/// A lane's fragments: its elements of A and B for one k element.
#[derive(Clone, Copy)]
pub(crate) struct Fragments<T, const ROWS: usize> {
    a: [T; ROWS],
    b: [T; COLS],
}

impl<T: Accumulator, const ROWS: usize> Fragments<T, ROWS> {
    /// Reads the fragments of a step whose row of A's transposed tile and of B's tile hold this lane's
    /// first element at `a` and `b`.
    ///
    /// # Safety
    /// The lane's groups in both rows are written and visible, and 16-byte aligned.
    // Out of line on the host, where its many copies would only cost time to compile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(crate) unsafe fn read(a: SharedAddress<T>, b: SharedAddress<T>) -> Self {
        let mut fragments = Self { a: [T::ZERO; ROWS], b: [T::ZERO; COLS] };
        unroll!(for G in 0..4 {
            if 4 * G < ROWS {
                // SAFETY: the caller's promise.
                let quad = unsafe { a.wrapping_add(G * ROWS_APART).read_quad() };
                unroll!(for I in 0..4 {
                    fragments.a[4 * G + I] = quad[I];
                });
            }
        });
        unroll!(for G in 0..2 {
            // SAFETY: the caller's promise.
            let quad = unsafe { b.wrapping_add(G * COLS_APART).read_quad() };
            unroll!(for I in 0..4 {
                fragments.b[4 * G + I] = quad[I];
            });
        });
        fragments
    }

    /// Adds the products of every row with every column to the accumulators.
    ///
    /// Columns go back and forth from row to row, so that neighbouring instructions share an operand,
    /// which the SM then reads once.
    // Out of line on the host, where its many copies would only cost time to compile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    pub(crate) fn multiply(&self, acc: &mut Acc<T, ROWS>) {
        unroll!(for I in 0..16 {
            if I < ROWS {
                unroll!(for J in 0..8 {
                    let col = if I.is_multiple_of(2) { J } else { COLS - 1 - J };
                    acc[I][col] = self.a[I].mul_add(self.b[col], acc[I][col]);
                });
            }
        });
    }
}

/// What of a lane's elements is stored: those from (first_row, first_col) on that are in C.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The lane's first row and column of C.
    pub(crate) row: u32,
    pub(crate) col: u32,
    /// Rows and columns before these belong to other blocks.
    pub(crate) first_row: u32,
    pub(crate) first_col: u32,
}

/// Stores a lane's accumulators, four at a time where C's rows are aligned.
///
/// # Safety
/// `gemm.c` is valid for C; the elements of all lanes from their `first_row` and `first_col` on are
/// disjoint.
// Out of line on the host, where its many copies would only cost time to compile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
pub(crate) unsafe fn store<T: Accumulator, const ROWS: usize>(
    gemm: &Gemm<T>,
    place: Place,
    acc: &Acc<T, ROWS>,
) {
    let in_quads = gemm.c_in_quads() && place.col.is_multiple_of(4);
    unroll!(for I in 0..16 {
        if I < ROWS {
            let row = place.row + (I / 4 * ROWS_APART + I % 4) as u32;
            if row >= place.first_row && row < gemm.m {
                unroll!(for G in 0..2 {
                    let col = place.col + (G * COLS_APART) as u32;
                    if in_quads && col >= place.first_col && col + 4 <= gemm.n {
                        let [s0, s1, s2, s3, s4, s5, s6, s7] = acc[I];
                        let quad = if G == 0 { [s0, s1, s2, s3] } else { [s4, s5, s6, s7] };
                        // SAFETY: the guards; each element belongs to one lane.
                        unsafe { gemm.store_quad(row, col, quad) };
                    } else {
                        unroll!(for J in 0..4 {
                            let col = col + J as u32;
                            if col >= place.first_col && col < gemm.n {
                                // SAFETY: the guards; each element belongs to one lane.
                                unsafe { gemm.store(row, col, acc[I][4 * G + J]) };
                            }
                        });
                    }
                });
            }
        }
    });
}
