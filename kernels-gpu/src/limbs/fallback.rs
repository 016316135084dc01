//! The product of the operands themselves, for inputs that limbs cannot represent.

use cuda_std::memory::{global, global_mut};
use gemm_spec::params::FallbackParams;
use gemm_spec::scheduler::{Persistent, TileScheduler, WorkTile};

use super::GROUP_ROWS;
use crate::parts::cta::this_cta;
use crate::parts::entries::entry;
use crate::parts::gemm::Gemm;
use crate::parts::outer_tile::{Neighbours, SIDE, outer_tile};

entry! {
    /// # Safety
    /// 1. `a`, `b` and `c` are valid for m by k, k by n and m by n elements, with strides `a_row` and
    ///    `a_step`, `b_step` and `b_col`, and rows of `ldc`; `c` overlaps nothing else and nobody else
    ///    writes it; `flags` is valid.
    /// 2. The launch has blocks of 16 x 16 threads and the shared memory of the kernel's spec, with
    ///    m, n >= 1 and fewer than 2^31 tiles.
    pub unsafe fn pieces_fallback(params: FallbackParams) {
        // SAFETY: the obligations are the same.
        unsafe { fallback(params) };
    }
}

/// # Safety
/// The obligations of the entry.
#[inline(always)]
unsafe fn fallback(params: FallbackParams) {
    let FallbackParams { m, n, k, alpha, a, a_row, a_step, b, b_step, b_col, .. } = params;
    let FallbackParams { beta, c, ldc, flags, when, .. } = params;
    // SAFETY: obligation 1, of A.
    let a = unsafe { global(a) };
    // SAFETY: obligation 1, of B.
    let b = unsafe { global(b) };
    // SAFETY: obligation 1, of C.
    let c = unsafe { global_mut(c) };
    // SAFETY: obligation 1, of the flags.
    let flags = unsafe { global(flags) };
    // SAFETY: obligation 1; the helpers before this launch wrote the flags.
    if unsafe { flags.read() } & when == 0 {
        return;
    }
    let gemm = Gemm { m, n, k, alpha, a, lda: a_row, b, ldb: b_step, beta, c, ldc };
    let extent = gemm.extent((SIDE as u32, SIDE as u32));
    let mut tiles = Persistent::new(this_cta(), extent, GROUP_ROWS);
    while tiles.has_work() {
        let WorkTile { row, col, .. } = tiles.tile();
        // SAFETY: obligations 1 and 2; each tile belongs to one block and ends with a barrier.
        unsafe { outer_tile(gemm, Neighbours { a_step, b_col }, (row, col)) };
        tiles.advance();
    }
}

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Fallback(FallbackParams): pieces_fallback);
