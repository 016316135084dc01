//! A small triangle and many right-hand sides: what is left of a triangular solve or product when all that is
//! rectangular has been given to [`gemm_views`](crate::gemm_views()).
//!
//! Right-hand sides are copied into a panel, some at a time, so that a row of it fills registers, and are computed
//! there in place ([`crate::triangle_kernel`]). The triangle is read in place for one panel, and copied for several.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Factor, Field};
use crate::gemm::threads_for;
use crate::isa::CpuIsa;
use crate::kernels::InstructionSet as _;
#[cfg(target_arch = "aarch64")]
use crate::neon::Neon;
use crate::parts::Parts;
use crate::portable::{Lanes, Portable};
use crate::triangle_kernel::{BLOCK, Elements, Task, Triangle, TriangleFn, VECTORS};
use crate::vector::Vector;
use crate::view::ViewMut;
#[cfg(target_arch = "x86_64")]
use crate::{avx2::Avx2, avx512::Avx512};

/// `B = alpha * A^-1 * B` or `B = alpha * A * B` in place, A a triangle of [`largest_triangle`] rows at most, which may
/// stand for its conjugate.
///
/// A right-hand side has the same bits alone as beside others; of real numbers, and of at most [`BLOCK`] complex ones, in
/// either storage order.
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
    if n > largest_triangle::<T>() || a.view.cols() != n || b.rows() != n {
        let (b, c) = ((b.rows(), b.cols()), (b.rows(), b.cols()));
        return Err(Error::Sizes { a: (n, a.view.cols()), b, c });
    }
    T::triangle(task, alpha, a, b, context);
    Ok(())
}

/// Blocks of a triangle of real numbers at most: packed it fits a core's second cache, beside right-hand sides. Complex
/// numbers, packed, take up to four times the room.
const BLOCKS: usize = 8;

/// Rows of a triangle that [`triangle`] computes.
#[must_use]
pub fn largest_triangle<T: Field>() -> usize {
    BLOCKS * BLOCK / parts_of::<T>()
}

/// Functions for triangles by how many registers a row of their panels has, the fewest first.
type Functions<T> = &'static [(usize, TriangleFn<T>)];

/// Real numbers of which there is a kernel for triangles.
pub(crate) trait TriangleKernel: Parts {
    /// The functions for real or complex numbers of these parts, and how many of these a register has.
    fn triangle_functions(isa: CpuIsa, complex: bool) -> (Functions<Self>, usize);
}

macro_rules! kernel {
    ($($real:ty: $avx512:ty, $avx2:ty, $lanes:ty;)*) => {$(
        impl TriangleKernel for $real {
            fn triangle_functions(isa: CpuIsa, complex: bool) -> (Functions<Self>, usize) {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => kernel!(@ Avx512, $avx512, complex),
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => kernel!(@ Avx2, $avx2, complex),
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => kernel!(@ Neon, $lanes, complex),
                    _ => kernel!(@ Portable, $lanes, complex),
                }
            }
        }
    )*};
    (@ $isa:ty, $vector:ty, $complex:ident) => {{
        const REAL: Functions<<$vector as Vector>::Element> = &[
            (2, <$isa>::triangle::<$vector, 2, false>),
            (4, <$isa>::triangle::<$vector, 4, false>),
            (VECTORS, <$isa>::triangle::<$vector, VECTORS, false>),
        ];
        // The products of both parts take registers as well.
        const COMPLEX: Functions<<$vector as Vector>::Element> = &[
            (2, <$isa>::triangle::<$vector, 2, true>),
            (4, <$isa>::triangle::<$vector, 4, true>),
        ];
        (if $complex { COMPLEX } else { REAL }, <$vector>::LANES)
    }};
}

kernel! {
    f32: std::arch::x86_64::__m512, std::arch::x86_64::__m256, Lanes<f32, 4>;
    f64: std::arch::x86_64::__m512d, std::arch::x86_64::__m256d, Lanes<f64, 2>;
}

/// Bytes of the largest register.
const REGISTER: usize = 64;

/// Room for a panel.
#[repr(align(64))]
struct Panel([MaybeUninit<u8>; BLOCK * VECTORS * REGISTER]);

/// A kernel that computes panels of right-hand sides.
pub(crate) struct PanelKernel<R> {
    function: TriangleFn<R>,
    /// Right-hand sides of a panel.
    pub(crate) width: usize,
}

