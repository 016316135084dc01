//! aarch64: 32 registers of 16 bytes, in every build's baseline. A tile is 3 registers by 8 columns.
//!
//! The registers are [`Lanes`](super::portable::Lanes): the target has fused multiply-adds, so the
//! compiler needs no intrinsics to make one of each. Its bits were compared with those of `serial` under
//! an emulated CPU; its speed was measured nowhere.

use super::kernels::{self, InstructionSet, compiled_for};
use super::pack::{self, Pack};
use super::rounding::{self, Rounded};
use super::tile::Tile;
use super::vector::Vector;

/// The instruction set.
pub(super) struct Neon;

impl InstructionSet for Neon {
    const VECTORS: usize = 3;
    const COLS: usize = 8;
    compiled_for!();
}
