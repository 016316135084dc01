//! NumPy's rules of shapes: a vector is a row on the left and a column on the right, what is before the last
//! two dimensions is a stack of matrices, and stacks are broadcast.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tessera_raw::{Batch, Numbers, Strided};

/// Where the elements of an array are.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    pub(crate) at: *mut u8,
    pub(crate) shape: &'a [usize],
    /// In bytes.
    pub(crate) strides: &'a [isize],
}

/// A stack of matrices.
struct Stack {
    shape: Vec<usize>,
    strides: Vec<isize>,
    first: Strided,
}

/// Two stacks that are multiplied.
pub(crate) struct Shapes {
    a: Stack,
    b: Stack,
    /// The dimensions of the stack that comes of it.
    stack: Vec<usize>,
    /// Whether A was a vector, and B.
    vectors: [bool; 2],
}

fn stack(array: Form<'_>, name: &str, is_left: bool) -> PyResult<(Stack, bool)> {
    let (at, dimensions) = (array.at, array.shape.len());
    match dimensions {
        0 => Err(PyValueError::new_err(format!(
            "matmul: {name} has no dimensions, at least one is needed; a product by a number is *"
        ))),
        1 => {
            let row = Strided {
                at,
                rows: 1,
                cols: array.shape[0],
                row_stride: 0,
                col_stride: array.strides[0],
            };
            let first = if is_left { row } else { row.transposed() };
            Ok((Stack { shape: Vec::new(), strides: Vec::new(), first }, true))
        }
        _ => {
            let (shape, sizes) = array.shape.split_at(dimensions - 2);
            let (strides, steps) = array.strides.split_at(dimensions - 2);
            let (rows, cols, row_stride, col_stride) = (sizes[0], sizes[1], steps[0], steps[1]);
            let first = Strided { at, rows, cols, row_stride, col_stride };
            Ok((Stack { shape: shape.to_vec(), strides: strides.to_vec(), first }, false))
        }
    }
}

impl Shapes {
    /// The stacks of two arrays.
    pub(crate) fn of(a: Form<'_>, b: Form<'_>) -> PyResult<Self> {
        let ((a, a_vector), (b, b_vector)) = (stack(a, "a", true)?, stack(b, "b", false)?);
        if a.first.cols != b.first.rows {
            return Err(PyValueError::new_err(format!(
                "matmul: a has {} columns and b has {} rows, they must be as many",
                a.first.cols, b.first.rows
            )));
        }
        let dimensions = a.shape.len().max(b.shape.len());
        let of = |shape: &[usize], at: usize| {
            let missing = dimensions - shape.len();
            if at < missing { 1 } else { shape[at - missing] }
        };
        let mut stack = Vec::new();
        for at in 0..dimensions {
            stack.push(match (of(&a.shape, at), of(&b.shape, at)) {
                (1, other) | (other, 1) => other,
                (one, other) if one == other => one,
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "matmul: stacks of {:?} and {:?} matrices cannot be broadcast together",
                        a.shape, b.shape
                    )));
                }
            });
        }
        Ok(Self { a, b, stack, vectors: [a_vector, b_vector] })
    }

    /// The shape of the result.
    pub(crate) fn result(&self) -> Vec<usize> {
        let mut shape = self.stack.clone();
        if !self.vectors[0] {
            shape.push(self.a.first.rows);
        }
        if !self.vectors[1] {
            shape.push(self.b.first.cols);
        }
        shape
    }

    /// Of what sizes each product is: rows, columns, and what is summed over.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.a.first.rows, self.b.first.cols, self.a.first.cols]
    }

    /// Its rows and columns.
    pub(crate) fn axes(&self) -> Axes {
        let [rows, cols, _] = self.sizes();
        Axes { rows, cols, vectors: self.vectors }
    }

    /// How many products there are; as many as can be counted, where there are more.
    pub(crate) fn count(&self) -> usize {
        self.stack.iter().fold(1, |all, &count| all.saturating_mul(count))
    }

    /// Whether both were vectors, so that the result is a number.
    pub(crate) fn is_number(&self) -> bool {
        self.vectors == [true; 2]
    }

    /// The products whose results lie at an address with the strides of the result's shape.
    pub(crate) fn products(&self, at: *mut u8, strides: &[isize]) -> ([Strided; 3], Batch) {
        let mut own = strides[self.stack.len()..].iter();
        let mut next = |vector: bool| if vector { 0 } else { own.next().copied().unwrap_or(0) };
        let (row_stride, col_stride) = (next(self.vectors[0]), next(self.vectors[1]));
        let (rows, cols) = (self.a.first.rows, self.b.first.cols);
        let c = Strided { at, rows, cols, row_stride, col_stride };
        let broadcast = |of: &Stack| {
            let missing = self.stack.len() - of.shape.len();
            let stride = |at: usize| match at.checked_sub(missing) {
                Some(at) if of.shape[at] > 1 => of.strides[at],
                _ => 0,
            };
            (0..self.stack.len()).map(stride).collect::<Vec<_>>()
        };
        let batch = Batch {
            shape: self.stack.clone(),
            a: broadcast(&self.a),
            b: broadcast(&self.b),
            c: strides[..self.stack.len()].to_vec(),
        };
        ([self.a.first, self.b.first, c], batch)
    }
}

