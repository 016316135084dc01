//! Matrices with padding, and what a routine should make of them.

use tessera::blas3::{Complex, Field, Op, Uplo, View, ViewMut};
use tessera::{Layout, Order};

pub(crate) const ORDERS: [Order; 2] = [Order::RowMajor, Order::ColMajor];

/// All small sizes, and some beyond the blocks of each level.
pub(crate) fn sizes() -> impl Iterator<Item = usize> {
    (0..=70).chain([129, 257])
}

/// A number that can be made of small integers.
pub(crate) trait Number: Field {
    fn of(re: i16, im: i16) -> Self;
    fn nan() -> Self;
    /// The same number with NaN as its imaginary part, if it has one.
    fn without_imaginary(self) -> Self;
    fn bits(self) -> [u64; 2];
}

macro_rules! numbers {
    ($($real:ident)*) => {$(
        impl Number for $real {
            fn of(re: i16, _: i16) -> Self {
                re.into()
            }

            fn nan() -> Self {
                Self::NAN
            }

            fn without_imaginary(self) -> Self {
                self
            }

            fn bits(self) -> [u64; 2] {
                // Zeros of both signs are one number.
                [u64::from((self + 0.0).to_bits()), 0]
            }
        }

        impl Number for Complex<$real> {
            fn of(re: i16, im: i16) -> Self {
                Self::new(re.into(), im.into())
            }

            fn nan() -> Self {
                Self::new($real::NAN, $real::NAN)
            }

            fn without_imaginary(self) -> Self {
                Self::new(self.re, $real::NAN)
            }

            fn bits(self) -> [u64; 2] {
                [u64::from((self.re + 0.0).to_bits()), u64::from((self.im + 0.0).to_bits())]
            }
        }
    )*};
}

numbers!(f32 f64);

/// A matrix in a buffer with padding, which holds NaN.
#[derive(Clone)]
pub(crate) struct Dense<T> {
    rows: usize,
    cols: usize,
    layout: Layout,
    data: Vec<T>,
}

impl<T: Number> Dense<T> {
    fn filled(rows: usize, cols: usize, order: Order, value: impl Fn(usize, usize) -> T) -> Self {
        let (lines, line) = if order == Order::RowMajor { (rows, cols) } else { (cols, rows) };
        let ld = line.max(1) + lines % 3;
        let layout = Layout { order, ld };
        let mut data = vec![T::nan(); lines * ld + 5];
        for i in 0..rows {
            for j in 0..cols {
                data[layout.index(i, j)] = value(i, j);
            }
        }
        Self { rows, cols, layout, data }
    }

    pub(crate) fn new(rows: usize, cols: usize, order: Order, seed: usize) -> Self {
        Self::filled(rows, cols, order, |i, j| {
            let at = i * 31 + j * 17 + i * j * 3 + seed * 7;
            T::of(small(at % 7), small(at / 3 % 7))
        })
    }

    /// A triangle that can be solved with in integers: the diagonal is 2 or, where there is such, 2i.
    pub(crate) fn triangle(n: usize, order: Order) -> Self {
        let any = Self::new(n, n, order, 5);
        Self::filled(n, n, order, |i, j| match (i == j, T::IS_COMPLEX && i % 3 == 1) {
            (true, true) => T::of(0, 2),
            (true, false) => T::of(2, 0),
            (false, _) if (i * 7 + j * 3) % 4 > 0 => T::ZERO,
            (false, _) => any.get(i, j),
        })
    }

    /// What must be stored so that `op` of it is this matrix, of the same buffer's shape.
    pub(crate) fn stored_for(self, op: Op) -> Self {
        match op {
            Op::NoTrans => self,
            Op::Trans | Op::ConjTrans => {
                Self::filled(self.cols, self.rows, self.layout.order, |i, j| self.get(j, i))
            }
        }
    }

    pub(crate) fn get(&self, i: usize, j: usize) -> T {
        assert!(i < self.rows && j < self.cols);
        self.data[self.layout.index(i, j)]
    }

    pub(crate) fn op(&self, op: Op, i: usize, j: usize) -> T {
        match op {
            Op::NoTrans => self.get(i, j),
            Op::Trans => self.get(j, i),
            Op::ConjTrans => self.get(j, i).conj(),
        }
    }

    pub(crate) fn view(&self) -> View<'_, T> {
        View::new(&self.data, self.rows, self.cols, self.layout).expect("it fits")
    }

    pub(crate) fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&mut self.data, self.rows, self.cols, self.layout).expect("it fits")
    }

    /// `alpha * product + beta * this`.
    pub(crate) fn updated(&self, alpha: T, beta: T, product: impl Fn(usize, usize) -> T) -> Self {
        self.updated_where(|_, _| true, alpha, beta, product)
    }

    /// The same of one triangle.
    pub(crate) fn updated_triangle(
        &self,
        uplo: Uplo,
        alpha: T,
        beta: T,
        product: impl Fn(usize, usize) -> T,
    ) -> Self {
        let is_in = |i, j| if uplo == Uplo::Upper { i <= j } else { i >= j };
        self.updated_where(is_in, alpha, beta, product)
    }

    fn updated_where(
        &self,
        is_in: impl Fn(usize, usize) -> bool,
        alpha: T,
        beta: T,
        product: impl Fn(usize, usize) -> T,
    ) -> Self {
        let mut updated = self.clone();
        for i in 0..self.rows {
            for j in (0..self.cols).filter(|&j| is_in(i, j)) {
                let old = if beta == T::ZERO { T::ZERO } else { beta * self.get(i, j) };
                let sum = if alpha == T::ZERO { T::ZERO } else { alpha * product(i, j) };
                updated.data[self.layout.index(i, j)] = sum + old;
            }
        }
        updated
    }

    /// Puts NaN where a routine may not look.
    pub(crate) fn poison_if(&mut self, poison: bool, at: impl Fn(usize, usize) -> bool) {
        for i in 0..if poison { self.rows } else { 0 } {
            for j in (0..self.cols).filter(|&j| at(i, j)) {
                self.data[self.layout.index(i, j)] = T::nan();
            }
        }
    }

    pub(crate) fn poison_imaginary_diagonal(&mut self) {
        for i in 0..self.rows {
            let at = self.layout.index(i, i);
            self.data[at] = self.data[at].without_imaginary();
        }
    }

    pub(crate) fn make_diagonal_real(&mut self) {
        for i in 0..self.rows {
            let at = self.layout.index(i, i);
            self.data[at] = T::from_re(self.data[at].re());
        }
    }

    /// Compares each element of the buffer, the padding as well.
    pub(crate) fn check(&self, expected: &Self, what: &str) {
        for (at, (found, wanted)) in self.data.iter().zip(&expected.data).enumerate() {
            let same = found.bits() == wanted.bits();
            assert!(same, "{what}: {found:?} in place of {wanted:?}, at {at} of the buffer");
        }
    }
}

/// A number from -3 to 3.
fn small(number: usize) -> i16 {
    i16::try_from(number).expect("it is small") - 3
}
