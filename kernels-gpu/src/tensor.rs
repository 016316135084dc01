//! `tensor_*`: products of 16-bit floats on the tensor cores.
//!
//! Computes  C = alpha*A*B + beta*C, accumulated in f32, one rounding; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major; f16 or bf16, alpha and beta f32; C of
//!           the same type, or of f32 and then without the rounding
//! Launch    block (384,1,1), persistent, one an SM; of `tensor_64x64` block (128,1,1), persistent, four an
//!           SM; of `tensor_64x128` block (128,1,1), one a tile; of
//!           `tensor_split_*` block (256,1,1) or (384,1,1), a cluster of 1 to 8 a tile;
//!           before it a copy of each operand whose lines do not begin at multiples of 16 bytes
//! Shared    a pipeline of stages of 64 k elements, 192 KiB, and 32 KiB through which C is stored; of
//!           `tensor_64x128` one stage and 16 KiB: 40968 bytes
//! Requires  m, n >= 1, compute capability 9.0
//! Cost      2mnk flop; a tile of C reads (128 + tile_n) k elements
//! Bound by  power: the clock drops below its limit; `tensor_64x128` waits for its tiles
//! Source    warp specialisation as in NVIDIA's CUTLASS (`KernelTmaWarpSpecializedCooperative`, and of
//!           `tensor_pingpong_*` `KernelTmaWarpSpecializedPingpong`)
//!
//! `tensor_split_*` are one block or a cluster a tile, see [`mod@split`]; `tensor_pair_*` are clusters of two that
//! share tiles of B, see [`mod@pair`]; of `tensor_pingpong_*` one warpgroup finishes a tile while the other multiplies
//! the next, see [`mod@pingpong`].
//!
//! `tensor_64x128` is the first step: one warpgroup loads a stage, waits, multiplies, waits, and
//! loads the next. The others overlap all of that.
//!
//! The kernels that are chosen most also do what an epilogue does besides scaling ([`gemm_spec::fusion`]), see
//! [`mod@finish`].
//!
//! A launch of `tensor_64x64` and of `tensor_batch_128x128` computes all products of a batch: the maps have a
//! third dimension, and blocks go on from the tiles of one product to those of the next. So does one of
//! `tensor_groups_*`, whose products may also have groups of rows of one A and one C, of sizes that only the device
//! knows: blocks then read where each group ends, and what of a tile is another group's is not stored.
//!
//! TMA loads boxes of A and B, in whatever order the operands are stored, and writes them to shared
//! memory in the swizzle that `wgmma` reads. It fills in zeros outside the operands, so edges need
//! no code. One producer thread keeps the pipeline full. Two consumer warpgroups multiply 64 rows
//! each of the block's tile of C; their accumulators, 64 or 128 registers a thread, stay in
//! registers until the epilogue.
//!
//! ```text
//!  TMA ==> [stage 0][stage 1] ...            ==>  consumer 0: rows  0..64 of the tile ==> staging \
//!       full/empty barriers of each stage    ==>  consumer 1: rows 64..128            ==> staging  > C
//! ```

mod finish;
mod multiply;
mod number;
mod pad;
mod pair;
mod pingpong;
mod single_stage;
mod small_tile;
mod split;
mod staging;
mod store;
mod sum;

use crate::sum_parts;
use gemm_spec::split_k::KSharing;
use gemm_spec::tensor::BLOCK_K;
use gemm_spec::warpgroup::{INSTRUCTION_M, ROW_BYTES, THREADS};
use gemm_spec::{
    Arch, Block, Entry, HelperEntry, HelperRole, KernelSpec, LaunchShape, MinBlocks, Numerics,
    OperandAccess, ParamList, Tile, Types,
};

