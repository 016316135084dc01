//! Elements of 16 bits seen as factors of products whose C is f32.

use gemm_spec::{WideBf16, WideF16, bf16, f16};

use crate::element::Element;
use crate::matrix::MatRef;

/// An element type of 16 bits whose products can have a C of f32.
///
/// # Safety
/// `Wide` is transparent over the type itself.
pub unsafe trait Widen: Element {
    /// The same elements as factors of such a product.
    type Wide: Element<Acc = f32, Out = f32, C = f32>;
}

// SAFETY: the type is `repr(transparent)`, and this is its only field.
unsafe impl Widen for f16 {
    type Wide = WideF16;
}

// SAFETY: as above.
unsafe impl Widen for bf16 {
    type Wide = WideBf16;
}

/// The same elements as factors of a product whose C is f32.
#[must_use]
pub fn wide<T: Widen>(elements: &[T]) -> &[T::Wide] {
    // SAFETY: the trait's promise: both types have one size, one alignment and the same valid values, so
    // these are as many elements in the same place; they stay borrowed as long.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) }
}

impl<'a, T: Widen> MatRef<'a, T> {
    /// The same matrix as a factor of a product whose C is f32: sums are f32 for these types, and no
    /// digit of them is lost to a last rounding.
    ///
    /// ```
    /// use tessera::{Engine, Matrix, bf16};
    ///
    /// let a = Matrix::from_fn(2, 257, |_, _| bf16::ONE)?;
    /// let b = Matrix::from_fn(257, 3, |_, _| bf16::ONE)?;
    /// let engine = Engine::auto()?;
    ///
    /// let mut c = Matrix::<f32>::zeros(2, 3)?;
    /// engine.gemm(1.0, a.view().wide(), b.view().wide(), 0.0, c.view_mut())?;
    /// assert_eq!(c.get(1, 2), Some(257.0));
    ///
    /// // bf16 has no 257.
    /// let rounded = engine.multiply(&a, &b)?;
    /// assert_eq!(rounded.get(1, 2), Some(bf16::from_f32(256.0)));
    /// # Ok::<(), tessera::Error>(())
    /// ```
    #[must_use]
    pub fn wide(self) -> MatRef<'a, T::Wide> {
        self.with_data(wide(self.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::Layout;

    use super::*;

    #[test]
    fn a_wide_view_is_of_the_same_elements() {
        let data: Vec<f16> = (0..11).map(|i| f16::from_bits(0x7bfd + i)).collect();
        let seen = wide(&data);
        assert_eq!((seen.as_ptr().addr(), seen.len()), (data.as_ptr().addr(), 11));
        assert!(seen.iter().zip(&data).all(|(wide, narrow)| wide.0.to_bits() == narrow.to_bits()));
        assert!(wide::<bf16>(&[]).is_empty());

        let view = MatRef::new(&data, 2, 3, Layout::col_major(4)).unwrap();
        let seen = view.wide();
        assert_eq!((seen.rows(), seen.cols(), seen.layout()), (2, 3, view.layout()));
        assert_eq!(seen.as_slice().len(), 11);
    }
}
