//! A small triangle and a panel of right-hand sides, row after row in registers:
//!
//! ```text
//!   solve      x(i) = (x(i) - sum of a(i, p) * x(p)) / a(i, i)
//!   multiply   x(i) =  a(i, i) * x(i) + sum of a(i, p) * x(p)
//! ```
//!
//! Some rows are computed side by side, so that the sums of one do not wait for each other, and each adds its products in
//! the order in which single rows would: how many there are changes no bit.
//!
//! Solving substitutes: nothing but the diagonal is inverted, by whose reciprocals rows are multiplied where these are
//! normal numbers, since a division of registers takes as long as a dozen products. A zero on the diagonal reaches no row
//! that is solved before it. The other triangle is not read, nor is the diagonal where it is said to be one.

use std::ops::Range;

use gemm_spec::Element as _;

use crate::pack::turn_registers;
use crate::parts::Parts;
use crate::vector::PartsVector;

/// Rows of a triangle at most.
pub const BLOCK: usize = 32;
/// Registers of a row of the panel at most.
pub(crate) const VECTORS: usize = 8;

/// What is done with a triangle A and right-hand sides B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// `B = alpha * A^-1 * B`, else `B = alpha * A * B`.
    pub solve: bool,
    /// Whether A is the upper triangle, else the lower.
    pub upper: bool,
    /// Whether the diagonal of A is ones, and is not read.
    pub unit: bool,
}

/// A matrix of real or complex numbers: the parts of element (i, j) are at `at + i * row + j * col`.
pub(crate) struct Elements<P> {
    pub(crate) at: P,
    /// See `at`.
    pub(crate) row: usize,
    /// See `at`.
    pub(crate) col: usize,
}

/// A triangle, right-hand sides, and a panel for them.
pub(crate) struct Triangle<T> {
    pub(crate) task: Task,
    /// Rows.
    pub(crate) n: usize,
    /// Right-hand sides.
    pub(crate) cols: usize,
    pub(crate) a: Elements<*const T>,
    /// Whether elements of A stand for their conjugates.
    pub(crate) conjugated: bool,
    /// The factor's parts.
    pub(crate) alpha: (T, T),
    pub(crate) b: Elements<*mut T>,
    /// Room for `n` rows of whole registers: of complex numbers half of them hold the real parts, the others the imaginary
    /// ones.
    pub(crate) panel: *mut T,
}

/// Computes right-hand sides; see [`run`] for what it demands.
pub(crate) type TriangleFn<T> = unsafe fn(&Triangle<T>);

/// Computes right-hand sides in place, by a panel whose rows are that many registers long.
///
/// # Safety
/// The CPU has the instruction set of `V`. The parts of the right-hand sides fill no more than a row of the panel; they
/// and `n` rows of the panel can be read and written, and those elements of A read that are in the triangle, but for the
/// diagonal where it is said to be one. Elements have imaginary parts where they are `COMPLEX`.
#[inline(always)]
pub(crate) unsafe fn run<V: PartsVector, const VECTORS: usize, const COMPLEX: bool>(
    triangle: &Triangle<V::Element>,
) where
    V::Element: Parts,
{
    if VECTORS == 2 && triangle.n.wrapping_mul(triangle.cols) <= FEW_ELEMENTS {
        // SAFETY: the caller's promises.
        return unsafe { one_by_one::<V::Element, COMPLEX>(triangle) };
    }
    // SAFETY: the caller's promises.
    unsafe { fill::<V, VECTORS, COMPLEX>(triangle) };
    // Eight sums side by side hide how long an addition takes.
    let done = match VECTORS {
        // SAFETY: the caller's promises.
        2 => unsafe { compute_rows::<V, VECTORS, 4, COMPLEX>(triangle, 0) },
        // SAFETY: the caller's promises.
        4 => unsafe { compute_rows::<V, VECTORS, 2, COMPLEX>(triangle, 0) },
        _ => 0,
    };
    // SAFETY: the caller's promises.
    unsafe { compute_rows::<V, VECTORS, 1, COMPLEX>(triangle, done) };
    // SAFETY: the caller's promises.
    unsafe { take::<V, VECTORS, COMPLEX>(triangle) };
}

