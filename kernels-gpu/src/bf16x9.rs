//! `bf16x6`, `bf16x9`: f32 products on the tensor cores for numbers of any range, from three limbs
//! of bf16.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major; f32
//! Launch    one helper each that splits A and B; then block (384,1,1), persistent, one an SM; then two
//!           helpers that find by how much rows are to be scaled and a fallback that scales them, which
//!           return at once unless they are needed
//! Shared    STAGES stages of 48 KiB and their barriers: 196672 bytes
//! Requires  m, n >= 1, k >= 16, compute capability 9.0
//! Cost      12mnk or 18mnk flop on the tensor cores; the limbs take one and a half times the memory of
//!           the operands
//! Bound by  power, as `f16x3`
//! Source    Henry, Tang and Heinecke 2019 for three limbs of bf16
//!
//! bf16 has the exponent range of f32 and eight of its significand bits, so three numbers of bf16
//! represent one of f32 without any scaling, however far apart the elements of a row are:
//!
//! ```text
//!   a = a0 + a1 + a2      8 bits each          A B = sum of a_i b_j
//!
//!          b0   b1   b2                        bf16x9: all nine, the exact product of two elements
//!   a0     1    2^-8 2^-16                     bf16x6: without the three (x) that are each smaller
//!   a1    2^-8  2^-16 x                                than half an ulp of f32
//!   a2    2^-16  x    x
//! ```
//!
//! Accumulation is that of `f16x3`: one k-block of 32 elements on the tensor core, small products
//! first, then promoted to the total in f32.

pub(crate) mod device;
mod exponents;
mod fallback;
pub(crate) mod on_load;

use gemm_spec::split::{BLOCK_K, Limbs};
use gemm_spec::split_k::KSharing;
use gemm_spec::{
    Arch, Entry, HelperEntry, HelperRole, KernelSpec, MinBlocks, Numerics, OperandAccess,
    ParamList, Types,
};

pub(crate) use self::fallback::ENTRY as FALLBACK;
use crate::limbs::{LAUNCH, REDUCTION_BYTES, SUM, TRANSPOSE_BYTES, helper, shared_bytes};

/// Stages of the pipeline: as many as shared memory holds.
pub(crate) const STAGES: u32 = 4;

const HELPERS: &[HelperEntry] = &[
    helper(HelperRole::SplitKMajor, "bf16x9_split_rows", REDUCTION_BYTES),
    helper(HelperRole::SplitMnMajor, "bf16x9_split_across", TRANSPOSE_BYTES),
    SUM,
    exponents::ENTRY,
    FALLBACK,
];

const fn spec(
    id: &'static str,
    about: &'static str,
    entries: &'static [Entry],
    products: u32,
) -> KernelSpec {
    KernelSpec {
        id,
        about,
        origin: "Henry, Tang and Heinecke 2019",
        arch: Arch::Sm90a,
        entries,
        launch: LAUNCH,
        shared_elements: shared_bytes(Limbs::ThreeBf16, STAGES) / 4,
        min_blocks_per_sm: MinBlocks::same(1),
        params: ParamList::Limbs,
        operands: OperandAccess::Limbs(Limbs::ThreeBf16),
        split_k: KSharing::Workspace { unit: BLOCK_K },
        numerics: Numerics::Limbs { products },
        fuses: false,
        row_groups: false,
        helpers: HELPERS,
    }
}

/// What the host needs to launch the one with six products.
pub(crate) const SIX: KernelSpec = spec(
    "bf16x6",
    "f32 of any range from six products of bf16 limbs on the tensor cores, summed in f32",
    &[Entry { types: Types::F32, symbol: "bf16x6_f32" }],
    6,
);
const _: () = SIX.check();

/// What the host needs to launch the one with all nine.
pub(crate) const NINE: KernelSpec = spec(
    "bf16x9",
    "f32 of any range from all nine products of bf16 limbs on the tensor cores, summed in f32",
    &[Entry { types: Types::F32, symbol: "bf16x9_f32" }],
    9,
);
const _: () = NINE.check();

#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use {
    device::EMULATED, exponents::EMULATED as EMULATED_EXPONENTS,
    fallback::EMULATED as EMULATED_FALLBACK,
};
