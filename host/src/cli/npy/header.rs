//! The header of a `.npy` file, which may be damaged or made to trouble.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use anyhow::{Context, bail, ensure};
use ndarray_npy::npy::header::Header;

/// Longest header that is looked at; that of a matrix has 128 bytes.
const MAX_HEADER: usize = 4096;
/// Brackets in brackets that the header of an array has at most. The parser takes twice as long for
/// each one more, so a file made to trouble it must not reach it.
const MAX_NESTING: usize = 8;

/// Reads the header and leaves the file at the first element.
pub(super) fn read_header(file: &mut File, len: u64) -> anyhow::Result<Header> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_counts_open_brackets() {
        assert_eq!(nesting(b"{'descr': '<f4', 'shape': (2, 3), }"), 2);
        assert_eq!(nesting(b"(([{"), 4);
        assert_eq!(nesting(b")))(("), 2);
    }
}
