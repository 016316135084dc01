//! A thread tile: up to four rows by four columns of a product, from operands in shared memory.

use cuda_std::memory::{GlobalMut, Shared, SharedAddress};
use gemm_spec::Element as _;
use gemm_spec::batched::{COLUMNS, MOST_ROWS};

use crate::parts::fill::{div_rem, tiles};
use crate::parts::number::{Output, Shareable};
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

/// Which elements of its product's tile a thread computes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Which of the group's products.
    pub(super) product: u32,
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
    /// None yet.
    pub(super) const NONE: Self = Self {
        product: u32::MAX,
        rows: 0,
        row: 0,
        row_step: 0,
        thread_rows: 0,
        cols: 0,
        col: 0,
        col_step: 0,
    };

    /// Whether it is one.
    #[inline(always)]
    pub(super) const fn is_some(&self) -> bool {
        self.rows > 0
    }

    /// A thread's place in products whose tile has that many rows and columns.
    #[inline(always)]
    pub(super) fn of(rows: u32, cols: u32, thread_rows: u32, thread: u32) -> Self {
        let (row_step, col_step) = (tiles(rows, thread_rows), tiles(cols, COLUMNS));
        let (product, place) = div_rem(thread, row_step * col_step);
        let (row, col) = div_rem(place, col_step);
        Self { product, rows, row, row_step, thread_rows, cols, col, col_step }
    }

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
pub(super) unsafe fn accumulate<T: Shareable, const R: usize>(
    acc: &mut Tile<T>,
    place: &Place,
    (a, b): (Shared<T>, Shared<T>),
    k: u32,
) {
    let quads = |at: Shared<T>| at.cast::<Quad<T>>().is_aligned();
    // Where the next elements of each row of A and of each column of B are.
    let mut a_at = [a; R];
    unroll!(for I in 0..4 {
        if I < R {
            a_at[I] = a.wrapping_add((place.row_of(I).min(place.rows - 1) * k) as usize);
        }
    });
    let mut b_at = [b; 4];
    let cols = place.cols as usize;
    let mut done = 0;
    if place.in_quads() && k.is_multiple_of(4) && quads(a) && quads(b) {
        let mut a_at = a_at.map(SharedAddress::new);
        let mut b_at = SharedAddress::new(b.wrapping_add(4 * place.col as usize));
        while done < k {
            let mut b_quads = [[T::ZERO; 4]; 4];
            unroll!(for S in 0..4 {
                // SAFETY: in B; rows and columns begin at multiples of four elements.
                b_quads[S] = unsafe { T::four(b_at) };
                b_at = b_at.wrapping_add(cols);
            });
            unroll!(for I in 0..4 {
                if I < R {
                    // SAFETY: in A; rows begin at multiples of four elements.
                    let a_quad = unsafe { T::four(a_at[I]) };
                    a_at[I] = a_at[I].wrapping_add(4);
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
    unroll!(for J in 0..4 {
        b_at[J] = b.wrapping_add(place.col_of(J).min(place.cols - 1) as usize);
    });
    while done + 4 <= k {
        unroll!(for S in 0..4 {
            // SAFETY: four k elements are left, of which this is one.
            unsafe { step::<T, R>(acc, &a_at, S, &mut b_at, cols) };
        });
        unroll!(for I in 0..4 {
            if I < R {
                a_at[I] = a_at[I].wrapping_add(4);
            }
        });
        done += 4;
    }
    while done < k {
        // SAFETY: a k element is left.
        unsafe { step::<T, R>(acc, &a_at, 0, &mut b_at, cols) };
        unroll!(for I in 0..4 {
            if I < R {
                a_at[I] = a_at[I].wrapping_add(1);
            }
        });
        done += 1;
    }
}

/// Adds the products of one k element: A's are `step` behind `a_at`, B's at `b_at`, which moves on to the next row.
///
/// # Safety
/// They are in A and B, written before a barrier.
#[inline(always)]
unsafe fn step<T: Shareable, const R: usize>(
    acc: &mut Tile<T>,
    a_at: &[Shared<T>; R],
    step: usize,
    b_at: &mut [Shared<T>; 4],
    cols: usize,
) {
    let mut b_row = [T::ZERO; 4];
    unroll!(for J in 0..4 {
        // SAFETY: the caller's promise.
        b_row[J] = unsafe { b_at[J].read() };
        b_at[J] = b_at[J].wrapping_add(cols);
    });
    unroll!(for I in 0..4 {
        if I < R {
            // SAFETY: the caller's promise.
            let value = unsafe { a_at[I].wrapping_add(step).read() };
            unroll!(for J in 0..4 {
                acc[I][J] = value.mul_add(b_row[J], acc[I][J]);
            });
        }
    });
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
