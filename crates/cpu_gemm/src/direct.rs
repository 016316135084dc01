//! Small and thin products: tiles straight from A and B, nothing packed ahead.
//!
//! A packed panel pays by being read again. Where a factor is read once or twice, or all of it lies
//! in the nearest cache, the copy costs more than it saves.
//!
//! A tile needs a column of A in a register, and a chain of a sum must not be cut along k. Where rows of A lie
//! apart, as in a row-major matrix times a vector, some rows and steps at a time are transposed into a
//! panel that stays in the L1, each row being read from front to back.
//!
//! The sums have the same [order](crate::sum) as in the packed path, so which path computes an element cannot be seen in
//! its bits.

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicUsize;

use gemm_spec::GemmTypes;

use crate::buffer::Buffer;
use crate::cache_line;
use crate::context::CpuContext;
use crate::error::Error;
use crate::kernels::{Kernels, OwnSums};
use crate::pack::Pack;
use crate::product::Product;
use crate::sum::{Partials, Place, Waiting};
use crate::threads::tickets;
use crate::thresholds::{
    LEAST_TILES, MANY_REGISTERS, NARROW_STEPS, NEAR_BYTES, PANEL_BYTES, PARTS_PER_THREAD,
    ROW_BYTES_AHEAD, SINGLE_COLUMNS_AHEAD, SINGLE_STEPS, SMALL, SMALL_ALONE, SMALL_PACKED_EARLY,
    THIN_PANELS, THIN_TURNED_PANELS, TILES_AHEAD, WIDE_STEPS,
};
use crate::tile::{Finish, Prefetch, Tile};
use crate::times_column::{TimesColumn, beyond_a_line};

/// Whether a product takes this path: C small or thin.
pub(crate) fn pays<T: OwnSums>(product: &Product<T>, kernels: &Kernels<T>, threads: usize) -> bool {
    let &Product { m, n, a_row, .. } = product;
    let panels = if a_row == 1 { THIN_PANELS } else { THIN_TURNED_PANELS };
    is_small(product, kernels, threads) || n <= panels * kernels.cols || m <= kernels.lanes
}

/// Whether all operands are near, and of so little work that a copy does not pay.
///
/// A part of a large matrix is not near: its lines are a large matrix' lines apart, often a power of two.
fn is_small<T: GemmTypes>(product: &Product<T>, kernels: &Kernels<T>, threads: usize) -> bool {
    let &Product { m, n, k, a_row, a_col, b_row, b_col, ldc, .. } = product;
    let work = m.saturating_mul(n).saturating_mul(k);
    if kernels.packs_early {
        return work <= SMALL_PACKED_EARLY;
    }
    let extents = [(m, a_row, k, a_col), (k, b_row, n, b_col), (m, 1, n, ldc)];
    let extents = extents.map(|(rows, row, cols, col)| {
        let between = |count: usize, stride| count.saturating_sub(1).saturating_mul(stride);
        between(rows, row).saturating_add(between(cols, col)).saturating_add(1)
    });
    work <= SMALL || threads == 1 && extents.into_iter().all(|extent| extent <= SMALL_ALONE)
}

/// Computes the product, k at least 1.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
///
/// # Safety
/// The product's promises, see [`Product`]; the CPU has the kernels' instruction set.
pub(crate) unsafe fn multiply<T: OwnSums>(
    product: &Product<T>,
    kernels: &Kernels<T>,
    context: &CpuContext,
    threads: usize,
) -> Result<(), Error> {
    let &Product { m, n, k, a_row, a_col, beta, b_row, c, ldc, .. } = product;
    // A thin A beside a B whose steps are contiguous: B is read in place, column by column.
    let along_columns = m <= kernels.lanes && b_row == 1;
    let steps = if a_row != 1 {
        PANEL_BYTES / size_of::<T>() / kernels.rows
    } else if along_columns || is_small(product, kernels, threads) {
        k
    } else if n == 1 {
        SINGLE_STEPS
    } else if n <= kernels.cols {
        NARROW_STEPS
    } else {
        WIDE_STEPS
    };
    // Old values of C that are still needed cannot make room for partial sums.
    let waiting = Waiting::between::<T>(k, steps, false);
    let in_c = (beta == T::Acc::ZERO).then_some(Place { at: c, ld: ldc });
    let apart = waiting.count().saturating_sub(usize::from(in_c.is_some()));
    let apart = (apart > 0).then(|| context.spare().take::<T>(apart * m * n)).transpose()?;
    let memory = apart.as_ref().map_or(std::ptr::null_mut(), Buffer::as_mut_ptr);
    let sums = waiting.places(in_c, memory, (m * n, m));
    // What is small is near, and so is a thin A that all columns of B meet.
    let ahead = match n {
        _ if is_small(product, kernels, threads) || along_columns => 0,
        1 => SINGLE_COLUMNS_AHEAD.saturating_mul(a_col),
        _ => TILES_AHEAD * kernels.rows,
    };
    let whole = Area { product, kernels, steps, ahead, sums, rows: (0, m), cols: (0, n) };
    let parts = if threads == 1 { 1 } else { whole.parts(threads) };
    let next = AtomicUsize::new(0);
    context.run_on(threads, || {
        for part in tickets(&next, parts) {
            // SAFETY: the caller's promises; no two parts share an element of C.
            unsafe { whole.part(part, parts).complete() };
        }
    });
    if let Some(buffer) = apart {
        context.spare().give_back(buffer, context.threads());
    }
    Ok(())
}

