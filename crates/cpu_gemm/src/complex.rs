//! Complex products by the tiles of real ones: only the packing differs.
//!
//! A column-major C of complex numbers is, as it lies in memory, a real matrix with twice the rows. Written out,
//! with A's elements as squares of two by two and B's as two steps,
//!
//! ```text
//!   | re c |     | re a  -im a |   | re b |
//!   |      |  += |             | * |      |
//!   | im c |     | im a   re a |   | im b |
//! ```
//!
//! is a real product of 2m by n by 2k: as many multiply-adds as the complex product has. So a panel of A holds
//! two columns for each step, a panel of B two rows, a conjugate is a sign in the packing, and the tiles and the
//! loops round them are those of real numbers.
//!
//! Source: Van Zee and Smith, "Implementing high-performance complex matrix multiplication via the 1m method"
//! (2020).

use std::ops::{Add, Div, Mul, Neg, Sub};

use gemm_spec::Layout;
use num_complex::Complex;

use crate::context::CpuContext;
use crate::driver;
use crate::field::{Factor, Field, plain, strides, with_columns};
use crate::gemm::threads_for;
use crate::isa::CpuIsa;
use crate::kernels::{InstructionSet, Kernels, OwnSums};
#[cfg(target_arch = "aarch64")]
use crate::neon::Neon;
use crate::pack::Pack;
use crate::portable::{Lanes, Portable};
use crate::product::Product;
use crate::triangle::TriangleFn;
use crate::view::ViewMut;
#[cfg(target_arch = "x86_64")]
use crate::{avx2::Avx2, avx512::Avx512};

/// A real number that is a part of complex ones.
pub(crate) trait Parts:
    OwnSums
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + PartialOrd
{
    /// The kernels of an instruction set that this CPU has, for factors that are conjugated or not.
    fn kernels_of_parts(isa: CpuIsa, conjugated: (bool, bool)) -> &'static Kernels<Self>
    where
        Self: Sized;

    /// The function for triangles, and how many elements one of its registers has.
    fn triangle_function(isa: CpuIsa) -> (TriangleFn<Self>, usize)
    where
        Self: Sized;

    /// The absolute value.
    fn magnitude(self) -> Self;
}

macro_rules! parts {
    ($($real:ty: $avx512:ty, $avx2:ty, $lanes:ty;)*) => {$(
        impl Parts for $real {
            fn kernels_of_parts(isa: CpuIsa, conjugated: (bool, bool)) -> &'static Kernels<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => parts!(@ Avx512, $avx512, conjugated),
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => parts!(@ Avx2, $avx2, conjugated),
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => parts!(@ Neon, $lanes, conjugated),
                    _ => parts!(@ Portable, $lanes, conjugated),
                }
            }

            fn triangle_function(isa: CpuIsa) -> (TriangleFn<Self>, usize) {
                use crate::vector::Vector;
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => (Avx512::triangle::<$avx512>, <$avx512>::LANES),
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => (Avx2::triangle::<$avx2>, <$avx2>::LANES),
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => (Neon::triangle::<$lanes>, <$lanes>::LANES),
                    _ => (Portable::triangle::<$lanes>, <$lanes>::LANES),
                }
            }

            fn magnitude(self) -> Self {
                self.abs()
            }
        }
    )*};
    (@ $isa:ty, $vector:ty, $conjugated:ident) => {
        match $conjugated {
            (false, false) => const { &Kernels::of_parts::<$isa, $vector, false, false>() },
            (false, true) => const { &Kernels::of_parts::<$isa, $vector, false, true>() },
            (true, false) => const { &Kernels::of_parts::<$isa, $vector, true, false>() },
            (true, true) => const { &Kernels::of_parts::<$isa, $vector, true, true>() },
        }
    };
}

parts! {
    f32: std::arch::x86_64::__m512, std::arch::x86_64::__m256, Lanes<f32, 4>;
    f64: std::arch::x86_64::__m512d, std::arch::x86_64::__m256d, Lanes<f64, 2>;
}

