//! A triangle of some blocks of rows and many right-hand sides: for each block what lies beside its square adds up in one
//! product, then comes the square.
//!
//! ```text
//!   solve      X(i) = A(i, i)^-1 * (alpha * B(i) - A(i, solved) * X(solved))
//!   multiply   B(i) = alpha * A(i, i) * B(i) + alpha * A(i, later) * B(later)
//! ```
//!
//! A is packed once. As many right-hand sides as a panel of the squares' kernel holds go through all blocks before the next
//! ones do, so they stay in the cache, where products read them: in place where a right-hand side is contiguous.

use std::mem::MaybeUninit;
use std::ops::Range;

use gemm_spec::Order;

use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Factor, Field};
use crate::gemm_views::gemm_views;
use crate::kernels::{Kernels, OwnSums};
use crate::pack::Pack;
use crate::sum::Partials;
use crate::tile::{Finish, Prefetch, Tile};
use crate::triangle::{self, COPY, PanelKernel, TriangleKernel, copy_triangle, parts_of_copy};
use crate::triangle_kernel::{BLOCK, Task};
use crate::types::CpuTypes;
use crate::view::ViewMut;

/// Right-hand sides from which on A is packed.
const PACKED_COLUMNS: usize = 160;

/// [`triangle()`](crate::triangle()) of real numbers, the sizes being right.
pub(crate) fn compute<T: TriangleKernel + CpuTypes + OwnSums + Field<Real = T>>(
    task: Task,
    alpha: T,
    a: Factor<'_, T>,
    mut b: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (n, cols) = (b.rows(), b.cols());
    if n <= BLOCK {
        return triangle::compute::<T, T>(task, alpha, a, b, context);
    }
    if cols >= PACKED_COLUMNS && packed(task, alpha, a, b.reborrow(), context).is_ok() {
        return;
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
        triangle::compute::<T, T>(task, steps.of_square, square, block.reborrow(), context);
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

/// [`compute`] with a packed A, on the caller's thread.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
fn packed<T: TriangleKernel + CpuTypes + OwnSums + Field<Real = T>>(
    task: Task,
    alpha: T,
    a: Factor<'_, T>,
    mut b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (n, cols) = (b.rows(), b.cols());
    let kernels = T::kernels(context.isa());
    let squares = PanelKernel::<T>::of::<T>(cols, context.isa());
    // Whole tiles of them.
    let in_place = b.layout().order == Order::ColMajor;
    let unit = if in_place { kernels.cols } else { kernels.rows };
    let width = (squares.width / unit * unit).max(unit).min(squares.width);
    // A tile's rows are those of A, or right-hand sides that are packed beforehand, whose elements are columns of C.
    let (pack, lines) = match in_place {
        true => (kernels.pack_a, kernels.rows),
        false => (kernels.pack_b, kernels.cols),
    };
    let of_a_block = BLOCK.next_multiple_of(lines) * n;
    let of_a = of_a_block * n.div_ceil(BLOCK);
    let of_sides = if in_place { 0 } else { width.next_multiple_of(kernels.rows) * n };
    let of_squares = COPY * n.div_ceil(BLOCK);
    let buffer = context.spare().take::<T>(of_squares + of_a + of_sides)?;
    let copies = buffer.as_mut_ptr::<T>();
    let panels = copies.wrapping_add(of_squares);
    let sides = panels.wrapping_add(of_a);
    let (a_row, a_col) = a.view.strides();
    for (at, Block { rows, others }) in blocks(task, n).enumerate() {
        let square = copies.wrapping_add(at * COPY).cast::<[MaybeUninit<T>; COPY]>();
        // SAFETY: room for a copy in the buffer, which nobody else has.
        let square = unsafe { &mut *square };
        copy_triangle(task, a.part(rows.clone(), rows.clone()), square);
        let from = a.view.as_ptr().wrapping_add(rows.start * a_row + others.start * a_col);
        let to = panels.wrapping_add(at * of_a_block);
        let (along, step, k) = (a_row, a_col, others.len());
        // SAFETY: elements of A beside the square, and room for their panels; the CPU has the context's instruction set.
        unsafe { pack(&Pack { from, along, step, lines: rows.len(), k, to }) };
    }
    let (b_row, b_col) = b.as_view().strides();
    let at = b.as_mut_ptr();
    for first in (0..cols).step_by(width) {
        let group = first..cols.min(first + width);
        let sides = Sides {
            kernels,
            at: at.wrapping_add(first * b_col),
            b_row,
            b_col,
            cols: group.len(),
            n,
            panels: sides,
        };
        if !task.solve && !in_place {
            // SAFETY: right-hand sides, and room for their panels.
            unsafe { sides.pack(0..n) };
        }
        for (turn, Block { rows, others }) in blocks(task, n).enumerate() {
            let a = panels.wrapping_add(turn * of_a_block).cast_const();
            let steps = Steps::of(task, alpha, !others.is_empty());
            let multiply = || {
                if let Some((alpha, beta)) = steps.product {
                    // SAFETY: A was packed above, as what the product reads of the right-hand sides is, where it is.
                    unsafe { sides.multiply(a, &rows, &others, Finish::last(alpha, beta)) };
                }
            };
            if task.solve {
                multiply();
            }
            let copy = parts_of_copy(copies.wrapping_add(turn * COPY).cast_const());
            let block = b.reborrow().part(rows.clone(), group.clone());
            // SAFETY: a copy of the square's triangle; the context's instruction set is one that this CPU has.
            unsafe { squares.compute(task, steps.of_square, (copy, false), block) };
            match task.solve {
                // SAFETY: as above.
                true if !in_place => unsafe { sides.pack(rows) },
                true => {}
                false => multiply(),
            }
        }
    }
    context.spare().give_back(buffer, context.threads());
    Ok(())
}

/// Some right-hand sides.
struct Sides<'a, T: OwnSums> {
    kernels: &'a Kernels<T>,
    /// Element (i, j) is at `at + i * b_row + j * b_col`.
    at: *mut T,
    /// See `at`.
    b_row: usize,
    /// See `at`.
    b_col: usize,
    cols: usize,
    /// Rows.
    n: usize,
    /// Where they are packed, if a right-hand side is not contiguous: panels of as many as a tile has rows.
    panels: *mut T,
}

impl<T: OwnSums> Sides<'_, T> {
    /// Packs those rows of them.
    ///
    /// # Safety
    /// They can be read, and the panels written.
    unsafe fn pack(&self, rows: Range<usize>) {
        let &Self { kernels, at, b_row, b_col, cols, n, panels } = self;
        for first in (0..cols).step_by(kernels.rows) {
            let from = at.wrapping_add(rows.start * b_row + first * b_col).cast_const();
            let to = panels.wrapping_add(first * n + rows.start * kernels.rows);
            let lines = kernels.rows.min(cols - first);
            let panel = Pack { from, along: b_col, step: b_row, lines, k: rows.len(), to };
            // SAFETY: the caller's promises.
            unsafe { (kernels.pack_a)(&panel) };
        }
    }

    /// What becomes of some rows by their product with others.
    ///
    /// # Safety
    /// `a` is the packed part of A for these rows and those others, which are packed where a right-hand side is not
    /// contiguous; nobody else uses the right-hand sides.
    unsafe fn multiply(
        &self,
        a: *const T,
        rows: &Range<usize>,
        others: &Range<usize>,
        finish: Finish<T>,
    ) {
        let &Self { kernels, at, b_row, b_col, cols, n, panels } = self;
        let (mr, nr, k) = (kernels.rows, kernels.cols, others.len());
        let in_place = b_row == 1;
        // The rows and columns of what tiles compute.
        let (m, n_of_c) = if in_place { (rows.len(), cols) } else { (cols, rows.len()) };
        let (c, ldc) = (at.wrapping_add(rows.start * b_row), b_row.max(b_col));
        for col in (0..n_of_c).step_by(nr) {
            let tile_cols = nr.min(n_of_c - col);
            let (b, b_step, b_col) = match in_place {
                true => (at.wrapping_add(others.start + col * ldc).cast_const(), 1, ldc),
                false => (a.wrapping_add(col * k), nr, 1),
            };
            let mut row = 0;
            while row < m {
                let (tiles, tile_rows) = match (m - row) / mr {
                    0 => (1, m - row),
                    whole => (if in_place { whole } else { 1 }, mr),
                };
                let a = match in_place {
                    true => a.wrapping_add(row * k),
                    false => panels.wrapping_add(row * n + others.start * mr).cast_const(),
                };
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