/// Some rows and columns of C, first and end of each.
#[derive(Clone, Copy)]
struct Area<'a, T: GemmTypes> {
    product: &'a Product<T>,
    kernels: &'a Kernels<T>,
    steps: usize,
    ahead: usize,
    sums: Partials<T>,
    rows: (usize, usize),
    cols: (usize, usize),
}

// SAFETY: the pointers are to memory that outlives the product's threads, and each thread writes its
// own part alone.
unsafe impl<T: GemmTypes> Sync for Area<'_, T> {}

impl<T: OwnSums> Area<'_, T> {
    /// What the whole is cut along, the longer side of C, and in which units.
    fn along(&self) -> (usize, usize) {
        let &Product { m, n, .. } = self.product;
        if m >= n { (m, self.kernels.rows) } else { (n, self.kernels.cols) }
    }

    /// Into how many parts the whole is cut, some of which may be empty.
    fn parts(&self, threads: usize) -> usize {
        let (along, unit) = self.along();
        let units = along.div_ceil(unit);
        let cuts_columns_of_a = self.product.a_row == 1 && self.product.m >= self.product.n;
        let most = if cuts_columns_of_a { units / LEAST_TILES } else { units };
        (threads * PARTS_PER_THREAD).min(most).max(threads)
    }

    /// One of a number of equal parts of the whole.
    fn part(self, part: usize, parts: usize) -> Self {
        let (along, unit) = self.along();
        let bound = |part: usize| (along.div_ceil(unit) * part / parts * unit).min(along);
        let range = (bound(part), bound(part + 1));
        match self.product.m >= self.product.n {
            true => Self { rows: range, ..self },
            false => Self { cols: range, ..self },
        }
    }

    /// Computes the area and tells that it is complete.
    ///
    /// # Safety
    /// As [`Self::compute`].
    unsafe fn complete(&self) {
        // SAFETY: the caller's promises.
        unsafe { self.compute() };
        let (rows, cols) = (self.rows.0..self.rows.1, self.cols.0..self.cols.1);
        // SAFETY: the area that was just computed.
        unsafe { self.product.tell_complete(rows, cols) };
    }

    /// # Safety
    /// As [`multiply`]; nobody else uses this area of C and of the sums.
    unsafe fn compute(&self) {
        let &Product { n, k, a_row, .. } = self.product;
        if a_row == 1 {
            // All rows before the next steps: a column of A is read from front to back.
            let short = if self.begins_with_a_line() { self.rows_to_a_line() } else { 0 };
            for first in (0..k).step_by(self.steps) {
                let mut row = self.rows.0;
                while row < self.rows.1 {
                    let left = self.rows.1 - row;
                    let rows = match row - self.rows.0 < short {
                        true => short.min(left),
                        false => self.kernels.direct_rows(left, n),
                    };
                    // SAFETY: the caller's promises.
                    unsafe { self.tiles_of_rows((row, rows), first, None) };
                    row += rows;
                }
            }
        } else {
            // SAFETY: the caller's promises.
            let done = unsafe { self.rows_times_a_column() };
            // All steps before the next rows: a row of A is read from front to back.
            let mut panel = Panel([MaybeUninit::uninit(); PANEL_BYTES]);
            for row in (self.rows.0 + done..self.rows.1).step_by(self.kernels.rows) {
                for first in (0..k).step_by(self.steps) {
                    let rows = self.kernels.rows.min(self.rows.1 - row);
                    // SAFETY: the caller's promises.
                    unsafe { self.tiles_of_rows((row, rows), first, Some(&mut panel)) };
                }
            }
        }
    }

    /// Computes the rows that fill registers, where C is one column and they can be read from front to back;
    /// gives how many.
    ///
    /// # Safety
    /// As [`Self::compute`].
    unsafe fn rows_times_a_column(&self) -> usize {
        let &Product { m, n, k, alpha, beta, a, a_row, a_col, b, b_row, c, .. } = self.product;
        let bytes = size_of::<T>();
        let is_far = m.saturating_mul(k).saturating_mul(bytes) > NEAR_BYTES;
        let suits = |row_steps: usize| {
            let keep_apart = is_far || lie_in_sets_of_their_own::<T>(a_row);
            keep_apart || beyond_a_line(a, a_row, row_steps).is_some()
        };
        let multiply = match self.kernels.times_column {
            Some((multiply, row_steps)) if n == 1 && a_col == 1 && suits(row_steps) => multiply,
            _ => return 0,
        };
        let row = self.rows.0;
        let registers = (self.rows.1 - row) / self.kernels.lanes;
        let rows = TimesColumn {
            registers,
            k,
            a: a.wrapping_add(row.wrapping_mul(a_row)),
            a_row,
            ahead: if is_far { ROW_BYTES_AHEAD / bytes } else { 0 },
            b,
            b_step: b_row,
            c: c.wrapping_add(row),
            finish: Finish::last(alpha, beta),
        };
        // SAFETY: rows, steps and a column that exist, of this area.
        unsafe { multiply(&rows) };
        registers * self.kernels.lanes
    }

    /// Whether a tile more, at the beginning, is worth all others lying in whole cache lines of A: where these
    /// come from far, and are many.
    fn begins_with_a_line(&self) -> bool {
        let registers = (self.rows.1 - self.rows.0).div_ceil(self.kernels.lanes);
        self.product.n == 1 || self.ahead > 0 && registers >= MANY_REGISTERS
    }

    /// Rows up to the first that begins with a cache line of A, where it does so in all columns: a short
    /// tile of them lets all others be read by whole lines.
    fn rows_to_a_line(&self) -> usize {
        let &Product { a, a_col, .. } = self.product;
        let line = cache_line::elements::<T>();
        let beyond = cache_line::beyond(a.wrapping_add(self.rows.0), a_col, line);
        beyond.map_or(0, |beyond| (line - beyond) % line)
    }

    /// The tiles of some rows, the first and how many, over some steps, from A in place or from a panel
    /// that is packed here.
    ///
    /// # Safety
    /// As [`Self::compute`].
    unsafe fn tiles_of_rows(
        &self,
        (row, rows): (usize, usize),
        first: usize,
        panel: Option<&mut Panel>,
    ) {
        let &Product { k, alpha, beta, a, a_row, a_col, b, b_row, b_col, c, ldc, .. } =
            self.product;
        let steps = self.steps.min(k - first);
        let finish = if first + steps == k { Finish::last(alpha, beta) } else { Finish::Carry };
        let from = a.wrapping_add(row.wrapping_mul(a_row).wrapping_add(first.wrapping_mul(a_col)));
        let packed = panel.is_some();
        let a = match panel {
            None => from,
            Some(panel) => {
                let to = panel.0.as_mut_ptr().cast();
                let lines = Pack { from, along: a_row, step: a_col, lines: rows, k: steps, to };
                // SAFETY: rows and steps of A that exist; the panel has room for both.
                unsafe { (self.kernels.pack_a)(&lines) };
                to.cast_const()
            }
        };
        for col in (self.cols.0..self.cols.1).step_by(self.kernels.cols) {
            let cols = self.kernels.cols.min(self.cols.1 - col);
            let tile = Tile {
                tiles: 1,
                k: steps,
                a,
                a_step: a_col,
                // A packed panel is near.
                ahead: if packed { 0 } else { self.ahead },
                panel: std::ptr::null_mut(),
                b: b.wrapping_add(first * b_row + col * b_col),
                b_step: b_row,
                b_col,
                first,
                sums: &self.sums,
                row,
                col,
                c: c.wrapping_add(row + col * ldc),
                ldc,
                last_rows: self.kernels.last_rows(rows),
                finish,
                hint: Prefetch::NONE,
            };
            let function = match packed {
                true => self.kernels.packed(rows, cols),
                false => self.kernels.direct(rows, cols),
            };
            // SAFETY: rows, columns and steps that exist, of this area.
            unsafe { function(&tile) };
        }
    }
}

/// Whether rows so far apart do not push each other out of the L1, whose sets repeat with each
/// page: else a row's line is gone before its other half is read.
fn lie_in_sets_of_their_own<T>(a_row: usize) -> bool {
    let beyond = a_row.wrapping_mul(size_of::<T>()) % cache_line::PAGE;
    (cache_line::LINE..=cache_line::PAGE - cache_line::LINE).contains(&beyond)
}

/// Room for a packed panel of A.
#[repr(align(64))]
struct Panel([MaybeUninit<u8>; PANEL_BYTES]);