/// The rows and columns of a result, whose last two axes they are but for vectors.
#[derive(Clone, Copy)]
pub(crate) struct Axes {
    rows: usize,
    cols: usize,
    /// Whether A was a vector, and B.
    vectors: [bool; 2],
}

impl Axes {
    /// Sizes and strides of an array along rows and along columns.
    fn of(self, array: Form<'_>, name: &str) -> PyResult<[(usize, isize); 2]> {
        let mut own = array.shape.iter().copied().zip(array.strides.iter().copied()).rev();
        let mut next = |vector: bool| if vector { None } else { own.next() }.unwrap_or((1, 0));
        let cols = next(self.vectors[1]);
        let rows = next(self.vectors[0]);
        if own.any(|(count, _)| count != 1) {
            return Err(PyValueError::new_err(format!(
                "{name} has the shape {:?}: all products of a stack have it in common",
                array.shape
            )));
        }
        Ok([rows, cols])
    }

    /// Numbers of which there is one for each of `wanted` rows or columns, or one for all.
    fn numbers(array: Form<'_>, wanted: usize, (count, stride): (usize, isize)) -> Numbers {
        let stride = if count == 1 && wanted != 1 { 0 } else { stride };
        Numbers { at: array.at.cast_const(), count: wanted, stride }
    }

    /// An array of numbers for rows, or for columns: whether it is for rows, and the numbers.
    pub(crate) fn either(self, array: Form<'_>, name: &str) -> PyResult<(bool, Numbers)> {
        let [rows, cols] = self.of(array, name)?;
        match (rows.0, cols.0) {
            (1, count) if count == self.cols || count == 1 => {
                Ok((false, Self::numbers(array, self.cols, cols)))
            }
            (count, 1) if count == self.rows => Ok((true, Self::numbers(array, self.rows, rows))),
            _ => Err(PyValueError::new_err(format!(
                "{name} has the shape {:?}, it must be ({},) for columns or ({}, 1) for rows",
                array.shape, self.cols, self.rows
            ))),
        }
    }

    /// An array of numbers for rows, or for columns, as asked for; a vector of them or broadcast along the other.
    pub(crate) fn line(self, array: Form<'_>, name: &str, is_row: bool) -> PyResult<Numbers> {
        let wanted = if is_row { self.rows } else { self.cols };
        let own = match array.shape {
            [count] => (*count, array.strides[0]),
            _ => {
                let [rows, cols] = self.of(array, name)?;
                let (own, other) = if is_row { (rows, cols) } else { (cols, rows) };
                if other.0 == 1 { own } else { (0, 0) }
            }
        };
        if own.0 != wanted && own.0 != 1 {
            let (a, b) = if is_row { (wanted, 1) } else { (1, wanted) };
            return Err(PyValueError::new_err(format!(
                "{name} has the shape {:?}, it must be ({wanted},) or ({a}, {b})",
                array.shape
            )));
        }
        Ok(Self::numbers(array, wanted, own))
    }
}

/// Strides with which an array has another shape, as NumPy broadcasts it.
pub(crate) fn broadcast(array: Form<'_>, name: &str, shape: &[usize]) -> PyResult<Vec<isize>> {
    let refused = || {
        PyValueError::new_err(format!(
            "matmul: {name} of shape {:?} cannot be broadcast to the result's, {shape:?}",
            array.shape
        ))
    };
    let missing = shape.len().checked_sub(array.shape.len()).ok_or_else(refused)?;
    let mut strides = vec![0; missing];
    for ((&own, &stride), &wanted) in array.shape.iter().zip(array.strides).zip(&shape[missing..]) {
        strides.push(match own {
            _ if own == wanted => stride,
            1 => 0,
            _ => return Err(refused()),
        });
    }
    Ok(strides)
}
