//! Copies of matrices that the library does not take in place.

use std::mem::MaybeUninit;

use cpu_gemm::CpuContext;
use gemm_spec::Layout;
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSliceMut as _;
use tessera::Error;

use crate::scalar::Plain;
use crate::strided::Strided;

/// Elements from which on several threads copy.
const SHARED: usize = 1 << 18;

/// A matrix whose lines are contiguous, in memory of its own.
pub(crate) struct Packed<T> {
    pub(crate) elements: Vec<T>,
    pub(crate) layout: Layout,
}

/// The matrix with its columns as rows, where they are the closer together of the two.
fn by_lines(matrix: Strided) -> (Strided, bool) {
    let by_columns = matrix.row_stride.unsigned_abs() < matrix.col_stride.unsigned_abs();
    if by_columns { (matrix.transposed(), true) } else { (matrix, false) }
}

/// A copy of a matrix.
///
/// # Errors
/// [`Error::OutOfMemory`].
///
/// # Safety
/// The elements can be read, and nobody writes them meanwhile.
pub(crate) unsafe fn pack<T: Plain>(
    matrix: Strided,
    what: &str,
    context: &CpuContext,
) -> Result<Packed<T>, Error> {
    let (lines, transposed) = by_lines(matrix);
    let Strided { rows, cols, .. } = lines;
    let count = rows.saturating_mul(cols);
    let mut elements = Vec::new();
    elements.try_reserve_exact(count).map_err(|_| Error::OutOfMemory {
        what: format!("a copy of {what}, {} x {}", matrix.rows, matrix.cols),
        needed: (count as u128).saturating_mul(size_of::<T>() as u128),
        available: None,
    })?;
    let room = &mut elements.spare_capacity_mut()[..count];
    // SAFETY: the caller's promise.
    let copy = |(row, line): (usize, &mut [MaybeUninit<T>])| unsafe { copy_line(lines, row, line) };
    if cols > 0 && count >= SHARED && context.threads() > 1 {
        context.pool().install(|| room.par_chunks_mut(cols).enumerate().for_each(copy));
    } else if cols > 0 {
        room.chunks_mut(cols).enumerate().for_each(copy);
    }
    // SAFETY: each chunk was a line, whose elements were all written.
    unsafe { elements.set_len(count) };
    let layout = Layout::row_major(cols.max(1));
    Ok(Packed { elements, layout: if transposed { layout.transposed() } else { layout } })
}

/// Copies a line.
///
/// # Safety
/// As [`pack`]; there is such a line, and it is as long.
unsafe fn copy_line<T: Plain>(lines: Strided, row: usize, line: &mut [MaybeUninit<T>]) {
    let first = lines.at.wrapping_offset(row.cast_signed().wrapping_mul(lines.row_stride));
    for (col, element) in line.iter_mut().enumerate() {
        let at = first.wrapping_offset(col.cast_signed().wrapping_mul(lines.col_stride));
        // SAFETY: that of an element, by the caller's promise, whatever its alignment; any bytes are one.
        element.write(unsafe { at.cast::<T>().read_unaligned() });
    }
}

/// Writes a copy back to where it came from.
///
/// # Safety
/// The elements can be written, and nobody else uses them; `packed` is of the matrix' size.
pub(crate) unsafe fn unpack<T: Plain>(packed: &Packed<T>, matrix: Strided) {
    for row in 0..matrix.rows {
        for col in 0..matrix.cols {
            let offset = row.cast_signed().wrapping_mul(matrix.row_stride);
            let offset = offset.wrapping_add(col.cast_signed().wrapping_mul(matrix.col_stride));
            let at = matrix.at.wrapping_offset(offset).cast::<T>();
            // SAFETY: that of an element, by the caller's promise, whatever its alignment.
            unsafe { at.write_unaligned(packed.elements[packed.layout.index(row, col)]) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_hold_the_elements_and_go_back() {
        let context = CpuContext::new(std::num::NonZeroUsize::new(2)).expect("threads");
        for (rows, cols) in [(3, 4), (1, 7), (700, 900), (0, 3)] {
            // Every second element of a matrix upside down, one byte off.
            let line = 8 * cols;
            let byte = |at: usize| u8::try_from(at * 7 % 251).expect("it is less");
            let mut data: Vec<u8> = (0..=line * rows).map(byte).collect();
            let before = data.clone();
            let place = |row: usize, col: usize| 1 + (rows - 1 - row) * line + col * 8;
            let at = data.as_mut_ptr().wrapping_add(if rows > 0 { place(0, 0) } else { 1 });
            let row_stride = -line.cast_signed();
            let matrix = Strided { at, rows, cols, row_stride, col_stride: 8 };
            for (matrix, transposed) in [(matrix, false), (matrix.transposed(), true)] {
                // SAFETY: the buffer holds it.
                let mut packed = unsafe { pack::<i32>(matrix, "A", &context) }.expect("memory");
                assert_eq!(packed.elements.len(), rows * cols);
                for row in 0..matrix.rows {
                    for col in 0..matrix.cols {
                        let place = if transposed { place(col, row) } else { place(row, col) };
                        let bytes = data[place..][..4].try_into().expect("four");
                        let found = packed.elements[packed.layout.index(row, col)];
                        assert_eq!(found, i32::from_ne_bytes(bytes), "{row} {col}");
                    }
                }
                packed.elements.iter_mut().for_each(|it| *it = !*it);
                // SAFETY: as above.
                unsafe { unpack(&packed, matrix) };
                assert!(rows == 0 || transposed || data != before);
            }
            assert_eq!(data, before, "inverted twice");
        }
    }
}
