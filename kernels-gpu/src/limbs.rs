//! What products of split operands have in common: splitting, and multiplying limbs.

pub(crate) mod product;
pub(crate) mod split;
mod sum;

use cuda_std::arch::sm90::wgmma::Accumulators;
use cuda_std::memory::SharedAddress;
use gemm_spec::split::{Limbs, PANEL_ROWS};
use gemm_spec::warpgroup::THREADS;
use gemm_spec::{Block, HelperEntry, HelperRole, LaunchShape, Tile};
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use sum::EMULATED as EMULATED_SUM;
pub(crate) use sum::ENTRY as SUM;

use self::product::Scaling;

/// Warpgroups that multiply.
const CONSUMERS: u32 = 2;
/// Rows of tiles in a group, the swizzle group of the rasterization: 8 are faster at 8192 and 16384
/// than 12 and 16.
const GROUP_ROWS: u32 = 8;
/// Threads of the helpers that split.
pub(crate) const HELPER_THREADS: u32 = 256;
/// Pitch of the transposing helper's tile, from one k element to the next: odd, so that columns are
/// in different banks.
const TRANSPOSE_PITCH: u32 = PANEL_ROWS + 1;
/// Bytes of that tile.
pub(crate) const TRANSPOSE_BYTES: u32 = gemm_spec::split::BLOCK_K * TRANSPOSE_PITCH * 4;
/// Bytes through which the warps of a helper reduce what they found.
pub(crate) const REDUCTION_BYTES: u32 = HELPER_THREADS / 32 * 4;

/// How the kernels cover C.
pub(crate) const LAUNCH: LaunchShape = LaunchShape::Persistent {
    threads: (1 + CONSUMERS) * THREADS,
    tile: Tile { m: PANEL_ROWS, n: PANEL_ROWS },
    rows: GROUP_ROWS,
};

/// Bytes of a stage of the pipeline: a tile of A and one of B.
pub(crate) const fn stage_bytes(limbs: Limbs) -> u32 {
    2 * limbs.tile_bytes()
}

/// Bytes of the pipeline, followed by a `full` and an `empty` barrier for each stage.
pub(crate) const fn shared_bytes(limbs: Limbs, stages: u32) -> u32 {
    stages * stage_bytes(limbs) + stages * 16
}

/// One of the helpers that split.
pub(crate) const fn helper(
    role: HelperRole,
    symbol: &'static str,
    shared_bytes: u32,
) -> HelperEntry {
    HelperEntry {
        role,
        symbol,
        block: Block { x: HELPER_THREADS, y: 1 },
        min_blocks: 4,
        shared_bytes,
    }
}

/// What operands are split into, and how tiles of limbs are multiplied.
pub(crate) trait LimbSplit: crate::parts::pipeline::Pipeline {
    /// What operands are split into.
    const LIMBS: Limbs;

    /// Whether rows are scaled by powers of two.
    const SCALING: Scaling = match Self::LIMBS {
        Limbs::TwoF16 => Scaling::Exponents,
        Limbs::ThreeBf16 => Scaling::None,
    };
    /// Bytes of a tile.
    const TILE_BYTES: u32 = Self::LIMBS.tile_bytes();

    /// Splits eight elements, stores their limbs and reports on their range.
    ///
    /// # Safety
    /// The octet is in the split operand and belongs to this thread alone.
    unsafe fn split_octet(row: &split::Row, octet: u32, values: [f32; 8]) -> split::RangeReport;

    /// Issues the `wgmma`s of 64 rows of the tile of A, those of consumer warpgroup `consumer_idx`,
    /// with the tile of B. Small products come first, since the tensor core truncates to the
    /// precision of its sum. The accumulators start from zero.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; the tiles are unchanged and the accumulators
    /// not accessed until the products have completed.
    unsafe fn mma(
        acc: &mut Accumulators<8>,
        a: SharedAddress<u8>,
        consumer_idx: u32,
        b: SharedAddress<u8>,
    );
}
