//! `rayon`: bands of rows in parallel, with the loops in an order that vectorises.
//!
//! The inner loop runs along a row of B and a row of sums, so that one instruction multiplies and
//! adds a whole vector. Each element of C is still one chain over k in order: the bits are those of
//! `serial`, whatever the number of threads.
//!
//! Columns and k are walked in blocks, so that a block of B stays in the L2 while
//! all rows of a band pass over it.

use gemm_spec::{Element, Problem, epilogue};
use rayon::prelude::*;

use super::implementation::{NOTHING, Sums, forms};
use super::loop_order::add_step;
use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "rayon",
    about: "bands of rows in parallel, inner loop along rows of B",
    origin: "Hello World of parallel programming, with today's threads",
    parallel: true,
    blocked: true,
    any_order: false,
    sums: Sums::Chain,
    needs: NOTHING,
    study: false,
    forms: forms!(gemm),
};

/// Rows of a band: enough to use a block of B often while it is near.
const BAND_ROWS: usize = 64;
/// Bands for each thread at least, where there are rows enough, so that threads finish together.
const BANDS_PER_THREAD: usize = 4;
/// Columns of a block of B.
const BLOCK_COLS: usize = 512;
/// Rows of a block of B.
const BLOCK_K: usize = 256;
fn gemm<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    if problem.n == 0 {
        return Ok(());
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
    Ok(())
}

/// Some rows of A and C.
struct Band<'a, T: ScalarTypes> {
    problem: &'a Problem<T>,
    a: &'a [T::A],
    b: &'a [T::B],
    c: &'a mut [T::C],
    rows: usize,
}

impl<T: ScalarTypes> Work for Band<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, c, rows } = self;
        let (lda, ldb, ldc) = (problem.a.ld, problem.b.ld, problem.c.ld);
        let k = problem.effective_k();
        let mut sums = vec![T::Acc::ZERO; rows * BLOCK_COLS.min(problem.n)];
        for col in (0..problem.n).step_by(BLOCK_COLS) {
            let cols = BLOCK_COLS.min(problem.n - col);
            let sums = &mut sums[..rows * cols];
            sums.fill(T::Acc::ZERO);
            for step in (0..k).step_by(BLOCK_K) {
                let steps = BLOCK_K.min(k - step);
                let b = &b[step * ldb + col..];
                let row_of_a = |row: usize| &a[row * lda + step..][..steps];
                let mut groups = sums.chunks_exact_mut(4 * cols);
                let mut row = 0;
                for group in &mut groups {
                    let rows = [0, 1, 2, 3].map(|i| row_of_a(row + i));
                    add_four_rows::<T>(rows, b, ldb, group, cols);
                    row += 4;
                }
                for sums in groups.into_remainder().chunks_exact_mut(cols) {
                    for (step, &factor) in row_of_a(row).iter().enumerate() {
                        add_step::<T>(factor, &b[step * ldb..][..cols], sums);
                    }
                    row += 1;
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

/// `sums += A * B` for four rows of A and as many rows of B, four at a time: each vector of B that is
/// loaded serves four rows, each vector of sums four k elements.
#[inline(always)]
fn add_four_rows<T: ScalarTypes>(
    a: [&[T::A]; 4],
    b: &[T::B],
    ldb: usize,
    sums: &mut [T::Acc],
    cols: usize,
) {
    let k = a[0].len();
    let (s0, sums) = sums.split_at_mut(cols);
    let (s1, sums) = sums.split_at_mut(cols);
    let (s2, s3) = sums.split_at_mut(cols);
    let mut step = 0;
    while step + 4 <= k {
        let [f0, f1, f2, f3] = a.map(|a| [a[step], a[step + 1], a[step + 2], a[step + 3]]);
        let [b0, b1, b2, b3] = [0, 1, 2, 3].map(|i| &b[(step + i) * ldb..][..cols]);
        add_four_steps::<T>(f0, f1, f2, f3, b0, b1, b2, b3, s0, s1, s2, s3);
        step += 4;
    }
    for step in step..k {
        let b = &b[step * ldb..][..cols];
        add_step::<T>(a[0][step], b, s0);
        add_step::<T>(a[1][step], b, s1);
        add_step::<T>(a[2][step], b, s2);
        add_step::<T>(a[3][step], b, s3);
    }
}

/// Sixteen multiply-adds for each column. A function of its own, so that its parameters tell the
/// compiler that no slice overlaps another.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "separate slices are what makes it vectorise")]
fn add_four_steps<T: ScalarTypes>(
    f0: [T::A; 4],
    f1: [T::A; 4],
    f2: [T::A; 4],
    f3: [T::A; 4],
    b0: &[T::B],
    b1: &[T::B],
    b2: &[T::B],
    b3: &[T::B],
    s0: &mut [T::Acc],
    s1: &mut [T::Acc],
    s2: &mut [T::Acc],
    s3: &mut [T::Acc],
) {
    let cols = s0.len();
    let (b0, b1, b2, b3) = (&b0[..cols], &b1[..cols], &b2[..cols], &b3[..cols]);
    let (s1, s2, s3) = (&mut s1[..cols], &mut s2[..cols], &mut s3[..cols]);
    let chain = |f: [T::A; 4], b: [T::B; 4], sum: T::Acc| {
        let sum = T::mul_add(f[1], b[1], T::mul_add(f[0], b[0], sum));
        T::mul_add(f[3], b[3], T::mul_add(f[2], b[2], sum))
    };
    for j in 0..cols {
        let b = [b0[j], b1[j], b2[j], b3[j]];
        s0[j] = chain(f0, b, s0[j]);
        s1[j] = chain(f1, b, s1[j]);
        s2[j] = chain(f2, b, s2[j]);
        s3[j] = chain(f3, b, s3[j]);
    }
}
