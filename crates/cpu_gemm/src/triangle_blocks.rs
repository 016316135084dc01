//! A triangle of some blocks of rows and many right-hand sides: for each block what lies beside its square adds up in one
//! product, then comes the square.
//!
//! ```text
//!   solve      X(i) = A(i, i)^-1 * (alpha * B(i) - A(i, solved) * X(solved))
//!   multiply   B(i) = alpha * A(i, i) * B(i) + alpha * A(i, later) * B(later)
//! ```
//!
//! A is packed once. Some right-hand sides go through all blocks before the next ones do, so they stay in the cache, where
//! products read them: in place where a right-hand side is contiguous and its numbers are real.

use std::mem::MaybeUninit;
use std::ops::Range;

use gemm_spec::Order;

use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Factor, Field};
use crate::gemm_views::{gemm_views, scale};
use crate::kernels::{Kernels, OwnSums};
use crate::pack::Pack;
use crate::sum::Partials;
use crate::tile::{Finish, Prefetch, Tile};
use crate::triangle::{
    self, COPY, PanelKernel, TriangleKernel, copy_triangle, parts_of, parts_of_copy,
};
use crate::triangle_kernel::{BLOCK, Task};
use crate::view::ViewMut;

/// Real numbers of right-hand sides from which on A is packed.
const PACKED_COLUMNS: usize = 160;

/// Real numbers of right-hand sides that go through all blocks together.
const TOGETHER: usize = 64;

/// [`triangle()`](crate::triangle()), the sizes being right, with the kernels for an A and a B that are conjugated or not.
pub(crate) fn compute<R: TriangleKernel + OwnSums, T: Field<Real = R>>(
    kernels: impl Fn(bool, bool) -> &'static Kernels<R>,
    task: Task,
    mut alpha: T,
    a: Factor<'_, T>,
    mut b: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (n, cols) = (b.rows(), b.cols());
    if n <= BLOCK {
        return triangle::compute::<R, T>(task, alpha, a, b, context);
    }
    if alpha != T::from_re(alpha.re()) {
        // Tiles know real factors alone.
        scale(alpha, &mut b);
        alpha = T::ONE;
    }
    if parts_of::<T>() * cols >= PACKED_COLUMNS {
        let kernels = match b.layout().order {
            Order::ColMajor => kernels(a.conjugated, false),
            Order::RowMajor => kernels(false, a.conjugated),
        };
        if packed(kernels, task, alpha, a, b.reborrow(), context).is_ok() {
            return;
        }
    }
    // The same with products that pack what they need.
    for Block { rows, others } in blocks(task, n) {
        let square = a.part(rows.clone(), rows.clone());
        let beside = a.part(rows.clone(), others.clone());
        let (before, behind) = b.reborrow().split_rows(rows.start);
        let (mut block, behind) = behind.split_rows(rows.len());
        let others = Factor::plain(if task.upper { behind.as_view() } else { before.as_view() });
        let multiply = |alpha, beta, block: ViewMut<'_, T>| {
            gemm_views(alpha, beside, others, beta, block, context)
                .expect("invariant: parts of a triangle fit");
        };
        let steps = Steps::of(task, alpha, others.view.rows() > 0);
        if let (true, Some((alpha, beta))) = (task.solve, steps.product) {
            multiply(alpha, beta, block.reborrow());
        }
        triangle::compute::<R, T>(task, steps.of_square, square, block.reborrow(), context);
        if let (false, Some((alpha, beta))) = (task.solve, steps.product) {
            multiply(alpha, beta, block);
        }
    }
}

/// Rows of a block, and of the right-hand sides that its product adds up: those that are solved, or not yet multiplied.
struct Block {
    rows: Range<usize>,
    others: Range<usize>,
}

/// The blocks of a triangle of `n` rows, in the order in which they are computed.
fn blocks(task: Task, n: usize) -> impl Iterator<Item = Block> {
    let count = n.div_ceil(BLOCK);
    (0..count).map(move |turn| {
        let block = if task.solve == task.upper { count - 1 - turn } else { turn };
        let rows = block * BLOCK..n.min((block + 1) * BLOCK);
        let others = if task.upper { rows.end..n } else { 0..rows.start };
        Block { rows, others }
    })
}

/// The factors of a block's square, and alpha and beta of its product, if there is one.
struct Steps<T> {
    of_square: T,
    product: Option<(T, T)>,
}

