//! `naive`: a thread for each element of C, straight from global memory.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32, f64 or i32
//! Launch    block (32,32,1); grid (ceil(n/32), ceil(m/32), 1), rows beyond 65535 blocks along z
//! Shared    none
//! Requires  m, n >= 1
//! Cost      2mnk flop; two loads for each multiply-add, every input element read again and again
//! Bound by  the load path of the SM: one of A's loads serves a warp by broadcast, one of
//!           B's is a full line, and both feed a single instruction. The tiled kernels attack that.
//! Source    "Matrix Multiplication: the Hello World of parallel programming", kernel of the naive
//!           version; here for any shape, with leading dimensions, alpha and beta

use cuda_std::thread;
use gemm_spec::index::block_row;
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Tile};

use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;

const SIDE: u32 = 32;
/// k elements whose loads are in flight together.
const GROUP: usize = 8;

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
    min_blocks_per_sm: MinBlocks::same(2),
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn naive<T: Accumulator>(gemm: Gemm<T>) {
    let col = thread::block_idx_x() * SIDE + thread::thread_idx_x();
    let tile_m = block_row(thread::block_idx_y(), thread::block_idx_z(), thread::grid_dim_y());
    let row = tile_m * SIDE + thread::thread_idx_y();
    if row < gemm.m && col < gemm.n {
        // SAFETY: obligation 1; the guard puts (row, col) inside C, so the row is in A and the column in B.
        let acc = unsafe { dot(&gemm, row, col) };
        // SAFETY: (row, col) is in C, and there is one thread for each element.
        unsafe { gemm.store(row, col, acc) };
    }
}

/// Row `row` of A times column `col` of B, one chain over k in order.
///
/// # Safety
/// Obligation 1 of the entries; `row < m` and `col < n`.
#[inline(always)]
unsafe fn dot<T: Accumulator>(gemm: &Gemm<T>, row: u32, col: u32) -> T {
    // Two pointers that advance, no index: the loop is bound by issue slots, and a 64-bit
    // multiplication for each load of B costs nearly half the speed. The loads of a group of k
    // elements are issued before their FMAs, so that they are in flight together.
    let mut a = gemm.a_row(row);
    let mut b = gemm.b_at(0, col);
    let mut acc = T::ZERO;
    let mut left = gemm.effective_k();
    while left >= GROUP as u32 {
        let mut a_group = [T::ZERO; GROUP];
        let mut b_group = [T::ZERO; GROUP];
        let mut i = 0;
        while i < GROUP {
            // SAFETY: with GROUP steps left or more, each of them is inside A's row.
            let a = unsafe { a.add(i) };
            // SAFETY: as above; A can be read.
            a_group[i] = unsafe { a.read() };
            // SAFETY: the same step of B's column.
            b_group[i] = unsafe { b.read() };
            b = b.wrapping_add(gemm.ldb as usize);
            i += 1;
        }
        a = a.wrapping_add(GROUP);
        let mut i = 0;
        while i < GROUP {
            acc = a_group[i].mul_add(b_group[i], acc);
            i += 1;
        }
        left -= GROUP as u32;
    }
    while left > 0 {
        // SAFETY: at least one step of A's row is left.
        let factor = unsafe { a.read() };
        // SAFETY: and so it is of B's column.
        acc = factor.mul_add(unsafe { b.read() }, acc);
        a = a.wrapping_add(1);
        b = b.wrapping_add(gemm.ldb as usize);
        left -= 1;
    }
    acc
}
