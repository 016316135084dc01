//! Views of matrices whose parts can be used side by side.
//!
//! Rows 0 to 9 and rows 10 to 19 of a column-major matrix are disjoint, but as slices they overlap. A view is
//! an address, two sizes and a [`Layout`]; a [`ViewMut`] is the only way to its elements while it lives, and is
//! split into views of disjoint rows or columns.

use std::marker::PhantomData;
use std::ops::Range;

use gemm_spec::{Layout, Operand, Order, ShapeError};

/// A matrix to read.
#[derive(Debug)]
pub struct View<'a, T> {
    at: *const T,
    rows: usize,
    cols: usize,
    layout: Layout,
    elements: PhantomData<&'a [T]>,
}

/// A matrix to write, of which no other view is in use.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    at: *mut T,
    rows: usize,
    cols: usize,
    layout: Layout,
    elements: PhantomData<&'a mut [T]>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

// SAFETY: a view gives what a `&[T]` gives.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for View<'_, T> {}
// SAFETY: a view gives what a `&mut [T]` of its elements gives: nobody else has them.
unsafe impl<T: Send> Send for ViewMut<'_, T> {}
// SAFETY: through a shared reference its elements can only be read.
unsafe impl<T: Sync> Sync for ViewMut<'_, T> {}

/// Checks that lines do not overlap and that a buffer of `len` elements holds them.
fn check(
    operand: Operand,
    len: usize,
    (rows, cols): (usize, usize),
    layout: Layout,
) -> Result<(), ShapeError> {
    let min = layout.min_ld(rows, cols);
    if layout.ld < min {
        return Err(ShapeError::LeadingDimension { operand, ld: layout.ld, min });
    }
    match layout.required_len(rows, cols) {
        None => Err(ShapeError::TooLarge { operand, rows, cols }),
        Some(needed) if len < needed => Err(ShapeError::BufferTooShort { operand, len, needed }),
        Some(_) => Ok(()),
    }
}

/// Checks that a range of rows or columns is among those of a matrix.
fn within(range: &Range<usize>, all: usize) {
    assert!(
        range.start <= range.end && range.end <= all,
        "invariant: {range:?} is within 0..{all}"
    );
}

/// Offset of an element; of one that does not exist any number.
fn offset(layout: Layout, row: usize, col: usize) -> usize {
    match layout.order {
        Order::RowMajor => row.wrapping_mul(layout.ld).wrapping_add(col),
        Order::ColMajor => col.wrapping_mul(layout.ld).wrapping_add(row),
    }
}

/// What both kinds of views have.
macro_rules! common {
    () => {
        /// How many rows there are.
        #[inline]
        #[must_use]
        pub fn rows(&self) -> usize {
            self.rows
        }

        /// How many columns there are.
        #[inline]
        #[must_use]
        pub fn cols(&self) -> usize {
            self.cols
        }

        /// How the elements lie.
        #[inline]
        #[must_use]
        pub fn layout(&self) -> Layout {
            self.layout
        }

        /// The transposed matrix: the same elements, read the other way round.
        #[inline]
        #[must_use]
        pub fn transposed(self) -> Self {
            Self { rows: self.cols, cols: self.rows, layout: self.layout.transposed(), ..self }
        }

        /// Some rows and columns of it.
        ///
        /// # Panics
        /// Where there are no such rows or columns.
        #[must_use]
        pub fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
            within(&rows, self.rows);
            within(&cols, self.cols);
            let at = self.at.wrapping_add(offset(self.layout, rows.start, cols.start));
            Self { at, rows: rows.len(), cols: cols.len(), ..self }
        }

        /// The address of an element.
        ///
        /// # Panics
        /// Where there is no such element.
        #[inline]
        fn address(&self, row: usize, col: usize) -> *const T {
            assert!(row < self.rows && col < self.cols, "invariant: the element exists");
            let first: *const T = self.at;
            first.wrapping_add(offset(self.layout, row, col))
        }

        /// An element.
        ///
        /// # Panics
        /// Where there is no such element.
        #[inline]
        #[must_use]
        pub fn get(&self, row: usize, col: usize) -> T
        where
            T: Copy,
        {
            let at = self.address(row, col);
            // SAFETY: `at` is that of an element that exists, which the view may read.
            unsafe { at.read() }
        }
    };
}

impl<'a, T> View<'a, T> {
    /// A view of `rows` by `cols` elements laid out in `data`.
    ///
    /// # Errors
    /// [`ShapeError`] where the buffer is too short or the leading dimension too small.
    pub fn new(
        data: &'a [T],
        rows: usize,
        cols: usize,
        layout: Layout,
    ) -> Result<Self, ShapeError> {
        check(Operand::A, data.len(), (rows, cols), layout)?;
        Ok(Self { at: data.as_ptr(), rows, cols, layout, elements: PhantomData })
    }

