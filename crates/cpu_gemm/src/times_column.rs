//! A matrix whose rows are contiguous, times one column.
//!
//! A chain of a sum must not be cut along k, so the lanes of a register are rows: pieces of as many rows are transposed in
//! registers, and each column of a piece is one step. Nothing is copied.

use std::hint::black_box;
use std::mem::MaybeUninit;

use gemm_spec::Element;

use crate::cache_line;
use crate::prefetch::prefetch;
use crate::sum::{CHAIN, is_exact, superblock};
use crate::tile::Finish;
use crate::vector::Vector;

/// Rows to multiply by a column.
pub(crate) struct TimesColumn<T> {
    /// How many registers of rows.
    pub(crate) registers: usize,
    /// k elements.
    pub(crate) k: usize,
    /// Element (i, p) of A is at `a + i * a_row + p`.
    pub(crate) a: *const T,
    /// See `a`.
    pub(crate) a_row: usize,
    /// Steps from what is used of A to what is asked for ahead: only a hint, and none where it is zero.
    pub(crate) ahead: usize,
    /// Element p of B is at `b + p * b_step`.
    pub(crate) b: *const T,
    /// See `b`.
    pub(crate) b_step: usize,
    /// Where the results go, one after the other.
    pub(crate) c: *mut T,
    /// What becomes of the sums.
    pub(crate) finish: Finish<T>,
}

/// Registers that are summed at once, each a chain of its own: one waits for the other's.
const TOGETHER: usize = 2;

/// Computes all rows.
///
/// # Safety
/// The CPU has the instruction set of `V`, and `V` can add rows. A and B can be read for all rows and steps; C
/// can be written, and read where `finish` updates it; nobody else uses it meanwhile.
#[inline(always)]
pub(crate) unsafe fn multiply<V: Vector>(rows: &TimesColumn<V::Element>) {
    let (mut a, mut c, mut left) = (rows.a, rows.c, rows.registers);
    while left > 0 {
        let registers = if left >= TOGETHER { TOGETHER } else { 1 };
        match registers {
            // SAFETY: that many registers of rows are left.
            TOGETHER => unsafe { sum_registers::<V, TOGETHER>(rows, a, c) },
            // SAFETY: the rows of one register are left.
            _ => unsafe { sum_registers::<V, 1>(rows, a, c) },
        }
        let lines = registers.wrapping_mul(V::LANES);
        a = a.wrapping_add(lines.wrapping_mul(rows.a_row));
        c = c.wrapping_add(lines);
        left = left.wrapping_sub(registers);
    }
}

/// Computes the rows of some registers.
///
/// # Safety
/// As [`multiply`].
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "operations on registers, which need the instruction set alone, and accesses of one argument"
)]
unsafe fn sum_registers<V: Vector, const REGISTERS: usize>(
    rows: &TimesColumn<V::Element>,
    mut a: *const V::Element,
    mut c: *mut V::Element,
) {
    let &TimesColumn { k, a_row, ahead, mut b, b_step, finish, .. } = rows;
    // SAFETY: the CPU has the instruction set of `V`. Rows and steps that exist; row i of
    // register r is row `r * LANES + i`.
    unsafe {
        let mut sums = [V::splat(V::Element::ZERO); REGISTERS];
        let exact = is_exact::<V::Element>();
        let (chain, superblock) =
            (if exact { usize::MAX } else { CHAIN }, superblock::<V::Element>());
        // Sums of superblocks, and totals: in memory, since pieces of rows take all registers.
        let mut waiting = MaybeUninit::<[[V; REGISTERS]; 2]>::uninit();
        let waiting = black_box(waiting.as_mut_ptr()).cast::<V>();
        // What a chain that ends with that many steps is added to.
        let fold = |of_chain: V, r: usize, end: usize| {
            let (of_superblock, total) =
                (waiting.wrapping_add(r), waiting.wrapping_add(REGISTERS.wrapping_add(r)));
            let mut sum = of_chain;
            if !exact && end.wrapping_sub(1) % superblock >= CHAIN {
                sum = of_superblock.read().add(sum);
            }
            if !end.is_multiple_of(superblock) && end != k {
                return of_superblock.write(sum);
            }
            if !exact && end > superblock {
                sum = total.read().add(sum);
            }
            total.write(sum);
        };
        let beyond = beyond_a_line(a, a_row, V::ROW_STEPS).unwrap_or(0);
        let mut at = 0usize;
        while at < k {
            // Up to the end of a cache line, if rows can be added in such pieces: a line that is met twice may be gone
            // from the cache before the second time.
            let in_line = V::ROW_STEPS.wrapping_sub(at.wrapping_add(beyond) % V::ROW_STEPS);
            let in_chain = chain.wrapping_sub(at % chain).min(k.wrapping_sub(at));
            let whole = if in_line == V::ROW_STEPS { in_chain / V::ROW_STEPS } else { 0 };
            for _ in 0..whole {
                let mut from = a;
                for sum in &mut sums {
                    ask::<V>(from, a_row, ahead);
                    *sum = sum.add_rows(from, a_row, b, b_step);
                    from = from.wrapping_add(V::LANES.wrapping_mul(a_row));
                }
                a = a.wrapping_add(V::ROW_STEPS);
                b = b.wrapping_add(b_step.wrapping_mul(V::ROW_STEPS));
            }
            let steps = whole.wrapping_mul(V::ROW_STEPS);
            at = at.wrapping_add(steps);
            let in_chain = in_chain.wrapping_sub(steps);
            if in_chain > 0 {
                // A chain ends within a line, or a line is not whole.
                let splits = whole > 0 || in_line == V::ROW_STEPS;
                let splits = splits && k.wrapping_sub(at) >= V::ROW_STEPS;
                let steps = if splits { V::ROW_STEPS } else { in_line.min(in_chain) };
                let mut from = a;
                for (r, sum) in sums.iter_mut().enumerate() {
                    ask::<V>(from, a_row, ahead);
                    if splits {
                        let (ended, begun) = sum.add_rows_apart(from, a_row, b, b_step, in_chain);
                        fold(ended, r, at.wrapping_add(in_chain));
                        *sum = begun;
                    } else {
                        *sum = sum.add_parts_of_rows(from, a_row, b, b_step, steps);
                    }
                    from = from.wrapping_add(V::LANES.wrapping_mul(a_row));
                }
                a = a.wrapping_add(steps);
                b = b.wrapping_add(b_step.wrapping_mul(steps));
                at = at.wrapping_add(steps);
            }
            if at.is_multiple_of(chain) || at == k {
                for (r, sum) in sums.iter_mut().enumerate() {
                    fold(*sum, r, at);
                    *sum = V::splat(V::Element::ZERO);
                }
            }
        }
        for r in 0..REGISTERS {
            let sum = waiting.wrapping_add(REGISTERS.wrapping_add(r)).read();
            let result = match finish {
                Finish::Carry | Finish::Sum => sum,
                Finish::Write { alpha } => V::splat(alpha).mul(sum),
                Finish::Update { alpha, beta } => {
                    V::splat(alpha).mul_add(sum, V::splat(beta).mul(V::load(c)))
                }
            };
            result.store(c);
            c = c.wrapping_add(V::LANES);
        }
    }
}

