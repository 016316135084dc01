//! The tile of C of a block that finds operands in either order by their addresses, and its stages of shared memory.
//!
//! A stage has a tile of A and one of B, for as many k elements as a line's bytes hold. An operand's tile has its
//! lines as they are in global memory, each [`PAD`] elements longer, so that the threads of a warp read them from
//! different banks:
//!
//! ```text
//!   lines along k               lines across it
//!   +--------- steps ---+pad+   +--------- side ----+pad+
//!   | row 0 of A        |   |   | k element 0       |   |
//!   | row 1             |   |   | k element 1       |   |
//!        as many as the side         as many as steps
//! ```

use crate::Tile;
use crate::batched::{A_COL_MAJOR, B_COL_MAJOR};

/// Columns of C of a warp.
pub const WARP_COLS: u32 = 32;
/// Stages of shared memory: one is multiplied while the others are loaded.
pub const STAGES: u32 = 3;
/// Elements between one line of a stage and the next.
pub const PAD: u32 = 4;
/// Rows of tiles that blocks which run at the same time share.
pub const ROWS: u32 = 8;
/// Bytes of the packets that are copied where lines begin at multiples of them.
pub const PACKET_BYTES: u32 = 16;

/// The form of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTile {
    /// Warps down and across the tile.
    pub warps: [u32; 2],
    /// Rows of C of each: 32, 48 or 64.
    pub warp_rows: u32,
    /// Bytes of a line's k elements in a stage.
    pub line_bytes: u32,
}

impl BlockTile {
    /// Rows and columns of C.
    #[must_use]
    pub const fn tile(self) -> Tile {
        Tile { m: self.warps[0] * self.warp_rows, n: self.warps[1] * WARP_COLS }
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(self) -> u32 {
        self.warps[0] * self.warps[1] * 32
    }

    /// k elements of a stage, of elements of that many bytes.
    #[must_use]
    pub const fn steps(self, bytes: u32) -> u32 {
        self.line_bytes / bytes
    }

    /// Elements of an operand's tile of `side` rows or columns in a stage.
    #[must_use]
    pub const fn operand_elements(self, side: u32, bytes: u32, along_k: bool) -> u32 {
        let steps = self.steps(bytes);
        if along_k { side * (steps + PAD) } else { steps * (side + PAD) }
    }

    /// Packets of an operand's tile of `side` rows or columns that a thread copies.
    #[must_use]
    pub const fn packets(self, side: u32) -> u32 {
        side * self.line_bytes / PACKET_BYTES / self.threads()
    }

    /// Elements of all stages, of operands in the orders that [`BatchedParams`](crate::params::BatchedParams) names.
    #[must_use]
    pub const fn shared_elements(self, bytes: u32, orders: u32) -> u32 {
        let Tile { m, n } = self.tile();
        let a = self.operand_elements(m, bytes, orders & A_COL_MAJOR == 0);
        let b = self.operand_elements(n, bytes, orders & B_COL_MAJOR != 0);
        STAGES * (a + b)
    }

    /// Elements of all stages in the orders that take most: with lines along k of both operands.
    #[must_use]
    pub const fn most_shared(self, bytes: u32) -> u32 {
        self.shared_elements(bytes, B_COL_MAJOR)
    }

    /// Whether the threads copy lines in the same way each time, and a kernel can have the tile.
    pub(crate) const fn check(self, bytes: u32) {
        let Tile { m, n } = self.tile();
        assert!(self.warp_rows >= 32 && self.warp_rows <= 64 && self.warp_rows.is_multiple_of(16));
        assert!(self.packets(m) <= MOST_PACKETS && self.packets(n) <= MOST_PACKETS);
        assert!(self.packets(m) * self.threads() * PACKET_BYTES == m * self.line_bytes);
        assert!(self.packets(n) * self.threads() * PACKET_BYTES == n * self.line_bytes);
        // Of a line along k and of one across it each thread has the same packet in all of its lines.
        let of_line = self.line_bytes / PACKET_BYTES;
        assert!(self.threads().is_multiple_of(of_line));
        assert!(self.threads().is_multiple_of(m * bytes / PACKET_BYTES));
        assert!(self.threads().is_multiple_of(n * bytes / PACKET_BYTES));
        assert!(((self.steps(bytes) + PAD) * bytes).is_multiple_of(PACKET_BYTES));
    }
}

/// Packets of an operand's stage that a thread copies at most.
pub const MOST_PACKETS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_in_other_orders_take_less() {
        for (warps, warp_rows) in [([2, 2], 32), ([2, 3], 48), ([2, 4], 64)] {
            for (bytes, line_bytes) in [(4, 128), (8, 128), (8, 256)] {
                let tile = BlockTile { warps, warp_rows, line_bytes };
                tile.check(bytes);
                for orders in 0..4 {
                    let most = tile.most_shared(bytes);
                    assert!(tile.shared_elements(bytes, orders) <= most, "{tile:?} {orders}");
                }
            }
        }
    }
}
