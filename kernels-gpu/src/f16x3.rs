//! `f16x3`: f32 products on the tensor cores, from three products of f16 pieces.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major; f32
//! Launch    2 to 4 helpers that split A and B and one that looks at samples of C, then block (384,1,1), one a multiprocessor, each
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

mod device;
mod probe;

use gemm_spec::split::{
    MAXIMA_PARAMS, PROBE_COLUMNS, PROBE_PARAMS, Pieces, SPLIT_ACROSS_PARAMS, SPLIT_ROWS_PARAMS,
};
use gemm_spec::{Arch, DType, Entry, KernelSpec, MinBlocks, Scheme, SplitEntries};

use crate::pieces::{
    ACROSS_BYTES, FALLBACK, HELPER_THREADS, LAUNCH, ROWS_BYTES, helper, shared_bytes,
};

/// Stages of the ring: as many as shared memory holds.
const STAGES: u32 = 6;
/// Bytes in which the warps of the probe add what they found: two sums for each column.
const PROBE_BYTES: u32 = HELPER_THREADS / 32 * 2 * PROBE_COLUMNS * 4;

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "f16x3",
    about: "f32 from three products of f16 pieces on the tensor cores, summed in f32",
    origin: "Ootomo and Yokota 2022",
    arch: Arch::Sm90a,
    entries: &[Entry { dtype: DType::F32, symbol: "f16x3_f32" }],
    launch: LAUNCH,
    shared_elements: shared_bytes(Pieces::TwoF16, STAGES) / 4,
    min_blocks_per_sm: MinBlocks::same(1),
    scheme: Scheme::Split(SplitEntries {
        pieces: Pieces::TwoF16,
        products: 3,
        rows: helper("f16x3_split_rows", ROWS_BYTES, &SPLIT_ROWS_PARAMS),
        maxima: Some(helper("f16x3_maxima", HELPER_THREADS * 16, &MAXIMA_PARAMS)),
        across: helper("f16x3_split_across", ACROSS_BYTES, &SPLIT_ACROSS_PARAMS),
        probe: Some(helper("f16x3_probe", PROBE_BYTES, &PROBE_PARAMS)),
        fallback: FALLBACK,
    }),
};
const _: () = SPEC.check();

/// The emulator does not know the instructions of compute capability 9.0.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] = &[];
