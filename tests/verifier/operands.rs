//! Operands of many kinds, their layouts, and their right products.

use gemm_spec::{Element, Layout, Operand, Problem, epilogue};
use lab::verify::{Checker, Guarded, Method};
use lab::{Scalar, ScalarTypes};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What the operands are filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fill {
    Uniform,
    Normal,
    Positive,
    WideExponents,
    Integers,
    /// 1000 i + k: tells every element from every other.
    PositionCoded,
}

pub(crate) const FILLS: [Fill; 6] = [
    Fill::Uniform,
    Fill::Normal,
    Fill::Positive,
    Fill::WideExponents,
    Fill::Integers,
    Fill::PositionCoded,
];

/// Uniform in [0, 1).
pub(crate) fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 * 2f64.powi(-53)
}

/// A row or a column of a matrix of 70.
#[expect(clippy::cast_possible_truncation, reason = "rounded down")]
pub(crate) fn below_70(random: &mut Xoshiro256PlusPlus) -> usize {
    (unit(random) * 70.0) as usize
}

impl Fill {
    pub(crate) fn value(self, random: &mut Xoshiro256PlusPlus, row: usize, col: usize) -> f64 {
        match self {
            Self::Uniform => 2.0 * unit(random) - 1.0,
            Self::Normal => (0..12).map(|_| unit(random)).sum::<f64>() - 6.0,
            Self::Positive => unit(random),
            Self::WideExponents => {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and below 41")]
                let exponent = (unit(random) * 41.0).floor() as i32 - 20;
                (2.0 * unit(random) - 1.0) * 2f64.powi(exponent)
            }
            Self::Integers => (unit(random) * 17.0).floor() - 8.0,
            Self::PositionCoded => (1000 * row + col) as f64,
        }
    }
}

/// The elements of an operand. Integers use their whole range, so that sums wrap.
pub(crate) fn filled<T: ScalarTypes, E: Scalar>(
    problem: &Problem<T>,
    operand: Operand,
    fill: Fill,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<E> {
    let fractions = [Fill::Uniform, Fill::Normal, Fill::Positive].contains(&fill);
    let scale = match (E::DTYPE.is_integer() && fractions, size_of::<E>()) {
        (true, 1) => 100.0,
        (true, _) => 3e8,
        (false, _) => 1.0,
    };
    let (rows, cols) = problem.dims(operand);
    let layout = problem.layout(operand);
    let mut data = vec![E::from_f64(f64::NAN); problem.required_len(operand).expect("valid")];
    for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
        data[layout.index(row, col)] = E::from_f64(scale * fill.value(random, row, col));
    }
    data
}

/// A problem with its operands; padding is NaN, or a large number.
pub(crate) struct Operands<T: ScalarTypes> {
    pub(crate) problem: Problem<T>,
    pub(crate) a: Vec<T::A>,
    pub(crate) b: Vec<T::B>,
    pub(crate) c_before: Vec<T::C>,
    /// How to repeat it.
    pub(crate) name: String,
}

impl<T: ScalarTypes> Operands<T> {
    pub(crate) fn new(problem: Problem<T>, fill: Fill, seed: u64) -> Self {
        let random = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
        let a = filled(&problem, Operand::A, fill, random);
        let b = filled(&problem, Operand::B, fill, random);
        let c_before = filled(&problem, Operand::C, fill, random);
        let name = format!("Operands::new({problem:?}, Fill::{fill:?}, {seed})");
        Self { problem, a, b, c_before, name }
    }

