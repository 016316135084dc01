//! aarch64: 32 registers of 16 bytes, in every build's baseline. A tile is 3 registers by 8 columns.
//!
//! The registers are [`Lanes`](crate::portable::Lanes): the target has fused multiply-adds, so the
//! compiler needs no intrinsics to make one of each. Its bits were compared with those of `serial` under
//! an emulated CPU; its speed was measured nowhere.

use crate::kernels::{self, InstructionSet, compiled_for};
use crate::pack::{self, Pack};
use crate::rounding::{self, Rounded};
use crate::tile::Tile;
use crate::vector::Vector;

/// The instruction set.
pub(crate) struct Neon;

impl InstructionSet for Neon {
    const VECTORS: usize = 3;
    const COLS: usize = 8;
    compiled_for!();
}
