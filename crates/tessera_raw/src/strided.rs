//! A matrix at an address.

use gemm_spec::{Layout, Operand, ShapeError};

/// A matrix at an address: element (row, col) is `row * row_stride + col * col_stride` bytes from there.
///
/// Strides may be negative or zero, and addresses need no alignment: what the library does not take in
/// place is copied.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// Address of element (0, 0); anything where there is none.
    pub at: *mut u8,
    /// How many rows there are.
    pub rows: usize,
    /// How many columns there are.
    pub cols: usize,
    /// Bytes from one row to the next.
    pub row_stride: isize,
    /// Bytes from one column to the next.
    pub col_stride: isize,
}

// SAFETY: an address and four numbers; what is done with it is `unsafe` by itself.
unsafe impl Send for Strided {}
// SAFETY: as above.
unsafe impl Sync for Strided {}

impl Strided {
    /// Contiguous rows, `ld` elements of `size` bytes apart.
    #[must_use]
    pub const fn row_major(at: *mut u8, rows: usize, cols: usize, ld: usize, size: usize) -> Self {
        let (row_stride, col_stride) = (ld.wrapping_mul(size).cast_signed(), size.cast_signed());
        Self { at, rows, cols, row_stride, col_stride }
    }

    /// The transposed matrix: the same elements, read the other way round.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The same matrix at an address that many bytes further on.
    #[must_use]
    pub const fn moved(self, bytes: isize) -> Self {
        Self { at: self.at.wrapping_offset(bytes), ..self }
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// The bytes that its elements lie in, from the first to behind the last, as offsets from `at`. `None`
    /// where an address space does not hold them.
    #[must_use]
    pub fn span(&self, size: usize) -> Option<(isize, isize)> {
        if self.is_empty() {
            return Some((0, 0));
        }
        let reach = |count: usize, stride: isize| -> Option<isize> {
            isize::try_from(count - 1).ok()?.checked_mul(stride)
        };
        let (rows, cols) = (reach(self.rows, self.row_stride)?, reach(self.cols, self.col_stride)?);
        let first = rows.min(0).checked_add(cols.min(0))?;
        let last = rows.max(0).checked_add(cols.max(0))?;
        let end = last.checked_add(isize::try_from(size).ok()?)?;
        end.checked_sub(first)?;
        Some((first, end))
    }

    /// Whether the elements of two matrices may share memory: the bytes from first to last do.
    #[must_use]
    pub fn may_overlap(&self, size: usize, other: &Self, other_size: usize) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let bytes = |of: &Self, size| {
            let (first, end) = of.span(size)?;
            Some((of.at.wrapping_offset(first).addr(), of.at.wrapping_offset(end).addr()))
        };
        match (bytes(self, size), bytes(other, other_size)) {
            (Some(own), Some(theirs)) => own.0 < theirs.1 && theirs.0 < own.1,
            _ => true,
        }
    }

    /// Fails where there are more elements than an address space holds, be they one element many times.
    pub(crate) fn check(&self, operand: Operand, size: usize) -> Result<(), ShapeError> {
        let (rows, cols) = (self.rows, self.cols);
        let bytes = rows.checked_mul(cols).and_then(|count| count.checked_mul(size));
        let counted = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
        if counted && self.span(size).is_some() {
            return Ok(());
        }
        Err(ShapeError::TooLarge { operand, rows, cols })
    }

    /// The layout by which the library takes the matrix in place: rows or columns are contiguous and do
    /// not overlap, and the elements are aligned. `None` where there is no such layout.
    #[must_use]
    pub fn layout(&self, size: usize, align: usize) -> Option<Layout> {
        if self.is_empty() {
            return Some(Layout::row_major(self.cols.max(1)));
        }
        let row = step(self.rows, self.row_stride, size)?;
        let col = step(self.cols, self.col_stride, size)?;
        if !self.at.addr().is_multiple_of(align) {
            return None;
        }
        // One contiguous column is a column rather than rows of one element.
        if self.cols == 1 && row == Some(1) {
            return Some(Layout::col_major(self.rows));
        }
        if col.is_none_or(|col| col == 1) && row.is_none_or(|row| row >= self.cols) {
            return Some(Layout::row_major(row.unwrap_or(self.cols)));
        }
        if row.is_none_or(|row| row == 1) && col.is_none_or(|col| col >= self.rows) {
            return Some(Layout::col_major(col.unwrap_or(self.rows)));
        }
        None
    }
}

/// Elements from one line to the next; nothing where there is one line. `None` where it is no positive
/// number of elements.
#[expect(clippy::option_option, reason = "no line follows, and no such number, are two answers")]
fn step(lines: usize, stride: isize, size: usize) -> Option<Option<usize>> {
    if lines <= 1 {
        return Some(None);
    }
    let stride = usize::try_from(stride).ok()?;
    (stride > 0 && stride.is_multiple_of(size)).then(|| Some(stride / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rows: usize, cols: usize, row_stride: isize, col_stride: isize) -> Strided {
        Strided { at: std::ptr::without_provenance_mut(64), rows, cols, row_stride, col_stride }
    }

    #[test]
    fn contiguous_lines_are_taken_in_place() {
        let layout = |matrix: Strided| matrix.layout(4, 4);
        assert_eq!(layout(at(3, 5, 20, 4)), Some(Layout::row_major(5)));
        assert_eq!(layout(at(3, 5, 28, 4)), Some(Layout::row_major(7)));
        assert_eq!(layout(at(3, 5, 4, 12)), Some(Layout::col_major(3)));
        // Every third element, as one row and as one column.
        assert_eq!(layout(at(1, 5, 0, 12)), Some(Layout::col_major(3)));
        assert_eq!(layout(at(5, 1, 12, -8)), Some(Layout::row_major(3)));
        assert_eq!(layout(at(5, 1, 4, 0)), Some(Layout::col_major(5)));
        assert_eq!(layout(at(1, 5, 0, 4)), Some(Layout::row_major(5)));
        assert_eq!(layout(at(1, 1, 0, -3)), Some(Layout::row_major(1)));
        assert!(layout(at(0, 5, -1, 3)).is_some());
    }

    #[test]
    fn all_else_is_copied() {
        let copied = |matrix: Strided| matrix.layout(4, 4).is_none();
        assert!(copied(at(3, 5, 40, 8)));
        assert!(copied(at(3, 5, -20, 4)));
        assert!(copied(at(3, 5, 0, 4)));
        assert!(copied(at(3, 5, 4, 4)), "overlapping rows");
        assert!(copied(at(3, 5, 22, 4)), "no multiple of an element");
        assert!(copied(at(3, 5, 20, 4).moved(2)), "no alignment");
        assert!(!copied(at(3, 5, 20, 4).moved(8)));
    }

    #[test]
    fn spans_hold_the_elements_and_are_compared() {
        let forward = at(3, 5, 20, 4);
        assert_eq!(forward.span(4), Some((0, 60)));
        let backward = at(3, 5, -20, 4).moved(40);
        assert_eq!(backward.span(4), Some((-40, 20)));
        assert!(forward.may_overlap(4, &backward, 4));
        assert!(!forward.may_overlap(4, &forward.moved(60), 4));
        assert!(forward.may_overlap(4, &forward.moved(59), 1));
        assert!(!forward.may_overlap(4, &at(0, 5, 20, 4), 4));
        assert_eq!(at(usize::MAX, 2, 8, 4).span(4), None);
        assert!(at(1 << 40, 1 << 40, 0, 0).check(Operand::A, 4).is_err());
        assert!(forward.check(Operand::A, 4).is_ok());
    }
}