/// Right-hand sides have so few elements that to copy them takes longer than to compute them one by one.
const FEW_ELEMENTS: usize = 6;

/// Computes right-hand sides in place, element by element; the bits are those of the panel's registers.
///
/// # Safety
/// As [`run`], but for the panel.
#[inline(always)]
unsafe fn one_by_one<T: Parts, const COMPLEX: bool>(triangle: &Triangle<T>) {
    let &Triangle { task, n, cols, alpha, ref b, .. } = triangle;
    for j in 0..cols {
        let side = b.at.wrapping_add(j.wrapping_mul(b.col));
        let place = |i: usize| side.wrapping_add(i.wrapping_mul(b.row));
        for done in 0..n {
            let i = triangle.row(done);
            // SAFETY: an element of the right-hand side.
            let x = unsafe { parts_at::<T, COMPLEX>(place(i)) };
            let x = scaled::<T, COMPLEX>(alpha, x);
            // SAFETY: an element of the triangle, the diagonal's only where it is read.
            let coefficient = |p: usize| unsafe { triangle.coefficient::<COMPLEX>(i, p) };
            let mut sum = match (task.solve, task.unit) {
                (false, false) => add_parts::<T, COMPLEX>((T::ZERO, T::ZERO), x, coefficient(i)),
                _ => x,
            };
            let others = if task.solve { 0..done } else { done.wrapping_add(1)..n };
            for other in others {
                let p = triangle.row(other);
                // SAFETY: an element of the right-hand side.
                let x = unsafe { parts_at::<T, COMPLEX>(place(p)) };
                let (re, im) = coefficient(p);
                let (x, by) = match task.solve {
                    true => (x, (-re, -im)),
                    false => (scaled::<T, COMPLEX>(alpha, x), (re, im)),
                };
                sum = add_parts::<T, COMPLEX>(sum, x, by);
            }
            if task.solve && !task.unit {
                sum = divided::<T, COMPLEX>(sum, coefficient(i));
            }
            // SAFETY: the element's real part.
            unsafe { place(i).write(sum.0) };
            if COMPLEX {
                // SAFETY: its imaginary part.
                unsafe { place(i).wrapping_add(1).write(sum.1) };
            }
        }
    }
}

/// The parts of a number; of a real one the other is zero.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn parts_at<T: Parts, const COMPLEX: bool>(at: *const T) -> (T, T) {
    // SAFETY: the caller's promise.
    let re = unsafe { at.read() };
    // SAFETY: the caller's promise.
    let im = if COMPLEX { unsafe { at.wrapping_add(1).read() } } else { T::ZERO };
    (re, im)
}

/// `alpha * x`.
#[inline(always)]
fn scaled<T: Parts, const COMPLEX: bool>(alpha: (T, T), x: (T, T)) -> (T, T) {
    match COMPLEX {
        false => (alpha.0 * x.0, x.1),
        true if alpha.1 == T::ZERO => (alpha.0 * x.0, alpha.0 * x.1),
        true => (alpha.0 * x.0 - alpha.1 * x.1, alpha.0 * x.1 + alpha.1 * x.0),
    }
}

/// `sum + by * x`, as [`add_row`].
#[inline(always)]
fn add_parts<T: Parts, const COMPLEX: bool>(sum: (T, T), x: (T, T), by: (T, T)) -> (T, T) {
    let re = x.0.mul_add(by.0, sum.0);
    if !COMPLEX {
        return (re, sum.1);
    }
    let im = x.1.mul_add(by.0, sum.1);
    (x.1.mul_add(-by.1, re), x.0.mul_add(by.1, im))
}

/// What real numbers are divided by: they are multiplied by its reciprocal, unless that is no normal number.
#[derive(Clone, Copy)]
struct Divisor<T> {
    /// The reciprocal, or the number itself.
    by: T,
    is_reciprocal: bool,
}

impl<T: Parts> Divisor<T> {
    #[inline(always)]
    fn of(number: T) -> Self {
        let reciprocal = T::ONE / number;
        let is_reciprocal = reciprocal.is_normal();
        Self { by: if is_reciprocal { reciprocal } else { number }, is_reciprocal }
    }

