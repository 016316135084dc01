//! A small triangle and many right-hand sides: what is left of a triangular solve or product when all that is
//! rectangular has been given to [`gemm_views`](crate::gemm_views).
//!
//! Right-hand sides are copied into a panel, some at a time, so that a row of it fills registers. Row after row
//! is then computed in place:
//!
//! ```text
//!   solve      x(i) = (x(i) - sum of a(i, p) * x(p)) / a(i, i)
//!   multiply   x(i) =  a(i, i) * x(i) + sum of a(i, p) * x(p)
//! ```
//!
//! Solving substitutes: nothing is inverted, and a zero on the diagonal reaches no row that is solved before it. The
//! other triangle is not read, nor is the diagonal where it is said to be one.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use gemm_spec::{Element as _, Order};

use crate::complex::Parts;
use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Factor, Field};
use crate::gemm::threads_for;
use crate::vector::Vector;
use crate::view::ViewMut;

/// Rows of a triangle at most.
pub const BLOCK: usize = 32;
/// Registers of a row of the panel.
const VECTORS: usize = 8;
/// Bytes of the largest register.
const REGISTER: usize = 64;

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
    task: Task,
    /// Rows.
    n: usize,
    /// Whether there are imaginary parts.
    complex: bool,
    /// Row i begins at `i * BLOCK`.
    re: *const T,
    /// See `re`.
    im: *const T,
    /// Row i of the panel begins at `i` times the length of a row, `VECTORS` registers: of complex numbers half of
    /// them hold the real parts, the others the imaginary ones.
    panel: *mut T,
}

/// Computes a panel; see [`run`] for what it demands.
pub(crate) type TriangleFn<T> = unsafe fn(&Triangle<T>);

