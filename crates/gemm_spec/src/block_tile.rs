//! The tile of C of a block that finds operands in either order by their addresses, and its stages of shared memory.
//!
//! A stage has a tile of A and one of B, for as many k elements as [`LINE_BYTES`] hold. An operand's tile has its
//! lines as they are in global memory, each [`PAD`] elements longer, so that the threads of a warp read them from
//! different banks:
//!
//! ```text
//!   lines along k               lines across it
//!   +--------- steps ---+pad+   +--------- 64 ------+pad+
//!   | row 0 of A        |   |   | k element 0       |   |
//!   | row 1             |   |   | k element 1       |   |
//!        64 of them                  as many as steps
//! ```

use crate::batched::{A_COL_MAJOR, B_COL_MAJOR};

/// Rows and columns of C of a block's tile.
pub const SIDE: u32 = 64;
/// Threads of a block: four warps of 32 x 32 elements of C.
pub const THREADS: u32 = 128;
/// Stages of shared memory: one is multiplied while the others are loaded.
pub const STAGES: u32 = 3;
/// Bytes of a line's k elements in a stage.
pub const LINE_BYTES: u32 = 128;
/// Elements between one line of a stage and the next.
pub const PAD: u32 = 4;
/// Rows of tiles that blocks which run at the same time share.
pub const ROWS: u32 = 8;

/// k elements of a stage, of elements of that many bytes.
#[must_use]
pub const fn steps(bytes: u32) -> u32 {
    match bytes {
        8 => LINE_BYTES / 8,
        _ => LINE_BYTES / 4,
    }
}

/// Elements of an operand's tile in a stage.
#[must_use]
pub const fn operand_elements(steps: u32, along_k: bool) -> u32 {
    if along_k { SIDE * (steps + PAD) } else { steps * (SIDE + PAD) }
}

/// Elements of all stages, of operands in the orders that [`BatchedParams`](crate::params::BatchedParams) names.
#[must_use]
pub const fn shared_elements(steps: u32, orders: u32) -> u32 {
    let a = operand_elements(steps, orders & A_COL_MAJOR == 0);
    let b = operand_elements(steps, orders & B_COL_MAJOR != 0);
    STAGES * (a + b)
}

/// Elements of all stages in the orders that take most: with lines along k of both operands.
#[must_use]
pub const fn most_shared(steps: u32) -> u32 {
    shared_elements(steps, B_COL_MAJOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_fit_and_lines_begin_at_packets() {
        for bytes in [4, 8] {
            let steps = steps(bytes);
            assert_eq!(steps * bytes, LINE_BYTES);
            for orders in 0..4 {
                assert!(shared_elements(steps, orders) <= most_shared(steps), "{bytes} {orders}");
            }
            for line in [steps + PAD, SIDE + PAD] {
                assert!((line * bytes).is_multiple_of(16), "{bytes} {line}");
            }
            // Each thread has four packets of 16 bytes of either operand.
            assert_eq!(SIDE * LINE_BYTES / 16, 4 * THREADS);
        }
    }
}
