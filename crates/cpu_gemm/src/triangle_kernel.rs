//! A small triangle and a panel of right-hand sides, row after row in registers:
//!
//! ```text
//!   solve      x(i) = (x(i) - sum of a(i, p) * x(p)) / a(i, i)
//!   multiply   x(i) =  a(i, i) * x(i) + sum of a(i, p) * x(p)
//! ```
//!
//! Solving substitutes: nothing is inverted, and a zero on the diagonal reaches no row that is solved before it. The
//! other triangle is not read, nor is the diagonal where it is said to be one.

use gemm_spec::Element as _;

use crate::parts::Parts;
use crate::vector::Vector;

/// Rows of a triangle at most.
pub const BLOCK: usize = 32;
/// Registers of a row of the panel.
pub(crate) const VECTORS: usize = 8;
/// The same of few right-hand sides.
pub(crate) const FEW_VECTORS: usize = 2;

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

/// A triangle and a panel of right-hand sides.
pub(crate) struct Triangle<T> {
    pub(crate) task: Task,
    /// Rows.
    pub(crate) n: usize,
    /// Whether there are imaginary parts.
    pub(crate) complex: bool,
    /// Row i begins at `i * BLOCK`.
    pub(crate) re: *const T,
    /// See `re`.
    pub(crate) im: *const T,
    /// Row i of the panel begins at `i` times the length of a row, whole registers: of complex numbers half of
    /// them hold the real parts, the others the imaginary ones.
    pub(crate) panel: *mut T,
}

/// Computes a panel; see [`run`] for what it demands.
pub(crate) type TriangleFn<T> = unsafe fn(&Triangle<T>);

/// Computes a panel in place, whose rows are that many registers long.
///
/// # Safety
/// The CPU has the instruction set of `V`. `n` rows of the panel can be read and written, and those coefficients read
/// that are in the triangle, but for the diagonal where it is said to be one, and imaginary ones of real numbers.
#[inline(always)]
pub(crate) unsafe fn run<V: Vector, const VECTORS: usize>(triangle: &Triangle<V::Element>)
where
    V::Element: Parts,
{
    let &Triangle { task: Task { solve, upper, unit }, n, complex, re, im, panel } = triangle;
    let row_len = VECTORS.wrapping_mul(V::LANES);
    for index in 0..n {
        // A row is computed before those that it is read for, or behind those that it depends on.
        let i = if solve == upper { n.wrapping_sub(index).wrapping_sub(1) } else { index };
        let (first, end) = if upper { (i.wrapping_add(1), n) } else { (0, i) };
        let at = i.wrapping_mul(BLOCK);
        let row = panel.wrapping_add(i.wrapping_mul(row_len));
        // SAFETY: the caller's promises: row i of the panel.
        let mut sums = unsafe { load_row::<V, VECTORS>(row) };
        let coefficient = |of: *const V::Element, p: usize| {
            // SAFETY: a coefficient of row i.
            let value = unsafe { of.wrapping_add(at.wrapping_add(p)).read() };
            if solve && p != i { -value } else { value }
        };
        if !solve && !unit {
            let by =
                (coefficient(re, i), if complex { coefficient(im, i) } else { V::Element::ZERO });
            // SAFETY: the CPU has the instruction set of `V`.
            let zeros = [unsafe { V::splat(V::Element::ZERO) }; VECTORS];
            // SAFETY: as above.
            sums = unsafe { add_row(zeros, sums, by, complex) };
        }
        for p in first..end {
            let other = panel.wrapping_add(p.wrapping_mul(row_len));
            // SAFETY: row p of the panel.
            let other = unsafe { load_row::<V, VECTORS>(other) };
            let by =
                (coefficient(re, p), if complex { coefficient(im, p) } else { V::Element::ZERO });
            // SAFETY: the CPU has the instruction set of `V`.
            sums = unsafe { add_row(sums, other, by, complex) };
        }
        let mut to = row;
        for register in sums {
            // SAFETY: the CPU has the instruction set, and row i of the panel is as long.
            unsafe { register.store(to) };
            to = to.wrapping_add(V::LANES);
        }
        if solve && !unit {
            let by =
                (coefficient(re, i), if complex { coefficient(im, i) } else { V::Element::ZERO });
            // SAFETY: row i of the panel.
            unsafe { divide_row(row, row_len, by, complex) };
        }
    }
}

/// A row of the panel.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn load_row<V: Vector, const VECTORS: usize>(from: *const V::Element) -> [V; VECTORS] {
    let mut from = from;
    // SAFETY: the CPU has the instruction set of `V`.
    let mut row = [unsafe { V::splat(V::Element::ZERO) }; VECTORS];
    for register in &mut row {
        // SAFETY: a row has that many registers.
        *register = unsafe { V::load(from) };
        from = from.wrapping_add(V::LANES);
    }
    row
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
unsafe fn add_row<V: Vector, const VECTORS: usize>(
    mut sums: [V; VECTORS],
    row: [V; VECTORS],
    (re, im): (V::Element, V::Element),
    complex: bool,
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
        if complex {
            let (plus, minus) = (V::splat(im), V::splat(-im));
            for v in 0..half {
                sums[v] = row[v + half].mul_add(minus, sums[v]);
                sums[v + half] = row[v].mul_add(plus, sums[v + half]);
            }
        }
    }
    sums
}

/// Divides a row of the panel; complex numbers as [`Field::divide`](crate::field::Field::divide) does.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn divide_row<T: Parts>(row: *mut T, len: usize, (re, im): (T, T), complex: bool) {
    if !complex {
        for at in 0..len {
            let at = row.wrapping_add(at);
            // SAFETY: an element of the row.
            let value = unsafe { at.read() };
            // SAFETY: as above.
            unsafe { at.write(value / re) };
        }
        return;
    }
    let along_re = re.magnitude() >= im.magnitude();
    let (ratio, divisor) =
        if along_re { (im / re, re + im * (im / re)) } else { (re / im, im + re * (re / im)) };
    for at in 0..len / 2 {
        let (re_at, im_at) = (row.wrapping_add(at), row.wrapping_add(at.wrapping_add(len / 2)));
        // SAFETY: elements of the row.
        let re = unsafe { re_at.read() };
        // SAFETY: as above.
        let im = unsafe { im_at.read() };
        let (new_re, new_im) = match along_re {
            true => (re + im * ratio, im - re * ratio),
            false => (re * ratio + im, im * ratio - re),
        };
        // SAFETY: as above.
        unsafe { re_at.write(new_re / divisor) };
        // SAFETY: as above.
        unsafe { im_at.write(new_im / divisor) };
    }
}