    pub(crate) fn checker(&self, method: Method) -> Checker<'_, T> {
        Checker::new(&self.problem, &self.a, &self.b, &self.c_before, method, 11)
            .expect("operands fit")
    }

    /// C before a run: poison, or the old elements.
    pub(crate) fn fresh(&self) -> Vec<T::C> {
        let mut c = Guarded::new(&self.problem).expect("valid");
        c.poison(&self.c_before);
        c.as_slice().to_vec()
    }

    pub(crate) fn a(&self, row: usize, step: usize) -> T::A {
        self.a[self.problem.a.index(row, step)]
    }

    pub(crate) fn b(&self, step: usize, col: usize) -> T::B {
        self.b[self.problem.b.index(step, col)]
    }

    pub(crate) fn sum(&self, row: usize, col: usize, steps: impl Iterator<Item = usize>) -> T::Acc {
        steps.fold(T::Acc::ZERO, |acc, step| T::mul_add(self.a(row, step), self.b(step, col), acc))
    }

    /// C with each sum made by `sum`, which gets a row and a column.
    pub(crate) fn result(&self, sum: impl Fn(usize, usize) -> T::Acc) -> Vec<T::C> {
        let Problem { m, n, alpha, beta, c: layout, .. } = self.problem;
        let mut c = self.fresh();
        for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let at = layout.index(row, col);
            c[at] = epilogue(alpha, sum(row, col), beta, || self.c_before[at]);
        }
        c
    }

    /// `|alpha||A||B| + |beta||C0|` of an element.
    pub(crate) fn scale(&self, row: usize, col: usize) -> f64 {
        let Problem { alpha, beta, c, .. } = self.problem;
        let product = |step| (self.a(row, step).to_f64() * self.b(step, col).to_f64()).abs();
        let sum = (0..self.problem.effective_k()).map(product).sum::<f64>();
        let old = self.c_before[c.index(row, col)].to_f64();
        alpha.to_f64().abs() * sum + (beta.to_f64() * old).abs()
    }

    pub(crate) fn correct(&self) -> Vec<T::C> {
        self.result(|row, col| self.sum(row, col, 0..self.problem.effective_k()))
    }
}

pub(crate) const SHAPES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (1, 37, 19),
    (41, 1, 23),
    (29, 31, 1),
    (33, 17, 65),
    (64, 64, 64),
    (70, 300, 31),
    (5, 3, 1000),
];

pub(crate) const FACTORS: [(f64, f64); 7] =
    [(1.0, 0.0), (-0.5, 0.0), (1.0, 1.0), (1.5, -0.7), (2.0, -3.0), (0.0, 2.0), (0.0, 0.0)];

/// Tight, padded, and column-major layouts of a problem.
pub(crate) fn layouts<T: ScalarTypes>(problem: Problem<T>) -> [Problem<T>; 3] {
    let Problem { m, n, k, .. } = problem;
    let (row, col) = (Layout::row_major, Layout::col_major);
    [
        problem,
        problem.with_layouts(row(k + 3), row(n + 1), row(n + 7)),
        problem.with_layouts(col(m + 2), col(k), col(m + 5)),
    ]
}

pub(crate) fn problems<T: ScalarTypes>() -> impl Iterator<Item = Problem<T>> {
    let factors = |(alpha, beta)| (T::Acc::from_f64(alpha), T::Acc::from_f64(beta));
    SHAPES.into_iter().flat_map(move |(m, n, k)| {
        FACTORS.into_iter().flat_map(move |pair| {
            let (alpha, beta) = factors(pair);
            layouts(Problem::<T>::new(m, n, k).with_scalars(alpha, beta))
        })
    })
}

pub(crate) const JUDGES: [Method; 3] = [Method::Full, Method::Freivalds, Method::Sample];

/// Prints every failure and fails if there is one, or if there was nothing to look at.
pub(crate) fn settle(cases: usize, failures: &[String]) {
    assert!(cases > 0, "no case was tried");
    assert!(failures.is_empty(), "{} of {cases}:\n{}", failures.len(), failures.join("\n"));
}

pub(crate) const TILE: usize = 32;

/// Square, so that C can be transposed, with a ragged last tile in every direction.
pub(crate) fn attacked() -> Vec<Operands<f32>> {
    let mut all = vec![];
    for (alpha, beta) in [(1.0, 0.0), (1.5, -0.7), (2.0, -3.0)] {
        for problem in layouts(Problem::<f32>::new(70, 70, 77).with_scalars(alpha, beta)) {
            for fill in [Fill::Uniform, Fill::Normal, Fill::Positive, Fill::Integers] {
                all.push(Operands::new(problem, fill, 5));
            }
        }
    }
    all
}
