//! Magnitudes of a matrix by row and by column, in one pass in memory order.

use rayon::prelude::*;

use super::project::WHAT;
use super::source::{View, real};
use super::{VerifyError, reserved};
use crate::scalar::Scalar;

/// Sizes of the elements of a matrix. Entries that are not finite count as zero.
pub(super) struct Profile {
    pub(super) row: Sizes,
    pub(super) col: Sizes,
    /// Whether every entry is finite.
    pub(super) finite: bool,
}

/// Sizes of some runs of elements, one entry for each run.
pub(super) struct Sizes {
    /// Largest magnitude.
    pub(super) max: Vec<f64>,
    /// Sum of magnitudes.
    pub(super) sum: Vec<f64>,
    /// Sum of squares.
    pub(super) squares: Vec<f64>,
}

impl Sizes {
    fn with_room(len: usize) -> Result<Self, VerifyError> {
        let room = || reserved(len, WHAT);
        Ok(Self { max: room()?, sum: room()?, squares: room()? })
    }

    fn zeros(len: usize) -> Result<Self, VerifyError> {
        let mut sizes = Self::with_room(len)?;
        for values in [&mut sizes.max, &mut sizes.sum, &mut sizes.squares] {
            values.resize(len, 0.0);
        }
        Ok(sizes)
    }

    fn extend(&mut self, other: Self) {
        self.max.extend(other.max);
        self.sum.extend(other.sum);
        self.squares.extend(other.squares);
    }

    /// Adds what was seen of the same runs elsewhere.
    fn add(&mut self, other: &Self) {
        for (max, &other) in self.max.iter_mut().zip(&other.max) {
            *max = max.max(other);
        }
        for (sum, &other) in self.sum.iter_mut().zip(&other.sum) {
            *sum += other;
        }
        for (squares, &other) in self.squares.iter_mut().zip(&other.squares) {
            *squares += other;
        }
    }
}

/// The largest of some magnitudes; 0 of none.
pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

impl Profile {
    /// # Errors
    /// [`VerifyError::Memory`].
    pub(super) fn of<T: Scalar>(view: View<'_, T>) -> Result<Self, VerifyError> {
        let lines = view.lines();
        let block = lines.div_ceil(4 * rayon::current_num_threads()).max(1);
        let starts: Vec<_> = (0..lines).step_by(block).collect();
        let parts: Vec<Part> = starts
            .into_par_iter()
            .map(|start| Part::of(view, start..lines.min(start + block)))
            .collect::<Result<_, _>>()?;
        let (mut along, mut across) = (Sizes::with_room(lines)?, Sizes::zeros(view.line_len())?);
        let mut finite = true;
        for part in parts {
            along.extend(part.along);
            across.add(&part.across);
            finite &= part.finite;
        }
        let (row, col) = if view.by_rows() { (along, across) } else { (across, along) };
        Ok(Self { row, col, finite })
    }

    /// The largest magnitude.
    pub(super) fn max(&self) -> f64 {
        largest(&self.row.max)
    }

    /// The Frobenius norm.
    pub(super) fn norm(&self) -> f64 {
        self.row.squares.iter().sum::<f64>().sqrt()
    }

    /// A bound of every element of `|self||right|`, the least of those that sizes can give.
    pub(super) fn product_bound(&self, right: &Self) -> f64 {
        let inner = self.col.max.iter().zip(&right.row.max).map(|(a, b)| a * b).sum::<f64>();
        inner
            .min(largest(&self.row.sum) * right.max())
            .min(self.max() * largest(&right.col.sum))
            .min(largest(&self.row.squares).sqrt() * largest(&right.col.squares).sqrt())
    }
}

/// Some lines of a matrix: their own sizes, and those of their part of what runs across them.
struct Part {
    along: Sizes,
    across: Sizes,
    finite: bool,
}

/// Elements that are taken together: independent sums, so that none waits for the one before it.
const LANES: usize = 8;

impl Part {
    fn of<T: Scalar>(
        view: View<'_, T>,
        lines: std::ops::Range<usize>,
    ) -> Result<Self, VerifyError> {
        let mut across = Sizes::zeros(view.line_len())?;
        let mut along = Sizes::zeros(lines.len())?;
        let mut finite = true;
        for (at, line) in lines.enumerate() {
            let mut own = Lanes::default();
            let (whole, rest) = line_chunks(view.line(line));
            let (col_max, max_rest) = across.max.as_chunks_mut::<LANES>();
            let (col_sum, sum_rest) = across.sum.as_chunks_mut::<LANES>();
            let (col_squares, squares_rest) = across.squares.as_chunks_mut::<LANES>();
            let cols = col_max.iter_mut().zip(col_sum).zip(col_squares);
            for (values, ((max, sum), squares)) in whole.iter().zip(cols) {
                own.add(values, max, sum, squares);
            }
            let count = max_rest.len();
            let mut last = [[0.0; LANES]; 3];
            for (last, rest) in last.iter_mut().zip([&*max_rest, &*sum_rest, &*squares_rest]) {
                last[..count].copy_from_slice(rest);
            }
            let [max, sum, squares] = &mut last;
            own.add(&rest, max, sum, squares);
            max_rest.copy_from_slice(&max[..count]);
            sum_rest.copy_from_slice(&sum[..count]);
            squares_rest.copy_from_slice(&squares[..count]);

            along.max[at] = largest(&own.max);
            along.sum[at] = own.sum.iter().sum();
            along.squares[at] = own.squares.iter().sum();
            finite &= own.zero == [0.0; LANES];
        }
        Ok(Self { along, across, finite })
    }
}

