//! Matrices in `.npy` files, as NumPy writes them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use gemm_spec::{DType, Order, bf16, f16};
use ndarray::ArrayView2;
use ndarray_npy::npy::header::{Header, Layout};
use ndarray_npy::{ReadDataError, ReadableElement, WritableElement, WriteNpyError, WriteNpyExt};

use crate::memory::reserve;
use crate::scalar::Scalar;
use tessera::Matrix;

/// Longest header that is looked at; that of a matrix has 128 bytes.
const MAX_HEADER: usize = 4096;
/// Brackets in brackets that the header of an array has at most. The parser takes twice as long for
/// each one more, so a file made to trouble it must not reach it.
const MAX_NESTING: usize = 8;

/// A file that holds a matrix, its header read and its elements not yet.
pub(super) struct Npy {
    file: File,
    header: Header,
    /// Type of the elements.
    pub(super) dtype: DType,
    /// Rows of the matrix.
    pub(super) rows: usize,
    /// Columns of the matrix.
    pub(super) cols: usize,
}

impl Npy {
    /// Opens a file and checks that it holds a matrix, and all of it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        Self::look(path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn look(path: &Path) -> anyhow::Result<Self> {
        // To open a pipe would wait for somebody who writes into it.
        let plain = std::fs::metadata(path)?.is_file();
        ensure!(plain, "it is no plain file; name one that holds a matrix");
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let header = read_header(&mut file, metadata.len())?;
        let dtype = dtype(&header)?;
        let &[rows, cols] = header.shape.as_slice() else {
            bail!(
                "it holds an array of {} dimensions, a matrix has 2; reshape it",
                header.shape.len()
            );
        };
        ensure!(rows > 0 && cols > 0, "it holds a matrix of {rows} x {cols}; sizes start at 1");
        let claimed = (rows as u128)
            .checked_mul(cols as u128)
            .and_then(|elements| elements.checked_mul(dtype.size() as u128))
            .with_context(|| format!("its header claims {rows} x {cols} elements"))?;
        let held = u128::from(metadata.len() - file.stream_position()?);
        ensure!(
            claimed == held,
            "its header claims {rows} x {cols} elements of {dtype}, {claimed} bytes, and it holds \
             {held}; {}",
            if held < claimed { "it was cut short: write it again" } else { "write it again" },
        );
        Ok(Self { file, header, dtype, rows, cols })
    }

    /// Reads the elements; they are of type `T`.
    pub(super) fn read<T: NpyElement>(mut self, path: &Path) -> anyhow::Result<Matrix<T>> {
        // The length was checked against the file, so this allocates no more than the file holds. It
        // would abort where even that cannot be had, so it is asked for before.
        drop(reserve::<T>(self.rows, self.cols, "a matrix")?);
        let data = T::read_all(&mut self.file, self.rows * self.cols)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let order = match self.header.layout {
            Layout::Standard => Order::RowMajor,
            Layout::Fortran => Order::ColMajor,
        };
        Ok(Matrix::from_vec(data, self.rows, self.cols, order)?)
    }
}