/// Computes a panel in place.
///
/// # Safety
/// The CPU has the instruction set of `V`. `n` rows of the coefficients and of the panel can be read, and the
/// panel written.
#[inline(always)]
pub(crate) unsafe fn run<V: Vector>(triangle: &Triangle<V::Element>)
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
        let mut sums = unsafe { load_row::<V>(row) };
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
            let other = unsafe { load_row::<V>(other) };
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
unsafe fn load_row<V: Vector>(from: *const V::Element) -> [V; VECTORS] {
    let mut from = from;
    // SAFETY: the CPU has the instruction set of `V`.
    let mut row = [unsafe { V::splat(V::Element::ZERO) }; VECTORS];
    for register in &mut row {
        // SAFETY: a row has so many registers.
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
unsafe fn add_row<V: Vector>(
    mut sums: [V; VECTORS],
    row: [V; VECTORS],
    (re, im): (V::Element, V::Element),
    complex: bool,
) -> [V; VECTORS]
where
    V::Element: Parts,
{
    const HALF: usize = VECTORS / 2;
    // SAFETY: the caller's promise.
    unsafe {
        let by = V::splat(re);
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum = x.mul_add(by, *sum);
        }
        if complex {
            let (plus, minus) = (V::splat(im), V::splat(-im));
            for v in 0..HALF {
                sums[v] = row[v + HALF].mul_add(minus, sums[v]);
                sums[v + HALF] = row[v].mul_add(plus, sums[v + HALF]);
            }
        }
    }
    sums
}

/// Divides a row of the panel; see [`Field::divide`].
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

/// `B = alpha * A^-1 * B` or `B = alpha * A * B` in place, A a triangle of [`BLOCK`] rows at most, which may
/// stand for its conjugate.
///
/// # Errors
/// [`Error::Sizes`] where A is not square, is larger, or has not as many rows as B.
pub fn triangle<T: Field>(
    task: Task,
    alpha: T,
    a: Factor<'_, T>,
    b: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let n = a.view.rows();
    if n > BLOCK || a.view.cols() != n || b.rows() != n {
        let (b, c) = ((b.rows(), b.cols()), (b.rows(), b.cols()));
        return Err(Error::Sizes { a: (n, a.view.cols()), b, c });
    }
    T::triangle(task, alpha, a, b, context);
    Ok(())
}

/// A number as its parts.
pub(crate) trait Split: Field {
    /// Real and imaginary part.
    fn split(self) -> (Self::Real, Self::Real);
    /// The number of these parts.
    fn join(re: Self::Real, im: Self::Real) -> Self;
}

macro_rules! split {
    ($($real:ty),*) => {$(
        impl Split for $real {
            #[inline(always)]
            fn split(self) -> (Self, Self) {
                (self, 0.0)
            }

            #[inline(always)]
            fn join(re: Self, _: Self) -> Self {
                re
            }
        }

        impl Split for num_complex::Complex<$real> {
            #[inline(always)]
            fn split(self) -> ($real, $real) {
                (self.re, self.im)
            }

            #[inline(always)]
            fn join(re: $real, im: $real) -> Self {
                Self::new(re, im)
            }
        }
    )*};
}

split!(f32, f64);

/// Room for the coefficients of one part.
type Coefficients<T> = [T; BLOCK * BLOCK];

/// Room for a panel.
#[repr(align(64))]
struct Panel([MaybeUninit<u8>; BLOCK * VECTORS * REGISTER]);

/// [`triangle`], the sizes being right.
pub(crate) fn compute<R: Parts, T: Split<Real = R>>(
    task: Task,
    alpha: T,
    a: Factor<'_, T>,
    b: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (n, cols) = (b.rows(), b.cols());
    if n == 0 || cols == 0 {
        return;
    }
    let (mut re, mut im): (Coefficients<R>, Coefficients<R>) =
        ([R::ZERO; BLOCK * BLOCK], [R::ZERO; BLOCK * BLOCK]);
    for i in 0..n {
        let range = if task.upper { i..n } else { 0..i + 1 };
        for p in range.filter(|&p| p != i || !task.unit) {
            (re[i * BLOCK + p], im[i * BLOCK + p]) = a.get(i, p).split();
        }
    }
    let (function, lanes) = R::triangle_function(context.isa());
    let width = if T::IS_COMPLEX { VECTORS / 2 } else { VECTORS } * lanes;
    let parts = Parted { b, width, next: AtomicUsize::new(0) };
    let work = if T::IS_COMPLEX { 4 * n * n } else { n * n };
    let threads = threads_for((work / 2, cols, 1), context).min(cols.div_ceil(width));
    context.run_on(threads, || {
        let mut room = Panel([MaybeUninit::uninit(); BLOCK * VECTORS * REGISTER]);
        let panel = room.0.as_mut_ptr().cast::<R>();
        let row_len = VECTORS * lanes;
        for at in 0..n * row_len {
            // SAFETY: the room has `BLOCK` rows of `VECTORS` of the largest registers, and is aligned for them.
            unsafe { panel.wrapping_add(at).write(R::ZERO) };
        }
        while let Some(mut b) = parts.take() {
            let sides = Sides::of(&mut b, panel, row_len);
            sides.each(|element, re_at, im_at| {
                // SAFETY: an element of this thread's part of B.
                let value = unsafe { element.read() };
                let (re, im) = (if alpha == T::ONE { value } else { alpha * value }).split();
                // SAFETY: its place in the panel, which is this thread's own.
                unsafe { re_at.write(re) };
                if T::IS_COMPLEX {
                    // SAFETY: as above.
                    unsafe { im_at.write(im) };
                }
            });
            let (re, im) = (re.as_ptr(), im.as_ptr());
            let triangle = Triangle { task, n, complex: T::IS_COMPLEX, re, im, panel };
            // SAFETY: a context's instruction set is one that this CPU has; coefficients and panel have `n` rows.
            unsafe { function(&triangle) };
            sides.each(|element, re_at, im_at| {
                // SAFETY: an element's place in the panel.
                let re = unsafe { re_at.read() };
                let im = match T::IS_COMPLEX {
                    // SAFETY: as above.
                    true => unsafe { im_at.read() },
                    false => R::ZERO,
                };
                // SAFETY: an element of this thread's part of B.
                unsafe { element.write(T::join(re, im)) };
            });
        }
    });
}

/// The right-hand sides of a panel, and where each of their elements is in both.
struct Sides<T, R> {
    b: *mut T,
    rows: usize,
    cols: usize,
    ld: usize,
    by_columns: bool,
    panel: *mut R,
    row_len: usize,
}

impl<T: Split<Real = R>, R> Sides<T, R> {
    fn of(b: &mut ViewMut<'_, T>, panel: *mut R, row_len: usize) -> Self {
        Self {
            rows: b.rows(),
            cols: b.cols(),
            ld: b.layout().ld,
            by_columns: b.layout().order == Order::ColMajor,
            b: b.as_mut_ptr(),
            panel,
            row_len,
        }
    }

    /// Calls `with` for each element with its address, and the places of its parts in the panel, along the lines of B.
    #[inline(always)]
    fn each(&self, with: impl Fn(*mut T, *mut R, *mut R)) {
        let (lines, along) = match self.by_columns {
            true => (self.cols, self.rows),
            false => (self.rows, self.cols),
        };
        let (line_step, step) = match self.by_columns {
            true => (1, self.row_len),
            false => (self.row_len, 1),
        };
        for line in 0..lines {
            let mut element = self.b.wrapping_add(line.wrapping_mul(self.ld));
            let mut re = self.panel.wrapping_add(line.wrapping_mul(line_step));
            for _ in 0..along {
                with(element, re, re.wrapping_add(self.row_len / 2));
                element = element.wrapping_add(1);
                re = re.wrapping_add(step);
            }
        }
    }
}

/// Right-hand sides, some columns for each who asks.
struct Parted<'a, T> {
    b: ViewMut<'a, T>,
    width: usize,
    next: AtomicUsize,
}

impl<T> Parted<'_, T> {
    /// The next columns, which nobody else gets.
    fn take(&self) -> Option<ViewMut<'_, T>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed).checked_mul(self.width)?;
        let (rows, cols) = (self.b.rows(), self.b.cols());
        let end = cols.min(first.checked_add(self.width)?);
        if first >= end {
            return None;
        }
        let at = self.b.as_view().as_ptr().cast_mut();
        // SAFETY: the elements of `b`, of which the parts below are disjoint: the counter gives no number twice.
        let whole = unsafe { ViewMut::from_raw(at, rows, cols, self.b.layout()) };
        Some(whole.part(0..rows, first..end))
    }
}