    /// A view of elements at an address.
    ///
    /// # Safety
    /// For `'a` each element of a `rows` by `cols` matrix so laid out that is read through the view, or through
    /// one made of it, can be read, and nobody writes it. Where none is the address may be anything.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(at: *const T, rows: usize, cols: usize, layout: Layout) -> Self {
        Self { at, rows, cols, layout, elements: PhantomData }
    }

    /// A column as a slice, where its elements lie side by side.
    ///
    /// # Panics
    /// Where there is no such column.
    #[must_use]
    pub fn column(&self, col: usize) -> Option<&'a [T]> {
        assert!(col < self.cols, "invariant: the column exists");
        if self.layout.order == Order::RowMajor && self.rows > 1 {
            return None;
        }
        let first = self.at.wrapping_add(offset(self.layout, 0, col));
        // SAFETY: `rows` elements of the matrix from there on, which may be read, and nobody writes, for `'a`. Of no
        // rows the address may be anything.
        (self.rows > 0).then(|| unsafe { std::slice::from_raw_parts(first, self.rows) })
    }

    /// All elements as a slice, where there are no gaps between them.
    #[must_use]
    pub fn dense(&self) -> Option<&'a [T]> {
        let Self { at, rows, cols, layout, .. } = *self;
        if layout.ld != layout.min_ld(rows, cols) {
            return None;
        }
        match rows.checked_mul(cols)? {
            0 => Some(&[]),
            // SAFETY: lines follow each other without gaps, so these are the elements of the matrix, which may be read,
            // and nobody writes, for `'a`.
            len => Some(unsafe { std::slice::from_raw_parts(at, len) }),
        }
    }

    /// From one row to the next, and from one column to the next.
    #[inline]
    pub(crate) fn strides(&self) -> (usize, usize) {
        match self.layout.order {
            Order::RowMajor => (self.layout.ld, 1),
            Order::ColMajor => (1, self.layout.ld),
        }
    }

    /// The address of the first element; of a matrix without elements any.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        self.at
    }

    common!();
}

impl<'a, T> ViewMut<'a, T> {
    /// A view of `rows` by `cols` elements laid out in `data`.
    ///
    /// # Errors
    /// [`ShapeError`] where the buffer is too short or the leading dimension too small.
    pub fn new(
        data: &'a mut [T],
        rows: usize,
        cols: usize,
        layout: Layout,
    ) -> Result<Self, ShapeError> {
        check(Operand::C, data.len(), (rows, cols), layout)?;
        Ok(Self { at: data.as_mut_ptr(), rows, cols, layout, elements: PhantomData })
    }

    /// A view of elements at an address.
    ///
    /// # Safety
    /// For `'a` each element of a `rows` by `cols` matrix so laid out that is read or written through the view, or
    /// through one made of it, can be read and written, nobody else does either, and lines do not overlap. Where
    /// none is the address may be anything.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(at: *mut T, rows: usize, cols: usize, layout: Layout) -> Self {
        Self { at, rows, cols, layout, elements: PhantomData }
    }

    /// The address of the first element; of a matrix without elements any.
    #[inline]
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.at
    }

    /// A view of the same elements that ends before this one.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { elements: PhantomData, ..*self }
    }

    /// A view of the same elements to read.
    #[must_use]
    pub fn as_view(&self) -> View<'_, T> {
        let Self { at, rows, cols, layout, .. } = *self;
        View { at, rows, cols, layout, elements: PhantomData }
    }

    /// The rows before a row, and those from it on.
    ///
    /// # Panics
    /// Where there are fewer rows.
    #[must_use]
    pub fn split_rows(self, row: usize) -> (Self, Self) {
        let Self { at, rows, cols, layout, elements } = self;
        // Both have the lifetime of this view, which is used up, and no element is in both.
        let whole = || Self { at, rows, cols, layout, elements };
        (whole().part(0..row, 0..cols), whole().part(row..rows, 0..cols))
    }

    /// The columns before a column, and those from it on.
    ///
    /// # Panics
    /// Where there are fewer columns.
    #[must_use]
    pub fn split_cols(self, col: usize) -> (Self, Self) {
        let (before, behind) = self.transposed().split_rows(col);
        (before.transposed(), behind.transposed())
    }

    /// A column as a slice, where its elements lie side by side.
    ///
    /// # Panics
    /// Where there is no such column.
    #[must_use]
    pub fn column_mut(&mut self, col: usize) -> Option<&mut [T]> {
        assert!(col < self.cols, "invariant: the column exists");
        if self.layout.order == Order::RowMajor && self.rows > 1 {
            return None;
        }
        let first = self.at.wrapping_add(offset(self.layout, 0, col));
        // SAFETY: `rows` elements of the matrix from there on, which this view alone has while it is borrowed. Of no
        // rows the address may be anything.
        (self.rows > 0).then(|| unsafe { std::slice::from_raw_parts_mut(first, self.rows) })
    }

    /// Writes an element.
    ///
    /// # Panics
    /// Where there is no such element.
    #[inline]
    pub fn set(&mut self, row: usize, col: usize, value: T) {
        let at = self.address(row, col).cast_mut();
        // SAFETY: `at` is that of an element that exists, made of the view's own address, and nobody else has it.
        unsafe { at.write(value) }
    }

    common!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_the_padding_is_nobodys() {
        for order in [Order::RowMajor, Order::ColMajor] {
            let mut data = vec![0; 5 * 7];
            let layout = Layout { order, ld: if order == Order::RowMajor { 5 } else { 7 } };
            let (rows, cols) = if order == Order::RowMajor { (7, 4) } else { (6, 5) };
            let view = ViewMut::new(&mut data, rows, cols, layout).unwrap();
            let (top, bottom) = view.split_rows(2);
            let (left, right) = bottom.split_cols(3);
            for (number, mut part) in [top, left, right].into_iter().enumerate() {
                for row in 0..part.rows() {
                    for col in 0..part.cols() {
                        assert_eq!(part.get(row, col), 0);
                        part.set(row, col, number + 1);
                        assert_eq!(part.as_view().transposed().get(col, row), number + 1);
                    }
                }
            }
            let written = data.iter().filter(|&&it| it > 0).count();
            assert_eq!(written, rows * cols);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(View::new(&[0; 5], 2, 3, Layout::row_major(3)).is_err());
        assert!(View::new(&[0; 6], 2, 3, Layout::row_major(2)).is_err());
        assert!(ViewMut::new(&mut [0; 6], 2, 3, Layout::col_major(2)).is_ok());
    }
}
