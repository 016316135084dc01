//! Which tile of which product of a batch a block computes.

use gemm_spec::index::{ceil_div, grouped_tile};
use gemm_spec::params::BatchedParams;
use gemm_spec::{Accumulator, Tile};

/// A tile of a product: its first row and column of C.
#[derive(Clone, Copy)]
pub(crate) struct ProductTile {
    pub(crate) product: u32,
    pub(crate) row: u32,
    pub(crate) col: u32,
}

impl ProductTile {
    /// One of these sides among all of the launch.
    #[inline(always)]
    pub(crate) fn of<T: Accumulator>(params: &BatchedParams<T>, side: Tile, tile: u32) -> Self {
        let (down, across) = (ceil_div(params.m, side.m), ceil_div(params.n, side.n));
        let of_product = (down * across).max(1);
        if of_product == 1 {
            return Self { product: tile, row: 0, col: 0 };
        }
        let (row, col) = grouped_tile(tile % of_product, down, across, params.rows);
        Self { product: tile / of_product, row: row * side.m, col: col * side.n }
    }
}
