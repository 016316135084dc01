//! The element types of products.

use std::fmt;

use cpu_gemm::CpuElement;
use gemm_spec::{WideBf16, WideF16, bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// An element type of A and B: f32, f64, i32, i8, f16 or bf16, or one of the wide types of 16 bits whose
/// C is f32. `Out` is the type of C, `Acc` that of sums, alpha and beta.
///
/// The trait is sealed: unsafe code relies on what these types are.
///
/// # Safety
/// Every value is plain bytes without padding or addresses, any such bytes are a value, and
/// [`DTYPE`](gemm_spec::Element::DTYPE) names the type.
pub unsafe trait Element:
    gemm_spec::Element<Out = <Self as Element>::C>
    + CpuElement
    + PartialOrd
    + Default
    + fmt::Display
    + sealed::Sealed
{
    /// `Out` once more, with what is known of it.
    #[doc(hidden)]
    type C: Element<
            C = <Self as Element>::C,
            Acc = <Self as gemm_spec::Element>::Acc,
            Out = <Self as Element>::C,
        >;
}

macro_rules! elements {
    ($($element:ty),+ $(,)?) => {$(
        impl sealed::Sealed for $element {}

        // SAFETY: a plain number, or one that is transparent over the bits of such.
        unsafe impl Element for $element {
            type C = <Self as gemm_spec::Element>::Out;
        }
    )+};
}

elements!(f32, f64, i32, i8, f16, bf16, WideF16, WideBf16);

/// Elements as the bytes they are.
#[cfg(feature = "cuda")]
pub(crate) fn bytes<T: Element>(data: &[T]) -> &[u8] {
    // SAFETY: the elements are plain bytes without padding, so all of them are initialised; bytes have
    // no alignment, and the length is the slice's own.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Elements as the bytes they are, to be written.
#[cfg(feature = "cuda")]
pub(crate) fn bytes_mut<T: Element>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes`, the borrow is as exclusive, and any bytes are an element.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}
