//! Where the operands of each product of a batch begin.

use crate::strided::Strided;

/// How many products there are in each direction of a batch, and how many bytes apart their operands are:
/// 0 for an operand that all of them share.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Products in each direction, outermost first; there is one product where there is no direction.
    pub shape: Vec<usize>,
    /// Bytes from one A to the next in each direction.
    pub a: Vec<isize>,
    /// Bytes from one B to the next.
    pub b: Vec<isize>,
    /// Bytes from one C to the next.
    pub c: Vec<isize>,
}

impl Batch {
    /// One product.
    pub const ONE: Self = Self { shape: Vec::new(), a: Vec::new(), b: Vec::new(), c: Vec::new() };

    /// How many products there are; `None` where that overflows.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1usize, |all, &count| all.checked_mul(count))
    }

    /// Offsets of the operands of one of the products.
    pub(crate) fn offsets(&self, number: usize) -> [isize; 3] {
        let (mut rest, mut offsets) = (number, [0isize; 3]);
        for (at, &count) in self.shape.iter().enumerate().rev() {
            let index = (rest % count).cast_signed();
            rest /= count;
            for (offset, strides) in offsets.iter_mut().zip([&self.a, &self.b, &self.c]) {
                *offset = offset.wrapping_add(index.wrapping_mul(strides[at]));
            }
        }
        offsets
    }

    /// The same batch in as few directions as will do.
    pub(crate) fn merged(&self) -> Self {
        let mut merged = Self::ONE;
        for (at, &count) in self.shape.iter().enumerate() {
            if count == 1 {
                continue;
            }
            let own = [self.a[at], self.b[at], self.c[at]];
            let steps = count.cast_signed();
            let last = [&mut merged.a, &mut merged.b, &mut merged.c];
            let follows = |outer: Option<&isize>, inner: isize| {
                outer.is_some_and(|&outer| inner.checked_mul(steps) == Some(outer))
            };
            let merges = last.iter().zip(own).all(|(outer, inner)| follows(outer.last(), inner));
            if merges && let Some(outer) = merged.shape.last_mut() {
                *outer = outer.saturating_mul(count);
                for (strides, inner) in last.into_iter().zip(own) {
                    if let Some(stride) = strides.last_mut() {
                        *stride = inner;
                    }
                }
            } else {
                merged.shape.push(count);
                for (strides, inner) in last.into_iter().zip(own) {
                    strides.push(inner);
                }
            }
        }
        merged
    }

    /// The batch and its first operands, as one product where the products share their B and the rows of
    /// each A and C follow those of the one before, or share A and the columns follow each other.
    pub(crate) fn folded(&self, [a, b, c]: [Strided; 3]) -> (Self, [Strided; 3]) {
        let merged = self.merged();
        let ([count], [a_stride], [b_stride], [c_stride]) =
            (&merged.shape[..], &merged.a[..], &merged.b[..], &merged.c[..])
        else {
            return (merged, [a, b, c]);
        };
        let follow = |lines: usize, stride: isize, next: isize| {
            stride.checked_mul(lines.cast_signed()) == Some(next)
        };
        if *b_stride == 0
            && follow(a.rows, a.row_stride, *a_stride)
            && follow(c.rows, c.row_stride, *c_stride)
            && let (Some(of_a), Some(of_c)) =
                (a.rows.checked_mul(*count), c.rows.checked_mul(*count))
        {
            return (Self::ONE, [Strided { rows: of_a, ..a }, b, Strided { rows: of_c, ..c }]);
        }
        if *a_stride == 0
            && follow(b.cols, b.col_stride, *b_stride)
            && follow(c.cols, c.col_stride, *c_stride)
            && let (Some(of_b), Some(of_c)) =
                (b.cols.checked_mul(*count), c.cols.checked_mul(*count))
        {
            return (Self::ONE, [a, Strided { cols: of_b, ..b }, Strided { cols: of_c, ..c }]);
        }
        (merged, [a, b, c])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(shape: &[usize], a: &[isize], b: &[isize], c: &[isize]) -> Batch {
        Batch { shape: shape.to_vec(), a: a.to_vec(), b: b.to_vec(), c: c.to_vec() }
    }

    fn matrix(rows: usize, cols: usize) -> Strided {
        Strided::row_major(std::ptr::null_mut(), rows, cols, cols, 4)
    }

    #[test]
    fn merging_keeps_the_offsets() {
        for batch in [
            batch(&[2, 3, 4], &[12, 4, 1], &[0, 0, 0], &[120, 40, 10]),
            batch(&[2, 1, 4], &[12, 7, 1], &[5, 5, 0], &[120, -40, 10]),
            batch(&[5], &[-3], &[0], &[9]),
            batch(&[3, 0], &[1, 1], &[1, 1], &[1, 1]),
        ] {
            let merged = batch.merged();
            assert_eq!(merged.count(), batch.count());
            for number in 0..batch.count().expect("few") {
                assert_eq!(merged.offsets(number), batch.offsets(number), "{batch:?}");
            }
        }
        let one = batch(&[2, 3, 4], &[12, 4, 1], &[0, 0, 0], &[120, 40, 10]).merged();
        assert_eq!(one.shape, [24]);
    }

    #[test]
    fn products_that_share_a_factor_are_one() {
        let operands = [matrix(3, 5), matrix(5, 2), matrix(3, 2)];
        let (one, [a, b, c]) = batch(&[4, 2], &[120, 60], &[0, 0], &[48, 24]).folded(operands);
        assert_eq!((one.count(), a.rows, b.cols, c.rows), (Some(1), 24, 2, 24));
        let (several, [a, ..]) = batch(&[4], &[64], &[0], &[24]).folded(operands);
        assert_eq!((several.count(), a.rows), (Some(4), 3), "a gap between two A");
        // The columns of each C follow those of the one before.
        let wide = Strided { row_stride: 4 * 2 * 4, ..matrix(3, 2) };
        let b = Strided { row_stride: 4 * 2 * 4, ..matrix(5, 2) };
        let (one, [_, b, c]) = batch(&[4], &[0], &[8], &[8]).folded([matrix(3, 5), b, wide]);
        assert_eq!((one.count(), b.cols, c.cols), (Some(1), 8, 8));
    }
}
