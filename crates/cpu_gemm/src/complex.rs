//! Complex products by the tiles of real ones: only the packing differs.
//!
//! A column-major C of complex numbers is in memory a real matrix with twice the rows. Written out,
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

use std::ops::Range;

use gemm_spec::{Layout, Order};
use num_complex::Complex;

use crate::complex_in_tiles;
use crate::context::CpuContext;
use crate::driver;
use crate::field::{Factor, Field};
use crate::gemm::threads_for;
use crate::gemm_symmetric::Symmetric;
use crate::gemm_views::{plain, with_columns};
use crate::isa::CpuIsa;
use crate::kernels::{Kernels, OwnSums};
use crate::mirror::{Mirror, Mirrored};
#[cfg(target_arch = "aarch64")]
use crate::neon::Neon;
use crate::parts::Parts;
use crate::portable::{Lanes, Portable};
use crate::product::Product;
use crate::region::{Half, Region, TriangleOf};
use crate::types::PackedTypes;
use crate::view::ViewMut;
use crate::way::Way;
#[cfg(target_arch = "x86_64")]
use crate::{avx2::Avx2, avx512::Avx512};

/// Real numbers that complex ones are multiplied by.
pub(crate) trait ComplexKernels: OwnSums + Parts + PackedTypes {
    /// The kernels of an instruction set that this CPU has, for factors that are conjugated or not.
    fn kernels_of_parts(isa: CpuIsa, conjugated: (bool, bool)) -> &'static Kernels<Self>;
}

