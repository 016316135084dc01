//! A matrix times a few vectors at once, in memory order.

use gemm_spec::{Accumulator, Convert};
use rayon::prelude::*;

use super::source::{View, real};
use super::{VerifyError, reserved};
use crate::scalar::Scalar;

/// Vectors that go through a matrix together.
pub(super) const VECTORS: usize = 4;

/// What memory is for here, in an error.
pub(super) const WHAT: &str = "the check by random vectors";

/// One element of each vector.
pub(super) type Bundle<R> = [R; VECTORS];

/// Numbers that are summed.
pub(super) trait Ring: Copy + Send + Sync {
    const ZERO: Self;
    fn add_product(self, a: Self, b: Self) -> Self;
}

/// Numbers in which elements of `T` are summed.
pub(super) trait Lift<T>: Ring {
    fn lift(value: T) -> Self;
}

/// Real numbers as far as f64 knows them; products of two f32 are exact.
impl Ring for f64 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn add_product(self, a: Self, b: Self) -> Self {
        self + a * b
    }
}

impl<T: Scalar> Lift<T> for f64 {
    #[inline(always)]
    fn lift(value: T) -> Self {
        real(value)
    }
}

/// Integers modulo 2^32, as the type itself wraps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wrapping<Acc>(pub(super) Acc);

impl<Acc: Accumulator> Ring for Wrapping<Acc> {
    const ZERO: Self = Self(Acc::ZERO);

    fn add_product(self, a: Self, b: Self) -> Self {
        Self(a.0.mul_add(b.0, self.0))
    }
}

impl<T: Convert<Acc>, Acc: Accumulator> Lift<T> for Wrapping<Acc> {
    fn lift(value: T) -> Self {
        Self(value.widen())
    }
}

/// Which elements of a matrix count.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Entries {
    All,
    /// What is not finite counts as 0.
    Finite,
}

/// `matrix * x`: one bundle for each row.
///
/// # Errors
/// [`VerifyError::Memory`].
pub(super) fn project<T: Scalar, R: Lift<T>>(
    matrix: View<'_, T>,
    x: &[Bundle<R>],
    entries: Entries,
) -> Result<Vec<Bundle<R>>, VerifyError> {
    let mut result = reserved(matrix.rows, WHAT)?;
    result.resize(matrix.rows, [R::ZERO; VECTORS]);
    project_into(matrix, x, entries, &mut result);
    Ok(result)
}

/// The same added to `result`, which has a bundle for each row.
pub(super) fn project_into<T: Scalar, R: Lift<T>>(
    matrix: View<'_, T>,
    x: &[Bundle<R>],
    entries: Entries,
    result: &mut [Bundle<R>],
) {
    match entries {
        Entries::All => project_by(matrix, x, R::lift, result),
        Entries::Finite => {
            let lift = |value: T| if real(value).is_finite() { R::lift(value) } else { R::ZERO };
            project_by(matrix, x, lift, result);
        }
    }
}

fn project_by<T: Scalar, R: Ring>(
    matrix: View<'_, T>,
    x: &[Bundle<R>],
    lift: impl Fn(T) -> R + Copy + Sync,
    result: &mut [Bundle<R>],
) {
    if matrix.by_rows() {
        result.par_chunks_mut(LINES * 16).enumerate().for_each(|(at, chunk)| {
            project_rows(matrix, at * LINES * 16, x, chunk, lift);
        });
    } else {
        // A block of rows stays in the L1 while the columns pass.
        const BLOCK: usize = 512;
        result.par_chunks_mut(BLOCK).enumerate().for_each(|(at, chunk)| {
            project_cols(matrix, at * BLOCK, x, chunk, lift);
        });
    }
}

/// Lines that are read side by side, so that each element of x is fetched for all of them.
const LINES: usize = 4;

fn project_rows<T: Scalar, R: Ring>(
    matrix: View<'_, T>,
    first: usize,
    x: &[Bundle<R>],
    result: &mut [Bundle<R>],
    lift: impl Fn(T) -> R,
) {
    let mut groups = result.chunks_exact_mut(LINES);
    let mut row = first;
    for group in &mut groups {
        let lines: [&[T]; LINES] = std::array::from_fn(|line| &matrix.line(row + line)[..x.len()]);
        let mut sums = [[R::ZERO; VECTORS]; LINES];
        for (at, x) in x.iter().enumerate() {
            let mut line = 0;
            while line < LINES {
                add_scaled(&mut sums[line], lift(lines[line][at]), x);
                line += 1;
            }
        }
        group.copy_from_slice(&sums);
        row += LINES;
    }
    for sum in groups.into_remainder() {
        for (&value, x) in matrix.line(row).iter().zip(x) {
            add_scaled(sum, lift(value), x);
        }
        row += 1;
    }
}

fn project_cols<T: Scalar, R: Ring>(
    matrix: View<'_, T>,
    first: usize,
    x: &[Bundle<R>],
    result: &mut [Bundle<R>],
    lift: impl Fn(T) -> R,
) {
    let mut groups = x.chunks_exact(LINES);
    let mut col = 0;
    for group in &mut groups {
        let lines: [&[T]; LINES] =
            std::array::from_fn(|line| &matrix.line(col + line)[first..][..result.len()]);
        for (at, sum) in result.iter_mut().enumerate() {
            for (x, line) in group.iter().zip(lines) {
                add_scaled(sum, lift(line[at]), x);
            }
        }
        col += LINES;
    }
    for x in groups.remainder() {
        for (sum, &value) in result.iter_mut().zip(&matrix.line(col)[first..]) {
            add_scaled(sum, lift(value), x);
        }
        col += 1;
    }
}

#[inline(always)]
fn add_scaled<R: Ring>(sum: &mut Bundle<R>, factor: R, x: &Bundle<R>) {
    // No range: tests compile this with little inlining, and it is where checks of large products spend their time.
    let mut at = 0;
    while at < VECTORS {
        sum[at] = sum[at].add_product(factor, x[at]);
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::Layout;

    use super::*;

    #[test]
    fn both_orders_give_the_product_at_every_size() {
        for (rows, cols) in [(1, 1), (3, 5), (4, 4), (70, 9), (9, 70), (1030, 3), (3, 0), (0, 3)] {
            let x: Vec<_> =
                (0..cols).map(|j| std::array::from_fn(|v| (j * 7 % 5) as f64 + v as f64)).collect();
            for layout in [Layout::row_major(cols + 2), Layout::col_major(rows + 1)] {
                let mut data = vec![f32::NAN; layout.required_len(rows, cols).unwrap()];
                for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                    data[layout.index(i, j)] = (i * 3 + j) as f32 - 4.0;
                }
                let view = View::new(rows, cols, layout, &data);
                let result: Vec<Bundle<f64>> = project(view, &x, Entries::All).unwrap();
                for (i, bundle) in result.iter().enumerate() {
                    for (v, &value) in bundle.iter().enumerate() {
                        let want: f64 = (0..cols).map(|j| f64::from(view.at(i, j)) * x[j][v]).sum();
                        assert_eq!(value, want, "{rows} x {cols}, row {i}, {layout:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn integers_wrap() {
        let view = View::new(1, 2, Layout::row_major(2), &[i32::MAX, 5]);
        let x = [[Wrapping(3); VECTORS], [Wrapping(-1); VECTORS]];
        let want = Wrapping(i32::MAX.wrapping_mul(3).wrapping_sub(5));
        assert_eq!(project(view, &x, Entries::All).unwrap(), [[want; VECTORS]]);
    }
}
