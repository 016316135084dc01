//! Square tiles in shared memory: which widths a card allows, and how full it gets.
//!
//! A block of the tiled kernels has a thread for each element of its tile of C, and keeps a tile of A
//! and one of B.

use std::fmt;

use super::Card;

/// Bytes of an element.
const ELEMENT: u64 = 4;
/// Wider tiles are no tiles of any card, and their sums would overflow.
pub const WIDEST: u32 = 1 << 16;
/// Threads that are scheduled together: a block takes whole warps.
const WARP: u64 = 32;

/// A tile on a card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tile {
    /// Rows and columns.
    pub width: u32,
    /// Threads of a block.
    pub threads: u64,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u64,
    /// How many blocks an SM holds, or why none.
    pub blocks: Result<Full, Illegal>,
    /// Loads from global memory for each multiply-add: 2 without tiles.
    pub loads_per_multiply_add: f64,
}

/// Blocks on an SM, as far as threads and shared memory decide; registers may allow fewer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Full {
    /// Blocks at once.
    pub blocks: u64,
    /// What allows no more.
    pub limit: &'static str,
    /// Share of the SM's threads that these are.
    pub occupancy: f64,
}

/// Why a block of this tile cannot be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Illegal {
    /// It has more threads than a block may.
    Threads {
        /// Threads needed.
        needs: u64,
        /// Threads allowed.
        has: u64,
    },
    /// It takes more shared memory than a block may.
    Shared {
        /// Bytes needed.
        needs: u64,
        /// Bytes allowed.
        has: u64,
    },
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads { needs, has } => write!(f, "{needs} threads, a block has {has}"),
            Self::Shared { needs, has } => write!(f, "{needs} bytes shared, a block has {has}"),
        }
    }
}

impl Tile {
    /// A tile of `width`, from 1 to [`WIDEST`], on a card.
    #[must_use]
    pub fn new(card: &Card, width: u32) -> Self {
        let width = width.clamp(1, WIDEST);
        let threads = u64::from(width) * u64::from(width);
        let shared_bytes = 2 * threads * ELEMENT;
        Self {
            width,
            threads,
            shared_bytes,
            blocks: blocks(card, threads, shared_bytes),
            loads_per_multiply_add: 2.0 / f64::from(width),
        }
    }

    /// What the memory can feed, in 10⁹ operations a second, if every load goes to it; no more than
    /// the peak.
    #[must_use]
    pub fn bound_gflops(&self, card: &Card) -> f64 {
        let bytes_for_an_operation = self.loads_per_multiply_add * ELEMENT as f64 / 2.0;
        (card.bandwidth_gbs / bytes_for_an_operation).min(card.peak_gflops())
    }
}

fn blocks(card: &Card, threads: u64, shared: u64) -> Result<Full, Illegal> {
    let (most, room) = (u64::from(card.threads_per_block), u64::from(card.shared_per_block));
    if threads > most {
        return Err(Illegal::Threads { needs: threads, has: most });
    }
    if shared > room {
        return Err(Illegal::Shared { needs: shared, has: room });
    }
    let warps = threads.div_ceil(WARP) * WARP;
    let by_threads = u64::from(card.threads_per_sm) / warps;
    let by_shared = u64::from(card.shared_per_sm) / (shared + u64::from(card.shared_reserved));
    let by_blocks = u64::from(card.blocks_per_sm);
    let least = [(by_threads, "threads"), (by_shared, "shared memory"), (by_blocks, "blocks")]
        .into_iter()
        .min_by_key(|(blocks, _)| *blocks);
    // A block that is legal fits at least once.
    let (blocks, limit) = least.unwrap_or((1, "blocks"));
    let occupancy = (blocks * threads) as f64 / f64::from(card.threads_per_sm);
    Ok(Full { blocks, limit, occupancy })
}

/// The widest tile that a card allows.
#[must_use]
pub fn largest_legal(card: &Card) -> u32 {
    let legal = |width: &u32| Tile::new(card, *width).blocks.is_ok();
    (1..=card.threads_per_block.isqrt()).rev().find(legal).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{cards, find};

    fn tile(id: &str, width: u32) -> Tile {
        Tile::new(find(id).unwrap(), width)
    }

    /// The notes' sum for G80: 16 KB for 8 blocks are 2 KB a block, 1 KB for each tile, so 16 x 16.
    /// Their SM holds 768 threads, so that there are 3 such blocks and not 8.
    #[test]
    fn the_notes_budget_of_g80() {
        let tile = tile("g80", 16);
        assert_eq!((tile.threads, tile.shared_bytes), (256, 2048));
        let full = tile.blocks.unwrap();
        assert_eq!((full.blocks, full.limit, full.occupancy), (3, "threads", 1.0));
        assert_eq!(16_384 / tile.shared_bytes, 8);
        assert_eq!(tile.loads_per_multiply_add, 0.125);
    }

    #[test]
    fn the_widest_tiles_are_22_then_32() {
        for card in cards() {
            let widest = largest_legal(card);
            assert_eq!(widest, if card.threads_per_block == 512 { 22 } else { 32 }, "{}", card.id);
            assert!(Tile::new(card, widest + 1).blocks.is_err(), "{}", card.id);
        }
        let refused = tile("g80", 32).blocks.unwrap_err();
        assert_eq!(refused.to_string(), "1024 threads, a block has 512");
        assert!(tile("h200", 1_000_000).blocks.is_err(), "no width overflows");
    }

    #[test]
    fn what_limits_is_named() {
        let full = |id, width| tile(id, width).blocks.unwrap();
        assert_eq!((full("h200", 32).blocks, full("h200", 32).limit), (2, "threads"));
        // Four threads take a warp of 32, and there is room for 32 blocks.
        assert_eq!((full("h200", 2).blocks, full("h200", 2).limit), (32, "blocks"));
        assert!((full("h200", 2).occupancy - 128.0 / 2048.0).abs() < 1e-12);
        let narrow = Card { shared_per_sm: 16_384, ..find("h200").unwrap().clone() };
        let full = Tile::new(&narrow, 22).blocks.unwrap();
        assert_eq!((full.blocks, full.limit), (3, "shared memory"), "1024 bytes of each are kept");
        let tight = Card { shared_per_block: 4096, ..find("h200").unwrap().clone() };
        let refused = Tile::new(&tight, 32).blocks.unwrap_err();
        assert_eq!(refused, Illegal::Shared { needs: 8192, has: 4096 });
        assert_eq!(largest_legal(&tight), 22);
    }

    #[test]
    fn a_tile_of_16_lifts_g80_to_its_peak() {
        let g80 = find("g80").unwrap();
        assert!((tile("g80", 1).bound_gflops(g80) - 21.6).abs() < 1e-9);
        assert!((tile("g80", 16).bound_gflops(g80) - 345.6).abs() < 1e-9);
        assert_eq!(tile("g80", 22).bound_gflops(g80), g80.peak_gflops());
    }
}
