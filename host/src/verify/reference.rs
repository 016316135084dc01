//! The reference: elements of C in better arithmetic than what is judged.
//!
//! Products of two f32 are exact in f64, so plain f64 sums do for f32. For f64 each product is split
//! by a fused multiply-add into its rounded value and its error, and the errors of the products and
//! of the sums are summed beside the sum: about twice f64's digits. Integers wrap.

use std::ops::Range;

use gemm_spec::{AccType, Accumulator, Element, epilogue};
use rayon::prelude::*;

use super::source::{Source, View, real};
use super::{VerifyError, reserved};
use crate::scalar::{Scalar, ScalarTypes};

/// Rows of C that one tile covers at most.
const ROWS: usize = 16;
/// Elements of B that are copied together; they stay in the L2.
const PANEL: usize = 1 << 15;

/// Columns whose sums are made side by side.
const LANES: usize = 8;

/// k elements and columns for which B is copied together: long runs of what is contiguous, since
/// little is done with each element where few rows are asked for.
fn panel_shape<T: Copy>(b: View<'_, T>, rows: usize) -> (usize, usize) {
    let long = if rows < ROWS { 512 } else { 256 };
    if b.by_rows() { (PANEL / long, long) } else { (PANEL / 128, 128) }
}

/// Expected elements of some rows and a run of columns of C.
pub(super) struct Tile {
    pub(super) rows: Vec<usize>,
    pub(super) cols: Range<usize>,
    /// Where the elements are in the reference, row by row.
    pub(super) at: Range<usize>,
}

/// Expected elements of some rows of C. They are as many bytes as the largest of matrices, so all are
/// allocated at once, which can be refused.
pub(super) struct Reference {
    /// The rows, as they were asked for.
    pub(super) rows: Vec<usize>,
    pub(super) tiles: Vec<Tile>,
    /// The elements, tile by tile.
    pub(super) expected: Vec<f64>,
    /// `|alpha||A||B| + |beta||C0|` of each; not used for integers.
    pub(super) scale: Vec<f64>,
}

impl<T: ScalarTypes> Source<'_, T> {
    /// The reference for whole rows of C.
    pub(super) fn reference(&self, rows: &[usize]) -> Result<Reference, VerifyError> {
        let n = self.problem.n;
        let (depth, width) = panel_shape(self.b, rows.len());
        let len = rows.len() * n;
        let [expected, scale] = [reserved(len, REFERENCE)?, reserved(len, REFERENCE)?];
        let mut reference = Reference { rows: rows.to_vec(), tiles: Vec::new(), expected, scale };
        reference.expected.resize(len, 0.0);
        reference.scale.resize(len, 0.0);
        let (mut expected, mut scale) = (&mut reference.expected[..], &mut reference.scale[..]);
        let (mut tasks, mut start) = (Vec::new(), 0);
        for rows in rows.chunks(ROWS) {
            for col in (0..n).step_by(width) {
                let cols = col..n.min(col + width);
                let len = rows.len() * cols.len();
                let own = (take(&mut expected, len), take(&mut scale, len));
                let (rows, at) = (rows.to_vec(), start..start + len);
                reference.tiles.push(Tile { rows, cols, at });
                tasks.push(own);
                start += len;
            }
        }
        let tasks = reference.tiles.par_iter().zip(tasks);
        tasks.for_each(|(tile, (expected, scale))| {
            self.fill(&tile.rows, tile.cols.clone(), depth, expected, scale);
        });
        Ok(reference)
    }

    /// Computes the elements of a tile, row by row.
    fn fill(
        &self,
        rows: &[usize],
        cols: Range<usize>,
        depth: usize,
        expected: &mut [f64],
        scale: &mut [f64],
    ) {
        let width = cols.len();
        let mut sums = Sums::new(rows.len() * width);
        let mut panel = vec![[T::B::ZERO; LANES]; depth * width.div_ceil(LANES)];
        for start in (0..self.depth()).step_by(depth) {
            let steps = start..self.depth().min(start + depth);
            copy_panel(self.b, steps.clone(), cols.clone(), &mut panel);
            let factors: Vec<Vec<_>> = rows
                .iter()
                .map(|&row| steps.clone().map(|step| self.a.at(row, step)).collect())
                .collect();
            for (strip, col) in panel.chunks_exact(steps.len()).zip((0..width).step_by(LANES)) {
                for (factors, at) in factors.iter().zip((col..).step_by(width)) {
                    let mut lanes = Lanes::<T>::default();
                    for (&factor, values) in factors.iter().zip(strip) {
                        lanes.add(factor, values);
                    }
                    sums.add(at, LANES.min(width - col), &lanes);
                }
            }
        }
        let place = rows.iter().flat_map(|&row| cols.clone().map(move |col| (row, col)));
        for (at, (row, col)) in place.enumerate() {
            (expected[at], scale[at]) = self.finish(&sums, at, row, col);
        }
    }

    /// Element (row, col) from its sum, and its scale.
    fn finish(&self, sums: &Sums<T>, at: usize, row: usize, col: usize) -> (f64, f64) {
        let (alpha, beta) = (self.problem.alpha, self.problem.beta);
        let before = self.c_before.map(|c| c.at(row, col));
        if T::TYPES.is_integer() {
            let value = epilogue(alpha, sums.whole[at], beta, || before.unwrap_or(T::C::ZERO));
            return (value.to_f64(), 0.0);
        }
        let (alpha, beta) = (alpha.to_f64(), beta.to_f64());
        let scaled = alpha.abs() * sums.scale[at];
        let (product, product_low) = two_product(alpha, sums.high[at]);
        let low = product_low + alpha * sums.low[at];
        let Some(before) = before.map(T::C::to_f64) else {
            return (compensated(product, low), scaled);
        };
        let (old, old_low) = two_product(beta, before);
        let (sum, sum_low) = two_sum(product, old);
        (compensated(sum, low + old_low + sum_low), scaled + (beta * before).abs())
    }
}

