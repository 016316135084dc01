//! `micro_kernel`: a tile of C in vector registers for the whole of k.
//!
//! The loops before this one load and store a sum for each multiply-add or few. Here the sums of a tile
//! stay in registers while k is walked: a step loads a row of B's strip and an element of A for each row
//! of the tile, and every vector loaded serves as many multiply-adds as the tile has rows.
//!
//! The tile is an array; the compiler makes registers of it. Elements of 16 bits are widened as they are
//! loaded.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).

use gemm_spec::{Accumulator, Convert, Element, Problem, epilogue};

use super::implementation::{NOTHING, Sums, forms};
use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "micro_kernel",
    about: "one thread, tiles of C in vector registers",
    origin: "Goto and van de Geijn 2008",
    parallel: false,
    blocked: true,
    any_order: false,
    sums: Sums::Chain,
    needs: NOTHING,
    study: true,
    forms: forms!(gemm),
};

/// Rows of a tile.
pub(super) const ROWS: usize = 8;
/// Columns of a tile: two registers of the widest kind, of sums of 4 bytes.
pub(super) const NARROW_COLS: usize = 32;
/// The same of sums of 8 bytes.
pub(super) const WIDE_COLS: usize = 16;

/// Whether sums are of 8 bytes.
pub(super) const fn is_wide<T: ScalarTypes>() -> bool {
    size_of::<T::Acc>() == 8
}

/// The sums of a tile.
pub(super) type Tile<Acc, const COLS: usize> = [[Acc; COLS]; ROWS];

fn gemm<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    _: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    match is_wide::<T>() {
        false => vectorised(Strips::<T, NARROW_COLS> { problem, a, b, c }),
        true => vectorised(Strips::<T, WIDE_COLS> { problem, a, b, c }),
    }
    Ok(())
}

struct Strips<'a, T: ScalarTypes, const COLS: usize> {
    problem: &'a Problem<T>,
    a: &'a [T::A],
    b: &'a [T::B],
    c: &'a mut [T::C],
}

impl<T: ScalarTypes, const COLS: usize> Work for Strips<'_, T, COLS> {
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, c } = self;
        let k = problem.effective_k();
        // A strip of B serves all rows of A before the next is begun.
        for col in (0..problem.n).step_by(COLS) {
            let cols = COLS.min(problem.n - col);
            for row in (0..problem.m).step_by(ROWS) {
                let rows = ROWS.min(problem.m - row);
                // Rows below the last repeat it, and their sums are dropped.
                let row_of_a = |i: usize| &a[(row + i.min(rows - 1)) * problem.a.ld..];
                let lines: [&[T::A]; ROWS] =
                    std::array::from_fn(|i| if k > 0 { &row_of_a(i)[..k] } else { &[] });
                let column_of_a = |step: usize| lines.map(|line| line[step].widen());
                let row_of_b = |step: usize| &b[step * problem.b.ld + col..];
                let zeros = [[T::Acc::ZERO; COLS]; ROWS];
                let acc = if cols == COLS {
                    let steps = (0..k).map(|step| {
                        (column_of_a(step), whole::<T::B, T::Acc, COLS>(row_of_b(step)))
                    });
                    add_steps(steps, zeros)
                } else {
                    let row_of_b =
                        |step: usize| padded::<T::B, T::Acc, COLS>(&row_of_b(step)[..cols]);
                    add_steps((0..k).map(|step| (column_of_a(step), row_of_b(step))), zeros)
                };
                store(problem, &acc, &mut c[row * problem.c.ld + col..], (rows, cols));
            }
        }
    }
}

/// Adds k elements to a tile's sums: of each a column of A and a row of B.
///
/// Each row of sums is a variable of its own: in an array of arrays the compiler would leave them in
/// memory.
#[inline(always)]
pub(super) fn add_steps<Acc: Accumulator, const COLS: usize>(
    steps: impl Iterator<Item = ([Acc; ROWS], [Acc; COLS])>,
    sums: Tile<Acc, COLS>,
) -> Tile<Acc, COLS> {
    let [mut s0, mut s1, mut s2, mut s3, mut s4, mut s5, mut s6, mut s7] = sums;
    for (a, b) in steps {
        s0 = add_row(a[0], &b, s0);
        s1 = add_row(a[1], &b, s1);
        s2 = add_row(a[2], &b, s2);
        s3 = add_row(a[3], &b, s3);
        s4 = add_row(a[4], &b, s4);
        s5 = add_row(a[5], &b, s5);
        s6 = add_row(a[6], &b, s6);
        s7 = add_row(a[7], &b, s7);
    }
    [s0, s1, s2, s3, s4, s5, s6, s7]
}

/// A multiply-add for each element of a row of the tile.
#[inline(always)]
fn add_row<Acc: Accumulator, const COLS: usize>(
    a: Acc,
    b: &[Acc; COLS],
    mut sums: [Acc; COLS],
) -> [Acc; COLS] {
    for (sum, &b) in sums.iter_mut().zip(b) {
        *sum = a.mul_add(b, *sum);
    }
    sums
}

/// Writes a tile's rows and columns to C, which begins with the tile's first element.
#[inline(always)]
pub(super) fn store<T: ScalarTypes, const COLS: usize>(
    problem: &Problem<T>,
    acc: &Tile<T::Acc, COLS>,
    c: &mut [T::C],
    (rows, cols): (usize, usize),
) {
    for (row, acc) in acc.iter().enumerate().take(rows) {
        for (c, &acc) in c[row * problem.c.ld..][..cols].iter_mut().zip(acc) {
            *c = epilogue(problem.alpha, acc, problem.beta, || *c);
        }
    }
}

#[inline(always)]
fn whole<T: Convert<Acc>, Acc, const COLS: usize>(line: &[T]) -> [Acc; COLS] {
    let line: &[T; COLS] =
        line.first_chunk().expect("invariant: the caller's line has a whole tile's columns");
    line.map(T::widen)
}

/// The elements of a line that is shorter than a tile, then zeros.
#[inline(always)]
pub(super) fn padded<T: Convert<Acc>, Acc: Accumulator, const N: usize>(line: &[T]) -> [Acc; N] {
    std::array::from_fn(|i| line.get(i).map_or(Acc::ZERO, |&element| element.widen()))
}
