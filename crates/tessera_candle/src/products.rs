//! What candle's layouts say of products, in the words of tessera.

use candle_core::{Error, Result, Shape, bail};
use tessera::{Batch, BatchItem, GemmTypes, Layout, Problem, layout_of};

use crate::NAME;

/// Products of one size.
pub(crate) struct Products {
    m: usize,
    n: usize,
    k: usize,
    a: Layout,
    b: Layout,
    /// Those of one call.
    batch: Batch,
    /// The calls: each axis multiplies their number.
    calls: Vec<Axis>,
    /// Where the first product's operands begin.
    first: BatchItem,
    /// The shape of the result.
    pub(crate) shape: Shape,
    /// Its elements.
    pub(crate) len: usize,
}

/// A leading dimension: how many products, and elements from the operands of one to those of the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    count: usize,
    a: usize,
    b: usize,
    c: usize,
}

/// The matrices of a tensor.
#[derive(Clone, Copy)]
struct Matrices<'l> {
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
    /// The leading dimensions.
    dims: &'l [usize],
    strides: &'l [usize],
}

impl<'l> Matrices<'l> {
    fn of(layout: &'l candle_core::Layout) -> Option<Self> {
        let (&[ref dims @ .., rows, cols], &[ref strides @ .., row_stride, col_stride]) =
            (layout.dims(), layout.stride())
        else {
            return None;
        };
        Some(Self { rows, cols, row_stride, col_stride, dims, strides })
    }

    /// The order and the leading dimension of each, where rows or columns are contiguous.
    fn lines(&self) -> Option<Layout> {
        let strides = (self.row_stride.cast_signed(), self.col_stride.cast_signed());
        layout_of((self.rows, self.cols), strides)
    }
}

/// Whether the rows or the columns of a tensor's matrices are contiguous and do not overlap.
pub(crate) fn is_in_lines(layout: &candle_core::Layout) -> bool {
    Matrices::of(layout).is_some_and(|matrices| matrices.lines().is_some())
}

