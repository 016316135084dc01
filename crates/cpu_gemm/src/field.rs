//! The elements of level 3 of BLAS, real and complex numbers, and the matrices of them that are multiplied.

use std::fmt::Debug;
use std::ops::{Add, Mul, Neg, Sub};

pub use num_complex::Complex;

use crate::context::CpuContext;
use crate::gemm_symmetric::Symmetric;
use crate::isa::CpuIsa;
use crate::near::NearFn;
use crate::region::TriangleOf;
use crate::triangle_kernel::Task;
use crate::view::{View, ViewMut};

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
    #[inline]
    #[must_use]
    pub fn plain(view: View<'a, T>) -> Self {
        Self { view, conjugated: false }
    }

    /// The transposed matrix.
    #[inline]
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { view: self.view.transposed(), ..self }
    }

    /// The conjugated matrix.
    #[inline]
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
    type Real: RealNumber;
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

    /// The imaginary part; zero, of real numbers.
    #[must_use]
    fn im(self) -> Self::Real;

    /// The number of these parts; of a real number the imaginary one is left out.
    #[must_use]
    fn from_parts(re: Self::Real, im: Self::Real) -> Self;

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

/// A real number of level 3, `f32` or `f64`, with what factorisations ask of it beyond sums and products.
pub trait RealNumber: Field<Real = Self> + PartialOrd {
    /// The distance from 1 to the next larger number.
    const EPSILON: Self;
    /// The smallest number whose reciprocal does not overflow.
    const SAFE_MIN: Self;

    /// The absolute value.
    #[must_use]
    fn abs(self) -> Self;

    /// The square root.
    #[must_use]
    fn sqrt(self) -> Self;

    /// Whether it is neither infinite nor NaN.
    #[must_use]
    fn is_finite(self) -> bool;
}

pub(crate) mod sealed {
    use super::{CpuContext, CpuIsa, Factor, NearFn, Symmetric, Task, TriangleOf, ViewMut};

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

        /// Whether tiles compute a product of that m, n and k.
        fn is_in_tiles(size: (usize, usize, usize), context: &CpuContext) -> bool;

        /// What computes products of operands that are near, with an instruction set that the CPU must have, their
        /// rows being transposed or not.
        fn near(isa: CpuIsa, transposed: bool) -> NearFn<Self>;

        /// One triangle of what [`Self::multiply`] computes, the other being neither read nor written, k at least 1
        /// and C not empty; C is square and `of` says which triangle of a C with contiguous columns. Whether it is
        /// done: else nothing was written, since alpha or beta is not real, or there is no memory.
        fn multiply_triangle(
            of: TriangleOf,
            alpha: Self,
            a: Factor<'_, Self>,
            b: Factor<'_, Self>,
            beta: Self,
            c: ViewMut<'_, Self>,
            context: &CpuContext,
        ) -> bool;

        /// `C = alpha * A * B + beta * C` with a symmetric or Hermitian A, which is not empty, as C is not.
        fn multiply_symmetric(
            alpha: Self,
            a: Symmetric<'_, Self>,
            b: Factor<'_, Self>,
            beta: Self,
            c: ViewMut<'_, Self>,
            context: &CpuContext,
        );

        /// [`triangle()`](crate::triangle()), the sizes being right.
        fn triangle(
            task: Task,
            alpha: Self,
            a: Factor<'_, Self>,
            b: ViewMut<'_, Self>,
            context: &CpuContext,
        );
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
            fn im(self) -> Self {
                0.0
            }

            #[inline(always)]
            fn from_parts(re: Self, _: Self) -> Self {
                re
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

        impl RealNumber for $real {
            const EPSILON: Self = <$real>::EPSILON;
            const SAFE_MIN: Self = <$real>::MIN_POSITIVE;

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
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
            fn im(self) -> $real {
                self.im
            }

            #[inline(always)]
            fn from_parts(re: $real, im: $real) -> Self {
                Self::new(re, im)
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
    };
}

real!(f32);
real!(f64);
