//! Pure maps from blocks and threads to elements of C.
//!
//! Everywhere in this project grid x runs along the columns of C (n) and grid y along its rows (m).

/// `ceil(a / b)` for `b > 0`, without overflow.
#[inline]
#[must_use]
pub const fn ceil_div(a: u32, b: u32) -> u32 {
    a.div_ceil(b)
}

/// The row of blocks that block (_, y, z) works on.
///
/// A grid has at most 65535 blocks along y and along z; matrices with more rows of blocks than that
/// fold them over z, so any number of rows can be launched.
#[inline]
#[must_use]
pub const fn block_row(block_y: u32, block_z: u32, grid_y: u32) -> u32 {
    block_z * grid_y + block_y
}

/// The tile (row, column) of block `block` when the tiles are walked in groups of `rows` rows: down
/// the rows of a group, column after column, then the next group.
///
/// Blocks that run at the same time then share rows of A as well as columns of B, which keeps both in
/// L2. The last group has the remaining rows. Blocks beyond the last tile get a tile beyond the last
/// row or column.
///
/// ```text
///  rows = 2   0 2 4      the second group, of one row:   6 7 8
///             1 3 5
/// ```
#[inline]
#[must_use]
pub const fn grouped_tile(block: u32, tiles_m: u32, tiles_n: u32, rows: u32) -> (u32, u32) {
    // Never zero, so that no division of it can panic.
    let rows = at_least_one(if rows < tiles_m { rows } else { tiles_m });
    let group = block / at_least_one(rows * tiles_n);
    let within = block % at_least_one(rows * tiles_n);
    let first = group * rows;
    let left = tiles_m.saturating_sub(first);
    let rows = at_least_one(if left < rows { left } else { rows });
    (first + within % rows, within / rows)
}

const fn at_least_one(value: u32) -> u32 {
    if value == 0 { 1 } else { value }
}

/// Lanes of a warp along the columns of its tile, and along the rows.
const LANES_X: u32 = 8;

/// The position (x, y) of a lane when a warp's 32 lanes are arranged 8 along the columns and 4 along the rows of
/// its tile.
///
/// ```text
///          x  0  1  2  3  4  5  6  7
///   y  0      0  1  8  9 16 17 24 25
///      1      2  3 10 11 18 19 26 27
///      2      4  5 12 13 20 21 28 29
///      3      6  7 14 15 22 23 30 31
/// ```
///
/// Shared memory serves a 16-byte read of a warp in four parts of eight lanes. Here each part reads
/// four places of A and two of B, neighbours each, so that no part asks a bank twice and the whole
/// warp needs two turns.
#[inline]
#[must_use]
pub const fn lane_place(lane: u32) -> (u32, u32) {
    (2 * (lane / LANES_X) + lane % 2, lane / 2 % 4)
}

/// First element and number of elements of part `index` when `len` elements are split into `parts`
/// runs whose lengths differ by one at most.
#[must_use]
pub const fn split(len: usize, parts: usize, index: usize) -> (usize, usize) {
    let base = len / parts;
    let longer = len % parts;
    let start = index * base + if index < longer { index } else { longer };
    (start, base + if index < longer { 1 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceil_div_covers_every_element_with_no_block_to_spare() {
        for a in 0..200 {
            for b in 1..40 {
                let blocks = ceil_div(a, b);
                assert!(blocks * b >= a);
                assert!(blocks == 0 || (blocks - 1) * b < a);
            }
        }
        assert_eq!(ceil_div(u32::MAX, 2), 1 << 31);
    }

    #[test]
    fn folded_rows_of_blocks_are_visited_once() {
        let (grid_y, grid_z) = (7, 3);
        let mut seen = [0; 21];
        for z in 0..grid_z {
            for y in 0..grid_y {
                seen[block_row(y, z, grid_y) as usize] += 1;
            }
        }
        assert!(seen.iter().all(|&count| count == 1));
    }

    #[test]
    fn grouped_tiles_are_a_permutation_in_groups() {
        for tiles_m in 1..12 {
            for tiles_n in 1..9 {
                for rows in 0..11 {
                    let mut seen = [[false; 9]; 12];
                    let mut before = (0, 0, 0);
                    for block in 0..tiles_m * tiles_n {
                        let (row, col) = grouped_tile(block, tiles_m, tiles_n, rows);
                        assert!(row < tiles_m && col < tiles_n);
                        let seen = &mut seen[row as usize][col as usize];
                        assert!(!*seen, "tile ({row}, {col}) twice");
                        *seen = true;
                        let now = (row / rows.clamp(1, tiles_m), col, row);
                        assert!(block == 0 || now > before, "{now:?} after {before:?}");
                        before = now;
                    }
                    let beyond = grouped_tile(tiles_m * tiles_n, tiles_m, tiles_n, rows);
                    assert!(beyond.0 >= tiles_m || beyond.1 >= tiles_n, "{beyond:?}");
                }
            }
        }
        assert_eq!(grouped_tile(3, 3, 3, 2), (1, 1));
        assert_eq!(grouped_tile(7, 3, 3, 2), (2, 1));
        // The largest grid, and none at all.
        assert_eq!(grouped_tile(i32::MAX as u32 - 1, 1, i32::MAX as u32, 8).0, 0);
        assert_eq!(grouped_tile(0, 0, 0, 0), (0, 0));
    }

    #[test]
    fn lanes_fill_the_warp_tile_and_no_bank_is_asked_twice() {
        let mut seen = [[false; 8]; 4];
        for lane in 0..32 {
            let (x, y) = lane_place(lane);
            assert!(!seen[y as usize][x as usize], "lane {lane}");
            seen[y as usize][x as usize] = true;
        }
        // A part of eight lanes: each distinct place has four banks of 32 for itself.
        for part in 0..4 {
            let lanes = part * 8..part * 8 + 8;
            for of in [|(x, _)| x, |(_, y)| y] {
                let mut places = [false; 8];
                lanes.clone().for_each(|lane| places[of(lane_place(lane)) as usize] = true);
                assert!(places.iter().filter(|&&used| used).count() <= 4);
            }
        }
    }

    #[test]
    fn split_is_a_partition() {
        for len in 0..60 {
            for parts in 1..9 {
                let mut next = 0;
                for index in 0..parts {
                    let (start, count) = split(len, parts, index);
                    assert_eq!(start, next);
                    assert!(count == len / parts || count == len / parts + 1);
                    next = start + count;
                }
                assert_eq!(next, len);
            }
        }
    }
}
