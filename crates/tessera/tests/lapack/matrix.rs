//! Matrices with padding, and what they are in numbers that are precise enough to judge them.

#![expect(clippy::cast_possible_truncation, reason = "numbers are rounded to what a test is about")]

use tessera::lapack::{Complex, Field, View, ViewMut};
use tessera::{Layout, Order};

pub(crate) const ORDERS: [Order; 2] = [Order::RowMajor, Order::ColMajor];

/// What factors are judged in.
pub(crate) type Exact = Complex<f64>;

/// A number that can be made of small integers.
pub(crate) trait Number: Field {
    /// The unit roundoff, times two.
    const EPSILON: f64;

    fn of(re: f64, im: f64) -> Self;
    fn exact(self) -> Exact;
}

macro_rules! numbers {
    ($($real:ident)*) => {$(
        impl Number for $real {
            const EPSILON: f64 = $real::EPSILON as f64;

            fn of(re: f64, _: f64) -> Self {
                re as $real
            }

            fn exact(self) -> Exact {
                Complex::new(self.into(), 0.0)
            }
        }

        impl Number for Complex<$real> {
            const EPSILON: f64 = $real::EPSILON as f64;

            fn of(re: f64, im: f64) -> Self {
                Self::new(re as $real, im as $real)
            }

            fn exact(self) -> Exact {
                Complex::new(self.re.into(), self.im.into())
            }
        }
    )*};
}

numbers!(f32 f64);

/// A matrix in a buffer whose padding is NaN.
#[derive(Clone)]
pub(crate) struct Matrix<T> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    layout: Layout,
    data: Vec<T>,
}

impl<T: Number> Matrix<T> {
    pub(crate) fn of(
        rows: usize,
        cols: usize,
        order: Order,
        value: impl Fn(usize, usize) -> T,
    ) -> Self {
        let (lines, line) = if order == Order::RowMajor { (rows, cols) } else { (cols, rows) };
        let layout = Layout { order, ld: line.max(1) + lines % 3 };
        let mut data = vec![T::of(f64::NAN, f64::NAN); lines * layout.ld + 5];
        for i in 0..rows {
            for j in 0..cols {
                data[layout.index(i, j)] = value(i, j);
            }
        }
        Self { rows, cols, layout, data }
    }

    /// Numbers between -1 and 1 without a pattern.
    pub(crate) fn any(rows: usize, cols: usize, order: Order, seed: u64) -> Self {
        Self::of(rows, cols, order, |i, j| {
            let at = (i as u64) << 32 | (j as u64) << 8 | seed;
            T::of(noise(at * 2), noise(at * 2 + 1))
        })
    }

    pub(crate) fn get(&self, i: usize, j: usize) -> T {
        assert!(i < self.rows && j < self.cols);
        self.data[self.layout.index(i, j)]
    }

    pub(crate) fn set(&mut self, i: usize, j: usize, value: T) {
        let at = self.layout.index(i, j);
        self.data[at] = value;
    }

    pub(crate) fn view(&self) -> View<'_, T> {
        View::new(&self.data, self.rows, self.cols, self.layout).expect("it fits")
    }

    pub(crate) fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&mut self.data, self.rows, self.cols, self.layout).expect("it fits")
    }

    pub(crate) fn exact(&self) -> impl Fn(usize, usize) -> Exact + '_ {
        |i, j| self.get(i, j).exact()
    }

    /// Fails where the padding is no longer NaN.
    pub(crate) fn check_padding(&self, what: &str) {
        let mut is_inside = vec![false; self.data.len()];
        for i in 0..self.rows {
            (0..self.cols).for_each(|j| is_inside[self.layout.index(i, j)] = true);
        }
        for (at, value) in self.data.iter().enumerate().filter(|&(at, _)| !is_inside[at]) {
            assert!(value.exact().re.is_nan(), "{what}: {value:?} at {at} of the buffer");
        }
    }

    pub(crate) fn bits(&self) -> Vec<[u64; 2]> {
        let of = |value: &T| {
            let exact = value.exact();
            [exact.re.to_bits(), exact.im.to_bits()]
        };
        self.data.iter().map(of).collect()
    }
}

/// A number between -1 and 1 of another: its bits, mixed.
fn noise(at: u64) -> f64 {
    let mut bits = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ bits >> 31) >> 12) as f64 / (1u64 << 51) as f64 - 1.0
}

/// The product of matrices of those sizes, given by their elements.
pub(crate) fn product(
    (m, n, k): (usize, usize, usize),
    a: impl Fn(usize, usize) -> Exact,
    b: impl Fn(usize, usize) -> Exact,
) -> impl Fn(usize, usize) -> Exact {
    let mut sums = vec![Exact::ZERO; m * n];
    let columns: Vec<Exact> =
        (0..n).flat_map(|j| (0..k).map(move |p| (p, j))).map(|(p, j)| b(p, j)).collect();
    for i in 0..m {
        let row: Vec<Exact> = (0..k).map(|p| a(i, p)).collect();
        for j in 0..n {
            let column = &columns[j * k..(j + 1) * k];
            sums[i + j * m] = row.iter().zip(column).map(|(a, b)| a * b).sum();
        }
    }
    move |i, j| sums[i + j * m]
}

/// The largest difference of two matrices of a size; a NaN is infinitely far from all.
pub(crate) fn distance(
    (rows, cols): (usize, usize),
    a: impl Fn(usize, usize) -> Exact,
    b: impl Fn(usize, usize) -> Exact,
) -> f64 {
    let mut largest = 0f64;
    for i in 0..rows {
        for j in 0..cols {
            let apart = (a(i, j) - b(i, j)).norm_sqr().sqrt();
            largest = if apart.is_nan() { f64::INFINITY } else { largest.max(apart) };
        }
    }
    largest
}

/// The identity.
pub(crate) fn one(i: usize, j: usize) -> Exact {
    Exact::new(if i == j { 1.0 } else { 0.0 }, 0.0)
}