/// Packs panels of A. Rows and steps of the panels are real, those of `from` complex: line `2 * i` and the next
/// at step `2 * p` and the next are the square of element (i, p), whose parts are at
/// `from + 2 * (i * along + p * step)`.
///
/// # Safety
/// As [`pack`](crate::pack::pack), of those elements; lines, steps and width are even.
#[inline(always)]
pub(crate) unsafe fn pack_a<T: Parts, const CONJUGATED: bool>(panels: &Pack<T, T>, width: usize) {
    let &Pack { from, along, step, lines, k, to } = panels;
    let from = from.cast::<[T; 2]>();
    let mut to = to;
    for first in (0..lines).step_by(width) {
        let count = width.min(lines.wrapping_sub(first)) / 2;
        let from = from.wrapping_add((first / 2).wrapping_mul(along));
        if along == 1 {
            // SAFETY: the lines of this panel, which exist, and its place.
            unsafe { panel_of_a::<T, CONJUGATED>(from, (1, step), count, k / 2, to, width) };
        } else {
            // SAFETY: as above.
            unsafe { panel_of_a::<T, CONJUGATED>(from, (along, step), count, k / 2, to, width) };
        }
        to = to.wrapping_add(width.wrapping_mul(k));
    }
}

/// A panel of `count` complex lines.
///
/// # Safety
/// As [`pack_a`].
#[inline(always)]
unsafe fn panel_of_a<T: Parts, const CONJUGATED: bool>(
    from: *const [T; 2],
    (along, step): (usize, usize),
    count: usize,
    steps: usize,
    to: *mut T,
    width: usize,
) {
    for p in 0..steps {
        let from = from.wrapping_add(p.wrapping_mul(step));
        let to = to.wrapping_add(p.wrapping_mul(2).wrapping_mul(width)).cast::<[T; 2]>();
        let second = to.wrapping_add(width / 2);
        for i in 0..width / 2 {
            let [re, im] = if i < count {
                // SAFETY: one of the panel's lines, at a step that exists.
                unsafe { from.wrapping_add(i.wrapping_mul(along)).read() }
            } else {
                [T::ZERO; 2]
            };
            let im = if CONJUGATED { -im } else { im };
            // SAFETY: its place in the first column.
            unsafe { to.wrapping_add(i).write([re, im]) };
            // SAFETY: its place in the second column.
            unsafe { second.wrapping_add(i).write([-im, re]) };
        }
    }
}

/// Packs panels of B. Steps are real and twice those of `from`, columns are not: step `2 * p` holds the real parts
/// of the elements at `from + j * along + 2 * p * step`, the next step the imaginary ones.
///
/// # Safety
/// As [`pack_a`], but lines and width need not be even.
#[inline(always)]
pub(crate) unsafe fn pack_b<T: Parts, const CONJUGATED: bool>(panels: &Pack<T, T>, width: usize) {
    let &Pack { from, along, step, lines, k, to } = panels;
    let mut to = to;
    for first in (0..lines).step_by(width) {
        let count = width.min(lines.wrapping_sub(first));
        let from = from.wrapping_add(first.wrapping_mul(along));
        for p in 0..k / 2 {
            let from = from.wrapping_add(p.wrapping_mul(2).wrapping_mul(step));
            let re_to = to.wrapping_add(p.wrapping_mul(2).wrapping_mul(width));
            let im_to = re_to.wrapping_add(width);
            for j in 0..width {
                let [re, im] = if j < count {
                    let from = from.wrapping_add(j.wrapping_mul(along)).cast::<[T; 2]>();
                    // SAFETY: one of the panel's columns, at a step that exists.
                    unsafe { from.read() }
                } else {
                    [T::ZERO; 2]
                };
                // SAFETY: its place in the row of real parts.
                unsafe { re_to.wrapping_add(j).write(re) };
                // SAFETY: its place in the row of imaginary parts.
                unsafe { im_to.wrapping_add(j).write(if CONJUGATED { -im } else { im }) };
            }
        }
        to = to.wrapping_add(width.wrapping_mul(k));
    }
}

