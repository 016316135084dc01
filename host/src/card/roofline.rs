//! The lecture's sum: what memory must deliver for the peak, and what it can feed.
//!
//! Every load is taken to go to memory, as on a card without caches. A cache serves many of them
//! again, so a measured rate may lie above such a bound.

use super::{Card, Tile};

/// Bytes of an element.
const ELEMENT: f64 = 4.0;

/// The sum for a square product on a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// Size of the product.
    pub n: usize,
    /// Width of the tile.
    pub width: u32,
    /// `2n³`.
    pub operations: f64,
    /// The card's peak in 10⁹ operations a second.
    pub peak_gflops: f64,
    /// Its bandwidth in 10⁹ bytes a second.
    pub bandwidth_gbs: f64,
    /// Each multiply-add loads its two operands.
    pub naive: Bound,
    /// Each tile of A and B is loaded once for a tile of C.
    pub tiled: Bound,
    /// Every element is loaded once: nothing could load less.
    pub ideal: Bound,
    /// What a block of tiles does.
    pub loads: Loads,
}

/// What a way to load allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Bytes loaded; C's `4n²` are stored besides.
    pub bytes: f64,
    /// Bandwidth in 10⁹ bytes a second that the peak would take.
    pub needed_gbs: f64,
    /// Operations for each byte loaded.
    pub intensity: f64,
    /// 10⁹ operations a second that are possible.
    pub gflops: f64,
    /// What sets that bound.
    pub limit: Limit,
    /// Seconds for the product at that rate.
    pub seconds: f64,
}

/// What holds a rate down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Memory delivers no more.
    Bandwidth,
    /// The arithmetic units do no more.
    Arithmetic,
}

/// Counts of one launch of the tiled kernel, as the notes make them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loads {
    /// Threads of a block.
    pub threads: u64,
    /// Blocks along each side of C.
    pub blocks_along: u64,
    /// Elements that a block loads in one phase.
    pub loads: u64,
    /// Operations that they feed.
    pub operations: u64,
}

impl Roofline {
    /// The sum for a product of `n` with tiles of `width`, both 1 or more.
    #[must_use]
    pub fn new(card: &Card, n: usize, width: u32) -> Self {
        let (size, tile) = (n.max(1) as f64, Tile::new(card, width));
        let operations = 2.0 * size.powi(3);
        // A is loaded once for each column of tiles, B once for each row of them.
        let walks = size / f64::from(tile.width);
        #[expect(clippy::cast_possible_truncation, reason = "whole, and no more than `n`")]
        let blocks_along = walks.ceil() as u64;
        let bound = |elements: f64| Bound::new(card, operations, ELEMENT * elements);
        Self {
            n,
            width: tile.width,
            operations,
            peak_gflops: card.peak_gflops(),
            bandwidth_gbs: card.bandwidth_gbs,
            naive: bound(2.0 * size.powi(3)),
            tiled: bound(2.0 * size.powi(2) * walks.ceil()),
            ideal: bound(2.0 * size.powi(2)),
            loads: Loads {
                threads: tile.threads,
                blocks_along,
                loads: 2 * tile.threads,
                operations: 2 * tile.threads * u64::from(tile.width),
            },
        }
    }
}

impl Bound {
    fn new(card: &Card, operations: f64, bytes: f64) -> Self {
        let (intensity, peak) = (operations / bytes, card.peak_gflops());
        let fed = card.bandwidth_gbs * intensity;
        let (gflops, limit) =
            if fed < peak { (fed, Limit::Bandwidth) } else { (peak, Limit::Arithmetic) };
        Self {
            bytes,
            needed_gbs: peak / intensity,
            intensity,
            gflops,
            limit,
            seconds: operations / (gflops * 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{cards, find};

    fn close(value: f64, wanted: f64) {
        assert!((value / wanted - 1.0).abs() < 1e-12, "{value} is not {wanted}");
    }

    /// The notes: 346.5, 1386 GB/s, 21.6, "1/15", and 15 measured, "1/20".
    #[test]
    fn the_notes_sum_for_g80_with_its_slips_mended() {
        let sum = Roofline::new(find("g80").unwrap(), 1024, 16);
        close(sum.peak_gflops, 345.6);
        close(sum.naive.needed_gbs, 1382.4);
        close(sum.naive.gflops, 21.6);
        assert_eq!(sum.naive.limit, Limit::Bandwidth);
        close(sum.peak_gflops / sum.naive.gflops, 16.0);
        assert_eq!((sum.peak_gflops / 15.0).round(), 23.0);
        // With tiles of 16 the memory feeds just the peak.
        close(sum.tiled.gflops, 345.6);
        close(sum.naive.bytes / sum.tiled.bytes, 16.0);
    }

    /// The notes: 64 x 64 = 4K blocks, 512 loads for 8192 operations in a phase.
    #[test]
    fn the_notes_counts() {
        let Loads { threads, blocks_along, loads, operations } =
            Roofline::new(find("g80").unwrap(), 1024, 16).loads;
        assert_eq!((threads, blocks_along * blocks_along), (256, 4096));
        assert_eq!((loads, operations), (512, 8192));
        assert_eq!(Roofline::new(find("g80").unwrap(), 1025, 16).loads.blocks_along, 65);
    }

    #[test]
    fn bounds_are_in_order_on_every_card() {
        for card in cards() {
            for (n, width) in [(1, 1), (100, 16), (10_240, 32), (3, 1_000_000)] {
                let sum = Roofline::new(card, n, width);
                for bound in [sum.naive, sum.tiled, sum.ideal] {
                    assert!(bound.gflops <= sum.peak_gflops && bound.seconds > 0.0, "{}", card.id);
                    assert_eq!(
                        bound.limit == Limit::Bandwidth,
                        bound.needed_gbs > card.bandwidth_gbs,
                        "{} {n} {width}",
                        card.id
                    );
                }
                assert!(sum.naive.gflops <= sum.tiled.gflops, "{} {n} {width}", card.id);
                assert!(sum.tiled.gflops <= sum.ideal.gflops, "{} {n} {width}", card.id);
            }
        }
    }
}
