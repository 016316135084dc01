//! Split-K: how many parts k has, which range is in each, and the workspace that holds their
//! accumulators until they are added.
//!
//! If C has fewer tiles than the device has room for blocks, and k is long, each tile gets several
//! blocks. Every one of them accumulates a range of k, its *part*, and writes the result to a workspace;
//! a second launch adds the parts of each element, always in the same order, so that results are
//! reproducible bit for bit.
//!
//! ```text
//!            k                                workspace
//!     +----+----+----+                     part 0, part 1, part 2        C
//!   m | 0  | 1  | 2  |   part p of A   ->  [ m x n ][ m x n ][ m x n ]  ->  their sum
//!     +----+----+----+   times that of B
//! ```

use crate::choice::{Paces, split_time};
use crate::index::ceil_div;
use crate::{Grid, KernelSpec, Types};

/// Ranges of k begin at multiples of this: rows of A that are 16-byte aligned are so in every range,
/// and ranges are whole tiles of every kernel.
pub const RANGE_UNIT: u32 = 16;

/// Most parts of a product.
pub const MOST_PARTS: u32 = 64;

/// Most bytes that the parts of a product take.
pub const MOST_BYTES: u64 = 128 << 20;

/// The blocks that add the parts of an m by n C, of that many threads: a thread for each four neighbours
/// of a row. There are parts only where C has [`MOST_BYTES`] at most, so that the blocks are fewer than 2^25.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "fewer than 2^25, as the text above says")]
pub const fn sum_grid(m: u32, n: u32, threads: u32) -> Grid {
    let quads = m as u64 * ceil_div(n, 4) as u64;
    Grid { x: quads.div_ceil(threads as u64) as u32, y: 1, z: 1 }
}

/// Nanoseconds that a product is predicted to take with as many parts as suit it; `None` where no grid
/// covers C. See [`crate::time`].
#[must_use]
pub fn time(
    spec: &KernelSpec,
    paces: Paces,
    (m, n, k): (usize, usize, usize),
    multiprocessors: u32,
) -> Option<f64> {
    let size = |size: usize| u32::try_from(size).ok();
    let sizes = (size(m)?, size(n)?, size(k)?);
    spec.grid(m, n).ok()?;
    let parts = parts(spec, paces, sizes, multiprocessors);
    Some(split_time(spec, paces, sizes, parts, multiprocessors))
}

/// k elements in each of `parts` ranges, never none; the last one has what is left.
#[inline(always)]
#[must_use]
pub const fn steps(k: u32, parts: u32) -> u32 {
    let units = if k == 0 { 1 } else { ceil_div(k, RANGE_UNIT) };
    ceil_div(units, if parts == 0 { 1 } else { parts }) * RANGE_UNIT
}

/// Elements from one row of a part to the next: `n`, and what makes rows 16-byte aligned.
#[inline(always)]
#[must_use]
pub const fn pitch(n: u32) -> u32 {
    n.next_multiple_of(4)
}

/// Bytes of `parts` parts.
#[must_use]
pub const fn bytes(m: u32, n: u32, parts: u32) -> u64 {
    (m as u64 * pitch(n) as u64 * 4).saturating_mul(parts as u64)
}

/// Most bytes that the parts of such a product take, on any device.
#[must_use]
pub fn most_bytes(m: usize, n: usize, k: usize) -> u64 {
    let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX / 8);
    let parts = ceil_div(size(k), RANGE_UNIT).min(MOST_PARTS);
    bytes(size(m), size(n), parts).min(MOST_BYTES)
}

