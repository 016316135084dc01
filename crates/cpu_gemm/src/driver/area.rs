//! Loops 2 and 1: the tiles of an area.

use gemm_spec::GemmTypes;

use super::Shared;
use super::plan::Plan;
use crate::cache_line;
use crate::product::Product;
use crate::region::Place;
use crate::rounding::Rounded;
use crate::sum;
use crate::thresholds::PACKED_AHEAD;
use crate::tile::{Finish, Prefetch, STEPS_PER_LINE, Tile};

impl<T: GemmTypes> Shared<'_, T> {
    /// Loops 2 and 1 over an area: a block of rows, a slice of the phase's columns.
    ///
    /// # Safety
    /// As [`super::multiply`]; `panels` hold that block of A, or may be written and have room for it, and it is packed
    /// on the way; B is packed, and the area is this thread's.
    pub(super) unsafe fn compute(
        &self,
        panels: *mut T::Acc,
        on_the_way: bool,
        phase: usize,
        block: usize,
        slice: usize,
    ) {
        let Product { alpha, a, a_col, beta, ldc, .. } = *self.product;
        let k_block = phase % self.plan.k_blocks;
        let (first_step, steps) = self.steps(k_block);
        let packed_steps = self.kernels.packed_steps(steps);
        let (first_col, _) = self.columns(phase);
        let (first_row, rows) = self.rows(block);
        let short_tile = self.short_tile(block);
        // Only elements that are their own sums are read where they lie.
        let a_as_it_lies = a.wrapping_add(first_row + first_step * a_col).cast::<T::Acc>();
        let last = k_block + 1 == self.plan.k_blocks;
        let finish = match last {
            true if self.plan.rounds => Finish::Sum,
            true => Finish::last(alpha, beta),
            false => Finish::Carry,
        };
        let slice = self.columns_of_slice(phase, slice);
        let (mr, nr) = (self.kernels.rows, self.kernels.cols);
        let strips = slice.clone().step_by(nr);
        // Where C holds sums its elements are of their type.
        let in_c = self.product.c.wrapping_add(first_col * ldc).cast::<T::Acc>();
        let in_c = self.plan.c_holds_sums().then_some(sum::Place { at: in_c, ld: ldc });
        let apart = (self.plan.sums_of_a_kind(), self.plan.sums_ld);
        let sums = self.plan.waiting.places(in_c, self.sums, apart);
        let upcoming = self.upcoming(phase, block, strips.len());
        for (strip, col) in strips.enumerate() {
            let tile_cols = nr.min(slice.end - col);
            let packs = on_the_way && strip == 0;
            let (b, b_step, b_col) = self.columns_of_b(phase, first_col, col, steps);
            let next_b = self.columns_of_b(phase, first_col, col + tile_cols, steps);
            // By the last strips what the next block of A is packed from is asked for, by all others the next columns of B.
            let mut hint = match upcoming.and_then(|upcoming| upcoming.lines_of(strip)) {
                Some(from) => {
                    let tiles = rows.div_ceil(mr);
                    Prefetch { from, step: a_col, apart: 0, next_tile: mr, tiles }
                }
                None => self.next_columns(next_b, packed_steps, rows / mr),
            };
            let c = self.product.c.wrapping_add(first_row + (first_col + col) * ldc);
            let (mut row, mut panel) = (0, panels);
            while row < rows {
                // The short one, all whole ones, then the rest.
                let (tiles, tile_rows) = match (rows - row) / mr {
                    _ if row < short_tile => (1, short_tile),
                    0 => (1, rows - row),
                    whole => (whole, mr),
                };
                let cols = first_col + col..first_col + col + tile_cols;
                let (tiles, place) = self.region.place(first_row + row, (tiles, tile_rows), &cols);
                let end_row = row + tiles * tile_rows;
                let (function, a) = match packs {
                    true => (self.kernels.packing(tile_rows), a_as_it_lies.wrapping_add(row)),
                    false => (self.kernels.packed(tile_rows, tile_cols), panel.cast_const()),
                };
                let tile = Tile {
                    tiles,
                    k: packed_steps,
                    a,
                    a_step: a_col,
                    ahead: PACKED_AHEAD.saturating_mul(a_col),
                    panel,
                    b,
                    b_step,
                    b_col,
                    first: first_step,
                    sums: &sums,
                    row: first_row + row,
                    col,
                    c: c.wrapping_add(row).cast::<T::Acc>(),
                    ldc,
                    last_rows: self.kernels.last_rows(tile_rows),
                    finish,
                    hint,
                };
                let on_edge = self.edge.filter(|_| place == Place::Across);
                match (place, on_edge) {
                    (Place::Outside, _) => {}
                    (Place::Across, Some((edge, ref sums))) => {
                        let rows = first_row + row..first_row + end_row;
                        // SAFETY: as below, of a tile whose elements in the region lie in the area. The sums of this
                        // area's tiles on the edge are in use by nobody else.
                        unsafe { edge.compute(tile, function, (rows, cols), sums, last) };
                    }
                    // SAFETY: panels of this block's rows and this slice's columns; the tiles lie in the
                    // area. A strip that packs is as wide as a whole tile, see `packs_on_the_way`.
                    (Place::Inside | Place::Across, _) => unsafe { function(&tile) },
                }
                row = end_row;
                panel = panel.wrapping_add(tiles * mr * packed_steps);
                hint = hint.after(tiles);
            }
            if let Some(round) = self.kernels.round.filter(|_| last) {
                let sum::Place { at: sums, ld: sums_ld } = sums.total.of(first_row, col);
                let sums = sums.cast_const();
                let strip = Rounded { sums, sums_ld, c, ldc, rows, cols: tile_cols, alpha, beta };
                // SAFETY: the sums that were just carried, and their part of C.
                unsafe { round(&strip) };
            }
            if last {
                let cols = first_col + col..first_col + col + tile_cols;
                // SAFETY: the strip that was just stored, of this thread's area.
                unsafe { self.product.tell_complete(first_row..first_row + rows, cols) };
            }
        }
    }

    /// The next columns of B, each of that many tiles asking for a share: columns in place, or parts of a packed panel.
    fn next_columns(
        &self,
        (from, b_step, b_col): (*const T::Acc, usize, usize),
        packed_steps: usize,
        tiles: usize,
    ) -> Prefetch<T::Acc> {
        let nr = self.kernels.cols;
        let columns = nr.div_ceil(tiles.max(1));
        let tiles = nr.div_ceil(columns);
        if b_step == 1 {
            let apart = if columns > 1 { b_col } else { 0 };
            let next_tile = b_col.wrapping_mul(columns);
            return Prefetch { from, step: STEPS_PER_LINE, apart, next_tile, tiles };
        }
        let step = (STEPS_PER_LINE * columns).min(cache_line::elements::<T::Acc>());
        Prefetch { from, step, apart: 0, next_tile: packed_steps * columns, tiles }
    }

    /// What a thread alone packs after a block of A, to be asked for by the last of a number of strips of tiles;
    /// `None` where there is nothing more, where rows do not lie side by side, or elements are not sums.
    fn upcoming(
        &self,
        phase: usize,
        block: usize,
        strips: usize,
    ) -> Option<PrefetchSource<T::Acc>> {
        let Product { a, a_row, a_col, .. } = *self.product;
        let Plan { alone, a_in_place, row_blocks, k_blocks, phases, .. } = self.plan;
        let (next_phase, next_block) = match block + 1 < row_blocks {
            true => (phase, block + 1),
            false => (phase + 1, 0),
        };
        let asks = alone && a_row == 1 && a_in_place && row_blocks * k_blocks > 1;
        if !asks || strips == 0 || next_phase == phases {
            return None;
        }
        let (first_step, columns) = self.steps(next_phase % k_blocks);
        let from = a.wrapping_add(self.rows(next_block).0 + first_step * a_col);
        let (_, steps) = self.steps(phase % k_blocks);
        let columns_of_a_strip = (steps / STEPS_PER_LINE).max(1);
        let strips_of_a_line = columns.div_ceil(columns_of_a_strip);
        let lines = self.kernels.rows.div_ceil(cache_line::elements::<T::Acc>());
        Some(PrefetchSource {
            from: from.cast::<T::Acc>(),
            strip_step: a_col.wrapping_mul(columns_of_a_strip),
            strips_of_a_line,
            first_strip: strips.saturating_sub(strips_of_a_line * lines),
        })
    }
}

/// The columns of A that the next block is packed from, and which strip of tiles asks for which: the tiles' first lines
/// of all columns, some with each strip, then their second lines.
#[derive(Clone, Copy)]
struct PrefetchSource<T> {
    from: *const T,
    /// From what one strip asks for to what the next one does.
    strip_step: usize,
    strips_of_a_line: usize,
    first_strip: usize,
}

impl<T: Copy> PrefetchSource<T> {
    /// Where what a strip's first tile asks for begins, if it asks.
    fn lines_of(self, strip: usize) -> Option<*const T> {
        let asking = strip.checked_sub(self.first_strip)?;
        let (line, turn) = (asking / self.strips_of_a_line, asking % self.strips_of_a_line);
        let line = line * cache_line::elements::<T>();
        Some(self.from.wrapping_add(line).wrapping_add(turn.wrapping_mul(self.strip_step)))
    }
}
