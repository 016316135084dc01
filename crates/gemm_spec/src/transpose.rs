//! What exchanges rows and columns of an operand on the device: tiles that a block reads along one side and
//! writes along the other.

use crate::index::ceil_div;
use crate::{Grid, params::TransposeParams};

/// Rows and columns of a tile.
pub const SIDE: u32 = 32;
/// Threads of a block along a column of a tile; along a row there are [`SIDE`].
pub const ROWS: u32 = 8;
/// Elements from one row of a tile to the next in shared memory: one more than a row has, so that a column is
/// in as many banks as a row.
pub const PITCH: u32 = SIDE + 1;
/// Bytes of a tile of the largest elements.
pub const SHARED_BYTES: u32 = SIDE * PITCH * 8;
/// Blocks for each SM.
const BLOCKS: u32 = 8;

/// The blocks of a launch: one for each tile, or as many as run at once. None where a 32-bit number does not
/// count the tiles, or where there are none.
#[must_use]
pub fn grid(params: &TransposeParams, multiprocessors: u32) -> Option<Grid> {
    let tiles = ceil_div(params.cols, SIDE).checked_mul(ceil_div(params.rows, SIDE))?;
    // The kernel's count passes the last tile by less than a grid.
    let most = (multiprocessors * BLOCKS).max(1);
    let counts = tiles > 0 && tiles.checked_add(most).is_some();
    counts.then(|| Grid { x: tiles.min(most), y: 1, z: 1 })
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    #[test]
    fn every_tile_has_a_block_or_waits_for_one() {
        let of = |rows, cols| {
            let (from, to) = (ptr::null(), ptr::null_mut());
            let params = TransposeParams { rows, cols, size: 4, from, ld: 0, to, pitch: 0 };
            grid(&params, 27).map(|grid| grid.x)
        };
        assert_eq!([of(1, 1), of(32, 33), of(64, 64)], [Some(1), Some(2), Some(4)]);
        assert_eq!(of(10_000, 10_000), Some(27 * 8));
        assert_eq!([of(0, 5), of(5, 0), of(u32::MAX, u32::MAX)], [None; 3]);
    }
}
