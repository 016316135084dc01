//! What products of split operands have in common: cutting, multiplying pieces, and what is done where
//! pieces cannot hold an operand.

pub(crate) mod cut;
mod fallback;
pub(crate) mod product;

use cuda_std::arch::sm90::wgmma::Accumulators;
use cuda_std::memory::SharedAddress;
use gemm_spec::split::{FALLBACK_PARAMS, PANEL_ROWS, Pieces};
use gemm_spec::warpgroup::THREADS;
use gemm_spec::{Block, HelperEntry, LaunchShape, Param, Tile};

use crate::parts::outer_tile;

/// Warpgroups that multiply.
const CONSUMERS: u32 = 2;
/// Rows of tiles in a group: those of 8 are faster at 8192 and 16384 than those of 12 and 16.
const GROUP_ROWS: u32 = 8;
/// Threads of the helpers that split.
pub(crate) const HELPER_THREADS: u32 = 256;
/// Threads along each side of a block of the fallback.
const SIDE_THREADS: u32 = outer_tile::THREADS as u32;
/// From one step of k to the next in the transposing helper's tile: odd, so that columns meet
/// different banks.
const ACROSS_PITCH: u32 = PANEL_ROWS + 1;
/// Bytes of that tile.
pub(crate) const ACROSS_BYTES: u32 = gemm_spec::split::BLOCK_K * ACROSS_PITCH * 4;
/// Bytes in which the warps of a helper compare what they found.
pub(crate) const ROWS_BYTES: u32 = HELPER_THREADS / 32 * 4;

/// How the kernels cover C.
pub(crate) const LAUNCH: LaunchShape = LaunchShape::Persistent {
    threads: (1 + CONSUMERS) * THREADS,
    tile: Tile { m: PANEL_ROWS, n: PANEL_ROWS },
    rows: GROUP_ROWS,
};

/// A stage of the ring: a tile of A and one of B.
pub(crate) const fn stage_bytes(pieces: Pieces) -> u32 {
    2 * pieces.tile_bytes()
}

/// The ring, then a `full` and an `empty` barrier for each stage.
pub(crate) const fn shared_bytes(pieces: Pieces, stages: u32) -> u32 {
    stages * stage_bytes(pieces) + stages * 16
}

/// One of the helpers that split.
pub(crate) const fn helper(
    symbol: &'static str,
    shared_bytes: u32,
    params: &'static [Param],
) -> HelperEntry {
    HelperEntry {
        symbol,
        block: Block { x: HELPER_THREADS, y: 1 },
        min_blocks: 4,
        shared_bytes,
        params,
    }
}

/// Multiplies the operands themselves.
pub(crate) const FALLBACK: HelperEntry = HelperEntry {
    symbol: "pieces_fallback",
    block: Block { x: SIDE_THREADS, y: SIDE_THREADS },
    min_blocks: 2,
    shared_bytes: outer_tile::SHARED_ELEMENTS * 4,
    params: &FALLBACK_PARAMS,
};

/// What operands are cut into, and how tiles of pieces are multiplied.
pub(crate) trait Cut: crate::parts::pipeline::Pipeline {
    /// What operands are split into.
    const PIECES: Pieces;

    /// Whether rows are scaled by powers of two.
    const SCALED: bool = matches!(Self::PIECES, Pieces::TwoF16);
    /// Bytes of a tile.
    const TILE_BYTES: u32 = Self::PIECES.tile_bytes();

    /// Cuts eight elements and stores their pieces; tells what was noticed.
    ///
    /// # Safety
    /// The octet lies in the split operand, and is this thread's alone.
    unsafe fn store(row: &cut::Row, octet: u32, values: [f32; 8]) -> cut::Noticed;

    /// Starts the products of rows `64 * own ..` of the tile of A at one shared-memory address with the
    /// tile of B at another, the small ones first: the tensor core cuts off at the size of its sum. The
    /// sums begin with zero.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; the tiles stay until the products have ended, and
    /// the sums are not touched before.
    unsafe fn multiply(
        sums: &mut Accumulators<8>,
        a: SharedAddress<u8>,
        own: u32,
        b: SharedAddress<u8>,
    );
}
