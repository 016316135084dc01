//! `bulk_copy_128x256`: TMA loads the tiles, so that threads do nothing but multiply.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32
//! Launch    block (256,1,1); a grid of one dimension, tiles of C in groups of 8 rows of tiles; before
//!           it a copy of each operand whose rows do not begin at multiples of 16 bytes
//! Shared    a pipeline of STAGES stages of 32 k elements and their barriers: 196672 bytes
//! Requires  m, n >= 1, compute capability 9.0
//! Cost      2mnk flop; each element of A and B is loaded n/256 and m/128 times
//! Bound by  issue slots: besides FMAs there are only shared-memory reads, 48 for 1024 FMAs
//! Source    stages and barriers as in NVIDIA's CUTLASS for compute capability 9.0; the layout of A from
//!           measurement
//!
//! In `async_copy` each thread copies its share of every stage: it computes addresses, takes issue
//! slots, and copies A element by element to transpose it. Here one thread asks TMA for a whole
//! tile of A and one of B, and goes on multiplying. TMA cannot transpose. So A's tile stays
//! K-major, a row of 32 k elements in 128 bytes, and a lane reads four k elements of one of its
//! rows at a time:
//!
//! ```text
//!  k         0    1    2    3  | 4 ..        a[16][4] registers: row i is reloaded as soon as its
//!  row 0   [ a    a    a    a ]|[next]       fourth element is multiplied, 120 FMAs before its next
//!  row 1   [ a    a    a    a ]|[next]       first element is needed
//! ```
//!
//! The rows of a warp's lanes are adjacent, and TMA's 128-byte swizzle puts the same k elements of
//! neighbouring rows into different banks.
//!
//! TMA fills in zeros outside A and B, so only the epilogue has code for edges. k elements that do
//! not fill a stage come last, one by one, so that each element of C is one chain over k in order:
//! the bits are those of `naive`.

mod multiply;

use gemm_spec::tensor::F32_BLOCK_K;
use gemm_spec::{
    Arch, Block, Entry, KernelSpec, LaunchShape, MinBlocks, OperandAccess, ParamList, Tile, Types,
};

use crate::tensor::PAD;

/// Warps of a block along m and n; each has 64 x 64 elements of C.
const WARPS_M: u32 = 2;
const WARPS_N: u32 = 4;
const THREADS: u32 = 32 * WARPS_M * WARPS_N;
/// Rows and columns of C of a tile.
const TILE_M: u32 = 64 * WARPS_M;
const TILE_N: u32 = 64 * WARPS_N;
/// Rows of tiles in a group.
const GROUP_ROWS: u32 = 8;
/// Stages of the pipeline: as many as shared memory holds.
const STAGES: u32 = 4;
/// Bytes of a stage: A's tile, followed by B's.
const A_BYTES: u32 = TILE_M * F32_BLOCK_K * 4;
const STAGE_BYTES: u32 = A_BYTES + TILE_N * F32_BLOCK_K * 4;
/// The pipeline, followed by a `full` and an `empty` barrier for each stage.
const SHARED_BYTES: u32 = STAGES * (STAGE_BYTES + 16);

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "bulk_copy_128x256",
    about: "16 x 8 elements of C a thread, tiles loaded by TMA",
    origin: "NVIDIA CUTLASS",
    arch: Arch::Sm90a,
    entries: &[Entry { types: Types::F32, symbol: "bulk_copy_128x256_f32" }],
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS, y: 1 },
        tile: Tile { m: TILE_M, n: TILE_N },
        rows: GROUP_ROWS,
    },
    shared_elements: SHARED_BYTES / 4,
    min_blocks_per_sm: MinBlocks::same(1),
    params: ParamList::TmaSimt,
    operands: OperandAccess::TensorMaps { any_order: false, cluster: 1, batched: false },
    helpers: &[PAD],
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use multiply::EMULATED;
