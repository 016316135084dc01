//! Matrices that own their elements, and views of elements that others own.

use gemm_spec::{Layout, Order, Problem, ShapeError};

use crate::element::{AccOf, Element, MultiplyInto};
use crate::error::Error;
use crate::memory::allocate;

/// A matrix and its elements, tightly packed.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    data: Vec<T>,
    rows: usize,
    cols: usize,
    order: Order,
}

impl<T: Element> Matrix<T> {
    /// A row-major matrix of zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the elements cannot be allocated.
    pub fn zeros(rows: usize, cols: usize) -> Result<Self, Error> {
        Ok(Self { data: allocate(rows, cols, "a matrix")?, rows, cols, order: Order::RowMajor })
    }

    /// A matrix from its elements in the given order.
    ///
    /// # Errors
    /// [`Error::Length`] where there are not `rows * cols` elements.
    pub fn from_vec(data: Vec<T>, rows: usize, cols: usize, order: Order) -> Result<Self, Error> {
        if rows.checked_mul(cols) != Some(data.len()) {
            return Err(Error::Length { rows, cols, len: data.len() });
        }
        Ok(Self { data, rows, cols, order })
    }

    /// A row-major matrix whose element (row, col) is `value(row, col)`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the elements cannot be allocated.
    pub fn from_fn(
        rows: usize,
        cols: usize,
        value: impl Fn(usize, usize) -> T,
    ) -> Result<Self, Error> {
        let mut matrix = Self::zeros(rows, cols)?;
        if cols > 0 {
            for (row, line) in matrix.data.chunks_exact_mut(cols).enumerate() {
                for (col, element) in line.iter_mut().enumerate() {
                    *element = value(row, col);
                }
            }
        }
        Ok(matrix)
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How the elements lie in [`Matrix::as_slice`].
    #[must_use]
    pub fn layout(&self) -> Layout {
        match self.order {
            Order::RowMajor => Layout::row_major(self.cols),
            Order::ColMajor => Layout::col_major(self.rows),
        }
    }

    /// The elements in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.data
    }

    /// The elements in their order.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.data
    }

    /// Element (row, col), if there is one.
    #[must_use]
    pub fn get(&self, row: usize, col: usize) -> Option<T> {
        (row < self.rows && col < self.cols).then(|| self.data[self.layout().index(row, col)])
    }

    /// A view of the whole matrix.
    #[must_use]
    pub fn view(&self) -> MatRef<'_, T> {
        MatRef { data: &self.data, rows: self.rows, cols: self.cols, layout: self.layout() }
    }

    /// A view of the whole matrix that can be written.
    #[must_use]
    pub fn view_mut(&mut self) -> MatMut<'_, T> {
        let layout = self.layout();
        MatMut { data: &mut self.data, rows: self.rows, cols: self.cols, layout }
    }
}

/// A matrix that somebody else owns.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    layout: Layout,
}

/// A matrix that somebody else owns, to be written.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    cols: usize,
    layout: Layout,
}

/// Checks that a buffer holds a matrix.
fn check(
    operand: gemm_spec::Operand,
    len: usize,
    rows: usize,
    cols: usize,
    layout: Layout,
) -> Result<(), Error> {
    let min = layout.min_ld(rows, cols);
    if layout.ld < min {
        return Err(ShapeError::LeadingDimension { operand, ld: layout.ld, min }.into());
    }
    match layout.required_len(rows, cols) {
        None => Err(ShapeError::TooLarge { operand, rows, cols }.into()),
        Some(needed) if len < needed => {
            Err(ShapeError::BufferTooShort { operand, len, needed }.into())
        }
        Some(_) => Ok(()),
    }
}

impl<'a, T> MatRef<'a, T> {
    /// A view of `rows` by `cols` elements laid out in `data`.
    ///
    /// # Errors
    /// [`Error::Shape`] where the buffer is too short or the leading dimension too small.
    pub fn new(data: &'a [T], rows: usize, cols: usize, layout: Layout) -> Result<Self, Error> {
        check(gemm_spec::Operand::A, data.len(), rows, cols, layout)?;
        Ok(Self { data, rows, cols, layout })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How the elements lie in [`MatRef::as_slice`].
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The buffer.
    #[must_use]
    pub fn as_slice(&self) -> &'a [T] {
        self.data
    }