/// A line in whole chunks, and what is left of it, filled up with zeros.
fn line_chunks<T: Scalar>(line: &[T]) -> (&[[T; LANES]], [T; LANES]) {
    let (whole, rest) = line.as_chunks();
    let mut last = [T::ZERO; LANES];
    last[..rest.len()].copy_from_slice(rest);
    (whole, last)
}

/// Sizes along a line, lane by lane.
#[derive(Default)]
struct Lanes {
    max: [f64; LANES],
    sum: [f64; LANES],
    squares: [f64; LANES],
    /// A NaN once an entry was not finite.
    zero: [f64; LANES],
}

impl Lanes {
    #[inline(always)]
    fn add<T: Scalar>(
        &mut self,
        values: &[T; LANES],
        col_max: &mut [f64; LANES],
        col_sum: &mut [f64; LANES],
        col_squares: &mut [f64; LANES],
    ) {
        for lane in 0..LANES {
            let size = real(values[lane]).abs();
            self.zero[lane] += size * 0.0;
            let size = if size <= f64::MAX { size } else { 0.0 };
            let square = size * size;
            self.max[lane] = if size > self.max[lane] { size } else { self.max[lane] };
            self.sum[lane] += size;
            self.squares[lane] += square;
            col_max[lane] = if size > col_max[lane] { size } else { col_max[lane] };
            col_sum[lane] += size;
            col_squares[lane] += square;
        }
    }
}

/// Whether every element is an integer. Integers above 2^51 in magnitude are not recognised: hardly a sum
/// of those is exact.
pub(super) fn is_integral<T: Scalar>(view: View<'_, T>) -> bool {
    (0..view.lines()).into_par_iter().all(|line| line_is_integral(view.line(line)))
}

/// Whether every element of a run is an integer, see [`is_integral`].
pub(super) fn line_is_integral<T: Scalar>(line: &[T]) -> bool {
    // Adding this pushes every fraction bit out of an f64.
    const SHIFT: f64 = 1.5 * (1u64 << 52) as f64;
    // In runs: comparing without a branch is fast, and so is stopping early.
    line.chunks(1024).all(|run| {
        run.iter().fold(true, |all, value| {
            let value = real(*value);
            all & ((value + SHIFT) - SHIFT == value) & (value.abs() <= SHIFT / 3.0)
        })
    })
}

#[cfg(test)]
mod tests {
    use gemm_spec::Layout;

    use super::*;

    #[test]
    fn sizes_are_those_of_rows_and_columns_in_either_order() {
        let nan = f32::NAN;
        let rows = [1.0, -2.0, 3.0, nan, 4.0, -5.0, 6.0, nan];
        let cols = [1.0, 4.0, nan, -2.0, -5.0, nan, 3.0, 6.0, nan];
        for view in [
            View::new(2, 3, Layout::row_major(4), &rows[..]),
            View::new(2, 3, Layout::col_major(3), &cols[..]),
        ] {
            let profile = Profile::of(view).unwrap();
            assert!(profile.finite);
            assert_eq!(profile.row.max, [3.0, 6.0]);
            assert_eq!(profile.row.sum, [6.0, 15.0]);
            assert_eq!(profile.col.squares, [17.0, 29.0, 45.0]);
            assert_eq!(profile.col.max, [4.0, 5.0, 6.0]);
            assert_eq!(profile.max(), 6.0);
            assert_eq!(profile.norm(), 91f64.sqrt());
        }
    }

    #[test]
    fn entries_that_are_not_finite_are_noticed_and_left_out() {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let profile = Profile::of(View::new(1, 2, Layout::row_major(2), &[odd, 3.0])).unwrap();
            assert!(!profile.finite);
            assert_eq!((profile.max(), profile.row.sum[0]), (3.0, 3.0));
        }
    }

    #[test]
    fn the_bound_of_a_product_holds_and_is_tight_for_permutations() {
        let permutation = [0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0f32];
        let dense = [7.0, -3.0, 2.0, 1.0, 5.0, -9.0, 0.0, 4.0, 6.0f32];
        let profile = |data| Profile::of(View::new(3, 3, Layout::row_major(3), data)).unwrap();
        assert_eq!(profile(&dense).product_bound(&profile(&permutation)), 9.0);
        assert_eq!(profile(&permutation).product_bound(&profile(&dense)), 9.0);
        // The largest element of |A||A| is 1 * 2 + 5 * 9 + 9 * 6.
        assert!(profile(&dense).product_bound(&profile(&dense)) >= 101.0);
    }

    #[test]
    fn integers_are_told_from_fractions() {
        let integral = |value: f64| line_is_integral(&[1.0, value, -3.0]);
        for value in [0.0, -0.0, 1e15, -7.0] {
            assert!(integral(value), "{value}");
        }
        for value in [0.5, 1e-300, 1e15 + 0.5, f64::NAN, f64::INFINITY] {
            assert!(!integral(value), "{value}");
        }
    }
}
