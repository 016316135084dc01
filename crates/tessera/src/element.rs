//! The element types, and which of them are multiplied together.

use std::fmt;

use cpu_gemm::CpuTypes;

mod sealed {
    pub trait Sealed {}
}

/// A type that matrices are stored in: f32, f64, i32, i8, f16 or bf16.
///
/// The trait is sealed: unsafe code relies on what these types are.
///
/// # Safety
/// Every value is plain bytes without padding or addresses, any such bytes are a value, and
/// [`DTYPE`](gemm_spec::Element::DTYPE) names the type.
pub unsafe trait Element:
    gemm_spec::Element + PartialOrd + Default + fmt::Display + sealed::Sealed
{
}

macro_rules! elements {
    ($({ $variant:ident, $element:ty })+) => {$(
        impl sealed::Sealed for $element {}

        // SAFETY: the list's promise: a plain number, any bytes of which are a value; its tag is checked.
        unsafe impl Element for $element {}

        const _: () = assert!(matches!(
            <$element as gemm_spec::Element>::DTYPE,
            gemm_spec::DType::$variant
        ));
    )+};
}

gemm_spec::for_each_element!([elements]);

/// The types of a product, as the parameter of a [`Problem`](crate::Problem): `f32` where A, B and C are
/// of that type, `i8` or `f16` with the usual C of such, `(f16, f32)` for a C of another type.
///
/// Those of [`Types`](crate::Types) have it, and no other type: [`CpuTypes`] is sealed.
pub trait GemmTypes: CpuTypes<A: Element, B: Element, Acc: Element, C: Element> {}

impl<T: CpuTypes<A: Element, B: Element, Acc: Element, C: Element>> GemmTypes for T {}

/// Elements of A that can be multiplied by elements of B to give elements of C.
///
/// Sums, alpha and beta are of [`AccOf`], of which C may be, too: no digit of a sum is then lost to a
/// last rounding.
///
/// ```
/// use tessera::{Engine, Matrix, bf16};
///
/// let a = Matrix::from_fn(2, 257, |_, _| bf16::ONE)?;
/// let b = Matrix::from_fn(257, 3, |_, _| bf16::ONE)?;
/// let engine = Engine::auto()?;
///
/// let mut c = Matrix::<f32>::zeros(2, 3)?;
/// engine.gemm(1.0, a.view(), b.view(), 0.0, c.view_mut())?;
/// assert_eq!(c.get(1, 2), Some(257.0));
///
/// // bf16 has no 257.
/// let rounded = engine.multiply(&a, &b)?;
/// assert_eq!(rounded.get(1, 2), Some(bf16::from_f32(256.0)));
/// # Ok::<(), tessera::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a matrix of `{Self}` times one of `{B}` cannot be stored as `{C}`",
    label = "no product of these three element types",
    note = "`tessera::Types` lists the types that are multiplied together"
)]
pub trait MultiplyInto<B: Element, C: Element>: Element {
    /// The three types and that of sums.
    type Types: GemmTypes<A = Self, B = B, C = C>;
}

/// Elements of A that can be multiplied by elements of B.
#[diagnostic::on_unimplemented(
    message = "a matrix of `{Self}` cannot be multiplied by one of `{B}`",
    label = "no product of these two element types",
    note = "`tessera::Types` lists the types that are multiplied together"
)]
pub trait Multiply<B: Element>: MultiplyInto<B, Self::Output> {
    /// The usual C of such a product.
    type Output: Element;
}

/// The type of sums, alpha and beta where A, B and C are of these types.
pub type AccOf<A, B, C> = <<A as MultiplyInto<B, C>>::Types as gemm_spec::GemmTypes>::Acc;

macro_rules! products {
    ([] $({
        $(#[$condition:meta])? $variant:ident, $name:ident, $types:ty,
        [$a:ty: $a_tag:ident, $b:ty: $b_tag:ident, $acc:ty: $acc_tag:ident, $c:ty: $c_tag:ident],
        $usual:ident
    })+) => {$(
        impl MultiplyInto<$b, $c> for $a {
            type Types = $types;
        }

        products!($usual: $a, $b, $c);
    )+};
    (usual: $a:ty, $b:ty, $c:ty) => {
        impl Multiply<$b> for $a {
            type Output = $c;
        }
    };
    (asked: $a:ty, $b:ty, $c:ty) => {};
}

gemm_spec::for_each_gemm_types!([products]);

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
