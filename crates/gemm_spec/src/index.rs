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
