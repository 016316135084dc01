//! Thin products of elements that are narrower than sums: each element of A is read once and widened in
//! registers.
//!
//! Some rows of C are summed at a time, so few that their sums stay in the L1, some columns of A after the
//! other: each is a stream of its own that is read from front to back, and the sums are loaded and stored once
//! for all of them. Where rows of A are contiguous, not columns, a panel of it is widened and transposed before
//! it is added. Sums have the [order](crate::sum) that they have in every other path.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;

use gemm_spec::{Accumulator, Convert, Element as _, GemmTypes};

use crate::cache_line;
use crate::context::CpuContext;
use crate::kernels::Kernels;
use crate::pack::Pack;
use crate::prefetch::prefetch;
use crate::product::Product;
use crate::rounding::{self, Rounded};
use crate::sum::{self, CHAIN, is_exact};
use crate::threads::tickets;
use crate::thresholds::{NEAR_ELEMENTS, PARTS_PER_THREAD, THIN_COLUMNS_OF_NEAR_ROWS, THIN_ROWS};
use crate::vector::Vector;

/// Rows of C to sum.
pub(crate) struct Thin<T: GemmTypes> {
    rows: usize,
    cols: usize,
    /// k elements.
    k: usize,
    /// Element (i, p) of A is at `a + i * a_row + p * a_step`; one of the two strides is 1.
    a: *const T::A,
    a_row: usize,
    a_step: usize,
    /// Element (p, j) of B is at `b + p * b_step + j * b_col`.
    b: *const T::B,
    b_step: usize,
    b_col: usize,
    /// Memory for the sums of `rows` rows and of as many columns, rounded up to [`COLUMN_UNIT`]: of chains,
    /// superblocks and totals.
    sums: [*mut T::Acc; KINDS],
    /// Column j of C is at `c + j * ldc`.
    c: *mut T::C,
    ldc: usize,
    alpha: T::Acc,
    beta: T::Acc,
}

/// Computes rows of a thin product; see [`compute`] for what it demands.
pub(crate) type ThinFn<T> = unsafe fn(&Thin<T>);

/// Whether a product takes this path.
pub(crate) fn pays<T: GemmTypes>(product: &Product<T>, kernels: &Kernels<T>) -> bool {
    let &Product { m, n, k, a_row, a_col, .. } = product;
    let Some((_, [of_columns, of_rows])) = kernels.thin else { return false };
    let is_near = m.saturating_mul(k) <= NEAR_ELEMENTS;
    let of_rows = if is_near { of_rows.min(THIN_COLUMNS_OF_NEAR_ROWS) } else { of_rows };
    let fits = a_row == 1 && n <= of_columns || a_col == 1 && n <= of_rows;
    fits && m >= THIN_ROWS
}

/// Kinds of partial sums.
const KINDS: usize = 3;
/// Bytes of each kind of sums of a block of rows.
const SUMS_BYTES: usize = 32 << 10;
/// Rows of a block are a multiple of that many: cache lines of all types.
const ROW_UNIT: usize = 64;
/// Bytes of a column of A at least in a block, if each thread is left that many: each piece is the beginning of a
/// stream to the processor's own prefetcher.
const LEAST_PIECE: usize = 2048;
/// Rows of a block at most.
const MOST_ROWS: usize = 2048;

/// Memory for the sums of a block, and for a panel of A.
#[repr(align(64))]
struct Near<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

/// k elements of a panel of rows of A.
const PANEL_STEPS: usize = 64;
/// Bytes of a panel.
const PANEL_BYTES: usize = ROW_UNIT * PANEL_STEPS * SUM_BYTES;
/// Bytes of a sum, and of a widened element.
const SUM_BYTES: usize = 4;
/// Columns of sums are a multiple of that many: those that fill a group of columns up are computed and left.
const COLUMN_UNIT: usize = 4;

/// Computes the product, k at least 1.
///
/// # Safety
/// The product's promises, see [`Product`]; the CPU has the kernels' instruction set, [`pays`] says so.
pub(crate) unsafe fn multiply<T: GemmTypes>(
    product: &Product<T>,
    kernels: &Kernels<T>,
    context: &CpuContext,
    threads: usize,
) {
    let &Product { m, n, .. } = product;
    let (compute, _) = kernels.thin.expect("invariant: `pays` asks for it");
    let fitting = SUMS_BYTES / SUM_BYTES / n.next_multiple_of(COLUMN_UNIT) / ROW_UNIT * ROW_UNIT;
    let some = m.div_ceil(threads * PARTS_PER_THREAD).max(LEAST_PIECE / size_of::<T::A>());
    let for_each = some.min(m.div_ceil(threads)).next_multiple_of(ROW_UNIT);
    let block = match threads {
        _ if product.a_row != 1 => ROW_UNIT,
        1 => fitting.min(MOST_ROWS),
        _ => fitting.min(MOST_ROWS).min(for_each),
    };
    let shared = Shared { product, compute, block, next: AtomicUsize::new(0) };
    // SAFETY: the caller's promises; blocks of rows are handed out by a counter.
    context.run_on(threads, || unsafe { shared.work() });
}

