//! The elements of level 3 of BLAS: real and complex numbers, and products of views of them.

use std::fmt::Debug;
use std::ops::{Add, Mul, Neg, Sub};

use gemm_spec::Order;
pub use num_complex::Complex;

use crate::complex;
use crate::context::CpuContext;
use crate::error::Error;
use crate::gemm::threads_for;
use crate::kernels::OwnSums;
use crate::product::Product;
use crate::triangle::{self, Task};
use crate::types::CpuTypes;
use crate::view::{View, ViewMut};
use crate::way::{self, Way};

/// A matrix to be multiplied: a view, whose elements are conjugated on the way or not.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a, T> {
    /// The elements.
    pub view: View<'a, T>,
    /// Whether each stands for its conjugate; of real numbers it makes no difference.
    pub conjugated: bool,
}

impl<'a, T> Factor<'a, T> {
    /// The elements as they are.
    #[must_use]
    pub fn plain(view: View<'a, T>) -> Self {
        Self { view, conjugated: false }
    }

    /// The transposed matrix.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { view: self.view.transposed(), ..self }
    }

    /// The conjugated matrix.
    #[must_use]
    pub fn conjugated(self) -> Self {
        Self { conjugated: !self.conjugated, ..self }
    }

    /// Some rows and columns of it.
    ///
    /// # Panics
    /// Where there are no such rows or columns.
    #[must_use]
    pub fn part(self, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) -> Self {
        Self { view: self.view.part(rows, cols), ..self }
    }
}

impl<T: Field> Factor<'_, T> {
    /// An element.
    ///
    /// # Panics
    /// Where there is no such element.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize, col: usize) -> T {
        let element = self.view.get(row, col);
        if self.conjugated { element.conj() } else { element }
    }
}

/// A number of level 3: `f32`, `f64`, `Complex<f32>` or `Complex<f64>`.
///
/// The trait is sealed: unsafe code relies on what these types are.
pub trait Field:
    Copy
    + Debug
    + Default
    + PartialEq
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + sealed::Compute
    + 'static
{
    /// The type of the real part: the type itself, of real numbers.
    type Real: Field<Real = Self::Real>;
    /// Whether there is an imaginary part.
    const IS_COMPLEX: bool;
    /// Additive identity.
    const ZERO: Self;
    /// Multiplicative identity.
    const ONE: Self;

    /// The conjugate.
    #[must_use]
    fn conj(self) -> Self;

    /// The real part.
    #[must_use]
    fn re(self) -> Self::Real;

    /// The number with that real part and no imaginary one.
    #[must_use]
    fn from_re(re: Self::Real) -> Self;

    /// `self + a * b`, by fused multiply-adds.
    #[must_use]
    fn add_product(self, a: Self, b: Self) -> Self;

    /// `self / by`; complex numbers without needless overflow, by the larger of the divisor's parts.
    #[must_use]
    fn divide(self, by: Self) -> Self;
}

pub(crate) mod sealed {
    use super::*;

    /// What the engine computes of these numbers.
    pub trait Compute: Sized {
        /// `C = alpha * A * B + beta * C`, k at least 1 and C not empty.
        fn multiply(
            alpha: Self,
            a: Factor<'_, Self>,
            b: Factor<'_, Self>,
            beta: Self,
            c: ViewMut<'_, Self>,
            context: &CpuContext,
        );

        /// See [`triangle::compute`].
        fn triangle(
            task: Task,
            alpha: Self,
            a: Factor<'_, Self>,
            b: ViewMut<'_, Self>,
            context: &CpuContext,
        );
    }
}

