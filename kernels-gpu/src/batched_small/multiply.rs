//! A thread tile: up to four rows by four columns of a product, from operands in shared memory.

use cuda_std::memory::{GlobalMut, Shared};
use gemm_spec::batched::MOST_ROWS;
use gemm_spec::{Accumulator, Element as _};

use super::number::Output;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

/// Which elements of its product's tile a thread computes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Rows of the tile, and the first of the thread's; the others are `row_step` apart.
    pub(super) rows: u32,
    pub(super) row: u32,
    pub(super) row_step: u32,
    /// Rows of the thread tile.
    pub(super) thread_rows: u32,
    /// Columns of the tile, and which of its thread tiles along n this is.
    pub(super) cols: u32,
    pub(super) col: u32,
    pub(super) col_step: u32,
}

impl Place {
    /// Whether the thread's columns are neighbours: then those of every thread are in the tile.
    #[inline(always)]
    pub(super) const fn in_quads(&self) -> bool {
        self.cols.is_multiple_of(4)
    }

    /// A row of the thread's, in the tile or below it.
    #[inline(always)]
    const fn row_of(&self, i: usize) -> u32 {
        self.row + i as u32 * self.row_step
    }

    /// A column of the thread's, in the tile or behind it: neighbours, or else `col_step` apart, so that neighbouring
    /// threads have neighbouring columns.
    #[inline(always)]
    const fn col_of(&self, j: usize) -> u32 {
        if self.in_quads() { 4 * self.col + j as u32 } else { self.col + j as u32 * self.col_step }
    }
}

/// The accumulators of a thread tile, of which thread tiles with fewer rows use the first.
pub(super) type Tile<T> = [[T; 4]; MOST_ROWS as usize];

/// Adds the products of `k` elements, of thread tiles of `R` rows. Rows and columns outside the tile repeat its last ones.
///
/// # Safety
/// `a` has `rows` rows of `k` elements and `b` `k` rows of `cols` elements in shared memory, written before a
/// barrier.
#[inline(always)]
pub(super) unsafe fn accumulate<T: Accumulator, const R: usize>(
    acc: &mut Tile<T>,
    place: &Place,
    (a, b): (Shared<T>, Shared<T>),
    k: u32,
) {
    let quads = |at: Shared<T>| at.cast::<Quad<T>>().is_aligned();
    let mut rows = [0; R];
    unroll!(for I in 0..4 {
        if I < R {
            rows[I] = (place.row_of(I).min(place.rows - 1) * k) as usize;
        }
    });
    let mut done = 0;
    if place.in_quads() && k.is_multiple_of(4) && quads(a) && quads(b) {
        let b = b.wrapping_add(4 * place.col as usize);
        while done < k {
            let mut b_quads = [[T::ZERO; 4]; 4];
            unroll!(for S in 0..4 {
                let at = b.wrapping_add(((done + S as u32) * place.cols) as usize);
                // SAFETY: in B; rows and columns begin at multiples of four elements.
                b_quads[S] = unsafe { at.cast::<Quad<T>>().read() }.0;
            });
            unroll!(for I in 0..4 {
                if I < R {
                    let at = a.wrapping_add(rows[I] + done as usize).cast::<Quad<T>>();
                    // SAFETY: in A; rows begin at multiples of four elements.
                    let a_quad = unsafe { at.read() }.0;
                    unroll!(for S in 0..4 {
                        unroll!(for J in 0..4 {
                            acc[I][J] = a_quad[S].mul_add(b_quads[S][J], acc[I][J]);
                        });
                    });
                }
            });
            done += 4;
        }
        return;
    }
    let mut cols = [0; 4];
    unroll!(for J in 0..4 {
        cols[J] = place.col_of(J).min(place.cols - 1) as usize;
    });
    while done < k {
        let mut b_row = [T::ZERO; 4];
        unroll!(for J in 0..4 {
            let at = b.wrapping_add((done * place.cols) as usize + cols[J]);
            // SAFETY: in B.
            b_row[J] = unsafe { at.read() };
        });
        unroll!(for I in 0..4 {
            if I < R {
                // SAFETY: in A.
                let value = unsafe { a.wrapping_add(rows[I] + done as usize).read() };
                unroll!(for J in 0..4 {
                    acc[I][J] = value.mul_add(b_row[J], acc[I][J]);
                });
            }
        });
        done += 1;
    }
}

/// Stores `alpha * acc + beta * C` of the elements that are in the tile, which begins at `c`.
///
/// # Safety
/// The tile is valid for C, and the elements are this thread's.
#[inline(always)]
pub(super) unsafe fn store<O: Output>(
    acc: &Tile<O::Acc>,
    place: &Place,
    (alpha, beta): (O::Acc, O::Acc),
    c: GlobalMut<O>,
    ldc: u64,
) {
    let value =
        |acc: O::Acc, old: O::Acc| gemm_spec::epilogue::<O::Acc, O::Acc>(alpha, acc, beta, || old);
    let fours = c.cast::<O::Four>().is_aligned() && ldc.is_multiple_of(4);
    unroll!(for I in 0..4 {
        if (I as u32) < place.thread_rows && place.row_of(I) < place.rows {
            let row = c.wrapping_add((u64::from(place.row_of(I)) * ldc) as usize);
            if place.in_quads() && fours {
                let at = row.wrapping_add(4 * place.col as usize).cast::<O::Four>();
                let mut old = [O::Acc::ZERO; 4];
                if beta != O::Acc::ZERO {
                    // SAFETY: four neighbours in C, aligned.
                    old = O::old_four(unsafe { at.read() });
                }
                let mut new = old;
                unroll!(for J in 0..4 {
                    new[J] = value(acc[I][J], old[J]);
                });
                // SAFETY: the same, and they are this thread's.
                unsafe { at.write(O::four(new)) };
            } else {
                unroll!(for J in 0..4 {
                    if place.col_of(J) < place.cols {
                        let at = row.wrapping_add(place.col_of(J) as usize);
                        let mut old = O::Acc::ZERO;
                        if beta != O::Acc::ZERO {
                            // SAFETY: in C.
                            old = unsafe { at.read() }.old();
                        }
                        // SAFETY: the same, and it is this thread's.
                        unsafe { at.write(O::narrow(value(acc[I][J], old))) };
                    }
                });
            }
        }
    });
}