    #[inline(always)]
    fn divide(self, x: T) -> T {
        if self.is_reciprocal { x * self.by } else { x / self.by }
    }

    /// Divides all elements of registers.
    ///
    /// # Safety
    /// The CPU has the instruction set of `V`.
    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "operations on registers, which need the instruction set alone"
    )]
    unsafe fn divide_row<V: PartsVector<Element = T>, const VECTORS: usize>(
        self,
        mut row: [V; VECTORS],
    ) -> [V; VECTORS] {
        // SAFETY: the caller's promise.
        unsafe {
            let by = V::splat(self.by);
            for x in &mut row {
                *x = if self.is_reciprocal { x.mul(by) } else { x.div(by) };
            }
        }
        row
    }
}

/// What complex numbers are divided by, in the way of [`Field::divide`](crate::field::Field::divide).
#[derive(Clone, Copy)]
struct ComplexDivisor<T> {
    /// Whether the larger part is the real one.
    along_re: bool,
    /// The smaller part over the larger.
    ratio: T,
    divisor: Divisor<T>,
}

impl<T: Parts> ComplexDivisor<T> {
    #[inline(always)]
    fn of((re, im): (T, T)) -> Self {
        let along_re = re.magnitude() >= im.magnitude();
        let (ratio, divisor) =
            if along_re { (im / re, re + im * (im / re)) } else { (re / im, im + re * (re / im)) };
        Self { along_re, ratio, divisor: Divisor::of(divisor) }
    }
}

/// `x / by`, as [`divide_row`].
#[inline(always)]
fn divided<T: Parts, const COMPLEX: bool>((re, im): (T, T), by: (T, T)) -> (T, T) {
    if !COMPLEX {
        return (Divisor::of(by.0).divide(re), im);
    }
    let ComplexDivisor { along_re, ratio, divisor } = ComplexDivisor::of(by);
    let (re, im) = match along_re {
        true => (re + im * ratio, im - re * ratio),
        false => (re * ratio + im, im * ratio - re),
    };
    (divisor.divide(re), divisor.divide(im))
}

impl<T: Parts> Triangle<T> {
    /// The row whose turn it is after that many others: it is computed before those that it is read for, or behind those
    /// that it depends on.
    #[inline(always)]
    fn row(&self, others: usize) -> usize {
        let backwards = self.task.solve == self.task.upper;
        if backwards { self.n.wrapping_sub(others).wrapping_sub(1) } else { others }
    }

    /// The parts of an element of A.
    ///
    /// # Safety
    /// It can be read.
    #[inline(always)]
    unsafe fn coefficient<const COMPLEX: bool>(&self, i: usize, p: usize) -> (T, T) {
        let Elements { at, row, col } = self.a;
        let at = at.wrapping_add(i.wrapping_mul(row)).wrapping_add(p.wrapping_mul(col));
        // SAFETY: the caller's promise.
        unsafe { self.element::<COMPLEX>(at) }
    }

    /// The parts of the element of A there.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    unsafe fn element<const COMPLEX: bool>(&self, at: *const T) -> (T, T) {
        // SAFETY: the caller's promise.
        let (re, im) = unsafe { parts_at::<T, COMPLEX>(at) };
        (re, if self.conjugated { -im } else { im })
    }

    /// Where row i of the right-hand sides begins.
    #[inline(always)]
    fn side(&self, i: usize) -> *mut T {
        self.b.at.wrapping_add(i.wrapping_mul(self.b.row))
    }
}

/// Computes rows, `ROWS` at a time while there are as many, those behind which `done` others stand; gives how many have
/// been computed then.
///
/// # Safety
/// As [`run`], and the panel is filled.
#[inline(always)]
unsafe fn compute_rows<
    V: PartsVector,
    const VECTORS: usize,
    const ROWS: usize,
    const COMPLEX: bool,
>(
    triangle: &Triangle<V::Element>,
    done: usize,
) -> usize
where
    V::Element: Parts,
{
    let mut done = done;
    while triangle.n.wrapping_sub(done) >= ROWS {
        if triangle.task.solve {
            // SAFETY: the caller's promises; there are as many rows.
            unsafe { solve_rows::<V, VECTORS, ROWS, COMPLEX>(triangle, done) };
        } else {
            // SAFETY: as above.
            unsafe { multiply_rows::<V, VECTORS, ROWS, COMPLEX>(triangle, done) };
        }
        done = done.wrapping_add(ROWS);
    }
    done
}