/// Writes row-major elements as a `.npy` file in C order.
pub(super) fn write<T: NpyElement>(
    to: impl Write,
    rows: usize,
    cols: usize,
    data: &[T],
) -> anyhow::Result<()> {
    T::write_all(to, rows, cols, data)
}

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
pub(super) trait NpyElement: Scalar {
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

/// Reads the header and leaves the file at the first element.
fn read_header(file: &mut File, len: u64) -> anyhow::Result<Header> {
    let mut start = Vec::with_capacity(MAX_HEADER);
    Read::by_ref(file).take(MAX_HEADER as u64).read_to_end(&mut start)?;
    let Some(version) = start.strip_prefix(b"\x93NUMPY") else {
        bail!("it is no .npy file; save the matrix with numpy.save");
    };
    let end = match *version {
        [1, _, low, high, ..] => 10 + u64::from(u16::from_le_bytes([low, high])),
        [2 | 3, _, a, b, c, d, ..] => 12 + u64::from(u32::from_le_bytes([a, b, c, d])),
        [1..=3, ..] | [] => len + 1,
        [major, ..] => bail!(".npy of version {major} is not known here; save it as version 1"),
    };
    ensure!(end <= len, "it ends within its header; it was cut short: write it again");
    let end = usize::try_from(end).ok().filter(|&end| end <= start.len()).with_context(|| {
        format!("its header has {end} bytes, that of a matrix has no more than {MAX_HEADER}")
    })?;
    let unusable = "its header describes no array; save the matrix with numpy.save";
    ensure!(nesting(&start[..end]) <= MAX_NESTING, unusable);
    // The parser's own words span lines and point into text that nobody sees.
    let header = Header::from_reader(&mut &start[..end]).map_err(|_| anyhow::anyhow!(unusable))?;
    file.seek(SeekFrom::Start(end as u64))?;
    Ok(header)
}

/// How deep brackets of any kind are nested.
fn nesting(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The types that are read, with what NumPy calls them.
const KNOWN: &str =
    "f32 ('<f4'), f64 ('<f8'), i32 ('<i4'), i8 ('|i1'), f16 ('<f2') or bf16 ('<V2')";

/// The element type, or an error that says what the file holds instead.
fn dtype(header: &Header) -> anyhow::Result<DType> {
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

/// What makes a matrix of one of the known types of an array.
fn remedy(descriptor: &str) -> &'static str {
    let kind = descriptor.trim_start_matches(['>', '<', '|', '=']).chars().next();
    match kind {
        Some('i' | 'u' | 'b' | '?') => "convert it with a.astype('<f8') or a.astype('<i4')",
        Some('f') => "convert it with a.astype('<f4') or a.astype('<f8')",
        Some('c') => "save a.real and a.imag, each as a matrix of its own",
        _ => "save the numbers in it as an array of one of these types",
    }
}

/// What a type descriptor means.
fn words(descriptor: &str) -> String {
    let (order, kind) = match descriptor.chars().next() {
        Some('>') => ("big-endian ", &descriptor[1..]),
        Some('<' | '|' | '=') => ("", &descriptor[1..]),
        _ => ("", descriptor),
    };
    let bits = |name: &str| match kind.get(1..).and_then(|bytes| bytes.parse::<u32>().ok()) {
        Some(bytes) => format!("{order}{}-bit {name}", u64::from(bytes) * 8),
        None => format!("{order}{name}"),
    };
    match kind.chars().next() {
        Some('f') => bits("floats"),
        Some('i') => bits("integers"),
        Some('u') => bits("unsigned integers"),
        Some('c') => bits("complex numbers"),
        Some('b' | '?') => "booleans".to_owned(),
        Some('S' | 'U' | 'a') => "text".to_owned(),
        Some('M' | 'm') => "times".to_owned(),
        Some('O') => "Python objects".to_owned(),
        _ => "elements of another type".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;
    use gemm_spec::{GemmTypes, Types, with_gemm_types};

    #[test]
    fn other_types_are_named() {
        for (descriptor, text) in [
            ("<i8", "64-bit integers"),
            (">f4", "big-endian 32-bit floats"),
            ("|u1", "8-bit unsigned integers"),
            (">f2", "big-endian 16-bit floats"),
            ("<c16", "128-bit complex numbers"),
            ("|b1", "booleans"),
            ("|O", "Python objects"),
            ("", "elements of another type"),
            ("é", "elements of another type"),
        ] {
            assert_eq!(words(descriptor), text, "{descriptor}");
        }
    }

    #[test]
    fn only_numbers_are_to_be_converted() {
        for descriptor in ["<i8", "|u1", ">f4", "|b1", "<f16"] {
            assert!(remedy(descriptor).contains("astype"), "{descriptor}");
        }
        for descriptor in ["|O", "|V4", "<U3", "<M8[s]", "<c16", "", "é"] {
            assert!(!remedy(descriptor).contains("astype"), "{descriptor}");
        }
    }

    #[test]
    fn headers_of_16_bits_say_which_they_are() {
        for (descriptor, dtype) in [("<f2", DType::F16), ("<V2", DType::BF16)] {
            let bytes = bits_header(descriptor, 5, 7).unwrap();
            let header = Header::from_reader(&mut &bytes[..]).unwrap();
            assert_eq!(super::dtype(&header).unwrap(), dtype);
            assert_eq!((header.layout, header.shape), (Layout::Standard, vec![5, 7]));
        }
    }

    #[test]
    fn nesting_counts_open_brackets() {
        assert_eq!(nesting(b"{'descr': '<f4', 'shape': (2, 3), }"), 2);
        assert_eq!(nesting(b"(([{"), 4);
        assert_eq!(nesting(b")))(("), 2);
    }

    /// A short run of time for each property, and no files of its own beside the sources.
    fn config() -> ProptestConfig {
        ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
    }

    /// Opens and reads a file of these bytes. What is taken for a matrix must be all of the file.
    fn exercise(bytes: &[u8]) -> anyhow::Result<(DType, usize, usize)> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        let npy = Npy::open(file.path()).inspect_err(|error| {
            let line = format!("{error:#}");
            assert!(line.starts_with("cannot read ") && !line.contains('\n'), "{line}");
        })?;
        let (dtype, rows, cols) = (npy.dtype, npy.rows, npy.cols);
        let claimed = rows.checked_mul(cols).and_then(|len| len.checked_mul(dtype.size()));
        assert!(claimed.is_some_and(|claimed| claimed < bytes.len()), "{rows} x {cols} {dtype}");
        let types = Types::ALL.into_iter().find(|types| types.a() == dtype).expect("it is used");
        with_gemm_types!(types, T => {
            let matrix = npy.read::<<T as GemmTypes>::A>(file.path())?;
            assert_eq!((matrix.rows(), matrix.cols()), (rows, cols));
        });
        Ok((dtype, rows, cols))
    }

    /// A file with that header text, as one of version 1 has it.
    fn file(text: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    /// Headers right and wrong: types, orders and shapes that are known, unknown, or far too large.
    fn header() -> impl Strategy<Value = String> {
        const DESCR: &[&str] = &[
            "'<f4'",
            "'<f8'",
            "'<i4'",
            "'|i1'",
            "'<f2'",
            "'<V2'",
            "'>f4'",
            "'<f99999999999'",
            "[('a', '<f4')]",
            "3",
            "'",
        ];
        const ORDER: &[&str] = &["False", "True", "0", "None", "'"];
        const SHAPE: &[&str] = &[
            "(2, 3)",
            "(3, 2)",
            "(1, 6)",
            "(6,)",
            "()",
            "(0, 3)",
            "(-1, 6)",
            "(1, 2, 3)",
            "(4294967296, 4294967296)",
            "(9223372036854775807, 2)",
            "(18446744073709551615, 18446744073709551615)",
            "(99999999999999999999999999, 1)",
            "(1000000000, 1)",
            "(((((((((((1, 6)))))))))))",
            "(2, 3",
            "'ab'",
        ];
        (select(DESCR), select(ORDER), select(SHAPE)).prop_map(|(descr, order, shape)| {
            format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n")
        })
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn no_header_is_taken_for_more_than_the_file_holds(
            header in header(),
            data in prop_oneof![select(&[6usize, 12, 24, 48][..]), 0..64usize],
        ) {
            let _ = exercise(&file(&header, &vec![1; data]));
        }

        #[test]
        fn a_damaged_file_is_read_or_refused(
            changes in vec((any::<Index>(), any::<u8>()), 1..6),
            end in any::<Index>(),
            cut in any::<bool>(),
        ) {
            let mut bytes = Vec::new();
            write(&mut bytes, 3, 2, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            if cut {
                bytes.truncate(end.index(bytes.len()));
            }
            let _ = exercise(&bytes);
        }

        #[test]
        fn any_text_behind_the_magic_is_read_or_refused(
            version in 0..5u8,
            text in "[{}()\\[\\]',:<f4descrshapTu0-9 \\PC]{0,120}",
            data in 0..40usize,
        ) {
            let mut bytes = file(&text, &vec![0; data]);
            let _ = exercise(&bytes);
            bytes[6] = version;
            let _ = exercise(&bytes);
        }

        #[test]
        fn what_is_written_is_read(rows in 1..9usize, cols in 1..9usize, seed in any::<u32>()) {
            let data: Vec<f32> = (0..).take(rows * cols).map(|i: u32| (i ^ seed) as f32).collect();
            let file = tempfile::NamedTempFile::new().unwrap();
            write(file.as_file(), rows, cols, &data).unwrap();
            let npy = Npy::open(file.path()).unwrap();
            prop_assert_eq!((npy.dtype, npy.rows, npy.cols), (DType::F32, rows, cols));
            let read = npy.read::<f32>(file.path()).unwrap().into_vec();
            prop_assert_eq!(read, data);
        }
    }

    /// The properties would hold of a reader that refuses everything.
    #[test]
    fn a_header_of_the_template_is_read() {
        let text = "{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3), }\n";
        assert_eq!(exercise(&file(text, &[0; 12])).unwrap(), (DType::F16, 2, 3));
        assert!(exercise(&file(text, &[0; 11])).is_err());
    }
}
