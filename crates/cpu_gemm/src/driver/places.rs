//! Where blocks, slices and areas are in the product.

use std::ops::Range;

use gemm_spec::GemmTypes;

use super::Shared;
use super::plan::{AlignmentPeel, Plan};

impl<T: GemmTypes> Shared<'_, T> {
    /// First k element of a block, and how many it has.
    pub(super) fn steps(&self, k_block: usize) -> (usize, usize) {
        let first = k_block * self.plan.blocking.k;
        (first, self.plan.blocking.k.min(self.product.k - first))
    }

    /// First row of a block, and how many it has.
    pub(super) fn rows(&self, block: usize) -> (usize, usize) {
        let Plan { m, lines: AlignmentPeel { short, .. }, blocking, .. } = self.plan;
        let first = (block * blocking.rows).saturating_sub(short);
        (first, m.min((block + 1) * blocking.rows - short) - first)
    }

    /// The rows of a block.
    pub(super) fn rows_of(&self, block: usize) -> Range<usize> {
        let (first, rows) = self.rows(block);
        first..first + rows
    }

    /// The columns of C of a slice.
    pub(super) fn columns_of_area(&self, phase: usize, slice: usize) -> Range<usize> {
        let (first, _) = self.columns(phase);
        let slice = self.columns_of_slice(phase, slice);
        first + slice.start..first + slice.end
    }

    /// Rows of a block's first tile, where it is not a whole one.
    pub(super) fn short_tile(&self, block: usize) -> usize {
        let AlignmentPeel { short, .. } = self.plan.lines;
        if block == 0 && short > 0 { self.kernels.rows - short } else { 0 }
    }

    /// First column of a phase, and how many it has.
    pub(super) fn columns(&self, phase: usize) -> (usize, usize) {
        let first = phase / self.plan.k_blocks * self.plan.blocking.cols;
        (first, self.plan.blocking.cols.min(self.product.n - first))
    }

    /// Columns of a slice, counted from the first of the phase's block.
    pub(super) fn columns_of_slice(&self, phase: usize, slice: usize) -> Range<usize> {
        let (_, cols) = self.columns(phase);
        slice * self.plan.slice_cols..cols.min((slice + 1) * self.plan.slice_cols)
    }
}