/// What is kept for each element, in the words of a refusal.
const REFERENCE: &str = "a check of every element (`--check freivalds` does without)";

/// Takes the first elements off a slice.
fn take<'s>(slice: &mut &'s mut [f64], len: usize) -> &'s mut [f64] {
    let (first, rest) = std::mem::take(slice).split_at_mut(len);
    *slice = rest;
    first
}

/// Copies rows `steps` and columns `cols` of B into `panel`: strips of [`LANES`] columns, each row by
/// row.
fn copy_panel<T: Copy>(
    b: View<'_, T>,
    steps: Range<usize>,
    cols: Range<usize>,
    panel: &mut [[T; LANES]],
) {
    let depth = steps.len();
    if b.by_rows() {
        for (i, step) in steps.enumerate() {
            let (whole, rest) = b.line(step)[cols.clone()].as_chunks();
            for (values, to) in whole.iter().zip(panel[i..].iter_mut().step_by(depth)) {
                *to = *values;
            }
            if !rest.is_empty() {
                panel[whole.len() * depth + i][..rest.len()].copy_from_slice(rest);
            }
        }
    } else {
        for (j, col) in cols.enumerate() {
            let strip = &mut panel[j / LANES * depth..][..depth];
            for (values, &value) in strip.iter_mut().zip(&b.line(col)[steps.clone()]) {
                values[j % LANES] = value;
            }
        }
    }
}

/// Sums of products, each with the sum of their magnitudes.
struct Sums<T: ScalarTypes> {
    high: Vec<f64>,
    low: Vec<f64>,
    scale: Vec<f64>,
    whole: Vec<T::Acc>,
}

impl<T: ScalarTypes> Sums<T> {
    fn new(len: usize) -> Self {
        let (float, whole) = if T::TYPES.is_integer() { (0, len) } else { (len, 0) };
        Self {
            high: vec![0.0; float],
            low: vec![0.0; float],
            scale: vec![0.0; float],
            whole: vec![T::Acc::ZERO; whole],
        }
    }

    /// Adds the first `count` lanes to the sums from `at` on.
    fn add(&mut self, at: usize, count: usize, lanes: &Lanes<T>) {
        for (lane, at) in (at..at + count).enumerate() {
            if T::TYPES.is_integer() {
                self.whole[at] = lanes.whole[lane].mul_add(T::Acc::ONE, self.whole[at]);
            } else {
                let (sum, lost) = two_sum(self.high[at], lanes.high[lane]);
                self.high[at] = sum;
                self.low[at] += lost + lanes.low[lane];
                self.scale[at] += lanes.scale[lane];
            }
        }
    }
}

/// Sums side by side in registers.
struct Lanes<T: ScalarTypes> {
    high: [f64; LANES],
    low: [f64; LANES],
    scale: [f64; LANES],
    whole: [T::Acc; LANES],
}

impl<T: ScalarTypes> Default for Lanes<T> {
    fn default() -> Self {
        Self {
            high: [0.0; LANES],
            low: [0.0; LANES],
            scale: [0.0; LANES],
            whole: [T::Acc::ZERO; LANES],
        }
    }
}