/// `C = alpha * A * B + beta * C` of views, on the threads of a context.
///
/// With `beta == 0` C is not read, with `alpha == 0` neither A nor B is. Small products run on fewer threads.
/// The bits are the same for any number of threads, and of real numbers those of [`gemm`](crate::gemm).
///
/// Products of complex numbers are sums of `re * re`, then `-im * im`, and so on, one chain of fused
/// multiply-adds for each part.
///
/// Where the system refuses memory for packed panels the product is computed without, by a plain loop.
///
/// # Errors
/// [`Error::Sizes`] where the sizes do not fit together; C is then unchanged.
pub fn gemm_views<T: Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    mut c: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    if (a.view.rows(), b.view.rows(), b.view.cols()) != (m, k, n) {
        return Err(Error::Sizes {
            a: (a.view.rows(), a.view.cols()),
            b: (b.view.rows(), b.view.cols()),
            c: (m, n),
        });
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    if k == 0 || alpha == T::ZERO {
        scale(beta, &mut c);
        return Ok(());
    }
    T::multiply(alpha, a, b, beta, c, context);
    Ok(())
}

/// What [`gemm_views`] computes, by the definition, in no memory but that of the operands.
pub(crate) fn plain<T: Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    mut c: ViewMut<'_, T>,
) {
    for col in 0..c.cols() {
        for row in 0..c.rows() {
            let steps = 0..a.view.cols();
            let sum = steps.fold(T::ZERO, |sum, p| sum.add_product(a.get(row, p), b.get(p, col)));
            let old = if beta == T::ZERO { T::ZERO } else { beta * c.get(row, col) };
            c.set(row, col, old.add_product(alpha, sum));
        }
    }
}

/// `C = beta * C`; with `beta == 0` C is not read, with `beta == 1` not written.
pub fn scale<T: Field>(beta: T, c: &mut ViewMut<'_, T>) {
    if beta == T::ONE {
        return;
    }
    let mut c = match c.layout().order {
        Order::ColMajor => c.reborrow(),
        Order::RowMajor => c.reborrow().transposed(),
    };
    for col in 0..c.cols() {
        for row in 0..c.rows() {
            let value = if beta == T::ZERO { T::ZERO } else { beta * c.get(row, col) };
            c.set(row, col, value);
        }
    }
}

/// From one row to the next, and from one column to the next.
pub(crate) fn strides<T>(view: &View<'_, T>) -> (usize, usize) {
    match view.layout().order {
        Order::RowMajor => (view.layout().ld, 1),
        Order::ColMajor => (1, view.layout().ld),
    }
}

/// The product with the columns of C contiguous: itself, or the transposed one.
pub(crate) fn with_columns<'a, 'c, T>(
    a: Factor<'a, T>,
    b: Factor<'a, T>,
    c: ViewMut<'c, T>,
) -> (Factor<'a, T>, Factor<'a, T>, ViewMut<'c, T>, bool) {
    match c.layout().order {
        Order::ColMajor => (a, b, c, false),
        Order::RowMajor => (b.transposed(), a.transposed(), c.transposed(), true),
    }
}

/// [`sealed::Compute::multiply`] of real numbers.
fn multiply_reals<T: OwnSums + CpuTypes + Field>(
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &CpuContext,
) {
    let (a, b, mut c, swapped) = with_columns(a, b, c);
    let ((a_row, a_col), (b_row, b_col)) = (strides(&a.view), strides(&b.view));
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    let product = Product::<T> {
        m,
        n,
        k,
        alpha,
        beta,
        a: a.view.as_ptr(),
        // From one row to the next of one row is as good as anything.
        a_row: if m == 1 { 1 } else { a_row },
        a_col,
        b: b.view.as_ptr(),
        b_row,
        b_col,
        ldc: c.layout().ld,
        c: c.as_mut_ptr(),
        swapped,
    };
    let threads = threads_for((m, n, k), context);
    // SAFETY: the views hold the elements of the product, which fit together; C is a view that nobody else has.
    let done = unsafe { way::multiply(&product, Way::Units(context.units()), context, threads) };
    // An error comes before anything is written.
    if done.is_err() {
        plain(alpha, a, b, beta, c);
    }
}

