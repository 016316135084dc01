//! What a product takes with a tile, from what a multiprocessor was measured to do with it.

use crate::{DType, KernelSpec};

/// How fast one multiprocessor runs a kernel, in the same unit for all that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// With a single block of it.
    pub alone: u32,
    /// With as many blocks as the kernel promises to fit.
    pub full: u32,
}

impl Pace {
    /// The rate with that many of `resident` blocks: on the line between the two that are known.
    const fn with(self, blocks: u64, resident: u64) -> u128 {
        if blocks >= resident {
            return self.full as u128;
        }
        let gain = self.full.saturating_sub(self.alone) as u64;
        (self.alone as u64 + gain * (blocks - 1) / (resident - 1)) as u128
    }
}

/// The time that a kernel needs for a C of `m` by `n`, for comparison with other kernels: the blocks
/// of the busiest multiprocessor, one share after another of as many as fit, each share at its rate.
///
/// Every step of k takes its share of this, so `k` does not matter to the comparison. What does not
/// grow with k (the launch, the first tiles' way, the stores) is left out. `None` where no grid
/// covers C.
#[must_use]
pub fn time(
    spec: &KernelSpec,
    dtype: DType,
    pace: Pace,
    (m, n): (usize, usize),
    multiprocessors: u32,
) -> Option<u128> {
    /// Keeps what the division by a rate would round away.
    const UNIT: u128 = 1 << 32;
    let tile = spec.launch.tile()?;
    let grid = spec.grid(m, n).ok()?;
    let blocks = u64::from(grid.x) * u64::from(grid.y) * u64::from(grid.z);
    let busiest = blocks.div_ceil(u64::from(multiprocessors.max(1)));
    let resident = u64::from(spec.min_blocks(dtype));
    let (shares, rest) = (busiest / resident, busiest % resident);
    let work = |blocks: u64| u128::from(blocks) * u128::from(tile.m) * u128::from(tile.n) * UNIT;
    let whole = work(shares * resident) / pace.with(resident, resident).max(1);
    let last = if rest == 0 { 0 } else { work(rest) / pace.with(rest, resident).max(1) };
    Some(whole + last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, Block, Entry, LaunchShape, MinBlocks, Scheme, Tile};

    const SPEC: KernelSpec = KernelSpec {
        id: "k",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[Entry { dtype: DType::F32, symbol: "k_f32" }],
        launch: LaunchShape::Grouped {
            block: Block { x: 32, y: 1 },
            tile: Tile { m: 32, n: 64 },
            rows: 8,
        },
        shared_elements: 0,
        min_blocks_per_sm: MinBlocks::same(4),
        scheme: Scheme::Chain,
    };
    const PACE: Pace = Pace { alone: 100, full: 190 };

    fn of(m: usize, n: usize, multiprocessors: u32) -> u128 {
        time(&SPEC, DType::F32, PACE, (m, n), multiprocessors).unwrap()
    }

    #[test]
    fn time_grows_with_c_and_shrinks_with_the_device() {
        for multiprocessors in [1, 3, 132] {
            for m in 1..200 {
                for n in [1, 64, 65, 1000, 5000] {
                    let here = of(m, n, multiprocessors);
                    assert!(here > 0);
                    assert!(of(m + 1, n, multiprocessors) >= here, "{m} x {n}");
                    assert!(of(m, n + 1, multiprocessors) >= here, "{m} x {n}");
                    assert!(of(m, n, multiprocessors + 1) <= here, "{m} x {n}");
                }
            }
        }
    }

    #[test]
    fn shares_run_at_their_rates() {
        // One block of a multiprocessor at 100; four at 190, which is less than four times as long.
        let one = of(32, 64, 132);
        assert_eq!(one, of(32, 64 * 132, 132));
        assert_eq!(of(32 * 4, 64, 1), of(32 * 4, 64 * 132, 132));
        assert!(of(32 * 4, 64, 1) < 3 * one && of(32 * 4, 64, 1) > 2 * one);
        // A fifth block waits for the others and runs alone.
        assert_eq!(of(32 * 5, 64, 1), of(32 * 4, 64, 1) + one);
        // Two blocks, a third of the way from 100 to 190.
        assert_eq!(PACE.with(2, 4), 130);
        assert_eq!(Pace { alone: 9, full: 7 }.with(1, 1), 7);
    }

    #[test]
    fn what_no_grid_covers_has_no_time() {
        let most = i32::MAX as usize;
        assert!(time(&SPEC, DType::F32, PACE, (most, most), 132).is_none());
        let single = KernelSpec { launch: LaunchShape::SingleBlock, ..SPEC };
        assert!(time(&single, DType::F32, PACE, (1, 1), 132).is_none());
    }
}
