//! Small and thin products: tiles straight from A and B, nothing packed.
//!
//! A packed panel pays by being read again. Where a factor is read once or twice, or all of it lies
//! in the nearest cache, the copy costs more than it saves.
//!
//! The sums are the same chains as in the packed path, so which path computes an element cannot be
//! seen in its bits.

use gemm_spec::Element;

use super::kernels::Kernels;
use super::product::Product;
use super::tile::{Finish, Tile};
use crate::cpu::CpuContext;

/// Products of at most that many multiply-adds are not packed.
const SMALL: usize = 128 * 128 * 128;
/// C is thin where it has at most that many times a tile's columns, or a register's rows: each
/// element of the large factor then meets few of the other.
const THIN_PANELS: usize = 1;
/// Steps of k at a time for each row or column of a thin C, within bounds: all of C is swept before
/// the next steps, so that a large factor whose steps are lines is read line by line.
const STEPS_PER_LINE: usize = 16;
/// See [`STEPS_PER_LINE`].
const MOST_STEPS: usize = 256;

/// Whether a product takes this path: rows of A contiguous, and C small or thin.
pub(super) fn pays<T: Element<Acc = T>>(product: &Product<T>, kernels: &Kernels<T>) -> bool {
    let &Product { m, n, k, a_row, .. } = product;
    let small = m.saturating_mul(n).saturating_mul(k) <= SMALL;
    let thin = n <= THIN_PANELS * kernels.cols || m <= kernels.lanes;
    a_row == 1 && (small || thin)
}

/// Computes the product, k at least 1 and rows of A contiguous.
///
/// # Safety
/// The product's promises, see [`Product`]; the CPU has the kernels' instruction set.
pub(super) unsafe fn multiply<T: Element<Acc = T>>(
    product: &Product<T>,
    kernels: &Kernels<T>,
    context: &CpuContext,
    threads: usize,
) {
    let &Product { m, n, k, beta, b_row, c, ldc, .. } = product;
    let small = m.saturating_mul(n).saturating_mul(k) <= SMALL;
    // A thin A beside a B whose steps are contiguous: B is read as it lies, column by column.
    let along_columns = m <= kernels.lanes && b_row == 1;
    let steps = if small || along_columns {
        k
    } else {
        (m.min(n) * STEPS_PER_LINE).clamp(STEPS_PER_LINE, MOST_STEPS)
    };
    // Old values of C that are still needed cannot make room for sums.
    let apart = (beta != T::Acc::ZERO && steps < k).then(|| context.spare().take::<T>(m * n));
    let (sums, sums_ld) = match &apart {
        Some(buffer) => (buffer.as_mut_ptr(), m),
        None => (c, ldc),
    };
    let area = |rows: (usize, usize), cols: (usize, usize)| Area {
        product,
        kernels,
        steps,
        sums,
        sums_ld,
        rows,
        cols,
    };
    if threads == 1 {
        // SAFETY: the caller's promises; the area is all of C.
        unsafe { area((0, m), (0, n)).compute() };
    } else {
        let parts = (0..threads).map(|part| match m >= n {
            true => area(part_of(m, kernels.rows, part, threads), (0, n)),
            false => area((0, m), part_of(n, kernels.cols, part, threads)),
        });
        let parts: Vec<_> = parts.collect();
        context.pool().scope(move |scope| {
            for area in parts {
                // SAFETY: the caller's promises; no two parts share an element of C.
                scope.spawn(move |_| unsafe { area.compute() });
            }
        });
    }
    if let Some(buffer) = apart {
        context.spare().give_back(buffer, context.threads());
    }
}

/// One of equal parts of `whole`, in units.
fn part_of(whole: usize, unit: usize, part: usize, parts: usize) -> (usize, usize) {
    let units = whole.div_ceil(unit);
    let bound = |part: usize| (units * part / parts * unit).min(whole);
    (bound(part), bound(part + 1))
}

/// Some rows and columns of C, first and end of each.
struct Area<'a, T: Element> {
    product: &'a Product<T>,
    kernels: &'a Kernels<T>,
    steps: usize,
    sums: *mut T,
    sums_ld: usize,
    rows: (usize, usize),
    cols: (usize, usize),
}

// SAFETY: the pointers are to memory that outlives the product's threads, and each thread writes its
// own area alone.
unsafe impl<T: Element> Send for Area<'_, T> {}

impl<T: Element<Acc = T>> Area<'_, T> {
    /// # Safety
    /// As [`multiply`]; nobody else uses this area of C and of the sums.
    unsafe fn compute(&self) {
        let &Product { k, alpha, beta, a, a_col, b, b_row, b_col, c, ldc, .. } = self.product;
        let (whole_rows, whole_cols) = (self.kernels.rows, self.kernels.cols);
        for first in (0..k).step_by(self.steps) {
            let steps = self.steps.min(k - first);
            let finish = if first + steps == k { Finish::last(alpha, beta) } else { Finish::Carry };
            for col in (self.cols.0..self.cols.1).step_by(whole_cols) {
                let cols = whole_cols.min(self.cols.1 - col);
                for row in (self.rows.0..self.rows.1).step_by(whole_rows) {
                    let rows = whole_rows.min(self.rows.1 - row);
                    let sums = self.sums.wrapping_add(row + col * self.sums_ld);
                    let tile = Tile {
                        k: steps,
                        a: a.wrapping_add(row + first * a_col),
                        a_step: a_col,
                        b: b.wrapping_add(first * b_row + col * b_col),
                        b_step: b_row,
                        b_col,
                        sums,
                        sums_ld: self.sums_ld,
                        next: sums,
                        c: c.wrapping_add(row + col * ldc),
                        ldc,
                        last_rows: self.kernels.last_rows(rows),
                        resume: first > 0,
                        finish,
                    };
                    // SAFETY: rows, columns and steps that exist, of this area.
                    unsafe { self.kernels.direct(rows, cols)(&tile) };
                }
            }
        }
    }
}
