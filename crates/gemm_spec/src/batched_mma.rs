//! How blocks share out a batch of products of 16-bit floats whose warps multiply on the tensor cores.
//!
//! A block takes a group of consecutive products of the batch, or of products larger than a tile the same tile of
//! each. Its warps compute parts of C of [`PART`] rows and columns, one after the other where all of k is in shared
//! memory; otherwise each warp has one part at most, whose sums it keeps from one chunk of k to the next.
//!
//! ```text
//!   product 0                    product 1
//!   +----------+----------+      +----------+----------+
//!   | warp 0   | warp 1   |      | warp 0   | warp 1   |
//!   |          |          |      |          |          |
//!   +----------+----------+      +----------+----------+
//!   | warp 2   | warp 3   |      | warp 2   | warp 3   |
//!   +----------+----------+      +----------+----------+
//! ```
//!
//! What a block has changes none of the bits of C: the tensor cores add the k elements sixteen at a time, and which
//! sixteen follows from the parity of k and n alone.

use crate::batched;
use crate::index::ceil_div;

/// Warps of a block, unless a product has more parts.
const WARPS: u32 = 4;
/// Most warps of a block.
const MOST_WARPS: u32 = 8;
/// Most threads of a block.
pub const THREADS: u32 = 32 * MOST_WARPS;
/// Rows and columns of C of a warp.
pub const PART: u32 = 32;
/// Elements by which an operand may begin later in shared memory, so that it is aligned there as it is in global
/// memory.
pub const MISFIT: u32 = 8;
/// Elements between lines of whole packets of an even number, so that the next line begins in other banks.
pub const PAD: u32 = 8;
/// Zeros behind B, which lanes read whose columns are outside of C.
pub const BEHIND: u32 = 16;
/// Most rows and columns of a product that a block has as a whole.
const MOST_WHOLE: u32 = 128;
/// Rows and columns of the tile of other products, so that each warp has a part.
const TILE: u32 = 2 * PART;
/// k elements of a stage of such a tile.
const CHUNK: u32 = 64;
/// Most elements of A and B of the products of a group, if there are several.
const GROUP_ELEMENTS: u32 = 8192;
/// Most elements of a stage of which there are two.
const TWO_STAGES: u32 = 9216;
/// Most products of a group.
const MOST_PRODUCTS: u32 = 16;
/// Blocks of [`WARPS`] for each SM below which groups are made smaller.
const BLOCKS: u32 = 4;
/// Most bytes of shared memory of a block: what every GPU of compute capability 8.0 and later has.
pub const MOST_BYTES: u32 = 99 * 1024;

/// How the blocks of a launch share out a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Rows of C of a block's tile of a product.
    pub tile_m: u32,
    /// Columns of it.
    pub tile_n: u32,
    /// Products of a block.
    pub group: u32,
    /// k elements that a block has in shared memory at a time.
    pub chunk: u32,
}

/// Elements from one line of that many to the next, at most.
#[inline]
const fn pitch(len: u32) -> u32 {
    if len.is_multiple_of(2 * PAD) { len + PAD } else { len }
}

impl Partition {
    /// The partition of `count` products of m, n and k on that many SMs. It is the same wherever the operands are.
    #[must_use]
    pub fn new([m, n, k]: [u32; 3], count: u32, multiprocessors: u32) -> Self {
        let whole = Self { tile_m: m, tile_n: n, group: 1, chunk: k.max(1) };
        let fits = m <= MOST_WHOLE && n <= MOST_WHOLE && k <= MOST_BYTES / 2 / (m + n);
        let mut it = if fits && whole.stage_bytes() <= MOST_BYTES {
            whole
        } else {
            // Tiles of like sizes, whose columns are pairs where n is even.
            let side = |all: u32| ceil_div(all, ceil_div(all, TILE)).next_multiple_of(8).min(all);
            Self { tile_m: side(m), tile_n: side(n), group: 1, chunk: k.clamp(1, CHUNK) }
        };
        let tiles = u64::from(ceil_div(m, it.tile_m)) * u64::from(ceil_div(n, it.tile_n));
        let blocks = u64::from(multiprocessors * BLOCKS);
        let fit = GROUP_ELEMENTS / ((it.tile_m + it.tile_n) * it.chunk).max(1);
        let parts = it.parts();
        it.group = if it.chunk < k { WARPS / parts } else { fit.min(MOST_PRODUCTS) }.max(1);
        if it.group * parts > WARPS {
            // Each warp has as many.
            it.group = (it.group * parts / WARPS * WARPS / parts).max(1);
        }
        while it.group > 1 && u64::from(ceil_div(count, it.group)) * tiles < blocks {
            it.group /= 2;
        }
        it
    }

