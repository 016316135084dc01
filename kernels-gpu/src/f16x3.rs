//! `f16x3`: f32 products on the tensor cores, from three products of f16 limbs.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major; f32
//! Launch    2 to 4 helpers that split A and B and one that examines samples of C; then block (384,1,1),
//!           persistent, one an SM; where several blocks share k, one that adds their sums; then a
//!           fallback, by three limbs of bf16, that returns at once unless it is needed
//! Shared    STAGES stages of 32 KiB and their barriers: 196704 bytes
//! Requires  m, n >= 1, k >= 16, compute capability 9.0
//! Cost      6mnk flop on the tensor cores; the limbs take as much memory as the operands
//! Bound by  power: at 8192 the clock drops below its limit; at 2048 the helpers
//! Source    Ootomo and Yokota 2022 for the scheme, including accumulation outside the tensor core
//!
//! An element is split into a high and a low limb of f16 (see `gemm_spec::split`). The tensor core
//! multiplies exactly, but truncates when it adds. So it accumulates over one k-block of 32
//! elements only, the small products first; ordinary f32 additions, which round to nearest, then
//! promote the result into the total:
//!
//! ```text
//!  k-block:   low*high + high*low + high*high   on the tensor core, from zero
//!  total  =   total + that                      in f32, k/32 times
//! ```
//!
//! The kernel is warp-specialised. One producer thread loads tiles into the pipeline by bulk
//! copies; each of the two consumer warpgroups computes 64 x 128 elements of C. While one promotes
//! its accumulators, the products of the other keep the tensor cores busy.
//!
//! ```text
//!  producer   ==> [stage 0][stage 1] ... [stage 5] ==>  consumer 0: rows  0..64 of the tile
//!               full/empty barriers of each stage  ==>  consumer 1: rows 64..128
//! ```

mod device;
mod probe;

use gemm_spec::split::{BLOCK_K, Limbs, PROBE_COLUMNS};
use gemm_spec::split_k::KSharing;
use gemm_spec::{
    Arch, Entry, HelperEntry, HelperRole, KernelSpec, MinBlocks, Numerics, OperandAccess,
    ParamList, Types,
};

use crate::bf16x9::FALLBACK;
use crate::limbs::{
    HELPER_THREADS, LAUNCH, REDUCTION_BYTES, SUM, TRANSPOSE_BYTES, helper, shared_bytes,
};

/// Stages of the pipeline: as many as shared memory holds.
const STAGES: u32 = 6;
/// Bytes through which the warps of the probe add their results: two sums for each column.
const PROBE_BYTES: u32 = HELPER_THREADS / 32 * 2 * PROBE_COLUMNS * 4;

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "f16x3",
    about: "f32 from three products of f16 limbs on the tensor cores, summed in f32",
    origin: "Ootomo and Yokota 2022",
    arch: Arch::Sm90a,
    entries: &[Entry { types: Types::F32, symbol: "f16x3_f32" }],
    launch: LAUNCH,
    shared_elements: shared_bytes(Limbs::TwoF16, STAGES) / 4,
    min_blocks_per_sm: MinBlocks::same(1),
    params: ParamList::Limbs,
    operands: OperandAccess::Limbs(Limbs::TwoF16),
    split_k: KSharing::Workspace { unit: BLOCK_K },
    numerics: Numerics::Limbs { products: 3 },
    fuses: false,
    row_groups: false,
    helpers: &[
        helper(HelperRole::SplitKMajor, "f16x3_split_rows", REDUCTION_BYTES),
        helper(HelperRole::RowAmax, "f16x3_maxima", HELPER_THREADS * 16),
        helper(HelperRole::SplitMnMajor, "f16x3_split_across", TRANSPOSE_BYTES),
        // Fewer blocks than there are SMs.
        HelperEntry { min_blocks: 1, ..helper(HelperRole::Probe, "f16x3_probe", PROBE_BYTES) },
        SUM,
        FALLBACK,
    ],
};
const _: () = SPEC.check();

#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use {device::EMULATED, probe::EMULATED as EMULATED_PROBE};
