//! The block of a kernel that splits the operands of a batch into limbs on their way to the tensor cores.
//!
//! A block computes tiles of C one after the other. Two warpgroups load f32 from the operands, wherever lines begin,
//! and write limbs to a stage; two others multiply the stages before. Shared memory has the stages, their barriers, and
//! for each stage a note of each warp that splits: whether it has met a number that limbs do not hold.
//!
//! ```text
//!   stage 0 | stage 1 | stage 2 | stage 3 | full, empty of each | notes of each
//!   A's limbs, B's limbs                    barriers              a word of each warp
//! ```

use crate::Tile;
use crate::split::{Limbs, PANEL_ROWS};
use crate::warpgroup;

/// Warpgroups that split.
pub const PRODUCERS: u32 = 2;
/// Warpgroups that multiply.
pub const CONSUMERS: u32 = 2;
/// Threads of a block.
pub const THREADS: u32 = (PRODUCERS + CONSUMERS) * warpgroup::THREADS;
/// Threads that split.
pub const SPLITTERS: u32 = PRODUCERS * warpgroup::THREADS;
/// Rows and columns of C of a block.
pub const TILE: Tile = Tile { m: PANEL_ROWS, n: PANEL_ROWS };
/// Rows of tiles that blocks which run at the same time share.
pub const ROWS: u32 = 8;
/// Bytes of the notes of a stage.
pub const NOTE_BYTES: u32 = SPLITTERS / 32 * 4;

/// Bytes of shared memory: those of the stages, of two barriers for each, and of the notes.
#[must_use]
pub const fn shared_bytes(limbs: Limbs, stages: u32) -> u32 {
    stages * (2 * limbs.tile_bytes() + 16 + NOTE_BYTES)
}
