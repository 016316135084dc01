//! Matrices with any distances between rows and between columns, as other libraries have them.

use std::marker::PhantomData;
use std::slice;

use gemm_spec::Layout;

use crate::blas3::{View, ViewMut};
use crate::error::Error;

/// A matrix to read whose strides are any numbers of elements: positive, negative or zero.
///
/// [`Engine::gemm_strided`](crate::Engine::gemm_strided) multiplies it.
#[derive(Clone, Copy, Debug)]
pub struct StridedRef<'a, T> {
    at: *const T,
    grid: Grid,
    conjugated: bool,
    elements: PhantomData<&'a [T]>,
}

/// A matrix to write whose strides are any numbers of elements: positive, negative or zero.
#[derive(Debug)]
pub struct StridedMut<'a, T> {
    at: *mut T,
    grid: Grid,
    elements: PhantomData<&'a mut [T]>,
}

/// Where the elements of a matrix are, as offsets from the first.
#[derive(Clone, Copy, Debug)]
struct Grid {
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
}

/// The order and the leading dimension of a matrix of rows and columns whose element (row, col) is
/// `row * strides.0 + col * strides.1` elements from the first, where rows or columns are contiguous and do not
/// overlap. Where there is one row or column, the stride to the next means nothing.
///
/// ```
/// use tessera::{Layout, layout_of};
///
/// assert_eq!(layout_of((2, 3), (4, 1)), Some(Layout::row_major(4)));
/// assert_eq!(layout_of((2, 3), (1, 2)), Some(Layout::col_major(2)));
/// assert_eq!(layout_of((2, 3), (8, 2)), None);
/// ```
#[must_use]
pub fn layout_of(
    (rows, cols): (usize, usize),
    (row_stride, col_stride): (isize, isize),
) -> Option<Layout> {
    if rows == 0 || cols == 0 {
        return Some(Layout::row_major(cols));
    }
    let line = |lines: usize, elements: usize, apart: isize, inside: isize| {
        let apart = if lines == 1 { elements } else { usize::try_from(apart).ok()? };
        ((elements == 1 || inside == 1) && apart >= elements).then_some(apart)
    };
    let by_rows = line(rows, cols, row_stride, col_stride).map(Layout::row_major);
    by_rows.or_else(|| line(cols, rows, col_stride, row_stride).map(Layout::col_major))
}

impl Grid {
    fn new((rows, cols): (usize, usize), (row_stride, col_stride): (isize, isize)) -> Self {
        Self { rows, cols, row_stride, col_stride }
    }

    fn offset(self, row: usize, col: usize) -> isize {
        let rows = row.cast_signed().wrapping_mul(self.row_stride);
        rows.wrapping_add(col.cast_signed().wrapping_mul(self.col_stride))
    }

    fn transposed(self) -> Self {
        Self::new((self.cols, self.rows), (self.col_stride, self.row_stride))
    }

    /// The offset of the last row's first element, and the matrix from there on, its last row first.
    fn upside_down(self) -> (isize, Self) {
        let first = self.offset(self.rows.saturating_sub(1), 0);
        (first, Self { row_stride: self.row_stride.wrapping_neg(), ..self })
    }

    fn layout(self) -> Option<Layout> {
        layout_of((self.rows, self.cols), (self.row_stride, self.col_stride))
    }

    /// The layout of a copy without gaps that keeps the order of rows and columns.
    fn packed(self) -> Layout {
        let by_columns = self.row_stride.unsigned_abs() < self.col_stride.unsigned_abs();
        if by_columns { Layout::col_major(self.rows) } else { Layout::row_major(self.cols) }
    }

    /// How many elements there are, where a matrix without gaps is so laid out.
    fn dense_len(self, layout: Layout) -> Option<usize> {
        let (rows, cols) = (self.rows, self.cols);
        (layout.ld == layout.min_ld(rows, cols)).then(|| rows.checked_mul(cols)).flatten()
    }
}

