//! Properties of files right, damaged and made to trouble.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use gemm_spec::{GemmTypes, Types, with_gemm_types};

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