impl<T: Field> Steps<T> {
    fn of(task: Task, alpha: T, has_others: bool) -> Self {
        let product = if task.solve { (-T::ONE, alpha) } else { (alpha, T::ONE) };
        let of_square = if task.solve && has_others { T::ONE } else { alpha };
        Self { of_square, product: has_others.then_some(product) }
    }
}

/// [`compute`] with a packed A, on the caller's thread, alpha being real.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
fn packed<R: TriangleKernel + OwnSums, T: Field<Real = R>>(
    kernels: &Kernels<R>,
    task: Task,
    alpha: T,
    a: Factor<'_, T>,
    mut b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (n, cols, parts) = (b.rows(), b.cols(), parts_of::<T>());
    let squares = PanelKernel::<R>::of::<T>(cols.min(TOGETHER / parts), context.isa());
    let by_columns = b.layout().order == Order::ColMajor;
    // Whole tiles of right-hand sides.
    let unit = if by_columns { kernels.cols } else { kernels.rows / parts };
    let width = (TOGETHER / parts / unit).max(1) * unit;
    let (a_row, a_col) = a.view.strides();
    // Rows of A are those of tiles, or their columns.
    let (pack, lines, along, panel) = match by_columns {
        true => (kernels.pack_a, parts, a_row, kernels.rows),
        false => (kernels.pack_b, 1, parts * a_row, kernels.cols),
    };
    let of_a_block = (lines * BLOCK).next_multiple_of(panel) * parts * n;
    let of_a = of_a_block * n.div_ceil(BLOCK);
    let of_sides = (parts * width).next_multiple_of(kernels.rows.max(kernels.cols)) * parts * n;
    let of_squares = parts * COPY * n.div_ceil(BLOCK);
    let buffer = context.spare().take::<R>(of_squares + of_a + of_sides)?;
    let copies = buffer.as_mut_ptr::<R>();
    let panels = copies.wrapping_add(of_squares);
    let sides = panels.wrapping_add(of_a);
    for (at, Block { rows, others }) in blocks(task, n).enumerate() {
        let square = copies.wrapping_add(at * parts * COPY).cast::<[MaybeUninit<T>; COPY]>();
        // SAFETY: room for a copy in the buffer, which nobody else has; a number is its parts.
        let square = unsafe { &mut *square };
        copy_triangle(task, a.part(rows.clone(), rows.clone()), square);
        let first = parts * (rows.start * a_row + others.start * a_col);
        let from = a.view.as_ptr().cast::<R>().wrapping_add(first);
        let (to, k) = (panels.wrapping_add(at * of_a_block), parts * others.len());
        let lines = lines * rows.len();
        // SAFETY: elements of A beside the square, and room for their panels; the CPU has the context's instruction set.
        unsafe { pack(&Pack { from, along, step: a_col, lines, k, to }) };
    }
    let (b_row, b_col) = b.as_view().strides();
    let at = b.as_mut_ptr().cast::<R>();
    for first in (0..cols).step_by(width) {
        let group = first..cols.min(first + width);
        let sides = Sides {
            kernels,
            parts,
            by_columns,
            at: at.wrapping_add(parts * first * b_col),
            b_row,
            b_col,
            cols: group.len(),
            n,
            panels: sides,
        };
        if !task.solve {
            // SAFETY: right-hand sides, and room for their panels.
            unsafe { sides.pack(0..n) };
        }
        for (turn, Block { rows, others }) in blocks(task, n).enumerate() {
            let a = panels.wrapping_add(turn * of_a_block).cast_const();
            let steps = Steps::of(task, alpha, !others.is_empty());
            let multiply = || {
                if let Some((alpha, beta)) = steps.product {
                    let finish = Finish::last(alpha.re(), beta.re());
                    // SAFETY: A was packed above, as what the product reads of the right-hand sides is.
                    unsafe { sides.multiply(a, &rows, &others, finish) };
                }
            };
            if task.solve {
                multiply();
            }
            let copy = copies.wrapping_add(turn * parts * COPY).cast_const().cast::<T>();
            for first in group.clone().step_by(squares.width) {
                let some = first..group.end.min(first + squares.width);
                let block = b.reborrow().part(rows.clone(), some);
                let copy = (parts_of_copy(copy), false);
                // SAFETY: a copy of the square's triangle; the context's instruction set is one that this CPU has.
                unsafe { squares.compute(task, steps.of_square, copy, block) };
            }
            match task.solve {
                // SAFETY: as above.
                true => unsafe { sides.pack(rows) },
                false => multiply(),
            }
        }
    }
    context.spare().give_back(buffer, context.threads());
    Ok(())
}

