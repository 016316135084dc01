//! How blocks share out a batch of products of 16-bit floats whose warps multiply on the tensor cores.
//!
//! A block takes a group of consecutive products of the batch, or of products larger than a tile the same tile of
//! each. Each of its warps computes a part of C of at most [`PART_M`] rows and [`PART_N`] columns, whose sums it keeps
//! from one chunk of k to the next.
//!
//! ```text
//!   product 0                    product 1
//!   +---------------------+      +---------------------+
//!   | warp 0              |      | warp 2              |
//!   +---------------------+      +---------------------+
//!   | warp 1              |      | warp 3              |
//!   +---------------------+      +---------------------+
//! ```
//!
//! Shared memory has two stages. Operands whose lines are aligned packets are copied to lines that `ldmatrix` reads,
//! into one stage while the other is multiplied. Others are copied byte for byte to the first stage, and from there to
//! the aligned lines of the second, before the next are copied. Of whole products the first stage may have all k
//! elements where the second has half of them.
//!
//! What a block has changes none of the bits of C: the tensor cores add the k elements sixteen at a time, in order.

use crate::batched;
use crate::index::ceil_div;

/// Warps of a block, unless a tile has more parts.
const WARPS: u32 = 4;
/// Most warps of a block.
const MOST_WARPS: u32 = 8;
/// Most threads of a block.
pub const THREADS: u32 = 32 * MOST_WARPS;
/// Rows of C of a warp.
pub const PART_M: u32 = 32;
/// Columns of it.
pub const PART_N: u32 = 64;
/// k elements that are added together.
pub const STEP: u32 = 16;
/// Elements of 16 bytes.
pub const PACKET: u32 = 8;
/// Most rows and columns of a block's tile of a product.
const TILE: u32 = 128;
/// The same where there are few tiles.
const SMALL_TILE: u32 = 64;
/// Blocks for each SM below which tiles and groups are made smaller.
const BLOCKS: u32 = 2;
/// Most blocks of [`WARPS`] that an SM has at a time, and the bytes of shared memory that it has for them.
const RESIDENT: u32 = 4;
const SM_BYTES: u32 = 224 * 1024;
/// Most bytes of shared memory of a block of eight warps: what every GPU of compute capability 8.0 and later has.
pub const MOST_BYTES: u32 = 99 * 1024;
/// Most bytes of a block of [`WARPS`], of which more are resident together.
const SOME_BYTES: u32 = 75 * 1024;

/// How the blocks of a launch share out a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Rows of C of a block's tile of a product.
    pub tile_m: u32,
    /// Columns of it.
    pub tile_n: u32,
    /// Products of a block.
    pub group: u32,
    /// k elements that are multiplied at a time: all, or a multiple of [`STEP`].
    pub chunk: u32,
    /// k elements that are copied at a time: all where two chunks have them, and a tile is a product.
    pub copied: u32,
}

/// Elements from one aligned line of that many, which are whole packets, to the next: an odd number of packets, so
/// that the lines of a matrix of `ldmatrix` are in different banks.
#[inline]
#[must_use]
pub const fn pitch(len: u32) -> u32 {
    if len.is_multiple_of(2 * PACKET) { len + PACKET } else { len }
}

/// Elements from one line to the next of those that are copied byte for byte, line by line, where a line begins as
/// many elements behind a multiple of 16 bytes as in global memory; `packet` are in 16 bytes.
#[inline]
#[must_use]
pub const fn raw_pitch(len: u32, packet: u32) -> u32 {
    (len + packet - 1).next_multiple_of(packet)
}

impl Partition {
    /// The partition of `count` products of m, n and k on that many SMs. It is the same wherever the operands are.
    #[must_use]
    pub fn new([m, n, k]: [u32; 3], count: u32, multiprocessors: u32) -> Self {
        let blocks = |each: u32| u64::from(multiprocessors * each);
        // Tiles of like sizes.
        let tiled = |most: u32| {
            let side =
                |all: u32| ceil_div(all, ceil_div(all, most)).next_multiple_of(STEP).min(all);
            Self::of([m, n, k], (side(m), side(n)), 1, k.max(1))
        };
        let tiles = |it: &Self| {
            u64::from(ceil_div(m, it.tile_m))
                * u64::from(ceil_div(n, it.tile_n))
                * u64::from(ceil_div(count, it.group))
        };
        let mut it = tiled(TILE);
        if !it.is_whole([m, n]) && tiles(&it) < blocks(BLOCKS) {
            it = tiled(SMALL_TILE);
        }
        let with = |it: &Self, group: u32, chunk: u32| {
            Self::of([m, n, k], (it.tile_m, it.tile_n), group, chunk)
        };
        let mut group = (WARPS / it.parts()).max(1);
        let suits = |group: u32| {
            let grouped = with(&it, group, it.chunk);
            let each = (SM_BYTES / grouped.shared_bytes().max(1)).min(RESIDENT);
            let (tiles, resident) = (tiles(&grouped), blocks(each));
            // More than are resident together, but not twice as many, leave SMs idle.
            let are_few = tiles < blocks(BLOCKS) || tiles > resident && tiles < 2 * resident;
            !are_few && with(&it, group, k.clamp(1, 4 * STEP)).fits()
        };
        while group > 1 && !suits(group) {
            group /= 2;
        }
        it = with(&it, group, it.chunk);
        if !it.fits() {
            let half = with(&it, group, ceil_div(k, 2).next_multiple_of(STEP));
            if half.copied == k && half.fits() {
                return half;
            }
            let chunks = (1..).map(|steps| with(&it, group, steps * STEP));
            let most = chunks.take_while(|it| it.copied < k && it.fits()).last();
            let most = most.map_or(STEP, |it| it.chunk);
            // Chunks of like sizes.
            it = with(&it, group, ceil_div(k, ceil_div(k, most)).next_multiple_of(STEP));
        }
        it
    }

