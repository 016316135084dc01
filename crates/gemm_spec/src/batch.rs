//! Several products of one shape.

#[cfg(not(target_arch = "nvptx64"))]
use crate::{GemmTypes, Problem};

/// How many products a [`Problem`] is, and the elements from an operand of one of them to the
/// same operand of the next.
///
/// A stride of zero gives all products the same A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// Products.
    pub count: usize,
    /// From one A to the next.
    pub a_stride: usize,
    /// From one B to the next.
    pub b_stride: usize,
    /// From one C to the next. No two C overlap.
    pub c_stride: usize,
}

impl Batch {
    /// One product.
    pub const ONE: Self = Self { count: 1, a_stride: 0, b_stride: 0, c_stride: 0 };

    /// Whether it is one product.
    #[must_use]
    pub const fn is_one(self) -> bool {
        self.count == 1
    }

    /// The same with A and B exchanged.
    #[must_use]
    pub(crate) const fn transposed(self) -> Self {
        Self { a_stride: self.b_stride, b_stride: self.a_stride, ..self }
    }
}

/// Where the operands of one product of a batch begin, in elements from those of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchItem {
    /// A.
    pub a: usize,
    /// B.
    pub b: usize,
    /// C.
    pub c: usize,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<T: GemmTypes> Problem<T> {
    /// Calls with each product by itself and its part of the buffers, in order, up to the first error. The
    /// buffers are those that [`Problem::check_buffers`] has passed.
    ///
    /// # Errors
    /// That of the call.
    ///
    /// # Panics
    /// Where C is too short.
    pub fn try_for_each_item<E>(
        &self,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
        mut call: impl FnMut(&Self, &[T::A], &[T::B], &mut [T::C]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.m == 0 || self.n == 0 {
            return Ok(());
        }
        let one = self.one();
        self.items().try_for_each(|at| {
            // With k = 0 the factors have no elements, wherever they would begin.
            let (a, b) = (a.get(at.a..).unwrap_or_default(), b.get(at.b..).unwrap_or_default());
            call(&one, a, b, &mut c[at.c..])
        })
    }
}