/// Consumer warpgroups.
const CONSUMERS: u32 = 2;
/// Blocks of a cluster that share their tiles of B.
const PAIR: u32 = 2;
/// Rows of C of a tile.
const TILE_M: u32 = CONSUMERS * INSTRUCTION_M;
/// Rows of tiles in a group, the swizzle group of the rasterization (docs/notebook/kernels.md).
const GROUP_ROWS: u32 = 8;
/// Bytes of the pipeline: four stages of the wide tile, six of the narrow one.
const PIPELINE_BYTES: u32 = 4 * (TILE_M + 256) * ROW_BYTES;
/// Bytes of an epilogue staging buffer: 64 rows of 64 elements, or of 32 if they are f32.
const STAGING_BYTES: u32 = INSTRUCTION_M * ROW_BYTES;
/// Staging buffers of a warpgroup: one is filled while TMA stores the other.
const STAGING_EACH: u32 = 2;
const STAGING_BUFFERS: u32 = STAGING_EACH * CONSUMERS;
/// Stages of the narrow tile, the largest number.
const MOST_STAGES: u32 = PIPELINE_BYTES / ((TILE_M + 128) * ROW_BYTES);
/// The pipeline, the staging buffers, then a `full` and an `empty` barrier for each stage.
const SHARED_BYTES: u32 = PIPELINE_BYTES + STAGING_BUFFERS * STAGING_BYTES + MOST_STAGES * 16;
/// Where consumer warpgroups that multiply in turns have a barrier each.
const TURNS_OFFSET: u32 = SHARED_BYTES;

/// Columns of C of a tile of the kernel with a single stage.
const SINGLE_N: u32 = 128;
/// Bytes of that stage: A's tile, followed by B's.
const SINGLE_A_BYTES: u32 = INSTRUCTION_M * ROW_BYTES;
const SINGLE_STAGE_BYTES: u32 = SINGLE_A_BYTES + SINGLE_N * ROW_BYTES;
/// The stage, the staging buffers of C, then the barrier.
const SINGLE_SHARED_BYTES: u32 = SINGLE_STAGE_BYTES + STAGING_EACH * STAGING_BYTES + 8;

/// Columns of C of a tile of the kernel with several blocks an SM, and its stages.
const SMALL_N: u32 = 64;
const SMALL_STAGES: u32 = 2;

/// Bytes of the pipeline of a kernel whose blocks share k; its barriers follow.
const SPLIT_PIPELINE_BYTES: u32 = 7 * 32 * 1024;
/// Stages of it, the largest number.
const SPLIT_MOST_STAGES: u32 = 9;
const SPLIT_SHARED_BYTES: u32 = SPLIT_PIPELINE_BYTES + SPLIT_MOST_STAGES * 16;

/// Copies an operand to memory that TMA can address.
pub(crate) const PAD: HelperEntry = HelperEntry {
    role: HelperRole::Pad,
    symbol: "tensor_pad",
    block: Block { x: 256, y: 1 },
    min_blocks: 8,
    shared_bytes: 0,
};

/// Operands of either order, which `cluster` blocks load together, of one product alone or of a batch.
const fn tensor_maps(cluster: u32, batched: bool) -> OperandAccess {
    OperandAccess::TensorMaps { any_order: true, cluster, batched }
}

/// The entries of a kernel, one for each type of operands and of C.
macro_rules! entries {
    ($id:literal) => {
        &[
            Entry { types: Types::F16, symbol: concat!($id, "_f16") },
            Entry { types: Types::BF16, symbol: concat!($id, "_bf16") },
            Entry { types: Types::F16F32, symbol: concat!($id, "_f16_f32") },
            Entry { types: Types::BF16F32, symbol: concat!($id, "_bf16_f32") },
        ]
    };
}

const fn spec(id: &'static str, entries: &'static [Entry], columns: u32) -> KernelSpec {
    KernelSpec {
        id,
        about: "16-bit floats on the tensor cores, loaded by TMA, accumulated in f32",
        origin: "NVIDIA CUTLASS",
        arch: Arch::Sm90a,
        entries,
        launch: LaunchShape::Persistent {
            threads: (1 + CONSUMERS) * THREADS,
            tile: Tile { m: TILE_M, n: columns },
            rows: GROUP_ROWS,
        },
        shared_elements: SHARED_BYTES / 2,
        min_blocks_per_sm: MinBlocks::same(1),
        params: ParamList::Tma,
        operands: tensor_maps(1, false),
        numerics: Numerics::TensorCore,
        fuses: true,
        helpers: &[PAD],
        ..KernelSpec::PLAIN
    }
}