    /// That with these tiles, groups and chunks, of products of m, n and k.
    #[inline]
    #[must_use]
    pub const fn of(
        [m, n, k]: [u32; 3],
        (tile_m, tile_n): (u32, u32),
        group: u32,
        chunk: u32,
    ) -> Self {
        let it = Self { tile_m, tile_n, group, chunk, copied: chunk };
        if it.is_whole([m, n]) && k <= 2 * chunk { Self { copied: k, ..it } } else { it }
    }

    /// Whether a tile is a product.
    #[inline]
    #[must_use]
    pub const fn is_whole(&self, [m, n]: [u32; 2]) -> bool {
        self.tile_m == m && self.tile_n == n
    }

    /// Whether shared memory has room.
    fn fits(&self) -> bool {
        self.shared_bytes() <= if self.warps() > WARPS { MOST_BYTES } else { SOME_BYTES }
    }

    /// Parts of a product's tile.
    #[inline]
    #[must_use]
    pub const fn parts(&self) -> u32 {
        ceil_div(self.tile_m, PART_M) * ceil_div(self.tile_n, PART_N)
    }

    /// Warps of a block, each of which has a part or none.
    #[inline]
    #[must_use]
    pub const fn warps(&self) -> u32 {
        if self.group * self.parts() <= WARPS { WARPS } else { MOST_WARPS }
    }

    /// Elements of an operand that has `size` rows or columns of C in aligned lines, whichever way these go.
    #[inline]
    const fn aligned(&self, size: u32) -> u32 {
        let steps = self.chunk.next_multiple_of(STEP);
        let (by_size, by_k) = (size * pitch(steps), steps * pitch(size.next_multiple_of(PACKET)));
        self.group * if by_size > by_k { by_size } else { by_k }
    }

    /// Elements of it in the first stage, which has aligned lines, or lines that are copied byte for byte: those of a
    /// chunk with gaps between them, or all in one piece.
    #[inline]
    const fn first(&self, size: u32) -> u32 {
        let by_size = size * raw_pitch(self.chunk, PACKET);
        let by_k = self.chunk * raw_pitch(size, PACKET);
        let lines = if by_size > by_k { by_size } else { by_k };
        let piece = size * self.copied;
        let raw = self.group * if lines > piece { lines } else { piece } + PACKET;
        let aligned = self.aligned(size);
        if raw > aligned { raw.next_multiple_of(PACKET) } else { aligned }
    }

    /// Where the operands are, in elements: A and B in the first stage, A and B in the second, and where that ends.
    #[inline]
    #[must_use]
    pub const fn places(&self) -> [u32; 5] {
        let b = self.first(self.tile_m);
        let second = b + self.first(self.tile_n);
        let second_b = second + self.aligned(self.tile_m);
        [0, b, second, second_b, second_b + self.aligned(self.tile_n)]
    }

    /// Whether a stage has room for the group's elements of C of that size.
    #[inline]
    #[must_use]
    pub const fn has_room_for_c(&self, size: u32) -> bool {
        let [_, _, second, _, end] = self.places();
        let pitch = raw_pitch(self.tile_n, 16 / size);
        self.group * self.tile_m * pitch * size + 16 <= 2 * (end - second)
    }

    /// Bytes of shared memory of a block.
    #[must_use]
    pub const fn shared_bytes(&self) -> u32 {
        let [.., end] = self.places();
        2 * end
    }
}

impl From<Partition> for batched::Partition {
    /// What the kernel's parameters have of it.
    fn from(Partition { tile_m, tile_n, group, chunk, .. }: Partition) -> Self {
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
                        assert!(it.chunk >= 1 && it.shared_bytes() <= MOST_BYTES, "{why}");
                        assert!(it.group * it.parts() <= it.warps(), "{why}");
                        assert!(it.chunk >= k || it.chunk.is_multiple_of(STEP), "{why}");
                        // Lines of a chunk have room, whichever way they go and whatever is between them.
                        let [_, b, second, ..] = it.places();
                        for (size, room) in [(it.tile_m, b), (it.tile_n, second - b)] {
                            let lines = [(it.chunk, size), (size, it.chunk)];
                            let needs = lines.map(|(lines, len)| lines * raw_pitch(len, PACKET));
                            assert!(needs.into_iter().all(|one| it.group * one <= room), "{why}");
                            assert!(it.group * size * it.copied + PACKET <= room, "{why}");
                        }
                        // Whether lines are packets is the same for all tiles.
                        assert!(it.tile_m == m || it.tile_m.is_multiple_of(STEP), "{why}");
                        assert!(it.tile_n == n || it.tile_n.is_multiple_of(STEP), "{why}");
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
        assert_eq!([of(31, 100), of(31, 10_000), of(7, 10_000), of(63, 10_000)], [1, 4, 4, 2]);
    }
}
