//! `rayon`: bands of rows in parallel, with the loops in an order that vectorises.
//!
//! The inner loop runs along a row of B and a row of sums, so that one instruction multiplies and
//! adds a whole vector. Each element of C is still one chain over k in order: the bits are those of
//! `serial`, whatever the number of threads.
//!
//! Columns and k are walked in blocks, so that a block of B stays in the second-level cache while
//! all rows of a band pass over it.

use gemm_spec::{Problem, epilogue};
use rayon::prelude::*;

use super::isa::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::Scalar;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "rayon",
    about: "bands of rows in parallel, inner loop along rows of B",
    origin: "Hello World of parallel programming, with today's threads",
    parallel: true,
    f32: gemm::<f32>,
    f64: gemm::<f64>,
    i32: gemm::<i32>,
};

/// Rows of a band: enough to use a block of B often while it is near.
const BAND_ROWS: usize = 64;
/// Bands for each thread at least, where there are rows enough, so that threads finish together.
const BANDS_PER_THREAD: usize = 4;
/// Columns of a block of B.
const BLOCK_COLS: usize = 512;
/// Rows of a block of B.
const BLOCK_K: usize = 256;

fn gemm<T: Scalar>(problem: &Problem<T>, a: &[T], b: &[T], c: &mut [T], context: &CpuContext) {
    if problem.n == 0 {
        return;
    }
    let fair = problem.m.div_ceil(context.threads() * BANDS_PER_THREAD);
    let rows = fair.clamp(1, BAND_ROWS);
    let used = problem.required_len(gemm_spec::Operand::C).unwrap_or(c.len());
    let bands = c[..used].par_chunks_mut(rows * problem.c.ld).enumerate();
    context.pool().install(|| {
        bands.for_each(|(index, c)| {
            let first = index * rows;
            let rows = rows.min(problem.m - first);
            vectorised(Band { problem, a: &a[first * problem.a.ld..], b, c, rows });
        });
    });
}

/// Some rows of A and C.
struct Band<'a, T> {
    problem: &'a Problem<T>,
    a: &'a [T],
    b: &'a [T],
    c: &'a mut [T],
    rows: usize,
}

impl<T: Scalar> Work for Band<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, c, rows } = self;
        let (lda, ldb, ldc) = (problem.a.ld, problem.b.ld, problem.c.ld);
        let k = problem.effective_k();
        let mut sums = vec![T::ZERO; rows * BLOCK_COLS.min(problem.n)];
        for col in (0..problem.n).step_by(BLOCK_COLS) {
            let cols = BLOCK_COLS.min(problem.n - col);
            let sums = &mut sums[..rows * cols];
            sums.fill(T::ZERO);
            for step in (0..k).step_by(BLOCK_K) {
                let steps = BLOCK_K.min(k - step);
                for (row, sums) in sums.chunks_exact_mut(cols).enumerate() {
                    let a = &a[row * lda + step..][..steps];
                    add_row(a, &b[step * ldb + col..], ldb, sums);
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

/// `sums += a * B` for one row of A and as many rows of B, four of them at a time.
#[inline(always)]
fn add_row<T: Scalar>(a: &[T], b: &[T], ldb: usize, sums: &mut [T]) {
    let cols = sums.len();
    let mut quads = a.chunks_exact(4);
    let mut row = 0;
    for quad in &mut quads {
        let b0 = &b[row * ldb..][..cols];
        let b1 = &b[(row + 1) * ldb..][..cols];
        let b2 = &b[(row + 2) * ldb..][..cols];
        let b3 = &b[(row + 3) * ldb..][..cols];
        for j in 0..cols {
            let sum = quad[0].mul_add(b0[j], sums[j]);
            let sum = quad[1].mul_add(b1[j], sum);
            let sum = quad[2].mul_add(b2[j], sum);
            sums[j] = quad[3].mul_add(b3[j], sum);
        }
        row += 4;
    }
    for &a in quads.remainder() {
        for (sum, &b) in sums.iter_mut().zip(&b[row * ldb..][..cols]) {
            *sum = a.mul_add(b, *sum);
        }
        row += 1;
    }
}