/// What the threads of a product share.
struct Shared<'a, T: GemmTypes> {
    product: &'a Product<T>,
    compute: ThinFn<T>,
    /// Rows of a block.
    block: usize,
    /// The next block.
    next: AtomicUsize,
}

// SAFETY: the pointers are to memory that outlives the product's threads, and each thread writes rows of C that
// the counter gave to it alone.
unsafe impl<T: GemmTypes> Sync for Shared<'_, T> {}

impl<T: GemmTypes> Shared<'_, T> {
    /// # Safety
    /// As [`multiply`].
    unsafe fn work(&self) {
        let &Product { m, n, k, alpha, beta, a, a_row, a_col, b, b_row, b_col, c, ldc, .. } =
            self.product;
        let mut sums = [const { Near([MaybeUninit::uninit(); SUMS_BYTES]) }; KINDS];
        let sums = sums.each_mut().map(|sums| sums.0.as_mut_ptr().cast());
        for block in tickets(&self.next, m.div_ceil(self.block)) {
            let row = block * self.block;
            let thin = Thin {
                rows: self.block.min(m - row),
                cols: n,
                k,
                a: a.wrapping_add(row.wrapping_mul(a_row)),
                a_row,
                a_step: a_col,
                b,
                b_step: b_row,
                b_col,
                sums,
                c: c.wrapping_add(row),
                ldc,
                alpha,
                beta,
            };
            // SAFETY: rows of the product that no other thread has; there is room for a block's sums.
            unsafe { (self.compute)(&thin) };
            // SAFETY: the rows that were just computed.
            unsafe { self.product.tell_complete(row..row + thin.rows, 0..n) };
        }
    }
}

/// Columns of A that are added at once.
const STEPS: usize = 8;
/// Registers of each of them.
const REGISTERS: usize = 2;

/// Computes rows of a thin product.
///
/// # Safety
/// The CPU has the instruction set of `V`. A and B can be read for all rows, columns and k elements; C can be
/// written, and read where beta is not zero, and nobody else uses those rows of it meanwhile.
#[inline(always)]
pub(crate) unsafe fn compute<V: Vector<Element = T::Acc>, T: GemmTypes>(thin: &Thin<T>) {
    const { assert!(size_of::<T::Acc>() == SUM_BYTES) };
    let &Thin { rows, cols, k, sums: [mut chain, mut superblock, mut total], c, ldc, .. } = thin;
    let elements = rows * cols.next_multiple_of(COLUMN_UNIT);
    let in_superblock = sum::superblock::<T::Acc>();
    let in_chain = if is_exact::<T::Acc>() { k } else { CHAIN };
    let mut panel = Near([MaybeUninit::uninit(); PANEL_BYTES]);
    let to = panel.0.as_mut_ptr().cast::<T::Acc>();
    for first in (0..k).step_by(in_chain) {
        let end = k.min(first + in_chain);
        for at in 0..elements {
            // SAFETY: there is room for that many sums.
            unsafe { chain.wrapping_add(at).write(T::Acc::ZERO) };
        }
        if thin.a_row == 1 {
            let a = thin.a.wrapping_add(first.wrapping_mul(thin.a_step));
            let columns = Columns { a, a_step: thin.a_step, first, ahead: true, sums: chain };
            // SAFETY: the caller's promises; the k elements of a chain.
            unsafe { add_all::<V, T::A, T>(thin, &columns, end - first) };
        } else {
            for p in (first..end).step_by(PANEL_STEPS) {
                // SAFETY: the caller's promises; the panel has room for these k elements.
                unsafe { add_panel::<V, T>(thin, to, chain, p..end.min(p + PANEL_STEPS)) };
            }
        }
        if is_exact::<T::Acc>() {
            continue;
        }
        // A chain has ended, and perhaps its superblock: sums that are added to nothing change places with it.
        if first % in_superblock == 0 {
            (chain, superblock) = (superblock, chain);
        } else {
            // SAFETY: there is room for that many sums of each kind, all of which were written.
            unsafe { add_sums(superblock, chain, elements) };
        }
        if end % in_superblock == 0 || end == k {
            if end <= in_superblock {
                (superblock, total) = (total, superblock);
            } else {
                // SAFETY: as above.
                unsafe { add_sums(total, superblock, elements) };
            }
        }
    }
    let sums = if is_exact::<T::Acc>() { chain } else { total };
    let (alpha, beta, sums) = (thin.alpha, thin.beta, sums.cast_const());
    let rounded = Rounded { sums, sums_ld: rows, c, ldc, rows, cols, alpha, beta };
    // SAFETY: all sums were written; the rows of C are the caller's.
    unsafe { rounding::round(&rounded) };
}