    /// The transposed matrix: the same buffer, read the other way round.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { rows: self.cols, cols: self.rows, layout: self.layout.transposed(), ..self }
    }
}

impl<'a, T> MatMut<'a, T> {
    /// A view of `rows` by `cols` elements laid out in `data`.
    ///
    /// # Errors
    /// [`Error::Shape`] where the buffer is too short or the leading dimension too small.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize, layout: Layout) -> Result<Self, Error> {
        check(gemm_spec::Operand::C, data.len(), rows, cols, layout)?;
        Ok(Self { data, rows, cols, layout })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// How the elements lie in [`MatMut::as_slice`].
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The buffer.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        self.data
    }

    /// The buffer, to be written.
    #[must_use]
    pub fn into_slice(self) -> &'a mut [T] {
        self.data
    }
}

/// The problem `C = alpha * A * B + beta * C` of these matrices.
///
/// # Errors
/// [`Error::InnerDim`] and [`Error::OuterDim`] where the sizes do not fit.
pub fn problem_of<A: MultiplyInto<B, C>, B: Element, C: Element>(
    alpha: AccOf<A, B, C>,
    a: MatRef<'_, A>,
    b: MatRef<'_, B>,
    beta: AccOf<A, B, C>,
    c: &MatMut<'_, C>,
) -> Result<Problem<A::Types>, Error> {
    let dims = [(a.rows(), a.cols()), (b.rows(), b.cols()), (c.rows(), c.cols())];
    let [m, n, k] = sizes_of(dims)?;
    let problem = Problem::new(m, n, k).with_scalars(alpha, beta);
    Ok(problem.with_layouts(a.layout(), b.layout(), c.layout()))
}

/// m, n and k of a product, by the rows and columns of A, B and C.
///
/// # Errors
/// [`Error::InnerDim`] and [`Error::OuterDim`] where they do not fit.
pub fn sizes_of(
    [(m, k), (b_rows, n), (rows, cols)]: [(usize, usize); 3],
) -> Result<[usize; 3], Error> {
    if k != b_rows {
        return Err(Error::InnerDim { a_rows: m, a_cols: k, b_rows, b_cols: n });
    }
    if (rows, cols) != (m, n) {
        return Err(Error::OuterDim { rows, cols, m, n });
    }
    Ok([m, n, k])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_view_reads_the_same_buffer() {
        let matrix = Matrix::from_fn(2, 3, |row, col| (10 * row + col) as f32).unwrap();
        let view = matrix.view().transposed();
        assert_eq!((view.rows(), view.cols()), (3, 2));
        assert_eq!(view.as_slice()[view.layout().index(2, 1)], 12.0);
        assert_eq!(matrix.get(1, 2), Some(12.0));
        assert_eq!(matrix.get(2, 0), None);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(matches!(Matrix::<f64>::zeros(usize::MAX, 2), Err(Error::OutOfMemory { .. })));
        assert!(Matrix::<f64>::zeros(usize::MAX, usize::MAX).is_err());
        assert!(matches!(
            Matrix::<f32>::zeros(1 << 30, 1 << 30),
            Err(Error::OutOfMemory { needed: 4_611_686_018_427_387_904, .. })
        ));
    }

    #[test]
    fn short_buffers_are_refused() {
        let data = [0f32; 5];
        assert!(MatRef::new(&data, 2, 3, Layout::row_major(3)).is_err());
        assert!(MatRef::new(&data, 2, 2, Layout::row_major(1)).is_err());
        assert!(MatRef::new(&data, 2, 2, Layout::row_major(3)).is_ok());
        assert!(Matrix::from_vec(vec![0f32; 5], 2, 3, Order::RowMajor).is_err());
        let many = Matrix::from_vec(vec![0f32; 7], 2, 3, Order::RowMajor).unwrap_err();
        assert_eq!(many.to_string(), "a matrix of 2 x 3 has 6 elements, 7 were given");
    }
}