/// The shapes of two factors with their leading dimensions broadcast to each other's.
///
/// # Errors
/// [`Error::ShapeMismatchBinaryOp`].
pub(crate) fn broadcast(a: &Shape, b: &Shape) -> Result<(Shape, Shape)> {
    let misfit = || Error::ShapeMismatchBinaryOp { lhs: a.clone(), rhs: b.clone(), op: NAME }.bt();
    let (Some((a_lead, a_matrix)), Some((b_lead, b_matrix))) =
        (a.dims().split_last_chunk::<2>(), b.dims().split_last_chunk::<2>())
    else {
        return Err(misfit());
    };
    let rank = a_lead.len().max(b_lead.len());
    // Dimensions that are missing in front count as 1.
    let dim =
        |lead: &[usize], at: usize| (at + lead.len()).checked_sub(rank).map_or(1, |at| lead[at]);
    let both: Option<Vec<usize>> = (0..rank)
        .map(|at| match (dim(a_lead, at), dim(b_lead, at)) {
            (a, b) if a == b => Some(a),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect();
    let both = both.ok_or_else(misfit)?;
    let shape = |matrix: &[usize; 2]| Shape::from([both.as_slice(), matrix].concat());
    Ok((shape(a_matrix), shape(b_matrix)))
}

impl Products {
    /// The products of tensors with these layouts.
    ///
    /// # Errors
    /// [`Error::ShapeMismatchBinaryOp`] where sizes do not fit, and where the result's elements cannot be counted.
    pub(crate) fn new(a: &candle_core::Layout, b: &candle_core::Layout) -> Result<Self> {
        let (lhs, rhs) = (a.shape(), b.shape());
        let misfit =
            || Error::ShapeMismatchBinaryOp { lhs: lhs.clone(), rhs: rhs.clone(), op: NAME }.bt();
        let first = BatchItem { a: a.start_offset(), b: b.start_offset(), c: 0 };
        let (Some(mut a), Some(b)) = (Matrices::of(a), Matrices::of(b)) else {
            return Err(misfit());
        };
        if a.dims != b.dims || a.cols != b.rows {
            return Err(misfit());
        }
        let dims = [a.dims, &[a.rows, b.cols]].concat();
        let len = dims.iter().try_fold(1usize, |len, &dim| len.checked_mul(dim));
        let Some(len) = len else {
            bail!(
                "{NAME}: the product of {lhs:?} and {rhs:?} has more elements than can be counted"
            );
        };
        // Without elements there are no calls, and strides may be anything.
        let mut axes = if len == 0 || a.cols == 0 { Vec::new() } else { axes(&a, &b) };
        if let Some(taller) = axes.first().and_then(|axis| taller(&a, axis)) {
            a = taller;
            axes.remove(0);
        }
        // One call for as many products as can be.
        let most = (0..axes.len()).max_by_key(|&at| axes[at].count).map(|at| axes.swap_remove(at));
        let batch = most.map_or(Batch::ONE, |Axis { count, a, b, c }| Batch {
            count,
            a_stride: a,
            b_stride: b,
            c_stride: c,
        });
        Ok(Self {
            m: a.rows,
            n: b.cols,
            k: a.cols,
            // What is not in lines is copied before it is multiplied.
            a: a.lines().unwrap_or(Layout::row_major(0)),
            b: b.lines().unwrap_or(Layout::row_major(0)),
            batch,
            calls: axes,
            first,
            shape: Shape::from(dims),
            len,
        })
    }

    /// Whether no factor is read: there are no elements, or all are sums of nothing.
    pub(crate) fn are_zero(&self) -> bool {
        self.len == 0 || self.k == 0
    }

    /// The result as one matrix: rows and columns.
    pub(crate) fn rows_and_cols(&self) -> (usize, usize) {
        (self.len.checked_div(self.n).unwrap_or(0), self.n)
    }

    /// The products of a call.
    pub(crate) fn problem<T: GemmTypes>(&self) -> Problem<T> {
        Problem::new(self.m, self.n, self.k)
            .with_layouts(self.a, self.b, Layout::row_major(self.n))
            .with_batch(self.batch)
    }

    /// Where the operands of each call begin.
    pub(crate) fn calls(&self) -> impl Iterator<Item = BatchItem> {
        let count: usize = self.calls.iter().map(|axis| axis.count).product();
        (0..count).map(|mut call| {
            self.calls.iter().fold(self.first, |at, axis| {
                let step = call % axis.count;
                call /= axis.count;
                BatchItem {
                    a: at.a + step * axis.a,
                    b: at.b + step * axis.b,
                    c: at.c + step * axis.c,
                }
            })
        })
    }
}

/// The leading dimensions, the last one first: those that both factors step through as through one are one.
fn axes(a: &Matrices<'_>, b: &Matrices<'_>) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    let mut c = a.rows * b.cols;
    for ((&count, &a), &b) in a.dims.iter().zip(a.strides).zip(b.strides).rev() {
        // The stride of a single product means nothing.
        if count > 1 {
            match axes.last_mut() {
                Some(inner) if inner.a * inner.count == a && inner.b * inner.count == b => {
                    inner.count *= count;
                }
                _ => axes.push(Axis { count, a, b, c }),
            }
            c *= count;
        }
    }
    axes
}

/// Products that have B in common, and whose rows of A follow each other, as one with more rows.
fn taller<'l>(a: &Matrices<'l>, axis: &Axis) -> Option<Matrices<'l>> {
    let row_stride = if a.rows == 1 { axis.a } else { a.row_stride };
    let follows = axis.b == 0 && axis.a == a.rows * row_stride;
    let taller = Matrices { rows: a.rows * axis.count, row_stride, ..*a };
    (follows && taller.lines().is_some()).then_some(taller)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(dims: &[usize], strides: &[usize], start: usize) -> candle_core::Layout {
        candle_core::Layout::new(Shape::from(dims), strides.to_vec(), start)
    }

    fn dense(dims: &[usize]) -> candle_core::Layout {
        candle_core::Layout::contiguous(dims)
    }

    fn products(a: &candle_core::Layout, b: &candle_core::Layout) -> Products {
        Products::new(a, b).expect("sizes fit")
    }

    fn calls(products: &Products) -> Vec<[usize; 3]> {
        products.calls().map(|BatchItem { a, b, c }| [a, b, c]).collect()
    }

    #[test]
    fn leading_dimensions_without_gaps_are_one_batch() {
        let found = products(&dense(&[2, 3, 4, 5]), &dense(&[2, 3, 5, 6]));
        assert_eq!(found.batch, Batch { count: 6, a_stride: 20, b_stride: 30, c_stride: 24 });
        assert_eq!(calls(&found), [[0, 0, 0]]);
        assert_eq!(found.shape.dims(), [2, 3, 4, 6]);

        // A part: one product of each pair, and a single one between whose stride means nothing.
        let part = layout(&[3, 1, 4, 5], &[40, 7, 5, 1], 20);
        let found = products(&part, &dense(&[3, 1, 5, 6]));
        assert_eq!(found.batch, Batch { count: 3, a_stride: 40, b_stride: 30, c_stride: 24 });
        assert_eq!(calls(&found), [[20, 0, 0]]);
    }

    #[test]
    fn there_are_as_few_calls_as_one_stride_for_each_batch_allows() {
        // Heads beside each other in the rows of A, 2 x 7 x (3 x 5), and behind each other in B.
        let heads = layout(&[2, 3, 7, 5], &[105, 5, 15, 1], 0);
        let found = products(&heads, &dense(&[2, 3, 5, 4]));
        assert_eq!(found.a, Layout::row_major(15));
        assert_eq!(found.batch, Batch { count: 3, a_stride: 5, b_stride: 20, c_stride: 28 });
        assert_eq!(calls(&found), [[0, 0, 0], [105, 60, 84]]);

        let heads = layout(&[4, 3, 7, 5], &[105, 5, 15, 1], 0);
        let found = products(&heads, &dense(&[4, 3, 5, 4]));
        assert_eq!(found.batch, Batch { count: 4, a_stride: 105, b_stride: 60, c_stride: 84 });
        assert_eq!(calls(&found), [[0, 0, 0], [5, 20, 28], [10, 40, 56]]);
    }

    #[test]
    fn products_with_one_b_are_one_taller_product() {
        let shared = |dims: &[usize]| dense(&[5, 4]).broadcast_as(dims).expect("it fits");
        let found = products(&dense(&[2, 3, 7, 5]), &shared(&[2, 3, 5, 4]));
        assert_eq!((found.m, found.n, found.k, found.batch), (42, 4, 5, Batch::ONE));
        assert_eq!(calls(&found), [[0, 0, 0]]);

        // Single rows are any distance from each other.
        let rows = layout(&[6, 1, 5], &[8, 3, 1], 1);
        let found = products(&rows, &shared(&[6, 5, 4]));
        assert_eq!((found.m, found.a, found.batch), (6, Layout::row_major(8), Batch::ONE));
        // But not one row many times, nor rows that do not follow each other.
        let found = products(&layout(&[6, 1, 5], &[0, 3, 1], 0), &shared(&[6, 5, 4]));
        assert_eq!((found.m, found.batch.count), (1, 6));
        let found = products(&layout(&[6, 2, 5], &[20, 5, 1], 0), &shared(&[6, 5, 4]));
        assert_eq!((found.m, found.batch.count), (2, 6));
    }

    #[test]
    fn sizes_are_broadcast_or_refused() {
        let of = |a: &[usize], b: &[usize]| {
            let (a, b) = broadcast(&Shape::from(a), &Shape::from(b)).ok()?;
            Some((a.into_dims(), b.into_dims()))
        };
        assert_eq!(of(&[4, 5], &[5, 6]), Some((vec![4, 5], vec![5, 6])));
        assert_eq!(of(&[2, 1, 4, 5], &[3, 5, 6]), Some((vec![2, 3, 4, 5], vec![2, 3, 5, 6])));
        assert_eq!(of(&[0, 4, 5], &[1, 5, 6]), Some((vec![0, 4, 5], vec![0, 5, 6])));
        assert_eq!(of(&[2, 4, 5], &[3, 5, 6]), None);
        assert_eq!(of(&[5], &[5, 6]), None);
    }

    #[test]
    fn nothing_is_counted_beyond_what_there_can_be() {
        let (tall, wide) = (dense(&[usize::MAX, 0]), dense(&[0, 2]));
        assert!(Products::new(&tall, &wide).is_err());
    }
}