/// Adds sums to others.
///
/// # Safety
/// Both have that many elements, which can be read, and `to` can be written; they are not the same.
#[inline(always)]
unsafe fn add_sums<T: Accumulator>(to: *mut T, sums: *const T, elements: usize) {
    // SAFETY: the caller's promise.
    let to = unsafe { std::slice::from_raw_parts_mut(to, elements) };
    // SAFETY: the caller's promise.
    let sums = unsafe { std::slice::from_raw_parts(sums, elements) };
    for (to, &sum) in to.iter_mut().zip(sums) {
        *to = T::ONE.mul_add(sum, *to);
    }
}

/// Adds some k elements, which are widened and transposed into a panel first.
///
/// # Safety
/// As [`compute`]; the k elements exist, and the panel has room for them.
#[inline(always)]
unsafe fn add_panel<V: Vector<Element = T::Acc>, T: GemmTypes>(
    thin: &Thin<T>,
    to: *mut T::Acc,
    sums: *mut T::Acc,
    steps: Range<usize>,
) {
    let from = thin.a.wrapping_add(steps.start);
    for i in 0..thin.rows {
        let ahead = from.wrapping_add(i.wrapping_mul(thin.a_row)).wrapping_add(PANEL_STEPS);
        for line in (0..PANEL_STEPS).step_by(cache_line::elements::<T::A>()) {
            prefetch(ahead.wrapping_add(line));
        }
    }
    let lines = Pack { from, along: thin.a_row, step: 1, lines: thin.rows, k: steps.len(), to };
    // SAFETY: rows and k elements that exist; the panel has room for both.
    unsafe { rounding::pack::<V, T::A>(&lines, ROW_UNIT) };
    let (a, first) = (to.cast_const(), steps.start);
    let columns = Columns { a, a_step: ROW_UNIT, first, ahead: false, sums };
    // SAFETY: the caller's promises; k elements that are packed.
    unsafe { add_all::<V, T::Acc, T>(thin, &columns, steps.len()) };
}

/// Columns of A in place, or of a panel of it, and the sums that they are added to.
struct Columns<A, Acc> {
    /// Element (i, p) is at `a + i + (p - first) * a_step`.
    a: *const A,
    a_step: usize,
    first: usize,
    /// Whether they come from far.
    ahead: bool,
    sums: *mut Acc,
}

/// Adds that many columns to all sums.
///
/// # Safety
/// As [`compute`]; the columns exist.
#[inline(always)]
unsafe fn add_all<V: Vector<Element = T::Acc>, A: Convert<T::Acc>, T: GemmTypes>(
    thin: &Thin<T>,
    columns: &Columns<A, T::Acc>,
    steps: usize,
) {
    let first = columns.first;
    let whole = first + steps / STEPS * STEPS;
    for p in (first..whole).step_by(STEPS) {
        // SAFETY: the caller's promises; columns that exist.
        unsafe { add_steps::<V, A, T, STEPS>(thin, columns, p) };
    }
    for p in whole..first + steps {
        // SAFETY: the same.
        unsafe { add_steps::<V, A, T, 1>(thin, columns, p) };
    }
}

/// Adds some columns to all sums, from that k element on.
///
/// # Safety
/// As [`compute`]; the columns exist.
#[inline(always)]
unsafe fn add_steps<
    V: Vector<Element = T::Acc>,
    A: Convert<T::Acc>,
    T: GemmTypes,
    const STEPS: usize,
>(
    thin: &Thin<T>,
    columns: &Columns<A, T::Acc>,
    p: usize,
) {
    let mut col = 0;
    macro_rules! add {
        ($cols:literal) => {
            // SAFETY: the caller's promises; there is room for the sums of columns that fill a group up.
            unsafe { add::<V, A, T, STEPS, $cols>(thin, columns, p, col) }
        };
    }
    while col < thin.cols {
        col += match thin.cols - col {
            13.. => add!(16),
            9.. => add!(12),
            5.. => add!(8),
            3.. => add!(4),
            2 => add!(2),
            _ => add!(1),
        };
    }
}

/// Adds some steps to the sums of some columns; gives how many columns.
///
/// # Safety
/// As [`add_steps`]; the columns exist.
#[inline(always)]
unsafe fn add<
    V: Vector<Element = T::Acc>,
    A: Convert<T::Acc>,
    T: GemmTypes,
    const STEPS: usize,
    const COLS: usize,
