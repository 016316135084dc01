//! `packed_panels`: blocks of A and B copied into the order in which a tile reads them.
//!
//! A tile of `micro_kernel` reads B's rows far apart: each step is on another page and, where the
//! distance is a power of two, in the same few sets of the cache. Here the part of B that a tile reads is
//! copied first, step after step, and so is a block of A. Each copy is read often: B's strip from the
//! first-level cache by all tiles of a block of rows, A's block from the second by all strips.
//!
//! The sums of a block of rows are kept as tiles from one block of k to the next: each element is one
//! chain in order. Elements of 16 bits are widened as they are copied.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication".

use gemm_spec::{Element, Problem, WideBf16, WideF16, bf16, f16};

use super::micro_kernel::{ROWS, add_steps, padded, store};
use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::Scalar;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "packed_panels",
    about: "one thread, tiles fed from copies in the order of reading",
    origin: "Goto and van de Geijn 2008",
    parallel: false,
    any_order: false,
    study: true,
    f32: gemm::<f32, 32>,
    f64: gemm::<f64, 16>,
    i32: gemm::<i32, 32>,
    i8: gemm::<i8, 32>,
    f16: gemm::<f16, 32>,
    bf16: gemm::<bf16, 32>,
    wide_f16: gemm::<WideF16, 32>,
    wide_bf16: gemm::<WideBf16, 32>,
};

/// Rows of a block of A.
pub(super) const BLOCK_ROWS: usize = 384;
/// Steps of k of a block.
const BLOCK_K: usize = 256;

fn gemm<T: Scalar, const COLS: usize>(
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T::Out],
    _: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    for row in (0..problem.m).step_by(BLOCK_ROWS) {
        let rows = BLOCK_ROWS.min(problem.m - row);
        let (a, c) = (&a[a.len().min(row * problem.a.ld)..], &mut c[row * problem.c.ld..]);
        multiply_rows::<T, COLS>(problem, a, b, c, rows);
    }
    Ok(())
}

/// The product of some rows, with which A and C begin.
pub(super) fn multiply_rows<T: Scalar, const COLS: usize>(
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T::Out],
    rows: usize,
) {
    vectorised(Rows::<T, COLS> { problem, a, b, c, rows });
}

struct Rows<'a, T: Scalar, const COLS: usize> {
    problem: &'a Problem<T>,
    a: &'a [T],
    b: &'a [T],
    c: &'a mut [T::Result],
    rows: usize,
}

impl<T: Scalar, const COLS: usize> Work for Rows<'_, T, COLS> {
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, c, rows } = self;
        let (lda, ldb, ldc) = (problem.a.ld, problem.b.ld, problem.c.ld);
        let k = problem.effective_k();
        let (down, across) = (rows.div_ceil(ROWS), problem.n.div_ceil(COLS));
        let mut sums = vec![[[T::Acc::ZERO; COLS]; ROWS]; down * across];
        let mut panels: Vec<[T::Acc; ROWS]> = Vec::new();
        let mut strip: Vec<[T::Acc; COLS]> = Vec::new();
        for first in (0..k).step_by(BLOCK_K) {
            let steps = BLOCK_K.min(k - first);
            // Panels of A: for each eight rows, one step after another.
            panels.clear();
            for row in (0..rows).step_by(ROWS) {
                let line = |i: usize| &a[(row + i) * lda + first..][..steps];
                let zeros = [T::ZERO; BLOCK_K];
                let lines: [&[T]; ROWS] =
                    std::array::from_fn(|i| if row + i < rows { line(i) } else { &zeros[..steps] });
                panels.extend((0..steps).map(|step| lines.map(|line| line[step].widen())));
            }
            for (index, sums) in sums.chunks_exact_mut(down).enumerate() {
                let col = index * COLS;
                let cols = COLS.min(problem.n - col);
                strip.clear();
                let lines = (first..first + steps).map(|step| &b[step * ldb + col..][..cols]);
                strip.extend(lines.map(padded::<T, COLS>));
                for (panel, sums) in panels.chunks_exact(steps).zip(sums) {
                    let steps = panel.iter().copied().zip(strip.iter().copied());
                    *sums = add_steps(steps, *sums);
                }
            }
        }
        for (index, acc) in sums.iter().enumerate() {
            let (row, col) = (index % down * ROWS, index / down * COLS);
            let area = (ROWS.min(rows - row), COLS.min(problem.n - col));
            store(problem, acc, &mut c[row * ldc + col..], area);
        }
    }
}