/// What the host needs to launch the kernel with a single stage.
pub(crate) const TILE_64X128: KernelSpec = KernelSpec {
    about: "16-bit floats on the tensor cores, one stage at a time, accumulated in f32",
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS, y: 1 },
        tile: Tile { m: INSTRUCTION_M, n: SINGLE_N },
        rows: GROUP_ROWS,
    },
    shared_elements: SINGLE_SHARED_BYTES / 2,
    min_blocks_per_sm: MinBlocks::same(4),
    fuses: false,
    ..spec("tensor_64x128", entries!("tensor_64x128"), SINGLE_N)
};
const _: () = TILE_64X128.check();

/// What the host needs to launch the small tile.
pub(crate) const TILE_64X64: KernelSpec = KernelSpec {
    about: "16-bit floats on the tensor cores, small tiles and several blocks an SM, accumulated in f32",
    launch: LaunchShape::Persistent {
        threads: THREADS,
        tile: Tile { m: INSTRUCTION_M, n: SMALL_N },
        rows: GROUP_ROWS,
    },
    shared_elements: small_tile::SHARED_BYTES / 2,
    min_blocks_per_sm: MinBlocks::same(4),
    operands: tensor_maps(1, true),
    ..spec("tensor_64x64", entries!("tensor_64x64"), SMALL_N)
};
const _: () = TILE_64X64.check();

/// What the host needs to launch the narrow tile for batches.
pub(crate) const BATCH_128X128: KernelSpec = KernelSpec {
    operands: tensor_maps(1, true),
    ..spec("tensor_batch_128x128", entries!("tensor_batch_128x128"), 128)
};
const _: () = BATCH_128X128.check();

/// A kernel for batches whose products may have groups of rows.
const fn groups(id: &'static str, entries: &'static [Entry], columns: u32) -> KernelSpec {
    KernelSpec {
        about: "16-bit floats on the tensor cores, groups of rows of sizes that the device knows, accumulated in f32",
        operands: tensor_maps(1, true),
        row_groups: true,
        ..spec(id, entries, columns)
    }
}

/// What the host needs to launch the narrow tile for groups of rows.
pub(crate) const GROUPS_128X128: KernelSpec =
    groups("tensor_groups_128x128", entries!("tensor_groups_128x128"), 128);
const _: () = GROUPS_128X128.check();

/// What the host needs to launch the wide tile for groups of rows.
pub(crate) const GROUPS_128X256: KernelSpec =
    groups("tensor_groups_128x256", entries!("tensor_groups_128x256"), 256);
const _: () = GROUPS_128X256.check();

/// What the host needs to launch the wide tile.
pub(crate) const TILE_128X256: KernelSpec = spec("tensor_128x256", entries!("tensor_128x256"), 256);
const _: () = TILE_128X256.check();

/// A kernel of a wide tile with clusters of two blocks that share B.
const fn pair(id: &'static str, entries: &'static [Entry], columns: u32) -> KernelSpec {
    KernelSpec {
        about: "16-bit floats on the tensor cores, two blocks sharing B by a cluster, accumulated in f32",
        operands: tensor_maps(PAIR, false),
        fuses: false,
        ..spec(id, entries, columns)
    }
}

/// What the host needs to launch pairs of the tile between them.
pub(crate) const PAIR_128X192: KernelSpec =
    pair("tensor_pair_128x192", entries!("tensor_pair_128x192"), 192);
const _: () = PAIR_128X192.check();

/// What the host needs to launch pairs of wide tiles.
pub(crate) const PAIR_128X256: KernelSpec =
    pair("tensor_pair_128x256", entries!("tensor_pair_128x256"), 256);
const _: () = PAIR_128X256.check();