/// Some right-hand sides.
struct Sides<'a, R: OwnSums> {
    kernels: &'a Kernels<R>,
    /// Real numbers of an element.
    parts: usize,
    /// Whether a right-hand side is contiguous, and so a column of tiles; else a row.
    by_columns: bool,
    /// The parts of element (i, j) are at `at + parts * (i * b_row + j * b_col)`.
    at: *mut R,
    /// See `at`.
    b_row: usize,
    /// See `at`.
    b_col: usize,
    cols: usize,
    /// Rows.
    n: usize,
    /// Where they are packed, unless they are read in place.
    panels: *mut R,
}

impl<R: OwnSums> Sides<'_, R> {
    /// Whether tiles read right-hand sides where they lie.
    fn in_place(&self) -> bool {
        self.by_columns && self.parts == 1
    }

    /// Packs those rows of them, unless they are read in place.
    ///
    /// # Safety
    /// They can be read, and the panels written.
    unsafe fn pack(&self, rows: Range<usize>) {
        let &Self { kernels, parts, at, b_row, b_col, cols, n, panels, .. } = self;
        if self.in_place() {
            return;
        }
        let (pack, lines, along, width) = match self.by_columns {
            true => (kernels.pack_b, cols, parts * b_col, kernels.cols),
            false => (kernels.pack_a, parts * cols, b_col, kernels.rows),
        };
        let first_step = parts * rows.start;
        for first in (0..lines).step_by(width) {
            let from = at.wrapping_add(first_step * b_row + first * along).cast_const();
            let to = panels.wrapping_add(first * parts * n + first_step * width);
            let (lines, k) = (width.min(lines - first), parts * rows.len());
            // SAFETY: the caller's promises.
            unsafe { pack(&Pack { from, along, step: b_row, lines, k, to }) };
        }
    }

    /// What becomes of some rows by their product with others.
    ///
    /// # Safety
    /// `a` is the packed part of A for these rows and those others, which are packed unless they are read in place; nobody
    /// else uses the right-hand sides.
    unsafe fn multiply(
        &self,
        a: *const R,
        rows: &Range<usize>,
        others: &Range<usize>,
        finish: Finish<R>,
    ) {
        let &Self { kernels, parts, by_columns, at, b_row, b_col, cols, n, panels } = self;
        let (mr, nr, k) = (kernels.rows, kernels.cols, parts * others.len());
        // The rows and columns of what tiles compute.
        let (m, n_of_c, ldc) = match by_columns {
            true => (parts * rows.len(), cols, parts * b_col),
            false => (parts * cols, rows.len(), parts * b_row),
        };
        let c = at.wrapping_add(parts * rows.start * b_row);
        // Where the others begin in a panel of right-hand sides of that width.
        let packed = |line: usize, width: usize| {
            let before = line * parts * n + parts * others.start * width;
            panels.wrapping_add(before).cast_const()
        };
        for col in (0..n_of_c).step_by(nr) {
            let tile_cols = nr.min(n_of_c - col);
            let (b, b_step, b_col) = match (self.in_place(), by_columns) {
                (true, _) => (at.wrapping_add(others.start + col * ldc).cast_const(), 1, ldc),
                (false, true) => (packed(col, nr), nr, 1),
                (false, false) => (a.wrapping_add(col * k), nr, 1),
            };
            let mut row = 0;
            while row < m {
                let (tiles, tile_rows) = match (m - row) / mr {
                    0 => (1, m - row),
                    whole => (if by_columns { whole } else { 1 }, mr),
                };
                let a = if by_columns { a.wrapping_add(row * k) } else { packed(row, mr) };
                let tile = Tile {
                    tiles,
                    k,
                    a,
                    a_step: mr,
                    ahead: 0,
                    panel: std::ptr::null_mut(),
                    b,
                    b_step,
                    b_col,
                    first: 0,
                    sums: &Partials::NONE,
                    row: 0,
                    col: 0,
                    c: c.wrapping_add(row + col * ldc),
                    ldc,
                    last_rows: kernels.last_rows(tile_rows),
                    finish,
                    hint: Prefetch::NONE,
                };
                // SAFETY: the caller's promises: rows, columns and steps that exist.
                unsafe { kernels.packed(tile_rows, tile_cols)(&tile) };
                row += tiles * tile_rows;
            }
        }
    }
}
