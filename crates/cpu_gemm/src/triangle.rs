//! A small triangle and many right-hand sides: what is left of a triangular solve or product when all that is
//! rectangular has been given to [`gemm_views`](crate::gemm_views()).
//!
//! Right-hand sides are copied into a panel, some at a time, so that a row of it fills registers, and are computed
//! there in place ([`crate::triangle_kernel`]).

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use gemm_spec::Order;

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
use crate::triangle_kernel::{BLOCK, FEW_VECTORS, Task, Triangle, TriangleFn, VECTORS};
use crate::vector::Vector as _;
use crate::view::ViewMut;
#[cfg(target_arch = "x86_64")]
use crate::{avx2::Avx2, avx512::Avx512};

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

/// Real numbers of which there is a kernel for triangles.
pub(crate) trait TriangleKernel: Parts {
    /// The functions for triangles with panels of [`VECTORS`] and of [`FEW_VECTORS`] registers, and how many elements one
    /// of these has.
    fn triangle_functions(isa: CpuIsa) -> ([TriangleFn<Self>; 2], usize);
}

macro_rules! kernel {
    ($($real:ty: $avx512:ty, $avx2:ty, $lanes:ty;)*) => {$(
        impl TriangleKernel for $real {
            fn triangle_functions(isa: CpuIsa) -> ([TriangleFn<Self>; 2], usize) {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => kernel!(@ Avx512, $avx512),
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => kernel!(@ Avx2, $avx2),
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => kernel!(@ Neon, $lanes),
                    _ => kernel!(@ Portable, $lanes),
                }
            }
        }
    )*};
    (@ $isa:ty, $vector:ty) => {(
        [<$isa>::triangle::<$vector, VECTORS>, <$isa>::triangle::<$vector, FEW_VECTORS>],
        <$vector>::LANES,
    )};
}

kernel! {
    f32: std::arch::x86_64::__m512, std::arch::x86_64::__m256, Lanes<f32, 4>;
    f64: std::arch::x86_64::__m512d, std::arch::x86_64::__m256d, Lanes<f64, 2>;
}

/// Bytes of the largest register.
const REGISTER: usize = 64;

/// Room for the coefficients of one part.
type Coefficients<T> = [MaybeUninit<T>; BLOCK * BLOCK];

/// Room for a panel.
#[repr(align(64))]
struct Panel([MaybeUninit<u8>; BLOCK * VECTORS * REGISTER]);

/// [`triangle`], the sizes being right.
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
    // What the kernel does not read stays as it is.
    let (mut re, mut im): (Coefficients<R>, Coefficients<R>) =
        ([MaybeUninit::uninit(); BLOCK * BLOCK], [MaybeUninit::uninit(); BLOCK * BLOCK]);
    for i in 0..n {
        let range = if task.upper { i..n } else { 0..i + 1 };
        for p in range.filter(|&p| p != i || !task.unit) {
            let element = a.get(i, p);
            re[i * BLOCK + p].write(element.re());
            if T::IS_COMPLEX {
                im[i * BLOCK + p].write(element.im());
            }
        }
    }
    let ([function, of_few], lanes) = R::triangle_functions(context.isa());
    let parts_each = if T::IS_COMPLEX { 2 } else { 1 };
    let (function, vectors) = match parts_each * cols <= FEW_VECTORS * lanes {
        true => (of_few, FEW_VECTORS),
        false => (function, VECTORS),
    };
    let width = vectors * lanes / parts_each;
    let parts = Parted { b, width, next: AtomicUsize::new(0) };
    let work = if T::IS_COMPLEX { 4 * n * n } else { n * n };
    let threads = threads_for((work / 2, cols, 1), context).min(cols.div_ceil(width));
    context.run_on(threads, || {
        let mut room = Panel([MaybeUninit::uninit(); BLOCK * VECTORS * REGISTER]);
        let panel = room.0.as_mut_ptr().cast::<R>();
        let row_len = vectors * lanes;
        for at in 0..n * row_len {
            // SAFETY: the room has `BLOCK` rows of `VECTORS` of the largest registers, and is aligned for them.
            unsafe { panel.wrapping_add(at).write(R::ZERO) };
        }
        while let Some(mut b) = parts.take() {
            let sides = Sides::of(&mut b, panel, row_len);
            sides.each(|element, re_at, im_at| {
                // SAFETY: an element of this thread's part of B.
                let value = unsafe { element.read() };
                let value = if alpha == T::ONE { value } else { alpha * value };
                // SAFETY: its place in the panel, which is this thread's own.
                unsafe { re_at.write(value.re()) };
                if T::IS_COMPLEX {
                    // SAFETY: as above.
                    unsafe { im_at.write(value.im()) };
                }
            });
            let (re, im) = (re.as_ptr().cast(), im.as_ptr().cast());
            let triangle = Triangle { task, n, complex: T::IS_COMPLEX, re, im, panel };
            // SAFETY: a context's instruction set is one that this CPU has; the panel has `n` rows of as many registers as
            // the function is for, and of the coefficients those of the triangle were written, which are all it reads.
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
                unsafe { element.write(T::from_parts(re, im)) };
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

impl<T: Field<Real = R>, R> Sides<T, R> {
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