/// Asks for what will be used of rows, where that is far.
#[inline(always)]
fn ask<V: Vector>(from: *const V::Element, a_row: usize, ahead: usize) {
    if ahead != 0 {
        let mut line = from.wrapping_add(ahead);
        for _ in 0..V::LANES {
            prefetch(line);
            line = line.wrapping_add(a_row);
        }
    }
}

/// How many steps behind a cache line the rows begin, if they can be added in pieces of whole lines, `row_steps`
/// being added at once.
#[inline(always)]
pub(crate) fn beyond_a_line<T>(a: *const T, a_row: usize, row_steps: usize) -> Option<usize> {
    let are_lines = row_steps == cache_line::elements::<T>();
    if are_lines { cache_line::beyond(a, a_row, row_steps) } else { None }
}

/// A sum and the products of columns and elements of B, in order.
///
/// # Safety
/// The CPU has the instruction set of `V`; an element for each column can be read, `b_step` apart.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn add_columns<V: Vector, const COLUMNS: usize>(
    mut sum: V,
    columns: [V; COLUMNS],
    mut b: *const V::Element,
    b_step: usize,
) -> V {
    for column in columns {
        // SAFETY: the column's element of B.
        let element = unsafe { *b };
        // SAFETY: the CPU has the instruction set of `V`.
        let factor = unsafe { V::splat(element) };
        // SAFETY: as above.
        sum = unsafe { column.mul_add(factor, sum) };
        b = b.wrapping_add(b_step);
    }
    sum
}

/// [`add_columns`], but from column `split` on into a sum of its own.
///
/// # Safety
/// As [`add_columns`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn add_columns_apart<V: Vector, const COLUMNS: usize>(
    sum: V,
    columns: [V; COLUMNS],
    mut b: *const V::Element,
    b_step: usize,
    split: usize,
) -> (V, V) {
    let (mut ended, mut sum) = (sum, sum);
    for (index, column) in columns.into_iter().enumerate() {
        if index == split {
            ended = sum;
            // SAFETY: the CPU has the instruction set of `V`.
            sum = unsafe { V::splat(V::Element::ZERO) };
        }
        // SAFETY: the column's element of B.
        let element = unsafe { *b };
        // SAFETY: the CPU has the instruction set of `V`.
        let factor = unsafe { V::splat(element) };
        // SAFETY: as above.
        sum = unsafe { column.mul_add(factor, sum) };
        b = b.wrapping_add(b_step);
    }
    (ended, sum)
}

/// [`add_columns`] of the first few columns. By itself, since counting costs.
///
/// # Safety
/// As [`add_columns`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn add_some_columns<V: Vector, const COLUMNS: usize>(
    mut sum: V,
    columns: &[V; COLUMNS],
    mut b: *const V::Element,
    b_step: usize,
    count: usize,
) -> V {
    for column in columns.iter().take(count) {
        // SAFETY: the column's element of B.
        let element = unsafe { *b };
        // SAFETY: the CPU has the instruction set of `V`.
        let factor = unsafe { V::splat(element) };
        // SAFETY: as above.
        sum = unsafe { column.mul_add(factor, sum) };
        b = b.wrapping_add(b_step);
    }
    sum
}