/// A matrix to read, its lines contiguous.
pub struct Lines<'a, T> {
    pub(crate) view: View<'a, T>,
    /// All elements as a slice, where there are no gaps between them.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "a GPU takes slices"))]
    pub(crate) dense: Option<&'a [T]>,
    /// Whether each element stands for its conjugate.
    pub(crate) conjugated: bool,
}

/// A matrix to write, its lines contiguous.
pub enum LinesMut<'a, T> {
    /// One without gaps.
    Dense(&'a mut [T], (usize, usize), Layout),
    /// One with gaps, in which other elements may be.
    Gaps(ViewMut<'a, T>),
}

impl<'a, T> LinesMut<'a, T> {
    pub(crate) fn view(self) -> Result<ViewMut<'a, T>, Error> {
        match self {
            Self::Dense(data, (rows, cols), layout) => Ok(ViewMut::new(data, rows, cols, layout)?),
            Self::Gaps(view) => Ok(view),
        }
    }
}

impl<T> StridedRef<'_, T> {
    /// A matrix of rows and columns whose element (row, col) is `row * strides.0 + col * strides.1` elements
    /// from `at`.
    ///
    /// # Safety
    /// For the lifetime of the value and its copies each element can be read, and nobody writes it; all are of the
    /// allocation that `at` points into. Where there is none the address may be anything.
    #[must_use]
    pub unsafe fn from_raw(at: *const T, dims: (usize, usize), strides: (isize, isize)) -> Self {
        Self { at, grid: Grid::new(dims, strides), conjugated: false, elements: PhantomData }
    }

    /// Rows and columns.
    #[must_use]
    pub fn dims(&self) -> (usize, usize) {
        (self.grid.rows, self.grid.cols)
    }

    /// The transposed matrix: the same elements, read the other way round.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { grid: self.grid.transposed(), ..self }
    }

    /// The conjugated matrix; of real numbers it is the same.
    #[must_use]
    pub fn conjugated(self) -> Self {
        Self { conjugated: !self.conjugated, ..self }
    }

    /// The last row first.
    pub(crate) fn upside_down(self) -> Self {
        let (first, grid) = self.grid.upside_down();
        Self { at: self.at.wrapping_offset(first), grid, ..self }
    }
}

impl<'a, T: Copy> StridedRef<'a, T> {
    /// The matrix in place where its lines are contiguous, else a copy, which is kept in `copy`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn in_lines<'s>(
        self,
        what: &str,
        copy: &'s mut Vec<T>,
    ) -> Result<Lines<'s, T>, Error>
    where
        'a: 's,
    {
        let Self { at, grid, conjugated, .. } = self;
        let (rows, cols) = self.dims();
        let Some(layout) = grid.layout() else {
            let layout = grid.packed();
            // SAFETY: the elements can be read, by the promise of `from_raw`.
            *copy = unsafe { pack(at, grid, layout, what) }?;
            let view = View::new(copy, rows, cols, layout)?;
            return Ok(Lines { view, dense: Some(copy), conjugated });
        };
        // SAFETY: the elements are where the strides say, which `layout` has put in other words; they can be read,
        // and nobody writes them, for 'a.
        let view = unsafe { View::from_raw(at, rows, cols, layout) };
        let dense = match grid.dense_len(layout) {
            None => None,
            Some(0) => Some(&[][..]),
            // SAFETY: that many elements from `at` on are those of the matrix: its lines are contiguous and follow
            // each other without gaps.
            Some(len) => Some(unsafe { slice::from_raw_parts(at, len) }),
        };
        Ok(Lines { view, dense, conjugated })
    }
}

