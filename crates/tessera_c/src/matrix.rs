//! Matrices and their types.

#![expect(non_camel_case_types, reason = "the names of C")]

use std::ffi::c_void;

use tessera::DType;
use tessera_raw::{Scalar, Strided};

use crate::engine::unknown;
use crate::sized::Sized;
use crate::status::Fault;

/// The type of a matrix' elements.
pub type tessera_dtype = i32;

/// float
pub const TESSERA_F32: tessera_dtype = 1;
/// double
pub const TESSERA_F64: tessera_dtype = 2;
/// int32_t; products wrap
pub const TESSERA_I32: tessera_dtype = 3;
/// int8_t; the C of such is of int32_t
pub const TESSERA_I8: tessera_dtype = 4;
/// IEEE binary16; C may be of float
pub const TESSERA_F16: tessera_dtype = 5;
/// The upper half of a float; C may be of float
pub const TESSERA_BF16: tessera_dtype = 6;
/// `float _Complex`, `std::complex<float>`
pub const TESSERA_COMPLEX64: tessera_dtype = 7;
/// `double _Complex`, `std::complex<double>`
pub const TESSERA_COMPLEX128: tessera_dtype = 8;

/// The number of a type. Programs hold them: none ever changes.
#[must_use]
pub const fn number_of(dtype: DType) -> tessera_dtype {
    match dtype {
        DType::F32 => TESSERA_F32,
        DType::F64 => TESSERA_F64,
        DType::I32 => TESSERA_I32,
        DType::I8 => TESSERA_I8,
        DType::F16 => TESSERA_F16,
        DType::BF16 => TESSERA_BF16,
    }
}

/// The type of a number.
pub(crate) fn scalar_of(name: &str, number: tessera_dtype) -> Result<Scalar, Fault> {
    match number {
        TESSERA_COMPLEX64 => Ok(Scalar::Complex64),
        TESSERA_COMPLEX128 => Ok(Scalar::Complex128),
        other => {
            let dtype = DType::ALL.into_iter().find(|&dtype| number_of(dtype) == other);
            let unknown = || unknown(&format!("dtype of {name}"), other, "the types of tessera.h");
            dtype.map(Scalar::Real).ok_or_else(unknown)
        }
    }
}

/// A matrix: element (i, j) is at data + i * row_stride + j * col_stride, in elements.
///
/// Strides may be negative or zero. Where neither is 1, or data is not aligned, the elements are copied
/// first. tessera_row_major and tessera_col_major fill one in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tessera_matrix {
    /// sizeof(tessera_matrix)
    pub size: usize,
    /// The address of element (0, 0).
    pub data: *mut c_void,
    /// How many rows there are.
    pub rows: usize,
    /// How many columns there are.
    pub cols: usize,
    /// Elements from one row to the next.
    pub row_stride: isize,
    /// Elements from one column to the next.
    pub col_stride: isize,
    /// The type of the elements.
    pub dtype: tessera_dtype,
    /// 0
    pub reserved: i32,
}

// SAFETY: an address and whole numbers, the first of which is the size; any bytes are one.
unsafe impl Sized for tessera_matrix {
    const NAME: &'static str = "tessera_matrix";
    const LEAST: usize = 56;
}

impl tessera_matrix {
    /// The matrix with strides in bytes.
    pub(crate) fn strided(&self, name: &str, size: usize) -> Result<Strided, Fault> {
        let bytes = |stride: isize| {
            let bytes = stride.checked_mul(size.cast_signed());
            bytes.ok_or_else(|| Fault::argument(format!("a stride of {name} is {stride}")))
        };
        Ok(Strided {
            at: self.data.cast(),
            rows: self.rows,
            cols: self.cols,
            row_stride: bytes(self.row_stride)?,
            col_stride: bytes(self.col_stride)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_types_lead_back() {
        for dtype in DType::ALL {
            let scalar = scalar_of("A", number_of(dtype)).expect("it is one");
            assert_eq!(scalar, Scalar::Real(dtype));
        }
        let unknown = scalar_of("A", 99).expect_err("it is none");
        assert_eq!(unknown.message, "dtype of A is 99, which is none of the types of tessera.h");
        let before = [1, 2, 3, 4, 5, 6];
        assert_eq!(DType::ALL.map(number_of), before, "programs hold these numbers");
    }
}
