//! Tile schedulers: which tiles of C a CTA computes, in which order, and which range of k of each.
//!
//! A kernel asks its scheduler for one tile after the other and knows nothing of the order; a scheduler is
//! a pure function of the CTA's index, the grid and the sizes, so the host can enumerate what a launch will
//! do. [`LaunchShape`](crate::LaunchShape) is the host's side: the grid for each scheduler.

use crate::index::{block_row, ceil_div, grouped_tile};
use crate::split_k;

/// A CTA's index and what of the grid's extent schedulers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cta {
    /// Its index along x, y and z.
    pub index: (u32, u32, u32),
    /// CTAs along x and y.
    pub grid: (u32, u32),
}

/// What a CTA computes next: a tile of C, or what a range of k contributes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTile {
    /// The tile's row of tiles: its first row of C over the tile's rows.
    pub row: u32,
    /// Its column of tiles.
    pub col: u32,
    /// Which product of a batch it is of.
    pub batch: u32,
    /// Where its range of k begins.
    pub k0: u32,
    /// The k elements of the range.
    pub k_len: u32,
    /// Which range it is.
    pub range: u32,
}

impl WorkTile {
    const fn whole((row, col): (u32, u32), k: u32) -> Self {
        Self { row, col, batch: 0, k0: 0, k_len: k, range: 0 }
    }
}

/// The tiles of a CTA, in order.
pub trait TileScheduler {
    /// The next one; none where there is no other.
    fn next_tile(&mut self) -> Option<WorkTile>;
}

/// C, its tiles, and k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
    /// k elements of the product.
    pub k: u32,
    /// Rows and columns of a tile.
    pub tile: (u32, u32),
}

impl Extent {
    const fn tiles(self) -> (u32, u32) {
        (ceil_div(self.m, self.tile.0), ceil_div(self.n, self.tile.1))
    }
}

/// One tile for each CTA: columns of tiles along x, rows along y and, where those are too many, z. A CTA of
/// a row that only rounds the grid up has none.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    cta: Cta,
    extent: Extent,
}

impl Plain {
    /// The tile of a CTA.
    #[inline(always)]
    #[must_use]
    pub const fn new(cta: Cta, extent: Extent) -> Self {
        Self { cta, extent }
    }
}

impl TileScheduler for Plain {
    /// The tile; the same one each time, so a kernel asks once.
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let Self { cta: Cta { index: (x, y, z), grid: (_, grid_y) }, extent } = *self;
        let row = block_row(y, z, grid_y);
        (row * extent.tile.0 < extent.m).then_some(WorkTile::whole((row, x), extent.k))
    }
}

/// One tile for each CTA along x, in the order of [`grouped_tile`].
#[derive(Clone, Copy, Debug)]
pub struct Grouped {
    cta: Cta,
    extent: Extent,
    /// Rows of tiles in a group.
    rows: u32,
}

impl Grouped {
    /// The tile of a CTA of a launch that has one for each tile.
    #[inline(always)]
    #[must_use]
    pub const fn new(cta: Cta, extent: Extent, rows: u32) -> Self {
        Self { cta, extent, rows }
    }
}

impl TileScheduler for Grouped {
    /// The tile; the same one each time, so a kernel asks once.
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let (tiles_m, tiles_n) = self.extent.tiles();
        let tile = grouped_tile(self.cta.index.0, tiles_m, tiles_n, self.rows);
        Some(WorkTile::whole(tile, self.extent.k))
    }
}

/// Every so many tiles one, in the order of [`grouped_tile`]: for as many CTAs as run together, or whole
/// clusters of them that have tiles one below the other.
#[derive(Clone, Copy, Debug)]
pub struct Persistent {
    extent: Extent,
    /// Rows of a cluster's tiles in a group.
    rows: u32,
    /// The cluster's next tiles, and from there to those after them.
    next: u32,
    step: u32,
    /// CTAs of a cluster, and which of them this is.
    cluster: u32,
    rank: u32,
}

impl Persistent {
    /// The tiles of a CTA that belongs to no cluster, with so many rows of tiles in a group.
    #[inline(always)]
    #[must_use]
    pub const fn new(cta: Cta, extent: Extent, rows: u32) -> Self {
        Self { extent, rows, next: cta.index.0, step: cta.grid.0, cluster: 1, rank: 0 }
    }

