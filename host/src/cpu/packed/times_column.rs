//! A matrix whose rows are contiguous, times one column.
//!
//! A sum must not be cut along k, so the lanes of a register are rows: pieces of as many rows are transposed in
//! registers, and each column of a piece is one step. Nothing is copied.

use gemm_spec::Element;

use super::kernels::prefetch;
use super::tile::Finish;
use super::vector::Vector;

/// Rows to multiply by a column.
pub(super) struct TimesColumn<T> {
    /// How many registers of rows.
    pub(super) registers: usize,
    /// Steps of k.
    pub(super) k: usize,
    /// Element (i, p) of A is at `a + i * a_row + p`.
    pub(super) a: *const T,
    /// See `a`.
    pub(super) a_row: usize,
    /// Steps from what is used of A to what is asked for ahead: only a hint, and none where it is zero.
    pub(super) ahead: usize,
    /// Element p of B is at `b + p * b_step`.
    pub(super) b: *const T,
    /// See `b`.
    pub(super) b_step: usize,
    /// Where the results go, one after the other.
    pub(super) c: *mut T,
    /// What becomes of the sums.
    pub(super) finish: Finish<T>,
}

/// Registers that are summed at once, each a chain of its own: one waits for the other's.
const TOGETHER: usize = 2;
/// The most lanes of any register.
const MOST_LANES: usize = 16;

/// Computes all rows.
///
/// # Safety
/// The CPU has the instruction set of `V`, and `V` can add rows. A and B can be read for all rows and steps; C
/// can be written, and read where `finish` updates it; nobody else uses it meanwhile.
#[inline(always)]
pub(super) unsafe fn multiply<V: Vector>(rows: &TimesColumn<V::Element>) {
    let (mut a, mut c, mut left) = (rows.a, rows.c, rows.registers);
    while left > 0 {
        let registers = if left >= TOGETHER { TOGETHER } else { 1 };
        // SAFETY: the caller's promises, for the rows of so many registers.
        unsafe {
            match registers {
                TOGETHER => sum_registers::<V, TOGETHER>(rows, a, c),
                _ => sum_registers::<V, 1>(rows, a, c),
            }
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
unsafe fn sum_registers<V: Vector, const REGISTERS: usize>(
    rows: &TimesColumn<V::Element>,
    mut a: *const V::Element,
    mut c: *mut V::Element,
) {
    let &TimesColumn { k, a_row, ahead, mut b, b_step, finish, .. } = rows;
    // SAFETY: the caller's promises: steps as many as are added at once, then the rest one by one; row i of
    // register r is row `r * LANES + i`.
    unsafe {
        let mut sums = [V::splat(V::Element::ZERO); REGISTERS];
        let mut left = k;
        while left >= V::ROW_STEPS {
            let mut from = a;
            for sum in &mut sums {
                if ahead != 0 {
                    let mut line = from.wrapping_add(ahead);
                    for _ in 0..V::LANES {
                        prefetch(line);
                        line = line.wrapping_add(a_row);
                    }
                }
                *sum = sum.add_rows(from, a_row, b, b_step);
                from = from.wrapping_add(V::LANES.wrapping_mul(a_row));
            }
            a = a.wrapping_add(V::ROW_STEPS);
            b = b.wrapping_add(b_step.wrapping_mul(V::ROW_STEPS));
            left = left.wrapping_sub(V::ROW_STEPS);
        }
        while left > 0 {
            let mut from = a;
            for sum in &mut sums {
                let mut column = [V::Element::ZERO; MOST_LANES];
                for element in column.iter_mut().take(V::LANES) {
                    *element = *from;
                    from = from.wrapping_add(a_row);
                }
                *sum = V::load(column.as_ptr()).mul_add(V::splat(*b), *sum);
            }
            a = a.wrapping_add(1);
            b = b.wrapping_add(b_step);
            left = left.wrapping_sub(1);
        }
        for sum in sums {
            let result = match finish {
                Finish::Carry => sum,
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

/// A sum and the products of columns and elements of B, in order.
///
/// # Safety
/// The CPU has the instruction set of `V`; an element for each column can be read, `b_step` apart.
#[inline(always)]
pub(super) unsafe fn add_columns<V: Vector, const COLUMNS: usize>(
    mut sum: V,
    columns: [V; COLUMNS],
    mut b: *const V::Element,
    b_step: usize,
) -> V {
    for column in columns {
        // SAFETY: the caller's promises.
        sum = unsafe { column.mul_add(V::splat(*b), sum) };
        b = b.wrapping_add(b_step);
    }
    sum
}
