//! `sum_parts`: adds the parts of a split-K product, and makes C of the sum.
//!
//! Computes  C = alpha*(P_0 + P_1 + ...) + beta*C; beta == 0 never reads C
//! Operands  k parts P of m rows at lda, one after the other, in place of A; C (m,n) ldc;
//!           row-major f32. There is no B
//! Launch    block (128,1,1); along x, a thread for each four neighbours of a row
//! Shared    none
//! Requires  m, n, k >= 1; lda a multiple of four and not below n; parts that are 16-byte aligned
//! Cost      m*n additions for each part, all of whose bytes are read once
//! Bound by  the bandwidth of L2, in which the parts still are
//! Source    the second launch of split-K in CUTLASS and cuBLAS
//!
//! The parts are added in order, so that a result is reproducible bit for bit. The reads of eight
//! parts are in flight together.

use cuda_std::thread;
use gemm_spec::index::ceil_div;
use gemm_spec::{Accumulator, Block, HelperEntry, HelperRole};

use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

gemm_entries! {
    ENTRIES, EMULATED = sum_parts;
    f32 => sum_parts_f32
}

/// What the host needs to launch it.
pub(crate) const ENTRY: HelperEntry = HelperEntry {
    role: HelperRole::SumRanges,
    symbol: ENTRIES[0].symbol,
    block: Block { x: 128, y: 1 },
    min_blocks: 8,
    shared_bytes: 0,
};

/// # Safety
/// Obligations 1 and 2 of the entries, with the module's meaning of A, its requirements and its launch.
#[inline(always)]
pub(crate) unsafe fn sum_parts<T: Accumulator>(gemm: Gemm<T>) {
    let (row, col) = place_of_quad(&gemm);
    if row >= gemm.m {
        return;
    }
    // SAFETY: the guard; the obligations are the same.
    let sum = unsafe { sum_of_quad(&gemm, row, col) };
    if gemm.c_in_quads() && col + 4 <= gemm.n {
        // SAFETY: the guards; each element of C belongs to one thread.
        unsafe { gemm.store_quad(row, col, sum) };
    } else {
        unroll!(for J in 0..4 {
            if col + (J as u32) < gemm.n {
                // SAFETY: the guards; each element of C belongs to one thread.
                unsafe { gemm.store(row, col + J as u32, sum[J]) };
            }
        });
    }
}

/// The row of this thread's four neighbours, which may be below C, and the column of the first.
#[inline(always)]
pub(crate) fn place_of_quad<T: Accumulator>(gemm: &Gemm<T>) -> (u32, u32) {
    // Never zero, so that no division of it can panic.
    let quads = ceil_div(gemm.n, 4).max(1);
    let at = thread::index_1d();
    (at / quads, at % quads * 4)
}

/// The sums over all parts of four neighbours of a row.
///
/// # Safety
/// Obligations 1 and 2 of the entries, with the module's meaning of A and its requirements; `row < m`.
#[inline(always)]
pub(crate) unsafe fn sum_of_quad<T: Accumulator>(gemm: &Gemm<T>, row: u32, col: u32) -> [T; 4] {
    let apart = (u64::from(gemm.m) * gemm.lda / 4) as usize;
    let mut next = gemm.a_row(row).wrapping_add(col as usize).cast::<Quad<T>>();
    let mut sum = [T::ZERO; 4];
    let mut left = gemm.k;
    while left > 0 {
        let mut read = [[T::ZERO; 4]; 8];
        unroll!(for I in 0..8 {
            if (I as u32) < left {
                // SAFETY: four neighbours of a row of a part, aligned as the module requires.
                read[I] = unsafe { next.wrapping_add(I * apart).read() }.0;
            }
        });
        unroll!(for I in 0..8 {
            if (I as u32) < left {
                unroll!(for J in 0..4 {
                    // One rounding: that of the sum.
                    sum[J] = T::ONE.mul_add(read[I][J], sum[J]);
                });
            }
        });
        next = next.wrapping_add(8 * apart);
        left = left.saturating_sub(8);
    }
    sum
}