impl<T: ScalarTypes> Lanes<T> {
    #[inline(always)]
    fn add(&mut self, factor: T::A, values: &[T::B; LANES]) {
        // No range: tests compile this with little inlining, and spend much of their time here.
        let (mut lane, acc) = (0, T::TYPES.acc());
        while lane < LANES {
            let value = values[lane];
            match acc {
                AccType::I32 => {
                    self.whole[lane] = T::mul_add(factor, value, self.whole[lane]);
                }
                // Of so few bits that products are exact in f64.
                AccType::F32 => {
                    let product = real(factor) * real(value);
                    self.high[lane] += product;
                    self.scale[lane] += product.abs();
                }
                AccType::F64 => {
                    let (product, lost) = two_product(real(factor), real(value));
                    let (sum, sum_lost) = two_sum(self.high[lane], product);
                    self.high[lane] = sum;
                    self.low[lane] += lost + sum_lost;
                    self.scale[lane] += product.abs();
                }
            }
            lane += 1;
        }
    }
}

/// `a * b` and what its rounding lost.
#[inline(always)]
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

/// `a + b` and what its rounding lost.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// `sum + low`, where that means something: the loss of an infinite sum is a NaN.
fn compensated(sum: f64, low: f64) -> f64 {
    if sum.is_finite() { sum + low } else { sum }
}

#[cfg(test)]
mod tests {
    use gemm_spec::{Layout, Problem};

    use super::*;

    fn expected<T: ScalarTypes>(
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &[T::C],
    ) -> Vec<f64> {
        let source = Source::new(problem, a, b, c).unwrap();
        let rows: Vec<_> = (0..problem.m).collect();
        let mut all = vec![f64::NAN; problem.m * problem.n];
        let reference = source.reference(&rows).unwrap();
        for tile in &reference.tiles {
            let places = tile.rows.iter().flat_map(|&i| tile.cols.clone().map(move |j| (i, j)));
            for ((i, j), expected) in places.zip(&reference.expected[tile.at.clone()]) {
                all[i * problem.n + j] = *expected;
            }
        }
        all
    }

    #[test]
    fn f64_sums_keep_what_plain_sums_lose() {
        let problem = Problem::<f64>::new(1, 1, 3);
        let tiny = 2f64.powi(-40);
        // 1 + 1e100 - 1e100, and (1 + t)(1 - t) - 1 = -t^2.
        assert_eq!(expected(&problem, &[1.0, 1e100, -1e100], &[1.0; 3], &[]), [1.0]);
        let factors = [1.0 + tiny, 1.0, 0.0];
        assert_eq!(expected(&problem, &factors, &[1.0 - tiny, -1.0, 0.0], &[]), [-tiny * tiny]);
        let with_c = Problem::<f64>::new(1, 1, 1).with_scalars(1.0 + tiny, -1.0);
        assert_eq!(expected(&with_c, &[1.0 - tiny], &[1.0], &[1.0]), [-tiny * tiny]);
    }

    #[test]
    fn integers_wrap() {
        let problem = Problem::<i32>::new(1, 1, 2).with_scalars(3, 5);
        let wrapped = (i32::MAX.wrapping_mul(7).wrapping_add(2)).wrapping_mul(3).wrapping_add(55);
        assert_eq!(expected(&problem, &[i32::MAX, 1], &[7, 2], &[11]), [f64::from(wrapped)]);
    }

    #[test]
    fn every_layout_gives_the_same_elements() {
        let (m, n, k) = (37, 300, 130);
        let value = |i: usize, j: usize| (i * 1000 + j) as f32;
        let fill = |layout: Layout, rows: usize, cols: usize| {
            let mut data = vec![f32::NAN; layout.required_len(rows, cols).unwrap()];
            for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                data[layout.index(i, j)] = value(i, j);
            }
            data
        };
        let plain = Problem::<f32>::new(m, n, k);
        let want = expected(&plain, &fill(plain.a, m, k), &fill(plain.b, k, n), &[]);
        let direct: f64 = (0..k).map(|l| value(36, l) as f64 * value(l, 299) as f64).sum();
        let source_a = fill(plain.a, m, k);
        let source_b = fill(plain.b, k, n);
        let source = Source::new(&plain, &source_a, &source_b, &[]).unwrap();
        let last = source.reference(&[36]).unwrap();
        assert_eq!(*last.expected.last().unwrap(), direct);
        let other = plain.with_layouts(Layout::col_major(m + 3), Layout::col_major(k + 1), plain.c);
        assert_eq!(expected(&other, &fill(other.a, m, k), &fill(other.b, k, n), &[]), want);
    }
}
