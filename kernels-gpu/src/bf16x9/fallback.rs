//! The product of the operands themselves, for inputs that the limbs of a kernel do not represent: by six products of
//! bf16 limbs of scaled rows.
//!
//! A row of A, or a column of B, is scaled by a power of two before it is split, so numbers of any size have limbs, and
//! those of a row may be 100 binades apart. What is further apart, or not finite, is computed by chains of
//! multiply-adds, some rows of a tile at a time, as `batched_bf16x6` does it.

use cuda_std::memory::global;
use gemm_spec::batched_limbs::{self, ROWS, THREADS, TILE};
use gemm_spec::index::ceil_div;
use gemm_spec::params::{BatchedParams, FallbackParams};
use gemm_spec::split::Limbs;
use gemm_spec::{Block, HelperEntry, HelperRole};

use super::STAGES;
use super::on_load::{Lifted, multiply};
use crate::parts::entries::entry;

entry! {
    /// # Safety
    /// 1. `a`, `b` and `c` are valid for m by k, k by n and m by n elements, at their leading dimensions, A and B in
    ///    the orders that `orders` says; `c` overlaps nothing else and nobody else writes it; there are m and n
    ///    exponents; `flags` is valid.
    /// 2. The launch has the block and the shared memory of the specification, with m, n >= 1 and fewer than 2^31
    ///    tiles.
    pub unsafe fn limbs_fallback(params: FallbackParams) {
        // SAFETY: the obligations are the same.
        unsafe { fallback(params) };
    }
}

/// What the host needs to launch it.
pub(crate) const ENTRY: HelperEntry = HelperEntry {
    role: HelperRole::Fallback,
    symbol: "limbs_fallback",
    block: Block { x: THREADS, y: 1 },
    min_blocks: 1,
    shared_bytes: batched_limbs::shared_bytes(Limbs::ThreeBf16, STAGES),
};

/// # Safety
/// The obligations of the entry.
#[inline(always)]
unsafe fn fallback(params: FallbackParams) {
    let FallbackParams { m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, orders, .. } = params;
    // SAFETY: obligation 1, of the flags.
    let flags = unsafe { global(params.flags) };
    // SAFETY: obligation 1; the helpers before this launch wrote the flags.
    if unsafe { flags.read() } & params.when == 0 {
        return;
    }
    // SAFETY: obligation 1, of the m exponents.
    let a_exponents = unsafe { global(params.a_exponents) };
    // SAFETY: obligation 1, of the n exponents.
    let b_exponents = unsafe { global(params.b_exponents) };
    let product = BatchedParams {
        m,
        n,
        k,
        count: 1,
        alpha,
        a: a.cast(),
        lda,
        a_stride: 0,
        b: b.cast(),
        ldb,
        b_stride: 0,
        beta,
        c: c.cast(),
        ldc,
        c_stride: 0,
        orders,
        tile_m: TILE.m,
        tile_n: TILE.n,
        rows: ROWS,
        group: 1,
        chunk: k,
        tiles: ceil_div(m, TILE.m) * ceil_div(n, TILE.n),
    };
    // SAFETY: the obligations are the same, of the only product.
    unsafe { multiply(product, Lifted([a_exponents, b_exponents])) };
}

/// The entry as a function for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Fallback(FallbackParams): limbs_fallback);
