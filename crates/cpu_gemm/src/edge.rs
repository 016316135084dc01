//! Tiles on the edge of a triangle: computed aside, so that the other triangle stays as it is.

use std::ops::Range;

use gemm_spec::{Accumulator, GemmTypes};

use crate::kernels::{Kernels, MAX_COLS, MAX_ROWS, TileFn};
use crate::region::{Half, Region};
use crate::sum::Partials;
use crate::tile::{Finish, Tile};

/// The edge of a triangle, and how partial sums of its tiles are stored from one block of k to the next: for each strip
/// of columns, `rows` rows from a little above the diagonal on.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    half: Half,
    /// Rows and columns of a whole tile.
    tile: (usize, usize),
    rows: usize,
}

impl Edge {
    /// The edge of a region, where it has one.
    pub(crate) fn of<T: GemmTypes>(region: Region, kernels: &Kernels<T>) -> Option<Self> {
        let Region::Triangle(half) = region else { return None };
        let &Kernels { rows, cols, .. } = kernels;
        // A tile across the diagonal begins less than a tile before it and ends less than one behind.
        Some(Self { half, tile: (rows, cols), rows: half.parts * cols + 2 * rows })
    }

    /// Rows of the partial sums of a strip.
    pub(crate) fn rows(self) -> usize {
        self.rows
    }

    /// Elements of each kind of partial sums of a matrix of that many columns.
    pub(crate) fn elements(self, cols: usize) -> usize {
        cols.next_multiple_of(self.tile.1) * self.rows
    }

    /// Computes a tile of these rows and columns of C, `last` being whether `tile` has the last k elements. Partial
    /// sums wait at their place in `sums`.
    ///
    /// # Safety
    /// As `function` demands of the tile, but of C in the triangle alone; each place of `sums` where sums wait has
    /// [`Self::elements`] elements, of which nobody else uses those of this tile.
    pub(crate) unsafe fn compute<T: Accumulator>(
        self,
        tile: Tile<'_, T>,
        function: TileFn<T>,
        (rows, cols): (Range<usize>, Range<usize>),
        sums: &Partials<T>,
        last: bool,
    ) {
        let Self { half, tile: (tile_rows, tile_cols), .. } = self;
        let first_row = (half.parts * cols.start).saturating_sub(tile_rows);
        let (row, col) = (rows.start - first_row, cols.start / tile_cols * tile_cols);
        let mut aside = [T::ZERO; MAX_ROWS * MAX_COLS];
        let (c, ldc) = (tile.c, tile.ldc);
        let at =
            |row: usize, col: usize| c.wrapping_add((row - rows.start) + (col - cols.start) * ldc);
        if matches!(tile.finish, Finish::Update { .. }) {
            for col in cols.clone() {
                for row in half.rows(&rows, col).filter(|&row| !half.is_zero(row, col)) {
                    // SAFETY: an element of C in the triangle.
                    let old = unsafe { at(row, col).read() };
                    aside[(row - rows.start) + (col - cols.start) * MAX_ROWS] = old;
                }
            }
        }
        let tile = Tile { sums, row, col, c: aside.as_mut_ptr(), ldc: MAX_ROWS, ..tile };
        // SAFETY: the caller's promises; the result goes to a place that has room for a whole tile.
        unsafe { function(&tile) };
        if !last {
            return;
        }
        for col in cols.clone() {
            for row in half.rows(&rows, col) {
                let value = match half.is_zero(row, col) {
                    true => T::ZERO,
                    false => aside[(row - rows.start) + (col - cols.start) * MAX_ROWS],
                };
                // SAFETY: an element of C in the triangle.
                unsafe { at(row, col).write(value) };
            }
        }
    }
}