impl<R: TriangleKernel> PanelKernel<R> {
    /// The one for that many right-hand sides.
    pub(crate) fn of<T: Field<Real = R>>(cols: usize, isa: CpuIsa) -> Self {
        let (functions, lanes) = R::triangle_functions(isa, T::IS_COMPLEX);
        let parts = parts_of::<T>();
        let is_enough = |&&(vectors, _): &&(usize, _)| parts * cols <= vectors * lanes;
        let of_most = functions[functions.len() - 1];
        let &(vectors, function) = functions.iter().find(is_enough).unwrap_or(&of_most);
        Self { function, width: vectors * lanes / parts }
    }

    /// Computes right-hand sides, no more than a panel's.
    ///
    /// # Safety
    /// The CPU has the instruction set. The parts of the triangle's elements can be read, as many rows as B has, at most
    /// [`BLOCK`].
    pub(crate) unsafe fn compute<T: Field<Real = R>>(
        &self,
        task: Task,
        alpha: T,
        (a, conjugated): (Elements<*const R>, bool),
        mut b: ViewMut<'_, T>,
    ) {
        let parts = parts_of::<T>();
        let mut room = Panel([MaybeUninit::uninit(); BLOCK * VECTORS * REGISTER]);
        let (row, col) = b.as_view().strides();
        let triangle = Triangle {
            task,
            n: b.rows(),
            cols: b.cols(),
            a,
            conjugated,
            alpha: (alpha.re(), alpha.im()),
            b: Elements { at: b.as_mut_ptr().cast(), row: parts * row, col: parts * col },
            panel: room.0.as_mut_ptr().cast(),
        };
        // SAFETY: the caller's promises. The panel has `BLOCK` rows of `VECTORS` of the largest registers, and is aligned
        // for them; the right-hand sides are no more columns than fill those that the function is for. An element is a
        // real number or the two parts of a complex one, so the elements of B are where strides of parts say.
        unsafe { (self.function)(&triangle) };
    }
}

/// Real numbers that an element consists of.
pub(crate) fn parts_of<T: Field>() -> usize {
    if T::IS_COMPLEX { 2 } else { 1 }
}

/// Elements of a copy of a triangle.
pub(crate) const COPY: usize = BLOCK * BLOCK;

/// Copies the triangle of a task, row after row, [`BLOCK`] elements apart. What is not of the triangle stays as it is, since
/// nobody reads it.
pub(crate) fn copy_triangle<T: Field>(
    task: Task,
    a: Factor<'_, T>,
    copy: &mut [MaybeUninit<T>; COPY],
) {
    let n = a.view.rows();
    for i in 0..n {
        let range = if task.upper { i..n } else { 0..i + 1 };
        for p in range.filter(|&p| p != i || !task.unit) {
            copy[i * BLOCK + p].write(a.get(i, p));
        }
    }
}

/// The parts of such a copy.
pub(crate) fn parts_of_copy<T: Field>(copy: *const T) -> Elements<*const T::Real> {
    let parts = parts_of::<T>();
    Elements { at: copy.cast(), row: parts * BLOCK, col: parts }
}

/// [`triangle`] of [`BLOCK`] rows at most, the sizes being right.
pub(crate) fn compute<R: TriangleKernel, T: Field<Real = R>>(
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
    let parts = parts_of::<T>();
    let kernel = PanelKernel::of::<T>(cols, context.isa());
    if cols <= kernel.width {
        let (row, col) = a.view.strides();
        let of_view = Elements { at: a.view.as_ptr().cast(), row: parts * row, col: parts * col };
        // SAFETY: a context's instruction set is one that this CPU has; the elements of a view.
        return unsafe { kernel.compute(task, alpha, (of_view, T::IS_COMPLEX && a.conjugated), b) };
    }
    let mut copy = [MaybeUninit::uninit(); COPY];
    copy_triangle(task, a, &mut copy);
    let sides = Parted { b, width: kernel.width, next: AtomicUsize::new(0) };
    let work = parts * parts * n * n;
    let threads = threads_for((work / 2, cols, 1), context).min(cols.div_ceil(kernel.width));
    context.run_on(threads, || {
        while let Some(b) = sides.take() {
            let of_copy = parts_of_copy(copy.as_ptr().cast::<T>());
            // SAFETY: as above; the elements of the copy that are of the triangle.
            unsafe { kernel.compute(task, alpha, (of_copy, false), b) };
        }
    });
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