macro_rules! real {
    ($real:ty) => {
        impl Field for $real {
            type Real = Self;
            const IS_COMPLEX: bool = false;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn conj(self) -> Self {
                self
            }

            #[inline(always)]
            fn re(self) -> Self {
                self
            }

            #[inline(always)]
            fn from_re(re: Self) -> Self {
                re
            }

            #[inline(always)]
            fn add_product(self, a: Self, b: Self) -> Self {
                a.mul_add(b, self)
            }

            #[inline(always)]
            fn divide(self, by: Self) -> Self {
                self / by
            }
        }

        impl sealed::Compute for $real {
            fn multiply(
                alpha: Self,
                a: Factor<'_, Self>,
                b: Factor<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                multiply_reals(alpha, a, b, beta, c, context);
            }

            fn triangle(
                task: Task,
                alpha: Self,
                a: Factor<'_, Self>,
                b: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                triangle::compute::<Self, Self>(task, alpha, a, b, context);
            }
        }

        impl Field for Complex<$real> {
            type Real = $real;
            const IS_COMPLEX: bool = true;
            const ZERO: Self = Self::new(0.0, 0.0);
            const ONE: Self = Self::new(1.0, 0.0);

            #[inline(always)]
            fn conj(self) -> Self {
                Self::new(self.re, -self.im)
            }

            #[inline(always)]
            fn re(self) -> $real {
                self.re
            }

            #[inline(always)]
            fn from_re(re: $real) -> Self {
                Self::new(re, 0.0)
            }

            #[inline(always)]
            fn add_product(self, a: Self, b: Self) -> Self {
                let re = (-a.im).mul_add(b.im, a.re.mul_add(b.re, self.re));
                let im = a.im.mul_add(b.re, a.re.mul_add(b.im, self.im));
                Self::new(re, im)
            }

            #[inline(always)]
            fn divide(self, by: Self) -> Self {
                if by.re.abs() >= by.im.abs() {
                    let ratio = by.im / by.re;
                    let divisor = by.re + by.im * ratio;
                    let (re, im) = (self.re + self.im * ratio, self.im - self.re * ratio);
                    Self::new(re / divisor, im / divisor)
                } else {
                    let ratio = by.re / by.im;
                    let divisor = by.im + by.re * ratio;
                    let (re, im) = (self.re * ratio + self.im, self.im * ratio - self.re);
                    Self::new(re / divisor, im / divisor)
                }
            }
        }

        impl sealed::Compute for Complex<$real> {
            fn multiply(
                alpha: Self,
                a: Factor<'_, Self>,
                b: Factor<'_, Self>,
                beta: Self,
                c: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                complex::multiply(alpha, a, b, beta, c, context);
            }

            fn triangle(
                task: Task,
                alpha: Self,
                a: Factor<'_, Self>,
                b: ViewMut<'_, Self>,
                context: &CpuContext,
            ) {
                triangle::compute::<$real, Self>(task, alpha, a, b, context);
            }
        }
    };
}

real!(f32);
real!(f64);

#[cfg(test)]
mod tests {
    use gemm_spec::Layout;

    use super::*;

    #[test]
    fn without_memory_a_product_is_the_same() {
        let a: Vec<f64> = (0..12).map(f64::from).collect();
        let b: Vec<f64> = (0..20).map(|at| f64::from(at) / 8.0).collect();
        let (mut c, mut expected) = (vec![3.0; 15], vec![3.0; 15]);
        let a = Factor::plain(View::new(&a, 3, 4, Layout::row_major(4)).unwrap());
        let b = Factor::plain(View::new(&b, 4, 5, Layout::col_major(4)).unwrap());
        let layout = Layout::row_major(5);
        plain(1.5, a, b, -2.0, ViewMut::new(&mut c, 3, 5, layout).unwrap());
        let view = ViewMut::new(&mut expected, 3, 5, layout).unwrap();
        gemm_views(1.5, a, b, -2.0, view, &CpuContext::alone()).unwrap();
        assert_eq!(c, expected);
    }
}