/// Elements of the part of C that is computed at once where its factors are not real.
const SCRATCH: usize = 1 << 20;
/// Columns of such a part at least.
const SCRATCH_COLUMNS: usize = 64;

/// [`Compute::multiply`](crate::field::sealed::Compute::multiply) of complex numbers.
///
/// Tiles know real factors alone. With others the product is computed some columns of C at a time in memory of
/// its own, and then multiplied.
pub(crate) fn multiply<T: Parts>(
    alpha: Complex<T>,
    a: Factor<'_, Complex<T>>,
    b: Factor<'_, Complex<T>>,
    beta: Complex<T>,
    c: ViewMut<'_, Complex<T>>,
    context: &CpuContext,
) where
    Complex<T>: Field<Real = T>,
{
    let (zero, one) = (<Complex<T> as Field>::ZERO, <Complex<T> as Field>::ONE);
    let (a, b, mut c, _) = with_columns(a, b, c);
    if alpha.im == T::ZERO && beta.im == T::ZERO {
        return multiply_by_reals(alpha, a, b, beta, c, context);
    }
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    let cols = (SCRATCH / m).max(SCRATCH_COLUMNS).min(n);
    let Ok(scratch) = context.spare().take::<Complex<T>>(m.saturating_mul(cols)) else {
        return plain(alpha, a, b, beta, c);
    };
    let layout = Layout::col_major(m);
    for from in (0..n).step_by(cols) {
        let to = n.min(from + cols);
        // SAFETY: the buffer has room for `cols` columns, and one view of it is in use at a time.
        let mut sums = unsafe { ViewMut::from_raw(scratch.as_mut_ptr(), m, to - from, layout) };
        multiply_by_reals(one, a, b.part(0..k, from..to), zero, sums.reborrow(), context);
        let mut c = c.reborrow().part(0..m, from..to);
        for col in 0..to - from {
            for row in 0..m {
                let old = if beta == zero { zero } else { beta * c.get(row, col) };
                c.set(row, col, old.add_product(alpha, sums.get(row, col)));
            }
        }
    }
    context.spare().give_back(scratch, context.threads());
}

/// The same with real factors and a C whose columns are contiguous.
fn multiply_by_reals<T: Parts>(
    alpha: Complex<T>,
    a: Factor<'_, Complex<T>>,
    b: Factor<'_, Complex<T>>,
    beta: Complex<T>,
    mut c: ViewMut<'_, Complex<T>>,
    context: &CpuContext,
) where
    Complex<T>: Field<Real = T>,
{
    let ((a_row, a_col), (b_row, b_col)) = (strides(&a.view), strides(&b.view));
    let (m, n, k) = (2 * c.rows(), c.cols(), 2 * a.view.cols());
    let product = Product::<T> {
        m,
        n,
        k,
        alpha: alpha.re,
        beta: beta.re,
        // Rows and steps are counted twice, so that blocks, which begin with even ones, are found where they are:
        // `2 * i` times this is the offset of row `i` in real numbers.
        a: a.view.as_ptr().cast(),
        a_row,
        a_col,
        b: b.view.as_ptr().cast(),
        b_row,
        b_col: 2 * b_col,
        ldc: 2 * c.layout().ld,
        c: c.as_mut_ptr().cast(),
        swapped: false,
    };
    let kernels = T::kernels_of_parts(context.isa(), (a.conjugated, b.conjugated));
    let threads = threads_for((m, n, k), context);
    // SAFETY: the views hold the elements of the product, which fit together, and C is one that nobody else has;
    // the kernels' packing reads pairs of parts. Blocks of rows are of whole tiles and those of k of eight steps,
    // so all begin with even rows and steps.
    let done = unsafe { driver::multiply(&product, kernels, context, threads) };
    // An error comes before anything is written.
    if done.is_err() {
        plain(alpha, a, b, beta, c);
    }
}
