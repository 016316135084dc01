//! Arrays as the engine takes them: lines of contiguous elements, without gaps or with.

use ndarray::{Array2, ArrayRef2};
use tessera::blas3::{View, ViewMut};
use tessera::{Element, Error, Layout, MatMut, MatRef};

/// An array to read.
pub(crate) enum Readable<'a, T> {
    /// As it is in memory.
    InPlace {
        view: View<'a, T>,
        /// All of its elements as a slice, where there are no gaps between them.
        dense: Option<&'a [T]>,
    },
    /// Neither rows nor columns are contiguous: a copy of it.
    Copied(Array2<T>),
}

impl<'a, T: Element> Readable<'a, T> {
    pub(crate) fn of(array: &'a ArrayRef2<T>) -> Self {
        let Some(layout) = layout(array) else {
            return Self::Copied(array.as_standard_layout().into_owned());
        };
        let (rows, cols) = array.dim();
        // SAFETY: the array's elements are where its strides say, which `layout` has put in other words; they
        // are borrowed.
        let view = unsafe { View::from_raw(array.as_ptr(), rows, cols, layout) };
        Self::InPlace { view, dense: array.as_slice_memory_order() }
    }

    /// A view of the elements.
    pub(crate) fn view(&self) -> View<'_, T> {
        match self {
            Self::InPlace { view, .. } => *view,
            Self::Copied(copy) => {
                let (rows, cols) = copy.dim();
                // SAFETY: an array of its own is row by row, and is borrowed.
                unsafe { View::from_raw(copy.as_ptr(), rows, cols, Layout::row_major(cols)) }
            }
        }
    }

    /// The elements as a buffer without gaps, if they are one.
    pub(crate) fn dense(&self) -> Result<Option<MatRef<'_, T>>, Error> {
        let (rows, cols, layout) = (self.view().rows(), self.view().cols(), self.view().layout());
        let data = match self {
            Self::InPlace { dense, .. } => *dense,
            Self::Copied(copy) => copy.as_slice(),
        };
        data.map(|data| MatRef::new(data, rows, cols, layout)).transpose()
    }
}

/// An array to write.
pub(crate) enum Writable<'a, T> {
    /// One without gaps.
    Dense(MatMut<'a, T>),
    /// One with gaps, in which other elements may be.
    Lines(ViewMut<'a, T>),
}

impl<'a, T: Element> Writable<'a, T> {
    /// `None` where neither rows nor columns are contiguous.
    pub(crate) fn of(array: &'a mut ArrayRef2<T>) -> Option<Self> {
        let layout = layout(array)?;
        let (rows, cols) = array.dim();
        if array.as_slice_memory_order().is_some() {
            let data = array.as_slice_memory_order_mut()?;
            return MatMut::new(data, rows, cols, layout).ok().map(Self::Dense);
        }
        // SAFETY: the array's elements are where its strides say, which `layout` has put in other words; they
        // are borrowed exclusively, and lines do not overlap.
        Some(Self::Lines(unsafe { ViewMut::from_raw(array.as_mut_ptr(), rows, cols, layout) }))
    }
}

/// The order and the leading dimension of an array whose rows or columns are contiguous and do not overlap.
fn layout<T>(array: &ArrayRef2<T>) -> Option<Layout> {
    let (rows, cols) = array.dim();
    if rows == 0 || cols == 0 {
        return Some(Layout::row_major(cols));
    }
    let (from_row, from_col) = (array.strides()[0], array.strides()[1]);
    // Where there is one row or column, the stride to the next means nothing.
    let line = |lines: usize, elements: usize, apart: isize, inside: isize| {
        let apart = if lines == 1 { elements } else { usize::try_from(apart).ok()? };
        ((elements == 1 || inside == 1) && apart >= elements).then_some(apart)
    };
    let by_rows = line(rows, cols, from_row, from_col).map(Layout::row_major);
    by_rows.or_else(|| line(cols, rows, from_col, from_row).map(Layout::col_major))
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;

    #[test]
    fn rows_columns_and_neither_are_told_apart() {
        let array = Array2::<f32>::zeros((6, 8));
        assert_eq!(layout(&array), Some(Layout::row_major(8)));
        assert_eq!(layout(&array.t()), Some(Layout::col_major(8)));
        assert_eq!(layout(&array.slice(s![1..4, 2..5])), Some(Layout::row_major(8)));
        assert_eq!(layout(&array.slice(s![..;2, ..])), Some(Layout::row_major(16)));
        assert_eq!(layout(&array.slice(s![.., ..;2])), None);
        assert_eq!(layout(&array.slice(s![..;-1, ..])), None);
        assert_eq!(layout(&array.slice(s![.., 3..4])), Some(Layout::row_major(8)));
        assert_eq!(layout(&array.slice(s![3..4, ..;2])), Some(Layout::col_major(2)));
        assert_eq!(layout(&array.slice(s![2..2, ..;-1])), Some(Layout::row_major(8)));
        let line = Array2::<f32>::zeros((1, 4));
        // All rows are the same one.
        assert_eq!(layout(&line.broadcast((3, 4)).unwrap()), None);
    }
}
