//! `f16x3`: f32 products on the tensor cores, from three products of f16 pieces.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major; f32
//! Launch    2 to 4 helpers that split A and B, then block (384,1,1), one a multiprocessor, each
//!           going from tile to tile; then a fallback that does nothing unless it is needed
//! Shared    STAGES stages of 32 KiB and their barriers: 196704 bytes
//! Requires  m, n >= 1, k >= 16, compute capability 9.0
//! Cost      6mnk flop on the tensor cores; the pieces take as much memory as the operands
//! Bound by  power: at 8192 the clock sinks below its limit; at 2048 the helpers
//! Source    Ootomo and Yokota 2022 for the scheme; sums outside the tensor core as there
//!
//! An element is cut in a high and a low piece of f16 (see `gemm_spec::split`). The tensor core
//! multiplies exactly, but truncates as it adds. So its sums run over 32 steps of k only, the small
//! products first, and are then added to the total by ordinary f32 additions, which round to nearest:
//!
//! ```text
//!  32 steps:  low*high + high*low + high*high   on the tensor core, from zero
//!  total  =   total + that                      in f32, k/32 times
//! ```
//!
//! Three warpgroups share the work. One thread of the first brings tiles into a ring of stages by
//! bulk copies; each of the others multiplies 64 x 128 elements of C. While one adds to its total the
//! other's products keep the tensor cores busy.
//!
//! ```text
//!  producer   ==> [stage 0][stage 1] ... [stage 5] ==>  warpgroup 1: rows  0..64 of the tile
//!               full/empty barriers of each stage  ==>  warpgroup 2: rows 64..128
//! ```

#[cfg(target_arch = "nvptx64")]
mod fallback;
#[cfg(target_arch = "nvptx64")]
mod multiply;
#[cfg(target_arch = "nvptx64")]
mod pieces;

use gemm_spec::split::{
    FALLBACK_PARAMS, MAXIMA_PARAMS, PANEL_ROWS, SPLIT_ACROSS_PARAMS, SPLIT_ROWS_PARAMS, STEP_K,
    TILE_BYTES,
};
use gemm_spec::warpgroup::THREADS;
use gemm_spec::{
    Arch, Block, DType, Entry, HelperEntry, KernelSpec, LaunchShape, MinBlocks, Scheme,
    SplitEntries, Tile,
};

use crate::parts::outer_tile;

/// Stages of the ring: as many as shared memory holds.
const STAGES: u32 = 6;
/// A stage: a tile of A and one of B.
const STAGE_BYTES: u32 = 2 * TILE_BYTES;
/// The ring, then a `full` and an `empty` barrier for each stage.
const SHARED_BYTES: u32 = STAGES * STAGE_BYTES + STAGES * 16;
/// Warpgroups that multiply.
const CONSUMERS: u32 = 2;
/// Rows of tiles in a group.
const GROUP_ROWS: u32 = 16;
/// Threads of the helpers that split.
const HELPER_THREADS: u32 = 256;
const HELPER: Block = Block { x: HELPER_THREADS, y: 1 };
/// Threads along each side of a block of the fallback.
const SIDE_THREADS: u32 = outer_tile::THREADS as u32;
/// From one step of k to the next in the transposing helper's tile: odd, so that columns meet
/// different banks.
const ACROSS_PITCH: u32 = PANEL_ROWS + 1;

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "f16x3",
    about: "f32 from three products of f16 pieces on the tensor cores, summed in f32",
    origin: "Ootomo and Yokota 2022",
    arch: Arch::Sm90a,
    entries: &[Entry { dtype: DType::F32, symbol: "f16x3_f32" }],
    launch: LaunchShape::Persistent {
        threads: (1 + CONSUMERS) * THREADS,
        tile: Tile { m: PANEL_ROWS, n: PANEL_ROWS },
        rows: GROUP_ROWS,
    },
    shared_elements: SHARED_BYTES / 4,
    min_blocks_per_sm: MinBlocks::same(1),
    scheme: Scheme::Split(SplitEntries {
        rows: HelperEntry {
            symbol: "f16x3_split_rows",
            block: HELPER,
            min_blocks: 4,
            shared_bytes: HELPER_THREADS / 32 * 4,
            params: &SPLIT_ROWS_PARAMS,
        },
        maxima: HelperEntry {
            symbol: "f16x3_maxima",
            block: HELPER,
            min_blocks: 4,
            shared_bytes: HELPER_THREADS * 16,
            params: &MAXIMA_PARAMS,
        },
        across: HelperEntry {
            symbol: "f16x3_split_across",
            block: HELPER,
            min_blocks: 4,
            shared_bytes: STEP_K * ACROSS_PITCH * 4,
            params: &SPLIT_ACROSS_PARAMS,
        },
        fallback: HelperEntry {
            symbol: "f16x3_fallback",
            block: Block { x: SIDE_THREADS, y: SIDE_THREADS },
            min_blocks: 2,
            shared_bytes: outer_tile::SHARED_ELEMENTS * 4,
            params: &FALLBACK_PARAMS,
        },
    }),
};
const _: () = SPEC.check();

/// The emulator does not know the instructions of compute capability 9.0.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] = &[];