/// Substitutes what has been solved into some rows, and solves these.
///
/// # Safety
/// As [`compute_rows`]; there are `ROWS` rows left.
#[inline(always)]
unsafe fn solve_rows<V: PartsVector, const VECTORS: usize, const ROWS: usize, const COMPLEX: bool>(
    triangle: &Triangle<V::Element>,
    done: usize,
) where
    V::Element: Parts,
{
    let rows: [usize; ROWS] = std::array::from_fn(|r| triangle.row(done.wrapping_add(r)));
    // SAFETY: the CPU has the instruction set of `V`.
    let mut sums = [unsafe { zeros::<V, VECTORS>() }; ROWS];
    for (sums, i) in sums.iter_mut().zip(rows) {
        // SAFETY: a row of the panel.
        *sums = unsafe { load_row(row_at::<V, VECTORS>(triangle, i)) };
    }
    // SAFETY: the caller's promises: rows of the triangle that are solved.
    sums = unsafe { add_others::<V, VECTORS, ROWS, COMPLEX>(triangle, rows, 0..done, sums) };
    for r in 0..ROWS {
        let i = rows[r];
        for q in 0..r {
            // SAFETY: an element of the triangle.
            let (re, im) = unsafe { triangle.coefficient::<COMPLEX>(i, rows[q]) };
            // SAFETY: the CPU has the instruction set of `V`.
            sums[r] = unsafe { add_row::<V, VECTORS, COMPLEX>(sums[r], sums[q], (-re, -im)) };
        }
        if !triangle.task.unit {
            // SAFETY: an element of the diagonal, which is not said to be one.
            let by = unsafe { triangle.coefficient::<COMPLEX>(i, i) };
            // SAFETY: the CPU has the instruction set of `V`.
            sums[r] = unsafe { divide_row::<V, VECTORS, COMPLEX>(sums[r], by) };
        }
        // SAFETY: a row of the panel.
        unsafe { store_row(sums[r], row_at::<V, VECTORS>(triangle, i)) };
    }
}

/// Multiplies some rows, those behind them being what they were.
///
/// # Safety
/// As [`solve_rows`].
#[inline(always)]
unsafe fn multiply_rows<
    V: PartsVector,
    const VECTORS: usize,
    const ROWS: usize,
    const COMPLEX: bool,
>(
    triangle: &Triangle<V::Element>,
    done: usize,
) where
    V::Element: Parts,
{
    let rows: [usize; ROWS] = std::array::from_fn(|r| triangle.row(done.wrapping_add(r)));
    // SAFETY: the CPU has the instruction set of `V`.
    let mut sums = [unsafe { zeros::<V, VECTORS>() }; ROWS];
    for r in 0..ROWS {
        let i = rows[r];
        // SAFETY: a row of the panel.
        let x = unsafe { load_row(row_at::<V, VECTORS>(triangle, i)) };
        sums[r] = if triangle.task.unit {
            x
        } else {
            // SAFETY: an element of the diagonal, which is not said to be one.
            let by = unsafe { triangle.coefficient::<COMPLEX>(i, i) };
            // SAFETY: the CPU has the instruction set of `V`.
            unsafe { add_row::<V, VECTORS, COMPLEX>(sums[r], x, by) }
        };
        for &p in rows.iter().skip(r.wrapping_add(1)) {
            // SAFETY: a row of the panel.
            let x = unsafe { load_row(row_at::<V, VECTORS>(triangle, p)) };
            // SAFETY: an element of the triangle.
            let by = unsafe { triangle.coefficient::<COMPLEX>(i, p) };
            // SAFETY: the CPU has the instruction set of `V`.
            sums[r] = unsafe { add_row::<V, VECTORS, COMPLEX>(sums[r], x, by) };
        }
    }
    let later = done.wrapping_add(ROWS)..triangle.n;
    // SAFETY: the caller's promises: rows of the triangle that are not multiplied yet.
    sums = unsafe { add_others::<V, VECTORS, ROWS, COMPLEX>(triangle, rows, later, sums) };
    for (sums, i) in sums.into_iter().zip(rows) {
        // SAFETY: a row of the panel.
        unsafe { store_row(sums, row_at::<V, VECTORS>(triangle, i)) };
    }
}