macro_rules! kernels {
    ($($real:ty: $avx512:ty, $avx2:ty, $lanes:ty;)*) => {$(
        impl ComplexKernels for $real {
            fn kernels_of_parts(isa: CpuIsa, conjugated: (bool, bool)) -> &'static Kernels<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => kernels!(@ Avx512, $avx512, conjugated),
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => kernels!(@ Avx2, $avx2, conjugated),
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => kernels!(@ Neon, $lanes, conjugated),
                    _ => kernels!(@ Portable, $lanes, conjugated),
                }
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

kernels! {
    f32: std::arch::x86_64::__m512, std::arch::x86_64::__m256, Lanes<f32, 4>;
    f64: std::arch::x86_64::__m512d, std::arch::x86_64::__m256d, Lanes<f64, 2>;
}

/// Elements of the part of C that is computed at once where its factors are not real.
const SCRATCH: usize = 1 << 20;
/// The same in matrix units.
const TILED: usize = 1 << 24;
/// Columns of such a part at least, or rows.
const SCRATCH_LINES: usize = 64;

/// [`Compute::multiply`](crate::field::sealed::Compute::multiply) of complex numbers.
///
/// Tiles know real factors alone. With others the product is computed some columns of C at a time in memory of
/// its own, and then multiplied.
pub(crate) fn multiply<T: ComplexKernels>(
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
    let (a, b, mut c) = with_columns(a, b, c);
    if alpha.im == T::ZERO && beta.im == T::ZERO {
        return multiply_by_reals(alpha, a, b, beta, c, context);
    }
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    // In matrix units A is written out for each of these parts.
    let elements = if complex_in_tiles::suits::<T>((m, n, k), context) { TILED } else { SCRATCH };
    let done = in_slices(alpha, beta, c.reborrow(), (elements, false), context, |cols, sums| {
        multiply_by_reals(one, a, b.part(0..k, cols), zero, sums, context);
    });
    if !done {
        plain(alpha, a, b, beta, c);
    }
}

/// `C = alpha * sums + beta * C`, of some columns of C at a time, or some rows, which have that many elements: for those of
/// each slice the sums are computed in memory of its own. `false` where there is no such memory, and nothing was written.
fn in_slices<T: ComplexKernels>(
    alpha: Complex<T>,
    beta: Complex<T>,
    mut c: ViewMut<'_, Complex<T>>,
    (elements, by_rows): (usize, bool),
    context: &CpuContext,
    compute: impl Fn(Range<usize>, ViewMut<'_, Complex<T>>),
) -> bool
where
    Complex<T>: Field<Real = T>,
{
    let zero = <Complex<T> as Field>::ZERO;
    let (m, n) = (c.rows(), c.cols());
    let (lines, other) = if by_rows { (m, n) } else { (n, m) };
    let lines_of_a_slice = (elements / other).max(SCRATCH_LINES).min(lines);
    let Ok(scratch) = context.spare().take::<Complex<T>>(other.saturating_mul(lines_of_a_slice))
    else {
        return false;
    };
    for from in (0..lines).step_by(lines_of_a_slice) {
        let slice = from..lines.min(from + lines_of_a_slice);
        let c = c.reborrow();
        let mut c = match by_rows {
            true => c.part(slice.clone(), 0..n),
            false => c.part(0..m, slice.clone()),
        };
        let (rows, cols) = (c.rows(), c.cols());
        let layout = Layout::col_major(rows);
        // SAFETY: the buffer has room for a slice, and one view of it is in use at a time.
        let mut sums = unsafe { ViewMut::from_raw(scratch.as_mut_ptr(), rows, cols, layout) };
        compute(slice, sums.reborrow());
        for col in 0..cols {
            for row in 0..rows {
                let old = if beta == zero { zero } else { beta * c.get(row, col) };
                c.set(row, col, old.add_product(alpha, sums.get(row, col)));
            }
        }
    }
    context.spare().give_back(scratch, context.threads());
    true
}

/// The same with real factors and a C whose columns are contiguous.
fn multiply_by_reals<T: ComplexKernels>(
    alpha: Complex<T>,
    a: Factor<'_, Complex<T>>,
    b: Factor<'_, Complex<T>>,
    beta: Complex<T>,
    mut c: ViewMut<'_, Complex<T>>,
    context: &CpuContext,
) where
    Complex<T>: Field<Real = T>,
{
    if complex_in_tiles::suits::<T>((c.rows(), c.cols(), a.view.cols()), context) {
        let way = Way::Units(context.units());
        let done = complex_in_tiles::multiply(way, alpha.re, a, b, beta.re, &mut c, context);
        // An error comes before anything is written.
        if done.is_ok() {
            return;
        }
    }
    let product = product_of_parts(alpha.re, a, b, beta.re, &mut c);
    let (m, n, k) = (product.m, product.n, product.k);
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

/// The product of parts that the product of complex numbers is, its factors being real and C's columns contiguous.
fn product_of_parts<T: ComplexKernels>(
    alpha: T,
    a: Factor<'_, Complex<T>>,
    b: Factor<'_, Complex<T>>,
    beta: T,
    c: &mut ViewMut<'_, Complex<T>>,
) -> Product<T> {
    let ((a_row, a_col), (b_row, b_col)) = (a.view.strides(), b.view.strides());
    let (m, n, k) = (2 * c.rows(), c.cols(), 2 * a.view.cols());
    Product {
        m,
        n,
        k,
        alpha,
        beta,
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
        completion: None,
    }
}

/// [`Compute::multiply_triangle`](crate::field::sealed::Compute::multiply_triangle) of complex numbers.
pub(crate) fn multiply_triangle<T: ComplexKernels>(
    of: TriangleOf,
    alpha: Complex<T>,
    a: Factor<'_, Complex<T>>,
    b: Factor<'_, Complex<T>>,
    beta: Complex<T>,
    c: ViewMut<'_, Complex<T>>,
    context: &CpuContext,
) -> bool
where
    Complex<T>: Field<Real = T>,
{
    if alpha.im != T::ZERO || beta.im != T::ZERO {
        return false;
    }
    let (a, b, mut c) = with_columns(a, b, c);
    let product = product_of_parts(alpha.re, a, b, beta.re, &mut c);
    let kernels = T::kernels_of_parts(context.isa(), (a.conjugated, b.conjugated));
    let threads = threads_for((product.m, product.n.div_ceil(2), product.k), context);
    let region = Region::Triangle(Half { of, parts: 2 });
    // SAFETY: as in `multiply_by_reals`; tiles as well begin with even rows.
    unsafe { driver::multiply_part(&product, region, None, kernels, context, threads) }.is_ok()
}

/// [`Compute::multiply_symmetric`](crate::field::sealed::Compute::multiply_symmetric) of complex numbers.
pub(crate) fn multiply_symmetric<T: ComplexKernels>(
    alpha: Complex<T>,
    a: Symmetric<'_, Complex<T>>,
    b: Factor<'_, Complex<T>>,
    beta: Complex<T>,
    mut c: ViewMut<'_, Complex<T>>,
    context: &CpuContext,
) where
    Complex<T>: Field<Real = T>,
{
    let (zero, one) = (<Complex<T> as Field>::ZERO, <Complex<T> as Field>::ONE);
    let n = c.rows();
    if alpha.im == T::ZERO && beta.im == T::ZERO {
        symmetric_by_reals(alpha, a, b, beta, c, context);
        return;
    }
    // Slices of B alone: A is whole.
    let by_rows = c.layout().order == Order::RowMajor;
    let columns = if by_rows { c.reborrow().transposed() } else { c.reborrow() };
    let done = in_slices(alpha, beta, columns, (SCRATCH, by_rows), context, |slice, sums| {
        let sums = if by_rows { sums.transposed() } else { sums };
        symmetric_by_reals(one, a, b.part(0..n, slice), zero, sums, context);
    });
    if !done {
        a.plain(alpha, b, beta, c);
    }
}

/// The same with real factors.
fn symmetric_by_reals<T: ComplexKernels>(
    alpha: Complex<T>,
    a: Symmetric<'_, Complex<T>>,
    b: Factor<'_, Complex<T>>,
    beta: Complex<T>,
    mut c: ViewMut<'_, Complex<T>>,
    context: &CpuContext,
) where
    Complex<T>: Field<Real = T>,
{
    let hermitian = a.of.real_diagonal;
    // Elements as they are stored: a conjugate is a sign in the packing.
    let stored = Symmetric { a: Factor::plain(a.a.view), ..a };
    let element = |line, step| {
        let number = stored.get(line, step);
        [number.re, number.im]
    };
    let kernels_of = |a: bool, b: bool| T::kernels_of_parts(context.isa(), (a, b));
    let mirrored = |parts, width, pack, pack_mirrored| Mirrored {
        stored_behind: a.of.upper,
        parts,
        width,
        pack,
        pack_mirrored,
        element: &element,
    };
    let order = c.layout().order;
    let (left, right, mut columns) = with_columns(a.a, b, c.reborrow());
    let kernels = kernels_of(left.conjugated, right.conjugated);
    let of_mirrored = kernels_of(left.conjugated ^ hermitian, right.conjugated ^ hermitian);
    let mirror = match order {
        Order::ColMajor => {
            Mirror::A(mirrored((2, 2), kernels.rows, kernels.pack_a, of_mirrored.pack_a))
        }
        Order::RowMajor => {
            Mirror::B(mirrored((1, 2), kernels.cols, kernels.pack_b, of_mirrored.pack_b))
        }
    };
    let product = product_of_parts(alpha.re, left, right, beta.re, &mut columns);
    let threads = threads_for((product.m, product.n, product.k), context);
    // SAFETY: as in `multiply_by_reals`; of the factor that is symmetric one triangle is read.
    let done = unsafe {
        driver::multiply_part(&product, Region::All, Some(&mirror), kernels, context, threads)
    };
    // An error comes before anything is written.
    if done.is_err() {
        a.plain(alpha, b, beta, c);
    }
}
