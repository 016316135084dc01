//! `tensor_sum_*`: adds what ranges of k contribute to a product, and makes a C of 16 bits of the sums.
//!
//! Computes  C = alpha*(P_0 + P_1 + ...) + beta*C, one rounding; beta == 0 never reads C
//! Operands  k parts P of f32, of m rows at lda, one after the other, in place of A; C (m,n) ldc, f16 or
//!           bf16. There is no B
//! Launch    block (128,1,1); along x, a thread for each four neighbours of a row
//! Shared    none
//! Requires  as `sum_parts`
//! Cost      m*n additions for each part, all of whose bytes are read once
//! Bound by  the bandwidth of L2, in which the parts still are
//! Source    as `sum_parts`, which does the same for a C of f32

use gemm_spec::{Block, HelperEntry, HelperRole};

use super::number::{Bf16, F16, Number};
use super::store::Rows;
use crate::parts::entries::entry;
use crate::parts::gemm::Gemm;
use crate::sum_parts::{place_of_quad, sum_of_quad};

/// Defines the entry, and what the host needs to launch it, for each type.
macro_rules! sum_entries {
    ($($helper:ident, $role:ident: $name:ident, $number:ty;)+) => {
        $(
            entry! {
                /// # Safety
                /// 1. `a` is valid for k matrices of m rows at `lda`, `c` for m by n elements of the 16-bit type
                ///    at `ldc`; `c` overlaps no part, and nobody else writes it.
                /// 2. The launch has the block and the grid of the specification, with m, n, k >= 1.
                pub unsafe fn $name(params: GemmParams<f32>) {
                    // SAFETY: obligation 1.
                    let gemm = unsafe { Gemm::new(params) };
                    // SAFETY: the obligations are the same.
                    unsafe { sum::<$number>(&gemm) };
                }
            }

            #[doc = concat!("What the host needs to launch `", stringify!($name), "`.")]
            pub(super) const $helper: HelperEntry = HelperEntry {
                role: HelperRole::$role,
                symbol: stringify!($name),
                block: Block { x: 128, y: 1 },
                min_blocks: 8,
                shared_bytes: 0,
            };
        )+

        /// The entries as functions for the emulator.
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
        pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
            crate::parts::entries::emulated!(F32(GemmParams): $($name),+);
    };
}

sum_entries! {
    F16_ENTRY, SumRangesF16: tensor_sum_f16, F16;
    BF16_ENTRY, SumRangesBf16: tensor_sum_bf16, Bf16;
}

/// # Safety
/// The obligations of the entries.
#[inline(always)]
unsafe fn sum<N: Number>(gemm: &Gemm<f32>) {
    let (row, col) = place_of_quad(gemm);
    if row >= gemm.m {
        return;
    }
    // SAFETY: the guard, and obligation 1.
    let sum = unsafe { sum_of_quad(gemm, row, col) };
    let Gemm { n, alpha, beta, ldc, .. } = *gemm;
    let rows = Rows::<N> { c: gemm.c.cast(), ldc, n, alpha, beta };
    // SAFETY: the guard; each element of C belongs to one thread.
    unsafe { rows.store_quad(row, col, sum) };
}
