//! `limbs_sum`: adds what ranges of k contribute to a product of limbs.
//!
//! Computes  C = alpha*(P_0 + P_1 + ...) + beta*C; beta == 0 never reads C; nothing where limbs could not
//!           hold the operands, which the fallback then multiplies
//! Operands  k parts P of m rows, one after the other, in place of A's limbs; C (m,n) ldc; row-major f32
//! Launch    block (128,1,1); along x, a thread for each four neighbours of a row
//! Shared    none
//! Requires  as `sum_parts`, with the pitch of a workspace of `gemm_spec::split_k`
//! Cost      m*n additions for each part, all of whose bytes are read once
//! Bound by  the bandwidth of L2, in which the parts still are
//! Source    as `sum_parts`

use cuda_std::memory::{global, global_mut};
use gemm_spec::params::LimbParams;
use gemm_spec::split_k::pitch;
use gemm_spec::{Block, HelperEntry, HelperRole};

use crate::parts::entries::entry;
use crate::parts::gemm::Gemm;
use crate::sum_parts::sum_parts;

entry! {
    /// # Safety
    /// 1. `a_limbs` is valid for k matrices of m rows of f32, n of them and what aligns them each; `c` for m by
    ///    n elements at `ldc`; `c` overlaps no part, and nobody else writes it; `flags` is valid.
    /// 2. The launch has the block and the grid of the specification, with m, n, k >= 1.
    pub unsafe fn limbs_sum(params: LimbParams) {
        // SAFETY: the obligations are the same.
        unsafe { sum(params) };
    }
}

/// What the host needs to launch it.
pub(crate) const ENTRY: HelperEntry = HelperEntry {
    role: HelperRole::SumLimbRanges,
    symbol: "limbs_sum",
    block: Block { x: 128, y: 1 },
    min_blocks: 8,
    shared_bytes: 0,
};

/// # Safety
/// The obligations of the entry.
#[inline(always)]
unsafe fn sum(params: LimbParams) {
    let LimbParams { m, n, k, alpha, a_limbs, beta, c, ldc, flags, unless, .. } = params;
    // SAFETY: obligation 1, of the flags.
    let flags = unsafe { global(flags) };
    // SAFETY: obligation 1; the helpers before this launch wrote the flags.
    if unsafe { flags.read() } & unless != 0 {
        return;
    }
    // SAFETY: obligation 1, of the parts.
    let parts = unsafe { global(a_limbs) }.cast();
    // SAFETY: obligation 1, of C.
    let c = unsafe { global_mut(c) };
    let gemm =
        Gemm { m, n, k, alpha, a: parts, lda: u64::from(pitch(n)), b: parts, ldb: 0, beta, c, ldc };
    // SAFETY: the obligations are the same.
    unsafe { sum_parts(gemm) };
}

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Limbs(LimbParams): limbs_sum);
