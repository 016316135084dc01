//! `single_block`: one block whose threads are the elements of C.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32, f64 or i32
//! Launch    block (n,m,1); grid (1,1,1)
//! Shared    none
//! Requires  m, n >= 1 and m*n <= 1024: a block has no more threads, so C has no more elements
//! Cost      2mnk flop on one SM of many
//! Bound by  its one block; `naive` lifts the limit with a grid of them
//! Source    the lecture notes' first kernel, which indexes by thread alone

use cuda_std::thread;
use gemm_spec::{Accumulator, Arch, KernelSpec, LaunchShape, MinBlocks};

use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;

gemm_entries! {
    ENTRIES, EMULATED = single_block;
    f32 => single_block_f32, f64 => single_block_f64, i32 => single_block_i32
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "single_block",
    about: "one block, thread index only; C has at most 1024 elements",
    origin: "lecture notes, first kernel",
    arch: Arch::Sm70,
    entries: ENTRIES,
    launch: LaunchShape::SingleBlock,
    shared_elements: 0,
    min_blocks_per_sm: MinBlocks::same(1),
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn single_block<T: Accumulator>(gemm: Gemm<T>) {
    let (row, col) = (thread::thread_idx_y(), thread::thread_idx_x());
    if row >= gemm.m || col >= gemm.n {
        return;
    }

    let mut acc = T::ZERO;
    for step in 0..gemm.effective_k() {
        // SAFETY: (row, step) is in A, by obligation 1 and the guard above.
        let a = unsafe { gemm.a_row(row).wrapping_add(step as usize).read() };
        // SAFETY: (step, col) is in B, by the same.
        let b = unsafe { gemm.b_at(step, col).read() };
        acc = a.mul_add(b, acc);
    }

    // SAFETY: the guard above; one thread for each element.
    unsafe { gemm.store(row, col, acc) };
}
