//! `packed_panels`: blocks of A and B copied into the order in which a tile reads them.
//!
//! A tile of `micro_kernel` reads B's rows far apart: each step is on another page and, where the
//! distance is a power of two, in the same few sets of the cache. Here the part of B that a tile reads is
//! copied first, step after step, and so is a block of A. Each copy is read often: B's strip from the
//! L1 by all tiles of a block of rows, A's block from the second by all strips.
//!
//! The sums of a block of rows are kept as tiles from one block of k to the next: each element is one
//! chain in order. Elements of 16 bits are widened as they are copied.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication".

use gemm_spec::{Convert, Element, Problem};

use super::implementation::{NOTHING, Sums, forms};
use super::micro_kernel::{NARROW_COLS, ROWS, WIDE_COLS, add_steps, is_wide, padded, store};
use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "packed_panels",
    about: "one thread, tiles fed from copies in the order of reading",
    origin: "Goto and van de Geijn 2008",
    parallel: false,
    blocked: true,
    any_order: false,
    sums: Sums::Chain,
    needs: NOTHING,
    study: true,
    forms: forms!(gemm),
};

/// Rows of a block of A.
pub(super) const BLOCK_ROWS: usize = 384;
/// k elements of a block.
const BLOCK_K: usize = 256;

fn gemm<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    _: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    for row in (0..problem.m).step_by(BLOCK_ROWS) {
        let rows = BLOCK_ROWS.min(problem.m - row);
        let (a, c) = (&a[a.len().min(row * problem.a.ld)..], &mut c[row * problem.c.ld..]);
        multiply_rows(problem, a, b, c, rows);
    }
    Ok(())
}

/// The product of some rows, with which A and C begin.
pub(super) fn multiply_rows<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    rows: usize,
) {
    match is_wide::<T>() {
        false => vectorised(Rows::<T, NARROW_COLS> { problem, a, b, c, rows }),
        true => vectorised(Rows::<T, WIDE_COLS> { problem, a, b, c, rows }),
    }
}

struct Rows<'a, T: ScalarTypes, const COLS: usize> {
    problem: &'a Problem<T>,
    a: &'a [T::A],
    b: &'a [T::B],
    c: &'a mut [T::C],
    rows: usize,
}

impl<T: ScalarTypes, const COLS: usize> Work for Rows<'_, T, COLS> {
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
                let zeros = [T::A::ZERO; BLOCK_K];
                let lines: [&[T::A]; ROWS] =
                    std::array::from_fn(|i| if row + i < rows { line(i) } else { &zeros[..steps] });
                panels.extend((0..steps).map(|step| lines.map(|line| line[step].widen())));
            }
            for (index, sums) in sums.chunks_exact_mut(down).enumerate() {
                let col = index * COLS;
                let cols = COLS.min(problem.n - col);
                strip.clear();
                let lines = (first..first + steps).map(|step| &b[step * ldb + col..][..cols]);
                strip.extend(lines.map(padded::<T::B, T::Acc, COLS>));
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
