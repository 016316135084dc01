//! `cache_blocks`: B in blocks that stay in the L2.
//!
//! `loop_order` reads all of B for each row of C; once B is larger than the caches, it comes from memory
//! each time. Here a block of B is read by all rows of A before the next block is begun. The sums of a
//! block's columns are kept from one block of k to the next, so each element is one chain in order.
//!
//! Source: Lam, Rothberg and Wolf, "The Cache Performance and Optimizations of Blocked Algorithms".

use gemm_spec::{Element, Problem, epilogue};

use super::implementation::{NOTHING, Sums, forms};
use super::loop_order::add_step;
use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "cache_blocks",
    about: "one thread, blocks of B that stay in the cache",
    origin: "Lam, Rothberg and Wolf 1991",
    parallel: false,
    blocked: true,
    any_order: false,
    sums: Sums::Chain,
    needs: NOTHING,
    study: true,
    forms: forms!(gemm),
};

/// Columns of a block of B.
const BLOCK_COLS: usize = 512;
/// Rows of a block of B: with the columns half a mebibyte of f32.
const BLOCK_K: usize = 256;

fn gemm<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    _: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    vectorised(Blocks { problem, a, b, c });
    Ok(())
}

struct Blocks<'a, T: ScalarTypes> {
    problem: &'a Problem<T>,
    a: &'a [T::A],
    b: &'a [T::B],
    c: &'a mut [T::C],
}

impl<T: ScalarTypes> Work for Blocks<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, c } = self;
        let (lda, ldb, ldc) = (problem.a.ld, problem.b.ld, problem.c.ld);
        let k = problem.effective_k();
        let mut sums = vec![T::Acc::ZERO; problem.m * BLOCK_COLS.min(problem.n)];
        for col in (0..problem.n).step_by(BLOCK_COLS) {
            let cols = BLOCK_COLS.min(problem.n - col);
            let sums = &mut sums[..problem.m * cols];
            sums.fill(T::Acc::ZERO);
            for first in (0..k).step_by(BLOCK_K) {
                for (row, sums) in sums.chunks_exact_mut(cols).enumerate() {
                    for step in first..k.min(first + BLOCK_K) {
                        add_step::<T>(a[row * lda + step], &b[step * ldb + col..][..cols], sums);
                    }
                }
            }
            for (row, sums) in sums.chunks_exact(cols).enumerate() {
                for (c, &acc) in c[row * ldc + col..][..cols].iter_mut().zip(sums) {
                    *c = epilogue(problem.alpha, acc, problem.beta, || *c);
                }
            }
        }
    }
}