impl<T> StridedMut<'_, T> {
    /// A matrix of rows and columns whose element (row, col) is `row * strides.0 + col * strides.1` elements
    /// from `at`. Elements may share a place; which of them is in it after a product is not said.
    ///
    /// # Safety
    /// For the lifetime of the value each element can be read and written, and nobody else does either; all are of
    /// the allocation that `at` points into. Where there is none the address may be anything.
    #[must_use]
    pub unsafe fn from_raw(at: *mut T, dims: (usize, usize), strides: (isize, isize)) -> Self {
        Self { at, grid: Grid::new(dims, strides), elements: PhantomData }
    }

    /// Rows and columns.
    #[must_use]
    pub fn dims(&self) -> (usize, usize) {
        (self.grid.rows, self.grid.cols)
    }

    /// The transposed matrix: the same elements, read the other way round.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { grid: self.grid.transposed(), ..self }
    }

    /// Whether rows and columns are reversed: their strides are negative.
    pub(crate) fn reversed(&self) -> (bool, bool) {
        (self.grid.row_stride < 0, self.grid.col_stride < 0)
    }

    /// The last row first.
    pub(crate) fn upside_down(self) -> Self {
        let (first, grid) = self.grid.upside_down();
        Self { at: self.at.wrapping_offset(first), grid, ..self }
    }
}

impl<T: Copy> StridedMut<'_, T> {
    /// Has `write` write the matrix, in place where its lines are contiguous, else a copy that takes its place
    /// where `write` succeeds.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], and those of `write`.
    pub(crate) fn write(
        self,
        write: impl FnOnce(LinesMut<'_, T>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { at, grid, .. } = self;
        let (rows, cols) = self.dims();
        let Some(layout) = grid.layout() else {
            let layout = grid.packed();
            // SAFETY: the elements can be read, by the promise of `from_raw`.
            let mut copy = unsafe { pack(at.cast_const(), grid, layout, "C") }?;
            write(LinesMut::Dense(&mut copy, (rows, cols), layout))?;
            for row in 0..rows {
                for col in 0..cols {
                    let place = at.wrapping_offset(grid.offset(row, col));
                    // SAFETY: that of an element, which by the promise of `from_raw` can be written and nobody
                    // else uses.
                    unsafe { place.write(copy[layout.index(row, col)]) };
                }
            }
            return Ok(());
        };
        let dims = (rows, cols);
        write(match grid.dense_len(layout) {
            Some(0) => LinesMut::Dense(&mut [], dims, layout),
            Some(len) => {
                // SAFETY: that many elements from `at` on are those of the matrix: its lines are contiguous and
                // follow each other without gaps. By the promise of `from_raw` nobody else uses them.
                let data = unsafe { slice::from_raw_parts_mut(at, len) };
                LinesMut::Dense(data, dims, layout)
            }
            // SAFETY: the elements are where the strides say, which `layout` has put in other words; lines do not
            // overlap, and by the promise of `from_raw` nobody else uses the elements.
            None => LinesMut::Gaps(unsafe { ViewMut::from_raw(at, rows, cols, layout) }),
        })
    }
}