    /// Parts of a product's tile.
    #[inline]
    #[must_use]
    pub const fn parts(&self) -> u32 {
        ceil_div(self.tile_m, PART) * ceil_div(self.tile_n, PART)
    }

    /// Warps of a block, which have about as many parts each.
    #[inline]
    #[must_use]
    pub const fn warps(&self) -> u32 {
        let parts = self.parts();
        if parts <= WARPS { WARPS } else { ceil_div(parts, ceil_div(parts, MOST_WARPS)) }
    }

    /// Where B is in a stage, in elements: behind A.
    #[inline]
    #[must_use]
    pub const fn b_at(&self) -> u32 {
        (self.group * self.tile_m * pitch(self.chunk) + MISFIT).next_multiple_of(8)
    }

    /// Elements of a stage.
    #[inline]
    #[must_use]
    pub const fn stage_elements(&self) -> u32 {
        let b = self.group * self.chunk * pitch(self.tile_n) + MISFIT + BEHIND;
        self.b_at() + b.next_multiple_of(8)
    }

    /// Bytes of a stage.
    #[inline]
    const fn stage_bytes(&self) -> u32 {
        2 * self.stage_elements()
    }

    /// Stages of shared memory: of two one is loaded while the other is multiplied; with one that is what the other
    /// blocks of an SM do.
    #[inline]
    #[must_use]
    pub const fn stages(&self) -> u32 {
        if self.stage_elements() <= TWO_STAGES { 2 } else { 1 }
    }

    /// Bytes of the elements of C of that size, of all products of a group, in the layout of global memory; zero where
    /// shared memory has no room for them, and each lane stores its own.
    #[inline]
    #[must_use]
    pub const fn c_bytes(&self, size: u32) -> u32 {
        let bytes = (self.group * self.tile_m * self.tile_n * size + 16).next_multiple_of(16);
        if self.stages() * self.stage_bytes() + bytes <= MOST_BYTES { bytes } else { 0 }
    }

    /// Bytes of shared memory of a block.
    #[must_use]
    pub const fn shared_bytes(&self, c_size: u32) -> u32 {
        self.stages() * self.stage_bytes() + self.c_bytes(c_size)
    }
}

impl From<Partition> for batched::Partition {
    /// What the kernel's parameters have of it.
    fn from(Partition { tile_m, tile_n, group, chunk }: Partition) -> Self {
        Self { tile_m, tile_n, rows: 1, group, chunk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_products_of_a_block_have_warps_and_memory() {
        let sizes = [1, 2, 7, 8, 16, 24, 31, 32, 33, 63, 64, 65, 95, 100, 127, 128, 129, 250, 4096];
        let ks = [0, 1, 15, 31, 32, 64, 65, 127, 128, 129, 512, 100_000];
        for m in sizes {
            for n in sizes {
                for k in ks {
                    for count in [1, 100, 10_000] {
                        let it = Partition::new([m, n, k], count, 132);
                        let why = format!("{m} x {n} x {k}, {count}: {it:?}");
                        assert!(it.group >= 1 && it.tile_m <= m && it.tile_n <= n, "{why}");
                        assert!(it.chunk >= 1 && it.shared_bytes(4) <= MOST_BYTES, "{why}");
                        // A warp that goes from chunk to chunk has one part.
                        assert!(it.chunk >= k || it.group * it.parts() <= it.warps(), "{why}");
                        assert!(it.warps() >= WARPS && it.warps() <= MOST_WARPS, "{why}");
                        assert!(it.chunk >= k || it.chunk.is_multiple_of(PART), "{why}");
                        assert!(it.tile_n == n || it.tile_n.is_multiple_of(2), "{why}");
                        let tiles = ceil_div(m, it.tile_m) * ceil_div(n, it.tile_n);
                        let all = batched::Partition::from(it).tiles([m, n], count).unwrap();
                        assert!(all * it.group >= tiles * count);
                    }
                }
            }
        }
    }

    #[test]
    fn a_small_batch_is_on_more_sms() {
        let of = |n: u32, count| Partition::new([n; 3], count, 132).group;
        assert_eq!([of(31, 100), of(31, 10_000), of(7, 10_000), of(63, 10_000)], [1, 4, 16, 1]);
    }
}
