//! Packing: chunks of B for all threads, blocks of A for one.

use gemm_spec::GemmTypes;

use super::Shared;
use super::plan::PANELS_PER_CHUNK;
use crate::mirror::Mirror;
use crate::pack::Pack;
use crate::product::Product;
use crate::region::Region;

impl<T: GemmTypes> Shared<'_, T> {
    /// Where the packed panel that begins at a column of the phase's block lies.
    fn panel_of_b(&self, phase: usize, col: usize, steps: usize) -> *mut T::Acc {
        let block = (phase % 2) * self.plan.block_of_b;
        // Within the two blocks: col < NC and steps <= KC.
        self.b.wrapping_add(block + col * self.kernels.packed_column(steps))
    }

    /// Where a tile finds its columns of B, and what is from one step and one column to the next.
    pub(super) fn columns_of_b(
        &self,
        phase: usize,
        first_col: usize,
        col: usize,
        steps: usize,
    ) -> (*const T::Acc, usize, usize) {
        let Product { b, b_row, b_col, .. } = *self.product;
        if self.plan.chunks > 0 {
            return (self.panel_of_b(phase, col, steps), self.kernels.cols, 1);
        }
        let (first_step, _) = self.steps(phase % self.plan.k_blocks);
        // May be the column behind the last, for a hint: an address that need not exist.
        let b = b.wrapping_add(first_step * b_row);
        // Only elements that are their own sums are read where they lie.
        let b = b.cast::<T::Acc>();
        (b.wrapping_add((first_col + col).wrapping_mul(b_col)), b_row, b_col)
    }

    /// # Safety
    /// As [`super::multiply`]; the chunk's panels are this thread's to write.
    pub(super) unsafe fn pack_chunk(&self, phase: usize, chunk: usize) {
        let Product { b, b_row, b_col, .. } = *self.product;
        let (first_step, steps) = self.steps(phase % self.plan.k_blocks);
        let (first_col, cols) = self.columns(phase);
        let width = PANELS_PER_CHUNK * self.kernels.cols;
        let end = cols.min((chunk + 1) * width);
        let col = chunk * width;
        let to = self.panel_of_b(phase, col, steps);
        let lines = end.saturating_sub(col);
        let whole = Pack { from: b, along: b_col, step: b_row, lines, k: steps, to };
        if let Some(Mirror::B(mirrored)) = self.mirror {
            // SAFETY: columns and steps of B that exist, into the panels of this chunk.
            return unsafe { mirrored.pack(&whole, first_col + col, first_step) };
        }
        let from = b.wrapping_add(first_step * b_row + (first_col + col) * b_col);
        // SAFETY: as above.
        unsafe { (self.kernels.pack_b)(&Pack { from, ..whole }) };
    }

    /// # Safety
    /// As [`super::multiply`]; `to` has room for MC by KC elements.
    pub(super) unsafe fn pack_a(&self, to: *mut T::Acc, block: usize, k_block: usize) {
        let Product { a, a_row, a_col, .. } = *self.product;
        let (first_step, steps) = self.steps(k_block);
        let (first_row, rows) = self.rows(block);
        let pack = |row: usize, lines: usize, to: *mut T::Acc| {
            let whole = Pack { from: a, along: a_row, step: a_col, lines, k: steps, to };
            if let Some(Mirror::A(mirrored)) = self.mirror {
                // SAFETY: rows and steps of A that exist, into this thread's own buffer.
                return unsafe { mirrored.pack(&whole, first_row + row, first_step) };
            }
            let from = a.wrapping_add((first_row + row) * a_row + first_step * a_col);
            // SAFETY: as above.
            unsafe { (self.kernels.pack_a)(&Pack { from, ..whole }) };
        };
        let short_tile = self.short_tile(block);
        if short_tile > 0 {
            pack(0, short_tile, to);
        }
        let panels_before = usize::from(short_tile > 0);
        let to =
            to.wrapping_add(panels_before * self.kernels.rows * self.kernels.packed_steps(steps));
        pack(short_tile, rows - short_tile, to);
    }

    /// Whether the first strip of tiles of a slice packs A on its way: it reads columns in place, and each
    /// is stored between the multiplications.
    ///
    /// Not where A's registers straddle cache lines, and not where the strip has not all rows of the block.
    pub(super) fn packs_on_the_way(&self, phase: usize, slice: usize) -> bool {
        let is_wide = self.columns_of_slice(phase, slice).len() >= self.kernels.cols;
        self.plan.lines.hold_a && is_wide && self.region == Region::All
    }
}