/// A copy of a matrix in that layout, without gaps.
///
/// # Errors
/// [`Error::OutOfMemory`].
///
/// # Safety
/// Its elements can be read, and nobody writes them meanwhile.
unsafe fn pack<T: Copy>(
    at: *const T,
    grid: Grid,
    layout: Layout,
    what: &str,
) -> Result<Vec<T>, Error> {
    let count = (grid.rows as u128).saturating_mul(grid.cols as u128);
    let mut copy = Vec::new();
    let reserved = usize::try_from(count).map(|count| copy.try_reserve_exact(count).is_ok());
    if reserved != Ok(true) {
        return Err(Error::OutOfMemory {
            what: format!("a copy of {what}, {} x {}", grid.rows, grid.cols),
            needed: count.saturating_mul(size_of::<T>() as u128),
            available: None,
        });
    }
    let by_columns = layout == Layout::col_major(grid.rows);
    let lines = if by_columns { grid.transposed() } else { grid };
    for line in 0..lines.rows {
        for element in 0..lines.cols {
            let place = at.wrapping_offset(lines.offset(line, element));
            // SAFETY: that of an element, which by the caller's promise can be read.
            copy.push(unsafe { place.read() });
        }
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_lines_are_told_from_others() {
        assert_eq!(layout_of((6, 8), (8, 1)), Some(Layout::row_major(8)));
        assert_eq!(layout_of((8, 6), (1, 8)), Some(Layout::col_major(8)));
        assert_eq!(layout_of((3, 3), (8, 1)), Some(Layout::row_major(8)), "a part");
        assert_eq!(layout_of((3, 8), (16, 1)), Some(Layout::row_major(16)), "every other row");
        assert_eq!(layout_of((6, 1), (8, 1)), Some(Layout::row_major(8)), "a column");
        assert_eq!(layout_of((1, 4), (8, 2)), Some(Layout::col_major(2)), "every other element");
        assert_eq!(layout_of((0, 8), (-8, 3)), Some(Layout::row_major(8)), "nothing");
        assert_eq!(layout_of((6, 4), (8, 2)), None, "every other column");
        assert_eq!(layout_of((6, 8), (-8, 1)), None, "upside down");
        assert_eq!(layout_of((3, 4), (0, 1)), None, "one row for all");
        assert_eq!(layout_of((3, 3), (1, 1)), None, "overlapping rows");
    }

    #[test]
    fn only_what_has_no_gaps_is_a_slice() {
        let len = |dims, strides| {
            let grid = Grid::new(dims, strides);
            grid.dense_len(grid.layout().expect("lines"))
        };
        assert_eq!(len((6, 8), (8, 1)), Some(48));
        assert_eq!(len((6, 8), (9, 1)), None);
        assert_eq!(len((1, 8), (3, 1)), Some(8), "one row, whatever the next would be");
        assert_eq!(len((1, 4), (8, 2)), None);
        assert_eq!(len((6, 0), (-1, 1)), Some(0));
    }

    #[test]
    fn only_what_has_no_lines_is_copied() {
        let mut data: Vec<f32> = (0..48u8).map(f32::from).collect();
        for (dims, strides, first, copied) in [
            ((6, 8), (8, 1), 0, false),
            ((8, 6), (1, 8), 0, false),
            ((3, 5), (8, 1), 10, false),
            ((3, 5), (16, 1), 2, false),
            ((6, 4), (8, 2), 0, true),
            ((6, 8), (-8, 1), 40, true),
            ((6, 8), (8, -1), 7, true),
            ((6, 8), (0, 1), 8, true),
        ] {
            let at = data.as_ptr().wrapping_add(first);
            // SAFETY: the matrix is within `data`, which nobody writes.
            let matrix = unsafe { StridedRef::from_raw(at, dims, strides) };
            let mut copy = Vec::new();
            let lines = matrix.in_lines("A", &mut copy).expect("memory");
            for (row, col) in (0..dims.0).flat_map(|row| (0..dims.1).map(move |col| (row, col))) {
                let place = Grid::new(dims, strides).offset(row, col).wrapping_add_unsigned(first);
                let value = data[usize::try_from(place).expect("it is within")];
                assert_eq!(lines.view.get(row, col), value, "{strides:?}, {row}, {col}");
            }
            assert_eq!(copy.is_empty(), !copied, "{dims:?} {strides:?}");
        }
        // A reversed C is in lines once it is the other way round.
        let at = data.as_mut_ptr().wrapping_add(40);
        // SAFETY: the matrix is within `data`, which nobody else uses.
        let c = unsafe { StridedMut::from_raw(at, (6, 8), (-8, 1)) };
        assert_eq!(c.reversed(), (true, false));
        let first = data.as_ptr();
        c.upside_down()
            .write(|c| {
                let in_place = matches!(&c, LinesMut::Dense(data, ..) if data.as_ptr() == first);
                assert!(in_place, "no copy takes its place");
                Ok(())
            })
            .expect("nothing fails");
    }

    #[test]
    fn a_copy_of_too_many_elements_is_an_error() {
        let one = 1f32;
        // SAFETY: each of its elements is `one`.
        let all = unsafe { StridedRef::from_raw(&raw const one, (1 << 40, 1 << 40), (0, 0)) };
        let refused = all.in_lines("A", &mut Vec::new()).map(|_| ());
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })), "{refused:?}");
    }
}