    /// The tiles of CTA `rank` of a cluster. The lowest tile of the last cluster's may be below C: its CTA
    /// takes part all the same, since the others wait for its share of the loads.
    #[inline(always)]
    #[must_use]
    pub const fn in_cluster(
        cta: Cta,
        extent: Extent,
        rows: u32,
        (cluster, rank): (u32, u32),
    ) -> Self {
        Self {
            extent,
            rows: rows / cluster,
            next: cta.index.0 / cluster,
            step: cta.grid.0 / cluster,
            cluster,
            rank,
        }
    }
}

impl TileScheduler for Persistent {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let (tiles_m, tiles_n) = self.extent.tiles();
        let clusters_m = ceil_div(tiles_m, self.cluster);
        if self.next >= clusters_m * tiles_n {
            return None;
        }
        let (row, col) = grouped_tile(self.next, clusters_m, tiles_n, self.rows);
        self.next += self.step;
        Some(WorkTile::whole((self.cluster * row + self.rank, col), self.extent.k))
    }
}

/// Another scheduler's tiles, with a range of k for each CTA along y; see [`split_k`].
#[derive(Clone, Copy, Debug)]
pub struct SplitK<S> {
    tiles: S,
    /// Ranges of k, and which of them this CTA has.
    ranges: u32,
    range: u32,
}

impl<S: TileScheduler> SplitK<S> {
    /// The tiles of a CTA in a grid with a row of CTAs for each range.
    #[inline(always)]
    #[must_use]
    pub const fn new(cta: Cta, tiles: S) -> Self {
        Self { tiles, ranges: cta.grid.1, range: cta.index.1 }
    }
}

impl<S: TileScheduler> TileScheduler for SplitK<S> {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let tile = self.tiles.next_tile()?;
        let len = split_k::steps(tile.k_len, self.ranges);
        let k0 = self.range * len;
        let left = tile.k_len - k0.min(tile.k_len);
        Some(WorkTile { k0, k_len: len.min(left), range: self.range, ..tile })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// How often each element of the sums of C is added, by (row, column, product, k).
    fn covered(
        grid: (u32, u32, u32),
        extent: Extent,
        tiles: impl Fn(Cta) -> Vec<WorkTile>,
    ) -> HashMap<(u32, u32, u32, u32), u32> {
        let mut times = HashMap::new();
        for z in 0..grid.2 {
            for y in 0..grid.1 {
                for x in 0..grid.0 {
                    for tile in tiles(Cta { index: (x, y, z), grid: (grid.0, grid.1) }) {
                        let (row0, col0) = (tile.row * extent.tile.0, tile.col * extent.tile.1);
                        let rows = row0..(row0 + extent.tile.0).min(extent.m);
                        let cols = col0..(col0 + extent.tile.1).min(extent.n);
                        for (row, col) in
                            rows.flat_map(|row| cols.clone().map(move |col| (row, col)))
                        {
                            for k in tile.k0..tile.k0 + tile.k_len {
                                *times.entry((row, col, tile.batch, k)).or_default() += 1;
                            }
                        }
                    }
                }
            }
        }
        times
    }

    fn all(mut scheduler: impl TileScheduler) -> Vec<WorkTile> {
        std::iter::from_fn(|| scheduler.next_tile()).collect()
    }

    fn once(mut scheduler: impl TileScheduler) -> Vec<WorkTile> {
        scheduler.next_tile().into_iter().collect()
    }

    fn is_a_partition(times: &HashMap<(u32, u32, u32, u32), u32>, elements: u32) {
        assert_eq!(times.len(), elements as usize);
        assert!(times.values().all(|&times| times == 1));
    }

    const EXTENT: Extent = Extent { m: 11, n: 9, k: 3, tile: (4, 2) };
    const ELEMENTS: u32 = 11 * 9 * 3;

    #[test]
    fn each_scheduler_covers_c_once() {
        // Three rows of tiles, folded to two along y: one row of CTAs has nothing to do.
        is_a_partition(&covered((5, 2, 2), EXTENT, |cta| once(Plain::new(cta, EXTENT))), ELEMENTS);
        for rows in 1..5 {
            let grouped = |cta| once(Grouped::new(cta, EXTENT, rows));
            is_a_partition(&covered((15, 1, 1), EXTENT, grouped), ELEMENTS);
            for ctas in 1..17 {
                let persistent = |cta| all(Persistent::new(cta, EXTENT, rows));
                is_a_partition(&covered((ctas, 1, 1), EXTENT, persistent), ELEMENTS);
            }
        }
    }

