//! How blocks share out a batch of small products, several of which are computed by one block.
//!
//! A block takes a group of consecutive products of the batch, or of products larger than a tile the same tile of
//! each. Its threads load the operands of the whole group and then compute a thread tile each: `rows` rows, as
//! far apart as there are thread tiles along m, and [`COLUMNS`] columns.
//!
//! ```text
//!   block 0                          block 1
//!   product 0 | product 1 | ...      product `group` | ...
//!   [ thread tiles of product 0 ] [ those of product 1 ] ...   at most 128 threads
//! ```
//!
//! A block goes from group to group, a launch's blocks apart, and loads the operands of the next one while it
//! computes: shared memory has two stages. Where k is longer than a stage has room for, a stage has a chunk of it.
//!
//! What a product's threads are changes none of its bits: each element of C is one chain.

use crate::Order;
use crate::index::ceil_div;

/// Threads of a block.
pub const THREADS: u32 = 128;
/// Columns of a thread tile.
pub const COLUMNS: u32 = 4;
/// Most columns of C of a block's tile of a product.
pub const TILE_N: u32 = 64;
/// Most rows of it, so that its thread tiles have a thread each.
pub const TILE_M: u32 = THREADS * COLUMNS / TILE_N * MOST_ROWS;
/// Stages of shared memory: one is loaded while another is multiplied.
pub const STAGES: u32 = 2;
/// Accumulators that fit a stage, but for what aligns them: operands are widened when they are stored there.
pub const STAGE_ELEMENTS: u32 = 4096;
/// Elements by which an operand may begin later in shared memory, so that it is aligned there as it is in global
/// memory.
pub const MISFIT: u32 = 8;
/// Most rows of a thread tile.
pub const MOST_ROWS: u32 = 4;
/// k elements for which there should be room, so that they are loaded at once.
const USUAL_K: u32 = 64;
/// Blocks for each SM below which a product gets more threads.
const BLOCKS: u32 = 4;

/// A is column-major.
pub const A_COL_MAJOR: u32 = 1;
/// B is column-major.
pub const B_COL_MAJOR: u32 = 2;

/// The flags of those that are, of A and B in these orders.
#[must_use]
pub const fn orders(a: Order, b: Order) -> u32 {
    let of_a = if matches!(a, Order::ColMajor) { A_COL_MAJOR } else { 0 };
    let of_b = if matches!(b, Order::ColMajor) { B_COL_MAJOR } else { 0 };
    of_a | of_b
}

/// How the blocks of a launch share out a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Rows of C of a block's tile of a product.
    pub tile_m: u32,
    /// Columns of it.
    pub tile_n: u32,
    /// Rows of a thread tile: a power of two.
    pub rows: u32,
    /// Products of a block.
    pub group: u32,
    /// k elements that a block has in shared memory at a time.
    pub chunk: u32,
}

impl Partition {
    /// The partition of `count` products of m, n and k on that many SMs. It is the same wherever the operands are.
    #[must_use]
    pub fn new([m, n, k]: [u32; 3], count: u32, multiprocessors: u32) -> Self {
        let tile_m = m.min(TILE_M);
        let tile_n = n.min(TILE_N);
        let rows = match tile_m * tile_n {
            0..=16 => 1,
            17..=64 => 2,
            _ => MOST_ROWS,
        };
        let mut it = Self { tile_m, tile_n, rows, group: 1, chunk: 1 };
        it.group = it.most_products(k);
        let tiles = u64::from(ceil_div(m, tile_m)) * u64::from(ceil_div(n, tile_n));
        let few = |it: &Self| {
            u64::from(ceil_div(count, it.group)) * tiles < u64::from(multiprocessors * BLOCKS)
        };
        while it.rows > 1 && few(&it) {
            let more = Self { rows: it.rows / 2, ..it };
            if more.threads() > THREADS {
                break;
            }
            it = Self { group: more.most_products(k), ..more };
        }
        let room = STAGE_ELEMENTS / (it.group * (tile_m + tile_n));
        it.chunk = if k <= room { k.max(1) } else { (room / 8 * 8).max(1) };
        it
    }

    /// Threads of a tile of a product.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        ceil_div(self.tile_m, self.rows) * ceil_div(self.tile_n, COLUMNS)
    }

    fn most_products(&self, k: u32) -> u32 {
        let elements = (self.tile_m + self.tile_n) * k.clamp(1, USUAL_K);
        (THREADS / self.threads()).min(STAGE_ELEMENTS / elements).max(1)
    }

    /// Where B is in a stage, in accumulators: behind A.
    #[must_use]
    pub const fn b_at(&self) -> u32 {
        (self.group * self.tile_m * self.chunk + MISFIT).next_multiple_of(MISFIT)
    }

    /// Accumulators of a stage.
    #[must_use]
    pub const fn stage_elements(&self) -> u32 {
        self.b_at() + (self.group * self.tile_n * self.chunk + MISFIT).next_multiple_of(MISFIT)
    }

    /// Most accumulators of a block's stages, of any partition.
    pub const MOST_SHARED: u32 = STAGES * (STAGE_ELEMENTS + 4 * MISFIT);

    /// Tiles of groups that the blocks share for that many products of m and n, where a number of 31 bits counts
    /// them.
    #[must_use]
    pub fn tiles(&self, [m, n]: [u32; 2], count: u32) -> Option<u32> {
        let tiles = ceil_div(m, self.tile_m).checked_mul(ceil_div(n, self.tile_n))?;
        let all = tiles.checked_mul(ceil_div(count, self.group))?;
        i32::try_from(all).is_ok().then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = ([u32; 3], u32, Partition)> {
        let sizes = [1, 2, 3, 4, 5, 8, 12, 16, 23, 31, 32, 33, 64, 65, 200];
        let ks = [0, 1, 4, 31, 32, 64, 65, 512, 100_000];
        sizes.into_iter().flat_map(move |m| {
            sizes.into_iter().flat_map(move |n| {
                ks.into_iter().flat_map(move |k| {
                    [1, 1000, 10_000]
                        .map(|count| ([m, n, k], count, Partition::new([m, n, k], count, 132)))
                })
            })
        })
    }

    #[test]
    fn the_products_of_a_block_have_threads_and_memory() {
        for (sizes, count, it) in all() {
            assert!(it.group >= 1 && it.group * it.threads() <= THREADS, "{sizes:?} {it:?}");
            assert!(it.rows.is_power_of_two() && it.rows <= MOST_ROWS, "{it:?}");
            assert!(STAGES * it.stage_elements() <= Partition::MOST_SHARED, "{sizes:?} {it:?}");
            assert!(it.chunk >= 1 && (it.chunk >= sizes[2] || it.chunk.is_multiple_of(8)));
            assert!(it.tile_m <= sizes[0] && it.tile_n <= sizes[1], "{sizes:?} {it:?}");
            let tiles = ceil_div(sizes[0], it.tile_m) * ceil_div(sizes[1], it.tile_n);
            let all = it.tiles([sizes[0], sizes[1]], count).unwrap();
            assert!(all * it.group >= tiles * count && all >= tiles);
        }
    }

    #[test]
    fn a_small_batch_is_on_more_sms() {
        let of = |count| Partition::new([32, 32, 32], count, 132);
        assert!(of(100).rows < of(10_000).rows && of(100).group < of(10_000).group);
        assert_eq!(of(10_000).tiles([32, 32], 10_000), Some(10_000 / of(10_000).group));
        assert_eq!(of(10_000).tiles([u32::MAX, u32::MAX], 10_000), None);
    }
}
