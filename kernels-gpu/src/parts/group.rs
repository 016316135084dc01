//! What a block has of a batch at a time: some k elements of a tile of each product of a group.

use cuda_std::memory::{Global, global};
use gemm_spec::Accumulator;
use gemm_spec::batched::{A_COL_MAJOR, B_COL_MAJOR};
use gemm_spec::params::BatchedParams;

use super::fill::{Source, div_rem, tiles};
use super::number::Loaded;

/// Some k elements of a tile of each product of a group.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// Which tile of which group, among all of the launch.
    pub(crate) tile: u32,
    /// The first product of the group, and how many there are.
    pub(crate) first: u32,
    pub(crate) products: u32,
    pub(crate) row0: u32,
    pub(crate) rows: u32,
    pub(crate) col0: u32,
    pub(crate) cols: u32,
    /// The k elements before these, and their number.
    pub(crate) done: u32,
    pub(crate) steps: u32,
}

impl Work {
    /// The first k elements of a tile, which may be behind the last one.
    #[inline(always)]
    pub(crate) fn of<T: Accumulator>(params: &BatchedParams<T>, tile: u32) -> Self {
        let &BatchedParams { m, n, k, count, group, chunk, tile_m, tile_n, .. } = params;
        let (mut at, mut row0, mut col0) = (tile, 0, 0);
        if m > tile_m || n > tile_n {
            let across = tiles(n, tile_n);
            let (of_group, in_product) = div_rem(tile, tiles(m, tile_m) * across);
            let (tile_row, tile_col) = div_rem(in_product, across);
            (at, row0, col0) = (of_group, tile_row * tile_m, tile_col * tile_n);
        }
        let first = at.saturating_mul(group);
        Self {
            tile,
            first,
            products: group.min(count.saturating_sub(first)),
            row0,
            rows: tile_m.min(m - row0),
            col0,
            cols: tile_n.min(n - col0),
            done: 0,
            steps: chunk.min(k),
        }
    }

    /// The k elements after these.
    #[inline(always)]
    pub(crate) fn next_chunk<T: Accumulator>(&self, params: &BatchedParams<T>) -> Self {
        self.from(params, self.done + self.steps)
    }

    /// The k elements after the first `done`.
    #[inline(always)]
    pub(crate) fn from<T: Accumulator>(&self, params: &BatchedParams<T>, done: u32) -> Self {
        Self { done, steps: params.chunk.min(params.k - done), ..*self }
    }

    /// The part of A, or of B, that these k elements are of.
    ///
    /// # Safety
    /// The operand is valid in the whole launch.
    #[inline(always)]
    pub(crate) unsafe fn a<I: Loaded, T: Accumulator>(
        &self,
        params: &BatchedParams<T>,
    ) -> Source<I> {
        let operand = Operand {
            base: params.a,
            first: u64::from(self.first) * params.a_stride,
            ld: params.lda,
            stride: params.a_stride,
            by_columns: params.orders & A_COL_MAJOR != 0,
            around: [self.first, params.count.saturating_sub(self.first + self.products)],
        };
        // SAFETY: the caller's promise.
        unsafe { operand.part((self.row0, self.rows), (self.done, self.steps), self.products) }
    }

    /// See [`Work::a`].
    ///
    /// # Safety
    /// The same.
    #[inline(always)]
    pub(crate) unsafe fn b<I: Loaded, T: Accumulator>(
        &self,
        params: &BatchedParams<T>,
    ) -> Source<I> {
        let operand = Operand {
            base: params.b,
            first: u64::from(self.first) * params.b_stride,
            ld: params.ldb,
            stride: params.b_stride,
            by_columns: params.orders & B_COL_MAJOR != 0,
            around: [self.first, params.count.saturating_sub(self.first + self.products)],
        };
        // SAFETY: the caller's promise.
        unsafe { operand.part((self.done, self.steps), (self.col0, self.cols), self.products) }
    }
}

/// A or B of the products of a block.
struct Operand {
    base: *const u8,
    /// Where the first of them begins, in elements from `base` on.
    first: u64,
    ld: u64,
    stride: u64,
    by_columns: bool,
    /// Products before them, and behind them.
    around: [u32; 2],
}

impl Operand {
    /// Some of its rows and columns, each from a first one on.
    ///
    /// # Safety
    /// The operand is valid in the whole launch.
    #[inline(always)]
    unsafe fn part<I: Loaded>(
        &self,
        (row0, rows): (u32, u32),
        (col0, cols): (u32, u32),
        products: u32,
    ) -> Source<I> {
        let &Self { base, first, ld, stride, by_columns, around } = self;
        let (line0, lines, x0, len) =
            if by_columns { (col0, cols, row0, rows) } else { (row0, rows, col0, cols) };
        let offset = first + u64::from(line0) * ld + u64::from(x0);
        // SAFETY: the caller's promise.
        let view: Global<u8> = unsafe { global(base) };
        let address = base.addr() as u64 + offset * size_of::<I>() as u64;
        let misfit = (address % 16 / size_of::<I>() as u64) as u32;
        let from = view.cast::<I>().wrapping_add(offset as usize);
        Source { from, misfit, ld, stride, products, around, lines, len, by_columns }
    }
}