    #[test]
    fn clusters_have_tiles_below_each_other_and_cover_c_once() {
        for clusters in 1..7 {
            let tiles =
                |cta: Cta| all(Persistent::in_cluster(cta, EXTENT, 8, (2, cta.index.0 % 2)));
            is_a_partition(&covered((2 * clusters, 1, 1), EXTENT, tiles), ELEMENTS);
        }
        let tiles = |index| {
            let cta = Cta { index: (index, 0, 0), grid: (4, 1) };
            all(Persistent::in_cluster(cta, EXTENT, 8, (2, index % 2)))
        };
        for (upper, lower) in tiles(2).iter().zip(tiles(3)) {
            assert_eq!((upper.row + 1, upper.col), (lower.row, lower.col));
        }
        // All CTAs of a cluster go the same number of times, even below C.
        assert_eq!(tiles(0).len(), tiles(1).len());
    }

    #[test]
    fn ranges_of_k_cover_k_once() {
        let extent = Extent { k: 70, ..EXTENT };
        for ranges in 1..6 {
            let tiles = |cta| once(SplitK::new(cta, Grouped::new(cta, extent, 8)));
            let times = covered((15, ranges, 1), extent, tiles);
            is_a_partition(&times, 11 * 9 * 70);
        }
    }

    /// The tiles of a CTA among those of all products of a batch, one product after the other.
    struct Batched {
        extent: Extent,
        count: u32,
        next: u32,
        step: u32,
    }

    impl TileScheduler for Batched {
        fn next_tile(&mut self) -> Option<WorkTile> {
            let (tiles_m, tiles_n) = self.extent.tiles();
            let each = tiles_m * tiles_n;
            let batch = self.next / each;
            let cta = Cta { index: (self.next % each, 0, 0), grid: (each, 1) };
            self.next += self.step;
            let tile = Grouped::new(cta, self.extent, 8).next_tile()?;
            (batch < self.count).then_some(WorkTile { batch, ..tile })
        }
    }

    /// The tiles on and below the diagonal, by rows.
    struct Triangular {
        extent: Extent,
        next: u32,
        step: u32,
    }

    impl TileScheduler for Triangular {
        fn next_tile(&mut self) -> Option<WorkTile> {
            let (mut row, mut before) = (0, 0);
            while before + row < self.next {
                before += row + 1;
                row += 1;
            }
            let col = self.next - before;
            self.next += self.step;
            let inside = row < self.extent.tiles().0;
            inside.then_some(WorkTile::whole((row, col), self.extent.k))
        }
    }

    /// Stream-K: the k elements of all tiles in one row, of which each CTA has an equal part.
    struct StreamK {
        extent: Extent,
        next: u32,
        end: u32,
    }

    impl TileScheduler for StreamK {
        fn next_tile(&mut self) -> Option<WorkTile> {
            let k = self.extent.k;
            if self.next >= self.end {
                return None;
            }
            let (tile, k0) = (self.next / k, self.next % k);
            let k_len = (k - k0).min(self.end - self.next);
            self.next += k_len;
            let cta = Cta { index: (tile, 0, 0), grid: (0, 1) };
            let place = Grouped::new(cta, self.extent, 8).next_tile()?;
            Some(WorkTile { k0, k_len, range: u32::from(k0 > 0), ..place })
        }
    }

    /// The trait is wide enough for what kernels do not use so far.
    #[test]
    fn batched_triangular_and_stream_k_schedules_are_further_implementations() {
        for ctas in 1..9 {
            let of = |cta: Cta| (cta.index.0, cta.grid.0);
            let batched = |cta| {
                let (next, step) = of(cta);
                all(Batched { extent: EXTENT, count: 3, next, step })
            };
            is_a_partition(&covered((ctas, 1, 1), EXTENT, batched), 3 * ELEMENTS);

            let square = Extent { m: 11, n: 11, k: 2, tile: (4, 4) };
            let triangular = |cta| {
                let (next, step) = of(cta);
                all(Triangular { extent: square, next, step })
            };
            let times = covered((ctas, 1, 1), square, triangular);
            assert!(times.values().all(|&times| times == 1));
            for row in 0..11 {
                for col in 0..11 {
                    let computed = times.contains_key(&(row, col, 0, 0));
                    assert_eq!(computed, col / 4 <= row / 4, "({row}, {col})");
                }
            }

            let work = 15 * EXTENT.k;
            let stream = |cta| {
                let (index, ctas) = of(cta);
                let (next, end) = (work * index / ctas, work * (index + 1) / ctas);
                all(StreamK { extent: EXTENT, next, end })
            };
            is_a_partition(&covered((ctas, 1, 1), EXTENT, stream), ELEMENTS);
        }
    }
}