/// Adds to the sums of some rows what the rows of these turns give, which are none of them: subtracts it, in a solve.
///
/// # Safety
/// As [`solve_rows`]; all of these rows' elements of A in the columns of the others are in the triangle.
#[inline(always)]
unsafe fn add_others<V: PartsVector, const VECTORS: usize, const ROWS: usize, const COMPLEX: bool>(
    triangle: &Triangle<V::Element>,
    rows: [usize; ROWS],
    others: Range<usize>,
    mut sums: [[V; VECTORS]; ROWS],
) -> [[V; VECTORS]; ROWS]
where
    V::Element: Parts,
{
    let Elements { at, row, col } = triangle.a;
    let lines = rows.map(|i| at.wrapping_add(i.wrapping_mul(row)));
    let solve = triangle.task.solve;
    for other in others {
        let p = triangle.row(other);
        let step = p.wrapping_mul(col);
        // SAFETY: a row of the panel.
        let x = unsafe { load_row(row_at::<V, VECTORS>(triangle, p)) };
        for (sums, line) in sums.iter_mut().zip(lines) {
            // SAFETY: an element of the triangle.
            let (re, im) = unsafe { triangle.element::<COMPLEX>(line.wrapping_add(step)) };
            let by = if solve { (-re, -im) } else { (re, im) };
            // SAFETY: the CPU has the instruction set of `V`.
            *sums = unsafe { add_row::<V, VECTORS, COMPLEX>(*sums, x, by) };
        }
    }
    sums
}

/// Where a row of the panel begins.
#[inline(always)]
fn row_at<V: PartsVector, const VECTORS: usize>(
    triangle: &Triangle<V::Element>,
    i: usize,
) -> *mut V::Element {
    triangle.panel.wrapping_add(i.wrapping_mul(const { VECTORS * V::LANES }))
}

/// A row of zeros.
///
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
unsafe fn zeros<V: PartsVector, const VECTORS: usize>() -> [V; VECTORS] {
    // SAFETY: the caller's promise.
    [unsafe { V::splat(V::Element::ZERO) }; VECTORS]
}

/// A row of the panel.
///
/// # Safety
/// The CPU has the instruction set of `V`; the row can be read.
#[inline(always)]
unsafe fn load_row<V: PartsVector, const VECTORS: usize>(from: *const V::Element) -> [V; VECTORS] {
    let mut from = from;
    // SAFETY: the CPU has the instruction set of `V`.
    let mut row = unsafe { zeros::<V, VECTORS>() };
    for register in &mut row {
        // SAFETY: a row has that many registers.
        *register = unsafe { V::load(from) };
        from = from.wrapping_add(V::LANES);
    }
    row
}

/// Stores a row of the panel.
///
/// # Safety
/// The CPU has the instruction set of `V`; the row can be written.
#[inline(always)]
unsafe fn store_row<V: PartsVector, const VECTORS: usize>(row: [V; VECTORS], to: *mut V::Element) {
    let mut to = to;
    for register in row {
        // SAFETY: a row has that many registers.
        unsafe { register.store(to) };
        to = to.wrapping_add(V::LANES);
    }
}

/// `sums + by * row`.
///
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "operations on registers, which need the instruction set alone"
)]
unsafe fn add_row<V: PartsVector, const VECTORS: usize, const COMPLEX: bool>(
    mut sums: [V; VECTORS],
    row: [V; VECTORS],
    (re, im): (V::Element, V::Element),
) -> [V; VECTORS]
where
    V::Element: Parts,
{
    let half = const { VECTORS / 2 };
    // SAFETY: the caller's promise.
    unsafe {
        let by = V::splat(re);
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum = x.mul_add(by, *sum);
        }
        if COMPLEX {
            let (plus, minus) = (V::splat(im), V::splat(-im));
            for v in 0..half {
                sums[v] = row[v + half].mul_add(minus, sums[v]);
                sums[v + half] = row[v].mul_add(plus, sums[v + half]);
            }
        }
    }
    sums
}