/// The number of parts with which a kernel is predicted to be fastest, among the numbers that fill a
/// whole number of blocks of every SM.
///
/// At least one, and no part is empty.
#[must_use]
pub fn parts(
    spec: &KernelSpec,
    paces: Paces,
    (m, n, k): (u32, u32, u32),
    multiprocessors: u32,
) -> u32 {
    let Ok(grid) = spec.grid(m as usize, n as usize) else { return 1 };
    let at_most = |count: u64, most: u32| u32::try_from(count).unwrap_or(most).min(most);
    let room = at_most(MOST_BYTES / bytes(m, n, 1).max(1), MOST_PARTS);
    let most = room.min(ceil_div(k, RANGE_UNIT)).max(1);
    // More than two shares of blocks an SM give no finer grain than the ranges have.
    let full = 2 * spec.min_blocks(Types::F32);
    let fitted = (1..=full).map(|blocks| {
        let blocks = u64::from(blocks) * u64::from(multiprocessors);
        at_most(blocks / u64::from(grid.x.max(1)), most)
    });
    let candidates = core::iter::once(1).chain(fitted).filter(|&parts| parts >= 1);
    candidates
        .map(|parts| {
            // As many as the ranges leave: none of them empty.
            let parts = parts.min(most);
            ceil_div(k, steps(k, parts)).max(1)
        })
        .map(|parts| (split_time(spec, paces, (m, n, k), parts, multiprocessors), parts))
        .min_by(|(one, few), (other, many)| one.total_cmp(other).then(few.cmp(many)))
        .map_or(1, |(_, parts)| parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, Block, Entry, LaunchShape, MinBlocks, Pace, Tile};

    const PACES: Paces = Paces::same(Pace { alone: 200, full: 400 });
    const SPEC: KernelSpec = KernelSpec {
        id: "k",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[Entry { types: Types::F32, symbol: "k_f32" }],
        launch: LaunchShape::Grouped {
            block: Block { x: 128, y: 1 },
            tile: Tile { m: 64, n: 128 },
            rows: 8,
        },
        shared_elements: 0,
        min_blocks_per_sm: MinBlocks::same(4),
        ..KernelSpec::PLAIN
    };

    fn of(m: u32, n: u32, k: u32) -> u32 {
        parts(&SPEC, PACES, (m, n, k), 132)
    }

    #[test]
    fn ranges_are_a_partition_and_none_is_empty() {
        for k in (0..300).chain([1000, 8999, 65_537, i32::MAX as u32]) {
            for asked in 1..=MOST_PARTS {
                let steps = steps(k, asked);
                assert!(
                    steps.is_multiple_of(RANGE_UNIT)
                        && u64::from(steps) * u64::from(asked) >= u64::from(k)
                );
            }
            for (m, n) in [(1, 1), (17, 9000), (64, 128), (700, 900), (20_000, 20_000)] {
                let parts = of(m, n, k);
                let steps = u64::from(steps(k, parts));
                assert!((1..=MOST_PARTS).contains(&parts));
                assert!(
                    k == 0 || steps * u64::from(parts - 1) < u64::from(k),
                    "{m} {n} {k} {parts}"
                );
                assert!(parts == 1 || bytes(m, n, parts) <= MOST_BYTES);
                assert!(
                    parts == 1
                        || bytes(m, n, parts) <= most_bytes(m as usize, n as usize, k as usize)
                );
            }
        }
    }

    #[test]
    fn few_tiles_and_long_k_are_split_until_the_device_is_full() {
        // One tile: as many parts as there may be.
        assert_eq!(of(64, 128, 9216), MOST_PARTS);
        // Twelve tiles: four blocks for each of 132 SMs.
        assert_eq!(of(256, 384, 44 * 208), 4 * 132 / 12);
        // More tiles than there is room for blocks, and a k too short to pay for a second launch.
        assert_eq!(of(8192, 8192, 8192), 1);
        assert_eq!(of(256, 384, 16), 1);
        // Nothing to sum, or nothing to write.
        assert_eq!(of(256, 384, 0), 1);
        assert_eq!(parts(&SPEC, PACES, (0, 0, 10), 0), 1);
    }

    #[test]
    fn rows_of_parts_are_aligned() {
        for n in 1..40 {
            assert!(pitch(n) >= n && pitch(n) < n + 4 && pitch(n).is_multiple_of(4));
        }
        assert_eq!(bytes(3, 5, 2), 3 * 8 * 4 * 2);
    }
}