>(
    thin: &Thin<T>,
    columns: &Columns<A, T::Acc>,
    p: usize,
    col: usize,
) -> usize {
    let &Thin { rows, b, b_step, b_col, .. } = thin;
    let &Columns { a, a_step, first, ahead, sums } = columns;
    let mut factors = [[T::Acc::ZERO; STEPS]; COLS];
    for (j, factors) in factors.iter_mut().enumerate().take(thin.cols - col) {
        for (s, factor) in factors.iter_mut().enumerate() {
            let at = (p + s).wrapping_mul(b_step).wrapping_add((col + j).wrapping_mul(b_col));
            // SAFETY: an element of B.
            *factor = unsafe { b.wrapping_add(at).read() }.widen();
        }
    }
    let a = a.wrapping_add((p - first).wrapping_mul(a_step));
    let sums = sums.wrapping_add(col.wrapping_mul(rows));
    let at_once = REGISTERS.wrapping_mul(V::LANES);
    let (whole, registers) = (rows / at_once * at_once, rows / V::LANES * V::LANES);
    let ahead = if ahead && col == 0 { STEPS.wrapping_mul(a_step) } else { 0 };
    for row in (0..whole).step_by(at_once) {
        let a = a.wrapping_add(row);
        if ahead > 0 {
            for s in 0..STEPS {
                let at = a.wrapping_add(ahead).wrapping_add(s.wrapping_mul(a_step));
                for line in (0..at_once).step_by(cache_line::elements::<A>()) {
                    prefetch(at.wrapping_add(line));
                }
            }
        }
        // SAFETY: the caller's promises; rows of whole registers.
        unsafe {
            add_rows::<V, A, STEPS, COLS, REGISTERS>(
                a,
                a_step,
                sums.wrapping_add(row),
                rows,
                &factors,
            );
        }
    }
    for row in (whole..registers).step_by(V::LANES) {
        // SAFETY: the same of one register.
        unsafe {
            add_rows::<V, A, STEPS, COLS, 1>(
                a.wrapping_add(row),
                a_step,
                sums.wrapping_add(row),
                rows,
                &factors,
            );
        }
    }
    for (j, factors) in factors.iter().enumerate() {
        for row in registers..rows {
            let sum = sums.wrapping_add(j.wrapping_mul(rows)).wrapping_add(row);
            // SAFETY: one of the sums.
            let mut value = unsafe { sum.read() };
            for (s, &factor) in factors.iter().enumerate() {
                // SAFETY: an element of A.
                let element =
                    unsafe { a.wrapping_add(row).wrapping_add(s.wrapping_mul(a_step)).read() };
                value = element.widen().mul_add(factor, value);
            }
            // SAFETY: as above.
            unsafe { sum.write(value) };
        }
    }
    COLS
}

/// Adds some steps to the sums of whole registers of rows.
///
/// # Safety
/// As [`add`]; rows of that many registers.
#[inline(always)]
unsafe fn add_rows<
    V: Vector,
    A: Convert<V::Element>,
    const STEPS: usize,
    const COLS: usize,
    const REGISTERS: usize,
>(
    a: *const A,
    a_step: usize,
    sums: *mut V::Element,
    sums_ld: usize,
    factors: &[[V::Element; STEPS]; COLS],
) {
    // SAFETY: the CPU has the instruction set of `V`.
    let mut columns = [[unsafe { V::splat(V::Element::ZERO) }; REGISTERS]; STEPS];
    for (s, column) in columns.iter_mut().enumerate() {
        for (r, register) in column.iter_mut().enumerate() {
            let at = s.wrapping_mul(a_step).wrapping_add(r.wrapping_mul(V::LANES));
            // SAFETY: a register's elements of a column of A.
            *register = unsafe { V::widened(a.wrapping_add(at)) };
        }
    }
    let mut to = sums;
    for factors in factors {
        // SAFETY: the CPU has the instruction set of `V`.
        let mut acc = [unsafe { V::splat(V::Element::ZERO) }; REGISTERS];
        for (r, acc) in acc.iter_mut().enumerate() {
            // SAFETY: a register's sums.
            *acc = unsafe { V::load(to.wrapping_add(r.wrapping_mul(V::LANES))) };
        }
        for (column, &factor) in columns.iter().zip(factors) {
            // SAFETY: the CPU has the instruction set of `V`.
            let factor = unsafe { V::splat(factor) };
            for (acc, register) in acc.iter_mut().zip(column) {
                // SAFETY: as above.
                *acc = unsafe { register.mul_add(factor, *acc) };
            }
        }
        for (r, acc) in acc.into_iter().enumerate() {
            // SAFETY: a register's sums.
            unsafe { acc.store(to.wrapping_add(r.wrapping_mul(V::LANES))) };
        }
        to = to.wrapping_add(sums_ld);
    }
}