/// A row divided by an element.
///
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "operations on registers, which need the instruction set alone"
)]
unsafe fn divide_row<V: PartsVector, const VECTORS: usize, const COMPLEX: bool>(
    mut row: [V; VECTORS],
    by: (V::Element, V::Element),
) -> [V; VECTORS]
where
    V::Element: Parts,
{
    let half = const { VECTORS / 2 };
    // SAFETY: the caller's promise.
    unsafe {
        if !COMPLEX {
            return Divisor::of(by.0).divide_row(row);
        }
        let ComplexDivisor { along_re, ratio, divisor } = ComplexDivisor::of(by);
        let (plus, minus) = (V::splat(ratio), V::splat(-ratio));
        let negative = V::splat(-V::Element::ONE);
        for v in 0..half {
            let (re, im) = (row[v], row[v + half]);
            (row[v], row[v + half]) = match along_re {
                true => (re.add(im.mul(plus)), im.add(re.mul(minus))),
                false => (re.mul(plus).add(im), im.mul(plus).add(re.mul(negative))),
            };
        }
        divisor.divide_row(row)
    }
}

/// Fills the panel with alpha times the right-hand sides, and zeros behind them.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn fill<V: PartsVector, const VECTORS: usize, const COMPLEX: bool>(
    triangle: &Triangle<V::Element>,
) where
    V::Element: Parts,
{
    let &Triangle { n, cols, alpha, ref b, .. } = triangle;
    let (row_len, whole) = (const { VECTORS * V::LANES }, cols / V::LANES * V::LANES);
    let end = if COMPLEX { row_len / 2 } else { row_len };
    // SAFETY: the CPU has the instruction set of `V`.
    let zero = unsafe { V::splat(V::Element::ZERO) };
    for i in 0..n {
        let row = row_at::<V, VECTORS>(triangle, i);
        for at in (whole..end).step_by(V::LANES) {
            // SAFETY: a register of the row.
            unsafe { zero.store(row.wrapping_add(at)) };
            if COMPLEX {
                // SAFETY: one of its imaginary parts.
                unsafe { zero.store(row.wrapping_add(at).wrapping_add(end)) };
            }
        }
    }
    if COMPLEX && (b.row != 2 || alpha.1 != V::Element::ZERO) {
        // SAFETY: the caller's promises.
        return unsafe { fill_parts::<V, VECTORS>(triangle) };
    }
    if COMPLEX {
        // Parts that are contiguous are rows of real numbers, of which the panel has two in a row.
        // SAFETY: right-hand sides whose parts are contiguous, and their places in the panel.
        unsafe { turn_registers::<V>(b.at, b.col, cols, n.wrapping_mul(2), triangle.panel, end) };
    } else if b.col == 1 {
        for i in 0..n {
            let (from, to) = (triangle.side(i), row_at::<V, VECTORS>(triangle, i));
            // SAFETY: a row of the right-hand sides, and of the panel.
            unsafe { copy_line::<V>(from, to, cols) };
        }
    } else {
        // SAFETY: right-hand sides whose elements are contiguous, and their places in the panel.
        unsafe { turn_registers::<V>(b.at, b.col, cols, n, triangle.panel, row_len) };
    }
    if alpha.0 != V::Element::ONE {
        // SAFETY: the CPU has the instruction set of `V`.
        let factor = unsafe { V::splat(alpha.0) };
        for at in (0..n.wrapping_mul(row_len)).step_by(V::LANES) {
            let at = triangle.panel.wrapping_add(at);
            // SAFETY: a register of the panel, which is filled.
            let register = unsafe { V::load(at) };
            // SAFETY: the CPU has the instruction set of `V`.
            let product = unsafe { register.mul(factor) };
            // SAFETY: as above.
            unsafe { product.store(at) };
        }
    }
}

