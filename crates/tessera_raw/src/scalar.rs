//! Types of elements as values.

use std::fmt;

use tessera::DType;
use tessera::blas3::Complex;

/// What an element is: one of the library's, or one that the bindings have besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A number of the library's products.
    Real(DType),
    /// Two f32: the real and the imaginary part.
    Complex64,
    /// Two f64.
    Complex128,
    /// 64-bit integers of either sign, whose products are computed modulo 2^64.
    Int64,
}

impl Scalar {
    /// Bytes in one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Real(dtype) => dtype.size(),
            Self::Complex64 | Self::Int64 => 8,
            Self::Complex128 => 16,
        }
    }

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Real(dtype) => dtype.name(),
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::Int64 => "i64",
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A type of which any bytes are a value.
///
/// # Safety
/// Elements are plain bytes without padding or addresses, and any such bytes are an element.
pub(crate) unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($({ $variant:ident, $element:ty })+) => {$(
        // SAFETY: the list's promise: a plain number, any bytes of which are a value.
        unsafe impl Plain for $element {}
    )+};
}

gemm_spec::for_each_element!([plain]);

// SAFETY: two plain numbers of one type, in C's layout.
unsafe impl Plain for Complex<f32> {}
// SAFETY: as above.
unsafe impl Plain for Complex<f64> {}
// SAFETY: a plain number.
unsafe impl Plain for i64 {}
