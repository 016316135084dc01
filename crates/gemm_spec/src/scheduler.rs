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
    /// The row of C at which row 0 of tiles begins, and the one before which the last ends; C ends there or
    /// before.
    pub rows: (u32, u32),
}

impl WorkTile {
    const fn whole((row, col): (u32, u32), k: u32) -> Self {
        Self { row, col, batch: 0, k0: 0, k_len: k, range: 0, rows: (0, u32::MAX) }
    }
}

/// The tiles of a CTA, in order: `while scheduler.has_work() { let tile = scheduler.tile(); ..;
/// scheduler.advance(); }`.
///
/// The test and the tile are apart, for a compiler that moves what only the epilogue needs of a tile behind
/// the mainloop: it does not with an `Option`.
pub trait TileScheduler {
    /// Whether there is a tile for the CTA to compute.
    fn has_work(&self) -> bool;

    /// That tile. Without work it is one outside C.
    fn tile(&self) -> WorkTile;

    /// Goes on to the next one.
    fn advance(&mut self);
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
    done: bool,
}

impl Plain {
    /// The tile of a CTA.
    #[inline(always)]
    #[must_use]
    pub const fn new(cta: Cta, extent: Extent) -> Self {
        Self { cta, extent, done: false }
    }
}

impl TileScheduler for Plain {
    #[inline(always)]
    fn has_work(&self) -> bool {
        self.tile().row * self.extent.tile.0 < self.extent.m && !self.done
    }

    #[inline(always)]
    fn tile(&self) -> WorkTile {
        let Cta { index: (x, y, z), grid: (_, grid_y) } = self.cta;
        WorkTile::whole((block_row(y, z, grid_y), x), self.extent.k)
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.done = true;
    }
}

/// One tile for each CTA along x, in the order of [`grouped_tile`].
#[derive(Clone, Copy, Debug)]
pub struct Grouped {
    cta: Cta,
    extent: Extent,
    /// Rows of tiles in a group.
    rows: u32,
    done: bool,
}

impl Grouped {
    /// The tile of a CTA of a launch that has one for each tile.
    #[inline(always)]
    #[must_use]
    pub const fn new(cta: Cta, extent: Extent, rows: u32) -> Self {
        Self { cta, extent, rows, done: false }
    }

    /// The tile of a CTA of a launch that has a cluster of `size` CTAs for each tile.
    #[inline(always)]
    #[must_use]
    pub const fn of_cluster(cta: Cta, extent: Extent, rows: u32, size: u32) -> Self {
        let (x, y, z) = cta.index;
        // Never zero, so that no division of it can panic.
        let size = if size == 0 { 1 } else { size };
        Self::new(Cta { index: (x / size, y, z), ..cta }, extent, rows)
    }
}

impl TileScheduler for Grouped {
    #[inline(always)]
    fn has_work(&self) -> bool {
        !self.done
    }

    #[inline(always)]
    fn tile(&self) -> WorkTile {
        let (tiles_m, tiles_n) = self.extent.tiles();
        let tile = grouped_tile(self.cta.index.0, tiles_m, tiles_n, self.rows);
        WorkTile::whole(tile, self.extent.k)
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.done = true;
    }
}

/// The tiles that are a grid's length apart in the order of [`grouped_tile`]: for as many CTAs as run
/// together, or whole clusters of them that have tiles one below the other.
#[derive(Clone, Copy, Debug)]
pub struct Persistent {
    /// Rows of the clusters' tiles, columns of tiles, and k elements.
    clusters_m: u32,
    tiles_n: u32,
    k: u32,
    /// Rows of a cluster's tiles in a group.
    rows: u32,
    /// The cluster's tiles, and from there to those after them.
    next: u32,
    step: u32,
    /// CTAs of a cluster, and which of them this is.
    cluster: u32,
    rank: u32,
}

