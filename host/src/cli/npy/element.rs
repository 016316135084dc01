//! The elements of `.npy` files: how each type is read and written.

use std::fs::File;
use std::io::Write;

use anyhow::{Context, bail};
use gemm_spec::{DType, bf16, f16};
use ndarray::ArrayView2;
use ndarray_npy::npy::header::{Header, Layout};
use ndarray_npy::{ReadDataError, ReadableElement, WritableElement, WriteNpyError, WriteNpyExt};

use super::foreign::{remedy, words};
use crate::scalar::Scalar;

/// What the system said of a write, which the library would say twice.
fn unwritten(error: WriteNpyError) -> anyhow::Error {
    match error {
        WriteNpyError::Io(error) => error.into(),
        other @ (WriteNpyError::FormatHeader(_) | WriteNpyError::FormatData(_)) => other.into(),
    }
}

/// The same of a read.
fn unread(error: ReadDataError) -> anyhow::Error {
    match error {
        ReadDataError::Io(error) => error.into(),
        other @ (ReadDataError::WrongDescriptor(_)
        | ReadDataError::MissingData
        | ReadDataError::ExtraBytes(_)
        | ReadDataError::ParseData(_)) => other.into(),
    }
}

/// An element type that NumPy's files hold.
pub(in crate::cli) trait NpyElement: Scalar {
    /// Reads that many elements, after which the file ends.
    fn read_all(from: &mut File, len: usize) -> anyhow::Result<Vec<Self>>;

    /// Writes a file of row-major elements.
    fn write_all(to: impl Write, rows: usize, cols: usize, data: &[Self]) -> anyhow::Result<()>;
}

macro_rules! known_element {
    ($($element:ty),*) => {$(
        impl NpyElement for $element {
            fn read_all(from: &mut File, len: usize) -> anyhow::Result<Vec<Self>> {
                Self::read_to_end_exact_vec(from, &Self::type_descriptor(), len).map_err(unread)
            }

            fn write_all(
                to: impl Write,
                rows: usize,
                cols: usize,
                data: &[Self],
            ) -> anyhow::Result<()> {
                ArrayView2::from_shape((rows, cols), data)?.write_npy(to).map_err(unwritten)
            }
        }
    )*};
}

known_element!(f32, f64, i32, i8);

/// DType of 16 bits travel as their bits, under their own descriptor.
macro_rules! bits_element {
    ($($element:ty: $descriptor:literal),*) => {$(
        impl NpyElement for $element {
            fn read_all(from: &mut File, len: usize) -> anyhow::Result<Vec<Self>> {
                let bits = u16::read_to_end_exact_vec(from, &u16::type_descriptor(), len);
                let bits = bits.map_err(unread)?;
                Ok(bits.into_iter().map(Self::from_bits).collect())
            }

            fn write_all(
                mut to: impl Write,
                rows: usize,
                cols: usize,
                data: &[Self],
            ) -> anyhow::Result<()> {
                to.write_all(&bits_header($descriptor, rows, cols)?)?;
                for run in data.chunks(1 << 12) {
                    let bits: Vec<u16> = run.iter().map(|value| value.to_bits()).collect();
                    u16::write_slice(&bits, &mut to).map_err(|error| unwritten(error.into()))?;
                }
                Ok(())
            }
        }
    )*};
}

// NumPy has no bf16; the arrays of the package `ml_dtypes` are saved as two bytes without a meaning.
bits_element!(f16: "<f2", bf16: "<V2");

/// The header of a matrix of 16-bit elements in C order.
fn bits_header(descriptor: &str, rows: usize, cols: usize) -> anyhow::Result<Vec<u8>> {
    let header = Header {
        type_descriptor: u16::type_descriptor(),
        layout: Layout::Standard,
        shape: vec![rows, cols],
    };
    let mut bytes = header.to_bytes()?;
    // The descriptors are as long as that of the bits, so that the header's length stays right.
    let bits = b"'<u2'";
    let at = bytes.windows(bits.len()).position(|window| window == bits);
    let at = at.context("the header of 16-bit elements has another form than expected")?;
    bytes[at + 1..][..descriptor.len()].copy_from_slice(descriptor.as_bytes());
    Ok(bytes)
}

/// The types that are read, with what NumPy calls them.
const KNOWN: &str =
    "f32 ('<f4'), f64 ('<f8'), i32 ('<i4'), i8 ('|i1'), f16 ('<f2') or bf16 ('<V2')";

/// The element type, or an error that says what the file holds instead.
pub(super) fn dtype(header: &Header) -> anyhow::Result<DType> {
    let Some(descriptor) = header.type_descriptor.as_string() else {
        bail!("it holds records, matrices here are of {KNOWN}; save one field of them");
    };
    match descriptor.as_str() {
        "<f4" => Ok(DType::F32),
        "<f8" => Ok(DType::F64),
        "<i4" => Ok(DType::I32),
        "|i1" | "<i1" => Ok(DType::I8),
        "<f2" => Ok(DType::F16),
        "<V2" | "|V2" => Ok(DType::BF16),
        other => bail!(
            "it holds {} ('{}'), matrices here are of {KNOWN}; {}",
            words(other),
            other.escape_default(),
            remedy(other)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_16_bits_say_which_they_are() {
        for (descriptor, expected) in [("<f2", DType::F16), ("<V2", DType::BF16)] {
            let bytes = bits_header(descriptor, 5, 7).unwrap();
            let header = Header::from_reader(&mut &bytes[..]).unwrap();
            assert_eq!(dtype(&header).unwrap(), expected);
            assert_eq!((header.layout, header.shape), (Layout::Standard, vec![5, 7]));
        }
    }
}
