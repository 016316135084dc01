//! `naive`: a thread for each element of C, straight from global memory.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32, f64 or i32
//! Launch    block (32,32,1); grid (ceil(n/32), ceil(m/32), 1), rows beyond 65535 blocks along z
//! Shared    none
//! Requires  m, n >= 1
//! Cost      2mnk flop; two loads for each multiply-add, every input element read again and again
//! Bound by  the load path of the multiprocessor: one of A's loads serves a warp by broadcast, one of
//!           B's is a full line, and both feed a single instruction. The tiled kernels attack that.
//! Source    "Matrix Multiplication: the Hello World of parallel programming", kernel of the naive
//!           version; here for any shape, with leading dimensions, alpha and beta

use cuda_std::thread;
use gemm_spec::index::block_row;
use gemm_spec::{Arch, Block, Element, KernelSpec, LaunchShape, Tile};

use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;

const SIDE: u32 = 32;

gemm_entries! {
    ENTRIES, EMULATED = naive;
    f32 => naive_f32, f64 => naive_f64, i32 => naive_i32
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "naive",
    about: "a thread per element of C, operands from global memory",
    origin: "Hello World of parallel programming; lecture notes, multi-block version",
    arch: Arch::Sm70,
    entries: ENTRIES,
    launch: LaunchShape::Grid {
        block: Block { x: SIDE, y: SIDE },
        tile: Tile { m: SIDE, n: SIDE },
    },
    shared_elements: 0,
    min_blocks_per_sm: 2,
    max_registers: 32,
};
const _: () = SPEC.check();

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn naive<T: Element>(gemm: Gemm<T>) {
    let col = thread::block_idx_x() * SIDE + thread::thread_idx_x();
    let tile_m = block_row(thread::block_idx_y(), thread::block_idx_z(), thread::grid_dim_y());
    let row = tile_m * SIDE + thread::thread_idx_y();
    if row < gemm.m && col < gemm.n {
        // Two pointers that step along, no index: this loop is bound by what it can issue, and a
        // 64-bit multiplication for each load costs nearly half the speed.
        let mut a = gemm.a_row(row);
        let mut b = gemm.b_at(0, col);
        let mut acc = T::ZERO;
        for _ in 0..gemm.effective_k() {
            // SAFETY: at step i `a` is at (row, i) of A and `b` at (i, col) of B, both inside by
            // obligation 1 and the guard above.
            unsafe { acc = a.read().mul_add(b.read(), acc) };
            a = a.wrapping_add(1);
            b = b.wrapping_add(gemm.ldb as usize);
        }
        // SAFETY: the guard above; one thread for each element.
        unsafe { gemm.store(row, col, acc) };
    }
}