impl Persistent {
    /// The tiles of a CTA that belongs to no cluster, with `rows` rows of tiles in a group.
    #[inline(always)]
    #[must_use]
    pub const fn new(cta: Cta, extent: Extent, rows: u32) -> Self {
        Self::in_cluster(cta, extent, rows, (1, 0))
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
        let (tiles_m, tiles_n) = extent.tiles();
        Self {
            clusters_m: ceil_div(tiles_m, cluster),
            tiles_n,
            k: extent.k,
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
    fn has_work(&self) -> bool {
        self.next < self.clusters_m * self.tiles_n
    }

    #[inline(always)]
    fn tile(&self) -> WorkTile {
        let (row, col) = grouped_tile(self.next, self.clusters_m, self.tiles_n, self.rows);
        WorkTile::whole((self.cluster * row + self.rank, col), self.k)
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.next += self.step;
    }
}

/// Where groups of rows end, which only the device may know.
pub trait RowEnds: Copy {
    /// The row behind the last one of a group, not less than that of the group before.
    fn end(&self, group: u32) -> u32;
}

/// The same for all products of a batch, one product after the other: products of one size, or such whose rows are
/// groups of those of one A and one C.
#[derive(Clone, Copy, Debug)]
pub struct PersistentBatch<E> {
    /// Those of one product, of which `next` counts on through the products after it.
    tiles: Persistent,
    /// Tiles of all products of one size.
    all: u32,
    extent: Extent,
    products: u32,
    ends: Option<E>,
    /// Of groups: the one that has the next tile, how many tiles those before it have, and its rows.
    group: u32,
    before: u32,
    rows: (u32, u32),
}

impl<E: RowEnds> PersistentBatch<E> {
    /// The tiles of a CTA that belongs to no cluster among those of `products` products, fewer than 2^31 in all,
    /// with `rows` rows of tiles in a group of the order of tiles. Where ends are given the products have the rows
    /// up to these, as far as they are in C, and no others.
    #[inline(always)]
    #[must_use]
    pub fn new(cta: Cta, extent: Extent, rows: u32, products: u32, ends: Option<E>) -> Self {
        let tiles = Persistent::new(cta, extent, rows);
        let all = tiles.clusters_m * tiles.tiles_n * products;
        let (group, before, rows) = (0, 0, (0, u32::MAX));
        let mut batch = Self { tiles, all, extent, products, ends, group, before, rows };
        if let Some(ends) = ends {
            batch.enter(ends, 0);
            batch.find(ends);
        }
        batch
    }

    /// Tiles of a product of one size, or of the group.
    #[inline(always)]
    const fn each(&self) -> u32 {
        self.tiles.clusters_m * self.tiles.tiles_n
    }

    /// Has the group begin at a row, and end where it does.
    #[inline(always)]
    fn enter(&mut self, ends: E, begin: u32) {
        if self.group < self.products {
            let end = ends.end(self.group).max(begin).min(self.extent.m);
            self.rows = (begin, end);
            self.tiles.clusters_m = ceil_div(end - begin, self.extent.tile.0);
        }
    }

    /// Goes on to the group that has the next tile.
    #[inline(always)]
    fn find(&mut self, ends: E) {
        while self.group < self.products && self.tiles.next - self.before >= self.each() {
            self.before += self.each();
            self.group += 1;
            self.enter(ends, self.rows.1);
        }
    }
}

impl<E: RowEnds> TileScheduler for PersistentBatch<E> {
    #[inline(always)]
    fn has_work(&self) -> bool {
        if self.ends.is_some() { self.group < self.products } else { self.tiles.next < self.all }
    }

    #[inline(always)]
    fn tile(&self) -> WorkTile {
        let (mut batch, mut before) = (self.group, self.before);
        if self.ends.is_none() {
            // Never zero, so that no division by it can panic.
            let each = if self.each() == 0 { 1 } else { self.each() };
            batch = self.tiles.next / each;
            before = batch * each;
        }
        let next = self.tiles.next - before;
        WorkTile { batch, rows: self.rows, ..Persistent { next, ..self.tiles }.tile() }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.tiles.advance();
        if let Some(ends) = self.ends {
            self.find(ends);
        }
    }
}

/// Another scheduler's tiles, with a range of k for each CTA along y; see [`split_k`].
#[derive(Clone, Copy, Debug)]
pub struct SplitK<S> {
    tiles: S,
    /// Ranges of k, and which of them this CTA has.
    ranges: u32,
    range: u32,
    /// k elements that ranges are multiples of.
    unit: u32,
}

impl<S: TileScheduler> SplitK<S> {
    /// The tiles of a CTA in a grid with a row of CTAs for each range of whole units of k.
    #[inline(always)]
    #[must_use]
    pub const fn new(cta: Cta, tiles: S, unit: u32) -> Self {
        Self { tiles, ranges: cta.grid.1, range: cta.index.1, unit }
    }
}

impl<S: TileScheduler> TileScheduler for SplitK<S> {
    #[inline(always)]
    fn has_work(&self) -> bool {
        self.tiles.has_work()
    }

    #[inline(always)]
    fn tile(&self) -> WorkTile {
        let tile = self.tiles.tile();
        let len = split_k::steps(tile.k_len, self.ranges, self.unit);
        let k0 = self.range * len;
        let left = tile.k_len - k0.min(tile.k_len);
        WorkTile { k0, k_len: len.min(left), range: self.range, ..tile }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.tiles.advance();
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
        let mut tiles = Vec::new();
        while scheduler.has_work() {
            tiles.push(scheduler.tile());
            scheduler.advance();
        }
        tiles
    }

    fn is_a_partition(times: &HashMap<(u32, u32, u32, u32), u32>, elements: u32) {
        assert_eq!(times.len(), elements as usize);
        assert!(times.values().all(|&times| times == 1));
    }

    const EXTENT: Extent = Extent { m: 11, n: 9, k: 3, tile: (4, 2) };
    const ELEMENTS: u32 = 11 * 9 * 3;

    #[test]
    fn each_scheduler_covers_c_all() {
        // Three rows of tiles, folded to two along y: one row of CTAs has nothing to do.
        is_a_partition(&covered((5, 2, 2), EXTENT, |cta| all(Plain::new(cta, EXTENT))), ELEMENTS);
        for rows in 1..5 {
            let grouped = |cta| all(Grouped::new(cta, EXTENT, rows));
            is_a_partition(&covered((15, 1, 1), EXTENT, grouped), ELEMENTS);
            for ctas in 1..17 {
                let persistent = |cta| all(Persistent::new(cta, EXTENT, rows));
                is_a_partition(&covered((ctas, 1, 1), EXTENT, persistent), ELEMENTS);
            }
        }
    }

    #[test]
    fn clusters_have_tiles_below_each_other_and_cover_c_all() {
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
    fn ranges_of_k_cover_k_all() {
        let extent = Extent { k: 70, ..EXTENT };
        for ranges in 1..6 {
            let tiles =
                |cta| all(SplitK::new(cta, Grouped::new(cta, extent, 8), split_k::RANGE_UNIT));
            let times = covered((15, ranges, 1), extent, tiles);
            is_a_partition(&times, 11 * 9 * 70);
        }
    }

    #[test]
    fn the_ctas_of_a_cluster_have_one_tile() {
        for size in 1..9 {
            let tile = |index| {
                let cta = Cta { index: (index, 0, 0), grid: (15 * size, 1) };
                Grouped::of_cluster(cta, EXTENT, 8, size).tile()
            };
            for index in 0..15 * size {
                let alone = Cta { index: (index / size, 0, 0), grid: (15, 1) };
                assert_eq!(tile(index), Grouped::new(alone, EXTENT, 8).tile());
            }
        }
    }

    #[test]
    fn ctas_share_the_tiles_of_a_batch_one_product_after_the_other() {
        for ctas in [1, 2, 7, 44, 45, 60] {
            let batch = |cta| all(PersistentBatch::new(cta, EXTENT, 8, 3, ALIKE));
            is_a_partition(&covered((ctas, 1, 1), EXTENT, batch), 3 * ELEMENTS);
            let of_one = |cta| all(PersistentBatch::new(cta, EXTENT, 8, 1, ALIKE));
            for x in 0..ctas {
                let cta = Cta { index: (x, 0, 0), grid: (ctas, 1) };
                assert_eq!(of_one(cta), all(Persistent::new(cta, EXTENT, 8)));
                assert!(batch(cta).is_sorted_by_key(|tile| tile.batch));
            }
        }
        let cta = Cta { index: (0, 0, 0), grid: (1, 1) };
        assert!(!PersistentBatch::new(cta, EXTENT, 8, 0, ALIKE).has_work());
        assert!(!PersistentBatch::new(cta, Extent { m: 0, ..EXTENT }, 8, 3, ALIKE).has_work());
    }

    impl RowEnds for &[u32] {
        fn end(&self, group: u32) -> u32 {
            self[group as usize]
        }
    }

    /// No ends: all products have all rows.
    const ALIKE: Option<&[u32]> = None;

    /// Groups that are empty, that end within a tile, that end before they begin, and behind C.
    #[test]
    fn ctas_share_the_tiles_of_groups_of_rows() {
        const ENDS: [&[u32]; 7] =
            [&[11], &[0, 4, 4, 11], &[1, 2, 3, 4, 5, 6, 7], &[5, 3, 9], &[0, 0], &[6, 40, 50], &[]];
        for ends in ENDS {
            for ctas in [1, 2, 3, 7, 44, 100] {
                let mut rows_of = vec![Vec::new(); ends.len()];
                for x in 0..ctas {
                    let cta = Cta { index: (x, 0, 0), grid: (ctas, 1) };
                    let count = u32::try_from(ends.len()).unwrap();
                    for tile in all(PersistentBatch::new(cta, EXTENT, 2, count, Some(ends))) {
                        let row0 = tile.rows.0 + 4 * tile.row;
                        assert!(row0 < tile.rows.1 && tile.k_len == 3, "{ends:?}: {tile:?}");
                        let rows = row0..tile.rows.1.min(row0 + 4);
                        let cols = 2 * tile.col..EXTENT.n.min(2 * tile.col + 2);
                        rows_of[tile.batch as usize]
                            .extend(rows.flat_map(|row| cols.clone().map(move |col| (row, col))));
                    }
                }
                let mut begin = 0;
                for (computed, &end) in rows_of.iter_mut().zip(ends) {
                    let end = end.clamp(begin, EXTENT.m);
                    let wanted: Vec<_> =
                        (begin..end).flat_map(|row| (0..9).map(move |col| (row, col))).collect();
                    computed.sort_unstable();
                    assert_eq!(*computed, wanted, "{ends:?} by {ctas}");
                    begin = end;
                }
            }
        }
    }

    /// The tiles on and below the diagonal, by rows.
    struct Triangular {
        extent: Extent,
        next: u32,
        step: u32,
    }

    impl TileScheduler for Triangular {
        fn has_work(&self) -> bool {
            self.tile().row < self.extent.tiles().0
        }

        fn tile(&self) -> WorkTile {
            let (mut row, mut before) = (0, 0);
            while before + row < self.next {
                before += row + 1;
                row += 1;
            }
            WorkTile::whole((row, self.next - before), self.extent.k)
        }

        fn advance(&mut self) {
            self.next += self.step;
        }
    }

    /// Stream-K: the k elements of all tiles in one row, of which each CTA has an equal part.
    struct StreamK {
        extent: Extent,
        next: u32,
        end: u32,
    }

    impl StreamK {
        fn k_len(&self) -> u32 {
            let k = self.extent.k;
            (k - self.next % k).min(self.end - self.next)
        }
    }

    impl TileScheduler for StreamK {
        fn has_work(&self) -> bool {
            self.next < self.end
        }

        fn tile(&self) -> WorkTile {
            let (tile, k0) = (self.next / self.extent.k, self.next % self.extent.k);
            let cta = Cta { index: (tile, 0, 0), grid: (0, 1) };
            let place = Grouped::new(cta, self.extent, 8).tile();
            WorkTile { k0, k_len: self.k_len(), range: u32::from(k0 > 0), ..place }
        }

        fn advance(&mut self) {
            self.next += self.k_len();
        }
    }

    /// The trait is wide enough for what kernels do not use so far.
    #[test]
    fn triangular_and_stream_k_schedules_are_further_implementations() {
        for ctas in 1..9 {
            let of = |cta: Cta| (cta.index.0, cta.grid.0);
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
