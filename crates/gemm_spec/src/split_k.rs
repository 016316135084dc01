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
//!
//! The blocks of a tile can also be a cluster: then each leaves its accumulators in its own shared memory,
//! the others read them there, and neither a workspace nor a second launch is needed. Their parts are not
//! ranges: block i of p takes every p-th k-block from the i-th on, so that together they read an operand from
//! one end to the other, a part each at about the same time:
//!
//! ```text
//!   k-block      0 1 2 3 4 5 6 7
//!   of block     0 1 2 0 1 2 0 1
//! ```

use crate::Grid;
use crate::index::ceil_div;

/// What ranges of k are multiples of where threads load them: rows of A that are 16-byte aligned are so in
/// every range, and ranges are whole tiles of every such kernel.
pub const RANGE_UNIT: u32 = 16;

/// Most parts of a product.
pub const MOST_PARTS: u32 = 64;

/// Most bytes that the parts of a product take.
pub const MOST_BYTES: u64 = 128 << 20;

/// Most blocks of a cluster on every device that has clusters.
pub const MOST_IN_CLUSTER: u32 = 8;

/// How several blocks of a kernel share k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KSharing {
    /// They do not.
    None,
    /// Each leaves its sums in a matrix of a workspace, and a second launch adds the matrices.
    Workspace {
        /// k elements that ranges are multiples of.
        unit: u32,
    },
    /// They are a cluster, and add each other's sums in shared memory.
    Cluster {
        /// k elements that one of them sums before those of the next.
        unit: u32,
    },
}

impl KSharing {
    /// Whether k can have several parts.
    #[must_use]
    pub const fn is_possible(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The blocks that add the parts of an m by n C, of that many threads: a thread for each four neighbours
/// of a row. There are parts only where C has [`MOST_BYTES`] at most, so that the blocks are fewer than 2^25.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "fewer than 2^25, as the text above says")]
pub const fn sum_grid(m: u32, n: u32, threads: u32) -> Grid {
    let quads = m as u64 * ceil_div(n, 4) as u64;
    Grid { x: quads.div_ceil(threads as u64) as u32, y: 1, z: 1 }
}

/// k elements in each of `parts` ranges of whole units, never none; the last one has what is left.
#[inline(always)]
#[must_use]
pub const fn steps(k: u32, parts: u32, unit: u32) -> u32 {
    let units = if k == 0 { 1 } else { ceil_div(k, unit) };
    ceil_div(units, if parts == 0 { 1 } else { parts }) * unit
}

/// Units of k that block `rank` of a cluster of `size` sums: those whose number leaves `rank` when it is
/// divided by `size`.
#[inline(always)]
#[must_use]
pub const fn units_of(k: u32, unit: u32, size: u32, rank: u32) -> u32 {
    let units = ceil_div(k, unit);
    ceil_div(units.saturating_sub(rank), if size == 0 { 1 } else { size })
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

/// The number of parts nearest to the one asked for that such a product can have, in whole units of k: at
/// least one, none of them empty, and all of them within [`MOST_PARTS`] and [`MOST_BYTES`].
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub fn possible_parts((m, n, k): (u32, u32, u32), asked: u32, unit: u32) -> u32 {
    let room = MOST_BYTES / bytes(m, n, 1).max(1);
    let room = u32::try_from(room).unwrap_or(MOST_PARTS).min(MOST_PARTS);
    let most = room.min(ceil_div(k, unit)).max(1);
    ceil_div(k, steps(k, asked.clamp(1, most), unit)).max(1)
}

/// The number of blocks nearest to the one asked for that can share k in a cluster: at least one, and each
/// with a unit of k.
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub fn possible_in_cluster(k: u32, asked: u32, unit: u32) -> u32 {
    asked.clamp(1, MOST_IN_CLUSTER).min(ceil_div(k, unit).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of threads' loads, and of boxes of 64 elements.
    const UNITS: [u32; 2] = [RANGE_UNIT, 64];

    #[test]
    fn the_blocks_of_a_cluster_share_all_units_and_none_has_nothing() {
        for k in (0..700).chain([51_200, 65_537, i32::MAX as u32]) {
            for (asked, unit) in (0..12).flat_map(|asked| [(asked, 64), (asked, 128)]) {
                let size = possible_in_cluster(k, asked, unit);
                assert!((1..=MOST_IN_CLUSTER.min(asked.max(1))).contains(&size));
                let units: Vec<u32> = (0..size).map(|rank| units_of(k, unit, size, rank)).collect();
                assert_eq!(units.iter().sum::<u32>(), k.div_ceil(unit), "{k} {asked}");
                assert!(k == 0 || units.iter().all(|&units| units >= 1), "{k} {asked}");
                // The first have one more than the last at most: the busiest is the first.
                assert!(units.is_sorted_by(|one, next| one >= next && *one <= next + 1));
            }
        }
        assert_eq!([8, 9].map(|asked| possible_in_cluster(51_200, asked, 64)), [8; 2]);
        assert_eq!(possible_in_cluster(130, 8, 64), 3);
    }

    #[test]
    fn ranges_are_a_partition_and_none_is_empty() {
        for k in (0..300).chain([1000, 8999, 65_537, i32::MAX as u32]) {
            for (asked, unit) in (1..=MOST_PARTS).flat_map(|asked| UNITS.map(|unit| (asked, unit)))
            {
                let steps = steps(k, asked, unit);
                assert!(
                    steps.is_multiple_of(unit)
                        && u64::from(steps) * u64::from(asked) >= u64::from(k)
                );
            }
            let sizes = [(1, 1), (17, 9000), (64, 128), (700, 900), (20_000, 20_000), (0, 0)];
            let asked = [0, 1, 7, 50, 999];
            for ((m, n), (asked, unit)) in sizes.into_iter().flat_map(|of| {
                asked.into_iter().flat_map(move |asked| UNITS.map(|unit| (of, (asked, unit))))
            }) {
                let parts = possible_parts((m, n, k), asked, unit);
                let steps = u64::from(steps(k, parts, unit));
                assert!((1..=MOST_PARTS.min(asked.max(1))).contains(&parts));
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
    fn parts_are_as_many_as_asked_for_where_k_and_memory_allow() {
        assert_eq!(possible_parts((64, 128, 9216), 36, RANGE_UNIT), 36);
        assert_eq!(possible_parts((64, 128, 9216), 1000, RANGE_UNIT), MOST_PARTS);
        assert_eq!(possible_parts((64, 128, 40), 8, RANGE_UNIT), 3);
        // 128 MiB hold 5 matrices of this size.
        assert_eq!(possible_parts((2560, 2560, 9216), 8, RANGE_UNIT), 5);
        assert_eq!(possible_parts((20_000, 20_000, 9216), 8, RANGE_UNIT), 1);
        // Nothing to sum, or nothing to write.
        assert_eq!(possible_parts((256, 384, 0), 8, RANGE_UNIT), 1);
        assert_eq!(possible_parts((0, 0, 10), 0, RANGE_UNIT), 1);
    }

    #[test]
    fn rows_of_parts_are_aligned() {
        for n in 1..40 {
            assert!(pitch(n) >= n && pitch(n) < n + 4 && pitch(n).is_multiple_of(4));
        }
        assert_eq!(bytes(3, 5, 2), 3 * 8 * 4 * 2);
    }
}
