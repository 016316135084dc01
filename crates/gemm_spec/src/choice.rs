//! What a product takes with a tile, from what an SM was measured to do with it.

use crate::{DType, KernelSpec, Tile, Types, split_k};

/// How fast one SM runs a kernel, in GFLOP/s, which are operations a nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// With a single block of it.
    pub alone: u32,
    /// With as many blocks as the kernel promises to fit.
    pub full: u32,
}

impl Pace {
    /// The rate with that many of `resident` blocks: on the line between the two that are known.
    fn with(self, blocks: u64, resident: u64) -> f64 {
        if blocks >= resident {
            return f64::from(self.full);
        }
        let gain = f64::from(self.full) - f64::from(self.alone);
        f64::from(self.alone) + gain * (blocks - 1) as f64 / (resident - 1) as f64
    }
}

/// [`Pace`] for rows of B that are 16-byte aligned, where copies are of 16 bytes, and for others, where
/// they are of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paces {
    /// With n a multiple of 4.
    pub aligned: Pace,
    /// With any other n.
    pub ragged: Pace,
}

impl Paces {
    /// The same for all rows.
    #[must_use]
    pub const fn same(pace: Pace) -> Self {
        Self { aligned: pace, ragged: pace }
    }

    /// For a B of n columns whose rows are adjacent.
    fn of(self, n: usize) -> Pace {
        if n.is_multiple_of(4) { self.aligned } else { self.ragged }
    }
}

// The figures below, and the paces of the kernels, are those with which the times predicted here are
// nearest to times measured on an H200 (docs/kernel-notes.md, "The choice").

/// Nanoseconds of a launch that do not grow with the product.
const LAUNCH: f64 = 2700.0;

/// Nanoseconds that a second launch in the same stream adds: it begins when the first has ended.
const NEXT_LAUNCH: f64 = 2000.0;

/// Nanoseconds that a share of blocks takes besides its k elements: it waits for its first tiles, and
/// for its last stores.
const SHARE: f64 = 770.0;

/// k elements that take as long as what a block does besides: the less there is to overlap with, the
/// more a tile's way to the SM and back counts.
const START_STEPS: f64 = 60.0;

/// Bytes a nanosecond that parts, which stay in L2, are written and read with by
/// all SMs together.
const PARTS_RATE: f64 = 4600.0;

/// Bytes a nanosecond that all SMs together get from memory.
const MEMORY_RATE: f64 = 4000.0;

/// Nanoseconds that a product is predicted to take with a kernel that runs at this pace: the blocks of
/// the busiest SM, one share after another of as many as fit, each share at its rate; and
/// no less than its operands take from memory.
///
/// `None` where no grid covers C.
#[must_use]
pub fn time(
    spec: &KernelSpec,
    types: Types,
    paces: Paces,
    (m, n, k): (usize, usize, usize),
    multiprocessors: u32,
) -> Option<f64> {
    let tile = spec.launch.tile()?;
    let grid = spec.grid(m, n).ok()?;
    let blocks = u64::from(grid.x) * u64::from(grid.y) * u64::from(grid.z);
    let work = work(tile, k as f64);
    let resident = u64::from(spec.min_blocks(types));
    let units = blocks_time(blocks, work, paces.of(n), resident, multiprocessors);
    let (m, n, k) = (m as f64, n as f64, k as f64);
    let memory = {
        let of = |elements: f64, dtype: DType| elements * dtype.size() as f64;
        (of(m * k, types.a()) + of(k * n, types.b()) + of(m * n, types.c())) / MEMORY_RATE
    };
    Some(LAUNCH + units.max(memory))
}

/// As [`time`], with `parts` ranges of k whose sums a second launch adds where there are several.
pub(crate) fn split_time(
    spec: &KernelSpec,
    paces: Paces,
    (m, n, k): (u32, u32, u32),
    parts: u32,
    multiprocessors: u32,
) -> f64 {
    let (Some(tile), Ok(grid)) = (spec.launch.tile(), spec.grid(m as usize, n as usize)) else {
        return f64::INFINITY;
    };
    // A single part ends where k does.
    let steps = if parts == 1 { k } else { split_k::steps(k, parts) };
    let work = work(tile, f64::from(steps));
    let resident = u64::from(spec.min_blocks(Types::F32));
    let blocks = u64::from(grid.x) * u64::from(parts);
    let units = blocks_time(blocks, work, paces.of(n as usize), resident, multiprocessors);
    let (wide_m, wide_n, wide_k) = (f64::from(m), f64::from(n), f64::from(k));
    let operands = (wide_m * wide_k + wide_k * wide_n + wide_m * wide_n) * 4.0;
    let sum = if parts == 1 {
        0.0
    } else {
        // Written and read.
        NEXT_LAUNCH + 2.0 * split_k::bytes(m, n, parts) as f64 / PARTS_RATE
    };
    LAUNCH + units.max(operands / MEMORY_RATE) + sum
}