/// [`fill`] of complex numbers, but for the zeros.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn fill_parts<V: PartsVector, const VECTORS: usize>(triangle: &Triangle<V::Element>)
where
    V::Element: Parts,
{
    each_part::<V, VECTORS>(triangle, |element, re_at, im_at| {
        // SAFETY: the parts of a right-hand side's element.
        let x = unsafe { parts_at::<V::Element, true>(element) };
        let (re, im) = scaled::<V::Element, true>(triangle.alpha, x);
        // SAFETY: the place of the real part in the panel.
        unsafe { re_at.write(re) };
        // SAFETY: that of the imaginary part.
        unsafe { im_at.write(im) };
    });
}

/// Calls `with` for each complex right-hand side's element, along the lines that are contiguous, and the places of its
/// parts in the panel.
#[inline(always)]
fn each_part<V: PartsVector, const VECTORS: usize>(
    triangle: &Triangle<V::Element>,
    with: impl Fn(*mut V::Element, *mut V::Element, *mut V::Element),
) where
    V::Element: Parts,
{
    let &Triangle { n, cols, ref b, panel, .. } = triangle;
    let row_len = const { VECTORS * V::LANES };
    let by_columns = b.row < b.col;
    let (lines, along) = if by_columns { (cols, n) } else { (n, cols) };
    let (line_in_b, line_in_panel, step) =
        if by_columns { (b.col, 1, row_len) } else { (b.row, row_len, 1) };
    for line in 0..lines {
        let mut element = b.at.wrapping_add(line.wrapping_mul(line_in_b));
        let mut re = panel.wrapping_add(line.wrapping_mul(line_in_panel));
        for _ in 0..along {
            with(element, re, re.wrapping_add(row_len / 2));
            element = element.wrapping_add(2);
            re = re.wrapping_add(step);
        }
    }
}

/// Takes the right-hand sides from the panel.
///
/// # Safety
/// As [`run`], and the panel is filled.
#[inline(always)]
unsafe fn take<V: PartsVector, const VECTORS: usize, const COMPLEX: bool>(
    triangle: &Triangle<V::Element>,
) where
    V::Element: Parts,
{
    let &Triangle { n, cols, ref b, panel, .. } = triangle;
    let row_len = const { VECTORS * V::LANES };
    if COMPLEX && b.row == 2 {
        let (half, rows) = (row_len / 2, n.wrapping_mul(2));
        // SAFETY: rows of parts in the panel, and their places in right-hand sides whose parts are contiguous.
        return unsafe { turn_registers::<V>(panel, half, rows, cols, b.at, b.col) };
    }
    if COMPLEX {
        return each_part::<V, VECTORS>(triangle, |element, re_at, im_at| {
            // SAFETY: the place of the real part in the panel.
            let re = unsafe { re_at.read() };
            // SAFETY: that of the imaginary part.
            let im = unsafe { im_at.read() };
            // SAFETY: the parts of a right-hand side's element.
            unsafe { element.cast::<[V::Element; 2]>().write([re, im]) };
        });
    }
    if b.col == 1 {
        for i in 0..n {
            let (from, to) = (row_at::<V, VECTORS>(triangle, i), triangle.side(i));
            // SAFETY: a row of the panel, and of the right-hand sides.
            unsafe { copy_line::<V>(from, to, cols) };
        }
    } else {
        // SAFETY: rows of the panel, and their places in right-hand sides whose elements are contiguous.
        unsafe { turn_registers::<V>(panel, row_len, n, cols, b.at, b.col) };
    }
}

/// Copies elements that are contiguous.
///
/// # Safety
/// The CPU has the instruction set of `V`; they can be read and written.
#[inline(always)]
unsafe fn copy_line<V: PartsVector>(from: *const V::Element, to: *mut V::Element, len: usize) {
    let whole = len / V::LANES * V::LANES;
    for at in (0..whole).step_by(V::LANES) {
        // SAFETY: a register of what can be read.
        let register = unsafe { V::load(from.wrapping_add(at)) };
        // SAFETY: and its place.
        unsafe { register.store(to.wrapping_add(at)) };
    }
    if whole < len {
        // SAFETY: the CPU has the instruction set of `V`.
        let mask = unsafe { V::mask(len.wrapping_sub(whole)) };
        // SAFETY: the elements that are left.
        let register = unsafe { V::load_masked(from.wrapping_add(whole), mask) };
        // SAFETY: and their places.
        unsafe { register.store_masked(to.wrapping_add(whole), mask) };
    }
}