/// A kernel whose consumer warpgroups have tiles of their own.
const fn pingpong(id: &'static str, entries: &'static [Entry], tile: Tile) -> KernelSpec {
    KernelSpec {
        about: "16-bit floats on the tensor cores, one warpgroup multiplies while the other finishes",
        launch: LaunchShape::Persistent {
            threads: (1 + CONSUMERS) * THREADS,
            tile,
            rows: GROUP_ROWS,
        },
        shared_elements: (TURNS_OFFSET + 8 * CONSUMERS) / 2,
        ..spec(id, entries, tile.n)
    }
}

/// What the host needs to launch warpgroups with tiles of one instruction.
pub(crate) const PINGPONG_64X256: KernelSpec = pingpong(
    "tensor_pingpong_64x256",
    entries!("tensor_pingpong_64x256"),
    Tile { m: INSTRUCTION_M, n: 256 },
);
const _: () = PINGPONG_64X256.check();

/// What the host needs to launch warpgroups with square tiles.
pub(crate) const PINGPONG_128X128: KernelSpec = pingpong(
    "tensor_pingpong_128x128",
    entries!("tensor_pingpong_128x128"),
    Tile { m: 2 * INSTRUCTION_M, n: 128 },
);
const _: () = PINGPONG_128X128.check();

/// What the host needs to launch the narrow tile.
pub(crate) const TILE_128X128: KernelSpec = spec("tensor_128x128", entries!("tensor_128x128"), 128);
const _: () = TILE_128X128.check();

/// What the host needs to launch the tile of 160 columns. Where C has few tiles, several blocks sum ranges of
/// k of each.
pub(crate) const TILE_128X160: KernelSpec = KernelSpec {
    about: "16-bit floats on the tensor cores, ranges of k where C has few tiles, accumulated in f32",
    split_k: KSharing::Workspace { unit: BLOCK_K },
    fuses: false,
    helpers: &[PAD, sum_parts::ENTRY, sum::F16_ENTRY, sum::BF16_ENTRY],
    ..spec("tensor_128x160", entries!("tensor_128x160"), 160)
};
const _: () = TILE_128X160.check();

/// What the host needs to launch the tile between the narrow and the wide one.
pub(crate) const TILE_128X192: KernelSpec = spec("tensor_128x192", entries!("tensor_128x192"), 192);
const _: () = TILE_128X192.check();

/// A kernel of a tile whose blocks share k: `consumers` warpgroups, and `k_blocks` k-blocks in a stage.
const fn split(
    id: &'static str,
    entries: &'static [Entry],
    tile: Tile,
    (consumers, k_blocks): (u32, u32),
) -> KernelSpec {
    KernelSpec {
        about: "16-bit floats on the tensor cores, a cluster of blocks a tile that share k",
        launch: LaunchShape::Grouped {
            block: Block { x: (1 + consumers) * THREADS, y: 1 },
            tile,
            rows: GROUP_ROWS,
        },
        shared_elements: SPLIT_SHARED_BYTES / 2,
        split_k: KSharing::Cluster { unit: k_blocks * BLOCK_K },
        ..spec(id, entries, tile.n)
    }
}

/// Defines the specification of a kernel whose blocks share k.
macro_rules! split {
    ($($spec:ident: $id:literal, $m:literal x $n:literal, consumers $consumers:literal, k-blocks $k_blocks:literal;)+) => {$(
        #[doc = concat!("What the host needs to launch `", $id, "`.")]
        pub(crate) const $spec: KernelSpec =
            split($id, entries!($id), Tile { m: $m, n: $n }, ($consumers, $k_blocks));
        const _: () = $spec.check();
    )+};
}

split! {
    SPLIT_64X64: "tensor_split_64x64", 64 x 64, consumers 1, k-blocks 2;
    SPLIT_64X128: "tensor_split_64x128", 64 x 128, consumers 2, k-blocks 1;
    SPLIT_128X64: "tensor_split_128x64", 128 x 64, consumers 1, k-blocks 1;
    SPLIT_128X128: "tensor_split_128x128", 128 x 128, consumers 2, k-blocks 1;
}

#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use {multiply::EMULATED, pad::EMULATED as EMULATED_PAD, sum::EMULATED as EMULATED_SUM};