/// Operations that a block's time amounts to.
fn work(tile: Tile, steps: f64) -> f64 {
    2.0 * f64::from(tile.m) * f64::from(tile.n) * (steps + START_STEPS)
}

/// Nanoseconds of `blocks` blocks, each of `work` operations.
fn blocks_time(blocks: u64, work: f64, pace: Pace, resident: u64, multiprocessors: u32) -> f64 {
    let busiest = blocks.div_ceil(u64::from(multiprocessors.max(1)));
    let (shares, rest) = (busiest / resident, busiest % resident);
    let share = |blocks: u64| SHARE + blocks as f64 * work / pace.with(blocks, resident).max(1.0);
    let last = if rest == 0 { 0.0 } else { share(rest) };
    shares as f64 * share(resident) + last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, Block, Entry, LaunchShape, MinBlocks};

    const SPEC: KernelSpec = KernelSpec {
        id: "k",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[Entry { types: Types::F32, symbol: "k_f32" }],
        launch: LaunchShape::Grouped {
            block: Block { x: 32, y: 1 },
            tile: Tile { m: 32, n: 64 },
            rows: 8,
        },
        shared_elements: 0,
        min_blocks_per_sm: MinBlocks::same(4),
        ..KernelSpec::PLAIN
    };
    const PACE: Pace = Pace { alone: 100, full: 190 };
    const PACES: Paces = Paces { aligned: PACE, ragged: Pace { alone: 50, full: 95 } };
    /// Long enough for the units and not memory to bound every product here.
    const K: usize = 10_000;

    fn of(m: usize, n: usize, multiprocessors: u32) -> f64 {
        time(&SPEC, Types::F32, PACES, (m, n, K), multiprocessors).unwrap() - LAUNCH
    }

    #[test]
    fn time_grows_with_c_and_shrinks_with_the_device() {
        for multiprocessors in [1, 3, 132] {
            for m in 1..200 {
                for n in [1, 64, 65, 1000, 5000] {
                    let here = of(m, n, multiprocessors);
                    assert!(here > 0.0);
                    assert!(of(m + 1, n, multiprocessors) >= here, "{m} x {n}");
                    // Columns of the same kind.
                    assert!(of(m, n + 4, multiprocessors) >= here, "{m} x {n}");
                    assert!(of(m, n, multiprocessors + 1) <= here, "{m} x {n}");
                }
            }
        }
    }

    #[test]
    fn shares_run_at_their_rates() {
        // One block of an SM at 100; four at 190, which is less than four times as long.
        let one = of(32, 64, 132);
        assert_eq!(one, SHARE + 2.0 * 32.0 * 64.0 * (K as f64 + START_STEPS) / 100.0);
        // Rows that are not aligned, at 50.
        assert_eq!(of(32, 63, 132) - SHARE, 2.0 * (one - SHARE));
        assert_eq!(one, of(32, 64 * 132, 132));
        assert_eq!(of(32 * 4, 64, 1), of(32 * 4, 64 * 132, 132));
        assert!(of(32 * 4, 64, 1) < 3.0 * one && of(32 * 4, 64, 1) > 2.0 * one);
        // A fifth block waits for the others and runs alone.
        assert_eq!(of(32 * 5, 64, 1), of(32 * 4, 64, 1) + one);
        // Two blocks, a third of the way from 100 to 190.
        assert_eq!(PACE.with(2, 4), 130.0);
        assert_eq!(Pace { alone: 9, full: 7 }.with(1, 1), 7.0);
    }

    #[test]
    fn no_product_is_faster_than_its_operands_travel() {
        // With one k element C is most of them.
        let spent = time(&SPEC, Types::F32, PACES, (4096, 4096, 1), 132).unwrap() - LAUNCH;
        assert!(spent >= 4096.0 * 4096.0 * 4.0 / MEMORY_RATE);
    }

    #[test]
    fn splitting_pays_where_blocks_are_few_and_k_is_long() {
        let split = |k, parts| split_time(&SPEC, PACES, (32, 64, k), parts, 132);
        assert_eq!(split(9984, 1), time(&SPEC, Types::F32, PACES, (32, 64, 9984), 132).unwrap());
        assert!(split(9984, 8) < split(9984, 1) / 3.0);
        assert!(split(32, 2) > split(32, 1));
    }

    #[test]
    fn what_no_grid_covers_has_no_time() {
        let most = i32::MAX as usize;
        assert!(time(&SPEC, Types::F32, PACES, (most, most, 1), 132).is_none());
        let single = KernelSpec { launch: LaunchShape::SingleBlock, ..SPEC };
        assert!(time(&single, Types::F32, PACES, (1, 1, 1), 132).is_none());
    }
}
