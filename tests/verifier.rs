//! The verifier is attacked: correct results pass, whatever the data, and wrong ones do not.

#![expect(clippy::print_stdout, reason = "a measurement shows its figures")]

use std::time::Instant;

use gemm_spec::{Convert, Element, Layout, Operand, Order, Problem, bf16, epilogue, f16};
use lab::verify::{Checker, Guarded, Method, Report, VerifyError};
use lab::{Scalar, ScalarTypes};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// What the operands are filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    Uniform,
    Normal,
    Positive,
    WideExponents,
    Integers,
    /// 1000 i + k: tells every element from every other.
    PositionCoded,
}

const FILLS: [Fill; 6] = [
    Fill::Uniform,
    Fill::Normal,
    Fill::Positive,
    Fill::WideExponents,
    Fill::Integers,
    Fill::PositionCoded,
];

/// Uniform in [0, 1).
fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 * 2f64.powi(-53)
}

/// A row or a column of a matrix of 70.
#[expect(clippy::cast_possible_truncation, reason = "rounded down")]
fn below_70(random: &mut Xoshiro256PlusPlus) -> usize {
    (unit(random) * 70.0) as usize
}

impl Fill {
    fn value(self, random: &mut Xoshiro256PlusPlus, row: usize, col: usize) -> f64 {
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
fn filled<T: ScalarTypes, E: Scalar>(
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
struct Operands<T: ScalarTypes> {
    problem: Problem<T>,
    a: Vec<T::A>,
    b: Vec<T::B>,
    c_before: Vec<T::C>,
    /// How to repeat it.
    name: String,
}

impl<T: ScalarTypes> Operands<T> {
    fn new(problem: Problem<T>, fill: Fill, seed: u64) -> Self {
        let random = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
        let a = filled(&problem, Operand::A, fill, random);
        let b = filled(&problem, Operand::B, fill, random);
        let c_before = filled(&problem, Operand::C, fill, random);
        let name = format!("Operands::new({problem:?}, Fill::{fill:?}, {seed})");
        Self { problem, a, b, c_before, name }
    }

    fn checker(&self, method: Method) -> Checker<'_, T> {
        Checker::new(&self.problem, &self.a, &self.b, &self.c_before, method, 11)
            .expect("operands fit")
    }

    /// C before a run: poison, or the old elements.
    fn fresh(&self) -> Vec<T::C> {
        let mut c = Guarded::new(&self.problem).expect("valid");
        c.poison(&self.c_before);
        c.as_slice().to_vec()
    }

    fn a(&self, row: usize, step: usize) -> T::A {
        self.a[self.problem.a.index(row, step)]
    }

    fn b(&self, step: usize, col: usize) -> T::B {
        self.b[self.problem.b.index(step, col)]
    }

    fn sum(&self, row: usize, col: usize, steps: impl Iterator<Item = usize>) -> T::Acc {
        steps.fold(T::Acc::ZERO, |acc, step| T::mul_add(self.a(row, step), self.b(step, col), acc))
    }

    /// C with each sum made by `sum`, which gets a row and a column.
    fn result(&self, sum: impl Fn(usize, usize) -> T::Acc) -> Vec<T::C> {
        let Problem { m, n, alpha, beta, c: layout, .. } = self.problem;
        let mut c = self.fresh();
        for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let at = layout.index(row, col);
            c[at] = epilogue(alpha, sum(row, col), beta, || self.c_before[at]);
        }
        c
    }

    /// `|alpha||A||B| + |beta||C0|` of an element.
    fn scale(&self, row: usize, col: usize) -> f64 {
        let Problem { alpha, beta, c, .. } = self.problem;
        let product = |step| (self.a(row, step).to_f64() * self.b(step, col).to_f64()).abs();
        let sum = (0..self.problem.effective_k()).map(product).sum::<f64>();
        let old = self.c_before[c.index(row, col)].to_f64();
        alpha.to_f64().abs() * sum + (beta.to_f64() * old).abs()
    }

    fn correct(&self) -> Vec<T::C> {
        self.result(|row, col| self.sum(row, col, 0..self.problem.effective_k()))
    }
}

const SHAPES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (1, 37, 19),
    (41, 1, 23),
    (29, 31, 1),
    (33, 17, 65),
    (64, 64, 64),
    (70, 300, 31),
    (5, 3, 1000),
];

const FACTORS: [(f64, f64); 7] =
    [(1.0, 0.0), (-0.5, 0.0), (1.0, 1.0), (1.5, -0.7), (2.0, -3.0), (0.0, 2.0), (0.0, 0.0)];

/// Tight, padded, and column-major layouts of a problem.
fn layouts<T: ScalarTypes>(problem: Problem<T>) -> [Problem<T>; 3] {
    let Problem { m, n, k, .. } = problem;
    let (row, col) = (Layout::row_major, Layout::col_major);
    [
        problem,
        problem.with_layouts(row(k + 3), row(n + 1), row(n + 7)),
        problem.with_layouts(col(m + 2), col(k), col(m + 5)),
    ]
}

fn problems<T: ScalarTypes>() -> impl Iterator<Item = Problem<T>> {
    let factors = |(alpha, beta)| (T::Acc::from_f64(alpha), T::Acc::from_f64(beta));
    SHAPES.into_iter().flat_map(move |(m, n, k)| {
        FACTORS.into_iter().flat_map(move |pair| {
            let (alpha, beta) = factors(pair);
            layouts(Problem::<T>::new(m, n, k).with_scalars(alpha, beta))
        })
    })
}

const JUDGES: [Method; 3] = [Method::Full, Method::Freivalds, Method::Sample];

/// Prints every failure and fails if there is one, or if there was nothing to look at.
fn settle(cases: usize, failures: &[String]) {
    assert!(cases > 0, "no case was tried");
    assert!(failures.is_empty(), "{} of {cases}:\n{}", failures.len(), failures.join("\n"));
}

fn correct_results_pass<T: ScalarTypes>() {
    let (mut cases, mut failures) = (0, vec![]);
    for (seed, problem) in problems::<T>().enumerate() {
        for fill in FILLS {
            let operands = Operands::new(problem, fill, seed as u64);
            let k = problem.effective_k();
            let orders = [
                ("k order", operands.correct()),
                ("backwards", operands.result(|i, j| operands.sum(i, j, (0..k).rev()))),
                ("strided", {
                    let strided = |i, j| operands.sum(i, j, (0..4).flat_map(|s| (s..k).step_by(4)));
                    operands.result(strided)
                }),
            ];
            for method in JUDGES {
                let checker = operands.checker(method);
                for (order, c) in &orders {
                    let report = checker.check(c);
                    cases += 1;
                    if !report.ok || report.checked == 0 || report.method != method.name() {
                        failures.push(format!("{}, {order}: {report}", operands.name));
                    }
                }
            }
        }
    }
    settle(cases, &failures);
}

/// A test for the types of each product.
macro_rules! correct_results_pass {
    ([] $({
        $(#[$condition:meta])? $variant:ident, $name:ident, $types:ty, $four:tt, $usual:ident
    })+) => {
        mod correct_results_pass_in {
            $(
                #[test]
                fn $name() {
                    super::correct_results_pass::<$types>();
                }
            )+
        }
    };
}

gemm_spec::for_each_gemm_types!([correct_results_pass]);

#[test]
fn long_sums_of_positive_numbers_pass_in_any_method() {
    let operands = Operands::new(Problem::<f32>::new(8, 9, 40_000), Fill::Positive, 1);
    let c = operands.correct();
    for method in JUDGES {
        let report = operands.checker(method).check(&c);
        assert!(report.ok, "{report}");
    }
}

/// A way to get a product wrong: the wrong C, from the right one.
type Mutant = (&'static str, fn(&Operands<f32>, Vec<f32>) -> Vec<f32>);

fn edit(operands: &Operands<f32>, mut c: Vec<f32>, row: usize, col: usize, to: f32) -> Vec<f32> {
    c[operands.problem.c.index(row, col)] = to;
    c
}

fn scaled(operands: &Operands<f32>, c: Vec<f32>, row: usize, col: usize, by: f32) -> Vec<f32> {
    let element = c[operands.problem.c.index(row, col)];
    edit(operands, c, row, col, element * by)
}

/// Rounds to the eleven significant bits of f16.
fn half(value: f32) -> f32 {
    let magic = value * 8193.0;
    magic - (magic - value)
}

const TILE: usize = 32;

/// The last k tile, which need not be whole.
fn last_tile(k: usize) -> usize {
    (k - 1) / TILE * TILE
}

const MUTANTS: &[Mutant] = &[
    ("first element doubled", |o, c| scaled(o, c, 0, 0, 2.0)),
    ("last element lost its sign", |o, c| scaled(o, c, o.problem.m - 1, o.problem.n - 1, -1.0)),
    ("one element off by 1 %", |o, c| scaled(o, c, 40, 7, 1.01)),
    ("one element off by 1e-4", |o, c| scaled(o, c, 41, 3, 1.0001)),
    ("one element off by 30", |o, c| {
        let found = c[o.problem.c.index(17, 40)];
        edit(o, c, 17, 40, found + 30.0)
    }),
    ("one element huge", |o, c| edit(o, c, 12, 1, 1e30)),
    ("one NaN", |o, c| edit(o, c, 50, 11, f32::NAN)),
    ("one +inf", |o, c| edit(o, c, 3, 30, f32::INFINITY)),
    ("one -inf", |o, c| edit(o, c, 69, 0, f32::NEG_INFINITY)),
    ("C transposed", |o, c| {
        let mut wrong = c.clone();
        for (row, col) in (0..o.problem.m).flat_map(|row| (0..o.problem.n).map(move |c| (row, c))) {
            wrong[o.problem.c.index(row, col)] = c[o.problem.c.index(col, row)];
        }
        wrong
    }),
    ("one tile stale", |o, c| {
        let last = last_tile(o.problem.k);
        let stale = o.result(|row, col| o.sum(row, col, 0..last));
        let mut wrong = c;
        for (row, col) in (32..64).flat_map(|row| (0..32).map(move |col| (row, col))) {
            let at = o.problem.c.index(row, col);
            wrong[at] = stale[at];
        }
        wrong
    }),
    ("one tile multiplies the tiles before", |o, c| {
        let k = o.problem.k;
        let stale = o.result(|row, col| {
            let again = (0..k).map(|step| if step < last_tile(k) { step } else { step - TILE });
            o.sum(row, col, again)
        });
        let mut wrong = c;
        for (row, col) in (0..32).flat_map(|row| (32..64).map(move |col| (row, col))) {
            let at = o.problem.c.index(row, col);
            wrong[at] = stale[at];
        }
        wrong
    }),
    ("one row never written", |o, c| {
        let (mut wrong, fresh) = (c, o.fresh());
        for col in 0..o.problem.n {
            wrong[o.problem.c.index(33, col)] = fresh[o.problem.c.index(33, col)];
        }
        wrong
    }),
    ("nothing written", |o, _| o.fresh()),
    ("two rows swapped", |o, c| {
        let mut wrong = c;
        for col in 0..o.problem.n {
            wrong.swap(o.problem.c.index(20, col), o.problem.c.index(21, col));
        }
        wrong
    }),
    ("two columns swapped", |o, c| {
        let mut wrong = c;
        for row in 0..o.problem.m {
            wrong.swap(o.problem.c.index(row, 20), o.problem.c.index(row, 21));
        }
        wrong
    }),
    ("leading dimension of A one too small", |o, _| {
        let skewed = Layout { ld: o.problem.a.ld - 1, ..o.problem.a };
        let a = |row, step| o.a[skewed.index(row, step)];
        o.result(|row, col| (0..o.problem.k).fold(0.0, |acc, l| acc + a(row, l) * o.b(l, col)))
    }),
    ("alpha forgotten", |o, _| {
        let plain = o.problem.with_scalars(1.0, o.problem.beta);
        let wrong = Operands { problem: plain, name: String::new(), ..o.copy() };
        wrong.correct()
    }),
    ("beta C forgotten", |o, _| {
        let plain = o.problem.with_scalars(o.problem.alpha, 0.0);
        let wrong = Operands { problem: plain, name: String::new(), ..o.copy() };
        wrong.correct()
    }),
    ("accumulator rounded to f16", |o, _| {
        let k = o.problem.k;
        o.result(|row, col| (0..k).fold(0.0, |acc, l| half(acc + o.a(row, l) * o.b(l, col))))
    }),
    ("operands rounded to f16", |o, _| {
        let k = o.problem.k;
        let product = |row, col, l| half(o.a(row, l)) * half(o.b(l, col));
        o.result(|row, col| (0..k).fold(0.0, |acc, l| acc + product(row, col, l)))
    }),
    ("last element of k lost", |o, _| o.result(|row, col| o.sum(row, col, 0..o.problem.k - 1))),
    ("k tail beyond the last whole tile lost", |o, _| {
        o.result(|row, col| o.sum(row, col, 0..o.problem.k / TILE * TILE))
    }),
    ("accumulator not zeroed", |o, _| {
        let mut left = 0.0;
        let mut wrong = o.fresh();
        let problem = o.problem;
        for (row, col) in (0..problem.m).flat_map(|row| (0..problem.n).map(move |col| (row, col))) {
            left += o.sum(row, col, 0..problem.k);
            let at = problem.c.index(row, col);
            wrong[at] = epilogue(problem.alpha, left, problem.beta, || o.c_before[at]);
        }
        wrong
    }),
    ("sums of another column", |o, _| {
        o.result(|row, col| o.sum(row, (col + 1) % o.problem.n, 0..o.problem.k))
    }),
];

impl Operands<f32> {
    fn copy(&self) -> Self {
        let Self { problem, a, b, c_before, name } = self;
        let (a, b, c_before) = (a.clone(), b.clone(), c_before.clone());
        Self { problem: *problem, a, b, c_before, name: name.clone() }
    }

    /// The largest error of a row, as a Euclidean norm over what random vectors are certain to see
    /// of a single element.
    fn loudness(&self, checker: &Checker<'_, f32>, right: &[f32], wrong: &[f32]) -> f64 {
        let visible = |row| checker.visible_error(row).expect("random vectors");
        let of_row = |row: usize| {
            let difference = |col: usize| {
                let at = self.problem.c.index(row, col);
                f64::from(wrong[at]) - f64::from(right[at])
            };
            let norm = (0..self.problem.n).map(|col| difference(col).powi(2)).sum::<f64>().sqrt();
            if norm.is_nan() { f64::INFINITY } else { norm / visible(row) }
        };
        (0..self.problem.m).map(of_row).fold(0.0, f64::max)
    }
}

/// Square, so that C can be transposed, with a ragged last tile in every direction.
fn attacked() -> Vec<Operands<f32>> {
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

#[test]
fn every_mutant_is_caught() {
    let (mut cases, mut failures) = (0, vec![]);
    for (name, mutate) in MUTANTS {
        let mut heard = 0;
        for operands in attacked() {
            let right = operands.correct();
            let wrong = mutate(&operands, right.clone());
            let same = right.iter().zip(&wrong).all(|(x, y)| x.same_bits(*y));
            let exact = operands.checker(Method::Full).check(&right).bound == 0.0;
            if same {
                // With these factors or data the fault is none: alpha is 1, halves hold integers.
                continue;
            }
            cases += 1;
            let report = operands.checker(Method::Full).check(&wrong);
            if report.ok {
                failures.push(format!("{name}, full, {}: {report}", operands.name));
            }
            let checker = operands.checker(Method::Freivalds);
            let loud = operands.loudness(&checker, &right, &wrong) > 1.0;
            heard += usize::from(loud);
            let report = checker.check(&wrong);
            if report.ok && (loud || exact) {
                failures.push(format!("{name}, freivalds, {}: {report}", operands.name));
            }
        }
        let faint = ["one element off by 1 %", "one element off by 1e-4"];
        if heard == 0 && !faint.contains(name) && !name.ends_with("rounded to f16") {
            failures.push(format!("{name} is never above the threshold of random vectors"));
        }
    }
    settle(cases, &failures);
}

/// One wrong element, anywhere, by more than what the checker says it sees.
#[test]
fn one_wrong_element_is_seen_from_the_stated_size_on() {
    let (mut cases, mut failures) = (0, vec![]);
    for operands in attacked() {
        let right = operands.correct();
        let checkers = [operands.checker(Method::Full), operands.checker(Method::Freivalds)];
        let random = &mut Xoshiro256PlusPlus::seed_from_u64(9);
        for _ in 0..40 {
            let (row, col) = (below_70(random), below_70(random));
            let visible = checkers[1].visible_error(row).unwrap();
            let at = operands.problem.c.index(row, col);
            for step in [1.01 * visible, -3.0 * visible, 1e3 * visible] {
                let mut wrong = right.clone();
                let with_error = f64::from(right[at]) + if step == 0.0 { 1.0 } else { step };
                wrong[at] = f32::from_f64(with_error);
                for checker in &checkers {
                    let report = checker.check(&wrong);
                    cases += 1;
                    let named = report.first.is_some_and(|it| (it.row, it.col) == (row, col));
                    if report.ok || !named || report.bad != 1 {
                        let name = &operands.name;
                        failures.push(format!("C({row},{col}) += {step}, {name}: {report}"));
                    }
                }
            }
        }
    }
    settle(cases, &failures);
}

#[test]
fn one_wrong_bit_of_an_integer_is_seen_by_every_vector_that_must() {
    one_wrong_bit_is_seen::<i32>();
    one_wrong_bit_is_seen::<i8>();
}

fn one_wrong_bit_is_seen<T: ScalarTypes<Acc = i32, C = i32>>() {
    let (mut cases, mut failures) = (0, vec![]);
    let problem = Problem::<T>::new(40, 50, 60).with_scalars(3, -5);
    for problem in layouts(problem) {
        let operands = Operands::new(problem, Fill::Uniform, 2);
        let right = operands.correct();
        for bit in 0..32 {
            let mut wrong = right.clone();
            wrong[problem.c.index(bit, 49 - bit)] ^= 1 << bit;
            for method in [Method::Full, Method::Freivalds] {
                let report = operands.checker(method).check(&wrong);
                cases += 1;
                if report.ok || report.first.is_none_or(|it| it.row != bit) {
                    failures.push(format!("bit {bit}, {}: {report}", operands.name));
                }
            }
        }
        // Two errors of 2^31 cancel under odd factors, and must not under all four vectors.
        let mut wrong = right.clone();
        for row in 0..40 {
            wrong[problem.c.index(row, 3)] ^= i32::MIN;
            wrong[problem.c.index(row, 30)] ^= i32::MIN;
        }
        cases += 1;
        if operands.checker(Method::Freivalds).check(&wrong).bad < 25 {
            failures.push(format!("pairs of top bits, {}", operands.name));
        }
    }
    settle(cases, &failures);
}

/// One wrong element of 16 bits: by one value where every element is compared, from the stated size on
/// by random vectors.
fn one_wrong_element_of_16_bits<T: ScalarTypes<A = T, B = T, C = T> + Scalar>(
    of: fn(u16) -> T,
    bits: fn(T) -> u16,
) {
    let (mut cases, mut failures) = (0, vec![]);
    let mut silent = 0;
    for (alpha, beta) in [(1.0, 0.0), (1.5, -0.7), (2.0, -3.0)] {
        let problem = Problem::<T>::new(70, 70, 77)
            .with_scalars(T::Acc::from_f64(alpha), T::Acc::from_f64(beta));
        for problem in layouts(problem) {
            for fill in [Fill::Uniform, Fill::Normal, Fill::Positive, Fill::Integers] {
                let operands = Operands::new(problem, fill, 5);
                let right = operands.correct();
                let (full, vectors) =
                    (operands.checker(Method::Full), operands.checker(Method::Freivalds));
                let random = &mut Xoshiro256PlusPlus::seed_from_u64(9);
                for _ in 0..20 {
                    let (row, col) = (below_70(random), below_70(random));
                    let at = problem.c.index(row, col);
                    let mut named = |checker: &Checker<'_, T>, value: T, must: bool| {
                        let mut wrong = right.clone();
                        wrong[at] = value;
                        let report = checker.check(&wrong);
                        let named = report.first.is_some_and(|it| (it.row, it.col) == (row, col));
                        if must {
                            cases += 1;
                            if report.ok || !named || report.bad != 1 {
                                let name = &operands.name;
                                failures
                                    .push(format!("C({row},{col}) = {value}, {name}: {report}"));
                            }
                        }
                        report.ok
                    };
                    // Two values on from what is right no sum rounds to, unless values are as near as
                    // f32 sums may err; the next value is wrong too, but for sums near the middle.
                    let own = right[at];
                    let scale = operands.scale(row, col);
                    let (low, high) = own.rounded_from();
                    let apart = high - low > 36.0 * 2f64.powi(-24) * scale;
                    silent += usize::from(named(&full, of(bits(own) + 1), false));
                    named(&full, of(bits(own) + 2), apart);
                    named(&full, of(bits(own) ^ 0x8000), apart && own.to_f64() != 0.0);
                    let visible = vectors.visible_error(row).expect("random vectors");
                    for step in [1.01 * visible, -3.0 * visible, 30.0 * visible] {
                        let step = if step == 0.0 { 300.0 } else { step };
                        let value = T::from_f64(own.to_f64() + step);
                        // Rounding may have brought it nearer than was meant.
                        let far = (value.to_f64() - own.to_f64()).abs() > 1.01 * visible;
                        named(&vectors, value, far && value.to_f64().is_finite());
                    }
                }
            }
        }
    }
    settle(cases, &failures);
    assert!(cases > 2000, "{cases} cases");
    assert!(silent * 25 < cases, "{silent} neighbours of right elements passed");
}

#[test]
fn one_wrong_element_of_f16_is_seen() {
    one_wrong_element_of_16_bits(f16::from_bits, f16::to_bits);
}

#[test]
fn one_wrong_element_of_bf16_is_seen() {
    one_wrong_element_of_16_bits(bf16::from_bits, bf16::to_bits);
}

/// Results that were rounded another way, or more than once, fail.
#[test]
fn other_roundings_to_16_bits_are_caught() {
    fn caught<T: ScalarTypes<A = T, B = T, Acc = f32, C = T> + Scalar + Convert<f32>>(
        of: fn(u16) -> T,
        bits: fn(T) -> u16,
    ) {
        for problem in layouts(Problem::<T>::new(33, 47, 65)) {
            let operands = Operands::new(problem, Fill::Uniform, 8);
            let sum = |row, col| operands.sum(row, col, 0..65);
            // Towards zero, and every partial sum rounded.
            let truncated = |sum: f32| {
                let near = T::narrow(sum);
                let away = near.widen().abs() > sum.abs();
                if away { of(bits(near) - 1) } else { near }
            };
            let towards_zero = operands.result(|row, col| truncated(sum(row, col)).widen());
            let each_step = operands.result(|row, col| {
                (0..65).fold(0.0, |acc, step| {
                    T::narrow(T::mul_add(operands.a(row, step), operands.b(step, col), acc)).widen()
                })
            });
            for method in JUDGES {
                let checker = operands.checker(method);
                assert!(checker.check(&operands.correct()).ok);
                for wrong in [&towards_zero, &each_step] {
                    // Random vectors do not tell roundings, but some rows are looked at closely.
                    let report = checker.check(wrong);
                    assert!(!report.ok, "{method} {}: {report}", T::TYPES);
                }
            }
        }
    }
    caught(f16::from_bits, f16::to_bits);
    caught(bf16::from_bits, bf16::to_bits);
}

/// Where C is f32, a result that was rounded to 16 bits on its way is wrong, and so is one whose sums
/// were.
#[test]
fn results_in_f32_that_16_bits_have_passed_through_are_caught() {
    fn caught<T: ScalarTypes<Acc = f32, C = f32>>() {
        for problem in layouts(Problem::<T>::new(33, 47, 65)) {
            let operands = Operands::new(problem, Fill::Uniform, 8);
            let rounded = |value: f32| T::A::narrow(value).widen();
            let at_the_end = operands.result(|row, col| rounded(operands.sum(row, col, 0..65)));
            let at_each_step = operands.result(|row, col| {
                (0..65).fold(0.0, |acc, step| {
                    rounded(T::mul_add(operands.a(row, step), operands.b(step, col), acc))
                })
            });
            // One element alone, the one that moves most of a row that every method compares.
            let mut once = operands.correct();
            let moved = |at: &usize| (once[*at] - rounded(once[*at])).abs();
            let row = (0..47).map(|col| problem.c.index(0, col));
            let at = row.max_by(|x, y| moved(x).total_cmp(&moved(y))).expect("47 columns");
            once[at] = rounded(once[at]);
            for method in JUDGES {
                let checker = operands.checker(method);
                assert!(checker.check(&operands.correct()).ok);
                for wrong in [&at_the_end, &at_each_step, &once] {
                    let report = checker.check(wrong);
                    assert!(!report.ok, "{method} {}: {report}", T::TYPES);
                }
            }
        }
    }
    caught::<(f16, f32)>();
    caught::<(bf16, f32)>();
}

/// What is beyond f16 is a number in f32, and nothing else passes for it; of exact data no digit may be
/// wrong, though f16 has it not.
#[test]
fn sums_beyond_the_range_of_f16_are_numbers_in_f32() {
    let problem = Problem::<(f16, f32)>::new(1, 3, 2);
    let of = <f16 as Scalar>::from_f64;
    let a = [of(256.0), of(1.0)];
    let b = [of(65504.0), of(-65504.0), of(8.0), of(1.0), of(0.0), of(1.0)];
    let right = [16_769_025.0, -16_769_024.0, 2049.0];
    for method in JUDGES {
        let checker = Checker::new(&problem, &a, &b, &[], method, 1).unwrap();
        let report = checker.check(&right);
        assert!(report.ok && report.bound == 0.0, "{method}: {report}");
        for (at, value) in [
            (0, f32::INFINITY),
            (0, 65504.0),
            (0, 16_769_024.0),
            (1, f32::NEG_INFINITY),
            (1, f32::NAN),
            (2, 2048.0),
            (2, 2050.0),
        ] {
            let mut c = right;
            c[at] = value;
            let report = checker.check(&c);
            assert!(!report.ok, "{method} {c:?}: {report}");
        }
    }
}

#[test]
fn sums_beyond_the_range_of_f16_are_infinite_and_those_at_its_edge_may_be() {
    let problem = Problem::<f16>::new(1, 3, 2);
    let of = f16::from_f64;
    let a = [of(256.0), of(1.0)];
    // 65504 + 16 is the middle between the largest number and what would come next, 65536 is that.
    let b = [of(255.875), of(256.0), of(255.75), of(16.0), of(0.0), of(0.0)];
    let (endless, last) = (f16::INFINITY, of(65472.0));
    for method in JUDGES {
        let checker = Checker::new(&problem, &a, &b, &[], method, 1).unwrap();
        for (c, ok) in [
            ([endless, endless, last], true),
            ([f16::MAX, endless, last], true),
            ([last, endless, last], false),
            ([endless, f16::MAX, last], false),
            ([endless, f16::NEG_INFINITY, last], false),
            ([endless, endless, endless], false),
            ([f16::NAN, endless, last], false),
        ] {
            let report = checker.check(&c);
            assert_eq!(report.ok, ok, "{method} {c:?}: {report}");
        }
    }
}

#[test]
fn subnormal_results_of_16_bits_pass_and_flushed_ones_do_not() {
    fn settled<T: ScalarTypes<A = T, B = T, C = T> + Scalar>(scale: f64) {
        for method in JUDGES {
            let mut operands = Operands::new(Problem::<T>::new(20, 30, 40), Fill::Uniform, 4);
            for value in operands.a.iter_mut().chain(&mut operands.b) {
                *value = T::from_f64(value.to_f64() * scale);
            }
            let right = operands.correct();
            let report = operands.checker(method).check(&right);
            assert!(report.ok, "{report}");
            assert!(right.iter().any(|c| c.to_f64() != 0.0));
            let flushed = vec![T::ZERO; right.len()];
            assert!(!operands.checker(method).check(&flushed).ok);
        }
    }
    // Sums of a few times 2^-24, and of 2^-133, the least numbers.
    settled::<f16>(2f64.powi(-11));
    settled::<bf16>(2f64.powi(-65));
}

#[test]
fn exact_data_are_recognised_and_then_no_error_is_too_small() {
    let coded = Operands::new(Problem::<f32>::new(20, 30, 10), Fill::Integers, 4);
    let right = coded.correct();
    for method in JUDGES {
        let report = coded.checker(method).check(&right);
        assert!(report.ok && report.bound == 0.0, "{report}");
    }
    let zero = right.iter().position(|&value| value == 0.0).expect("some sum is 0");
    let mut negative = right.clone();
    negative[zero] = -0.0;
    for (at, value, ok) in [
        (zero, -0.0, true),
        (zero, f32::from_bits(1), false),
        (zero, 1e-20, false),
        (7, right[7].next_up(), false),
    ] {
        let mut c = right.clone();
        c[at] = value;
        for method in [Method::Full, Method::Freivalds] {
            let report = coded.checker(method).check(&c);
            assert_eq!(report.ok, ok, "{value:e} for {}: {report}", right[at]);
        }
    }
    // 1000 i + k squared passes 2^24 soon: then rounding must be allowed for.
    let large = Operands::new(Problem::<f32>::new(20, 30, 10), Fill::PositionCoded, 4);
    assert!(large.checker(Method::Full).check(&large.correct()).bound > 0.0);
    let wide = Operands::new(Problem::<f64>::new(20, 30, 10), Fill::PositionCoded, 4);
    assert_eq!(wide.checker(Method::Freivalds).check(&wide.correct()).bound, 0.0);
}

#[test]
fn what_the_problem_does_not_read_does_not_matter() {
    for method in JUDGES {
        let mut alpha_zero =
            Operands::new(Problem::<f32>::new(20, 30, 10).with_scalars(0.0, 2.0), Fill::Uniform, 4);
        alpha_zero.a.fill(f32::NAN);
        alpha_zero.b.fill(f32::INFINITY);
        let right = alpha_zero.correct();
        let report = alpha_zero.checker(method).check(&right);
        assert!(report.ok, "alpha 0, {report}");
        let spoilt = vec![f32::NAN; right.len()];
        assert!(!alpha_zero.checker(method).check(&spoilt).ok);

        let mut beta_zero = Operands::new(Problem::<f32>::new(20, 30, 10), Fill::Uniform, 4);
        beta_zero.c_before.fill(f32::NAN);
        let report = beta_zero.checker(method).check(&beta_zero.correct());
        assert!(report.ok, "beta 0, {report}");
        beta_zero.c_before.clear();
        assert!(
            Checker::new(&beta_zero.problem, &beta_zero.a, &beta_zero.b, &[], method, 1).is_ok()
        );
    }
}

#[test]
fn nan_and_infinity_must_be_where_the_operands_put_them() {
    let (mut cases, mut failures) = (0, vec![]);
    let plain = Problem::<f32>::new(20, 30, 10).with_scalars(1.5, -0.5);
    for problem in layouts(plain) {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for operand in [Operand::A, Operand::B, Operand::C] {
                let mut operands = Operands::new(problem, Fill::Uniform, 6);
                match operand {
                    Operand::A => operands.a[problem.a.index(13, 4)] = odd,
                    Operand::B => operands.b[problem.b.index(4, 13)] = odd,
                    Operand::C => operands.c_before[problem.c.index(13, 13)] = odd,
                }
                let right = operands.correct();
                let mut tamed = right.clone();
                tamed[problem.c.index(13, 13)] = 1.0;
                let mut spread = right.clone();
                spread[problem.c.index(2, 2)] = odd;
                for method in [Method::Full, Method::Freivalds] {
                    let checker = operands.checker(method);
                    for (what, c, ok) in [
                        ("right", &right, true),
                        ("tamed", &tamed, false),
                        ("spread", &spread, false),
                    ] {
                        let report = checker.check(c);
                        cases += 1;
                        if report.ok != ok {
                            let name = &operands.name;
                            failures.push(format!("{odd} in {operand}, {what}, {name}: {report}"));
                        }
                    }
                }
                // The sign and the kind matter too.
                let at = problem.c.index(13, 13);
                let mut turned = right.clone();
                turned[at] = if right[at].is_nan() { f32::INFINITY } else { -right[at] };
                cases += 1;
                if operands.checker(Method::Full).check(&turned).ok {
                    failures.push(format!("{odd} in {operand} turned, {}", operands.name));
                }
            }
        }
    }
    for (alpha, beta) in [(f32::NAN, 0.0), (1.0, f32::NAN), (f32::INFINITY, 0.0)] {
        let operands = Operands::new(plain.with_scalars(alpha, beta), Fill::Uniform, 6);
        for method in JUDGES {
            cases += 1;
            let (right, checker) = (operands.correct(), operands.checker(method));
            let mut wrong = right.clone();
            wrong[0] = 0.0;
            if !checker.check(&right).ok || checker.check(&wrong).ok {
                failures.push(format!("alpha {alpha}, beta {beta}, {method}"));
            }
        }
    }
    settle(cases, &failures);
}

#[test]
fn sums_beyond_the_range_may_be_infinite_and_no_others() {
    let problem = Problem::<f32>::new(2, 3, 4);
    let a = [1e30, 1e30, 1e30, 1e30, 1.0, 1.0, 1.0, 1.0];
    let b = [1e30f32; 12];
    for method in [Method::Full, Method::Freivalds, Method::Sample] {
        let checker = Checker::new(&problem, &a, &b, &[], method, 1).unwrap();
        let inf = f32::INFINITY;
        assert!(checker.check(&[inf, inf, inf, 4e30, 4e30, 4e30]).ok);
        for wrong in [
            [inf, inf, -inf, 4e30, 4e30, 4e30],
            [inf, inf, f32::NAN, 4e30, 4e30, 4e30],
            [inf, inf, 3e38, 4e30, 4e30, 4e30],
            [inf, inf, inf, 4e30, 4e30, inf],
            [inf, inf, inf, 4e30, 4.1e30, 4e30],
        ] {
            let report = checker.check(&wrong);
            assert!(!report.ok, "{wrong:?}: {report}");
        }
    }
    // Terms of both signs beyond the range, though the sum is 0: any of these may come out.
    let problem = Problem::<f32>::new(1, 1, 2);
    let checker = Checker::new(&problem, &[1e30, -1e30], &[1e30, 1e30], &[], Method::Full, 1);
    let checker = checker.unwrap();
    for found in [0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        assert!(checker.check(&[found]).ok, "{found}");
    }
    assert!(!checker.check(&[f32::POISON]).ok);
    // f64 has nothing larger to add up in.
    let problem = Problem::<f64>::new(1, 1, 2);
    let huge = [1e300, 1e300];
    let full = Checker::new(&problem, &huge, &huge, &[], Method::Full, 1).unwrap();
    assert!(full.check(&[f64::INFINITY]).ok && !full.check(&[1.0]).ok);
    let refused = Checker::new(&problem, &huge, &huge, &[], Method::Freivalds, 1).err();
    assert_eq!(refused, Some(VerifyError::Range { magnitude: 1e300 }));
}

#[test]
fn results_below_the_normal_range_pass() {
    for method in JUDGES {
        let mut operands = Operands::new(Problem::<f32>::new(20, 30, 40), Fill::Uniform, 4);
        operands.a.iter_mut().for_each(|a| *a *= 1e-20);
        operands.b.iter_mut().for_each(|b| *b *= 1e-21);
        let right = operands.correct();
        assert!(right.iter().any(|c| c.is_subnormal()));
        let report = operands.checker(method).check(&right);
        assert!(report.ok, "{report}");
        let flushed = vec![0.0; right.len()];
        assert!(!operands.checker(method).check(&flushed).ok);
    }
}

#[test]
fn reports_tell_what_was_not_written() {
    for (alpha, beta) in [(1.0, 0.0), (1.0, 2.0)] {
        let problem = Problem::<f32>::new(70, 70, 77).with_scalars(alpha, beta);
        let operands = Operands::new(problem, Fill::Uniform, 3);
        let mut wrong = operands.correct();
        wrong[33 * 70..34 * 70].copy_from_slice(&operands.fresh()[33 * 70..34 * 70]);
        if beta == 0.0 {
            wrong[40 * 70 + 1] = f32::NAN;
        }
        for method in [Method::Full, Method::Freivalds] {
            let report = operands.checker(method).check(&wrong);
            assert_eq!((report.unwritten, report.ok), (70, false), "{report}");
            assert_eq!(report.nan, usize::from(beta == 0.0), "{report}");
            let first = report.first.unwrap();
            assert_eq!((first.row, first.col), (33, 0), "{report}");
            assert!(report.to_string().contains("70 never written"), "{report}");
        }
    }
}

#[test]
fn methods_say_what_they_did() {
    let operands = Operands::new(Problem::<f32>::new(30, 40, 20), Fill::Uniform, 3);
    let c = operands.correct();
    let report = |method| operands.checker(method).check(&c);
    let described = |report: &Report| (report.method, report.checked, report.unit);
    assert_eq!(described(&report(Method::Auto)), ("full", 1200, "elements"));
    assert_eq!(described(&report(Method::Sample)), ("sample", 8 * 40 + 8 * 30 - 8 * 8, "elements"));
    assert_eq!(described(&report(Method::None)), ("none", 0, "elements"));
    assert_eq!(report(Method::None).to_string(), "not checked");
    let freivalds = report(Method::Freivalds);
    assert_eq!(described(&freivalds), ("freivalds", 30, "rows"));
    assert_eq!(freivalds.sampled.unwrap().checked, 4 * 40);
    let short =
        Checker::new(&operands.problem, &operands.a[1..], &operands.b, &[], Method::Full, 1);
    assert!(matches!(short.err(), Some(VerifyError::Shape(_))));
}

#[test]
fn empty_problems_are_right() {
    for (m, n, k) in [(0, 3, 2), (3, 0, 2), (0, 0, 0), (3, 4, 0)] {
        for problem in layouts(Problem::<f32>::new(m, n, k)) {
            let operands = Operands::new(problem, Fill::Uniform, 3);
            for method in JUDGES {
                let right = operands.correct();
                assert!(operands.checker(method).check(&right).ok, "{problem:?} {method}");
            }
        }
    }
    // Without a step of k, C is zero.
    let zero = Problem::<f32>::new(1, 1, 0);
    for method in JUDGES {
        let checker = Checker::new(&zero, &[], &[], &[], method, 1).unwrap();
        assert!(checker.check(&[0.0]).ok && !checker.check(&[1.0]).ok);
    }
}

/// The size of the book's figures.
const LARGE: usize = 10_240;

fn transpose(c: &mut [f32]) {
    const BLOCK: usize = 64;
    for (rows, cols) in
        (0..LARGE / BLOCK).flat_map(|i| (0..=i).map(move |j| (i * BLOCK, j * BLOCK)))
    {
        for row in rows..rows + BLOCK {
            for col in cols..(cols + BLOCK).min(row) {
                c.swap(row * LARGE + col, col * LARGE + row);
            }
        }
    }
}

/// Puts `value(row, col)` into part of C, checks, and puts back what was there.
fn spoil(
    checker: &Checker<'_, f32>,
    c: &mut [f32],
    rows: std::ops::Range<usize>,
    cols: std::ops::Range<usize>,
    value: impl Fn(f32, usize, usize) -> f32,
) -> Report {
    let places = || rows.clone().flat_map(|row| cols.clone().map(move |col| (row, col)));
    let kept: Vec<f32> = places().map(|(row, col)| c[row * LARGE + col]).collect();
    for (row, col) in places() {
        c[row * LARGE + col] = value(c[row * LARGE + col], row, col);
    }
    let report = checker.check(c);
    for ((row, col), kept) in places().zip(kept) {
        c[row * LARGE + col] = kept;
    }
    report
}

/// Attacks a correct C; `stale(row, col)` is what it holds before the last tile of k.
fn attack_large(
    problem: &Problem<f32>,
    [a, b]: [&[f32]; 2],
    c: &mut [f32],
    stale: impl Fn(usize, usize) -> f32,
) {
    assert_eq!(problem.c.order, Order::RowMajor);
    let start = Instant::now();
    let checker = Checker::new(problem, a, b, &[], Method::Auto, 7).expect("they fit");
    let prepared = start.elapsed();
    let start = Instant::now();
    let report = checker.check(c);
    println!("prepared in {prepared:.2?}, checked in {:.2?}: {report}", start.elapsed());
    assert!(report.ok && report.method == "freivalds" && report.checked == LARGE, "{report}");

    let one = spoil(&checker, c, 5000..5001, 77..78, |value, _, _| value + 1.0);
    assert!(one.bad == 1 && one.first.is_some_and(|it| (it.row, it.col) == (5000, 77)), "{one}");
    let nan = spoil(&checker, c, 10_001..10_002, 10_239..10_240, |_, _, _| f32::NAN);
    assert!(nan.bad == 1 && nan.nan == 1 && nan.first.is_some_and(|it| it.col == 10_239), "{nan}");
    let tile = spoil(&checker, c, 3200..3232, 6400..6432, |_, row, col| stale(row, col));
    assert!(!tile.ok && tile.first.is_some_and(|it| (3200..3232).contains(&it.row)), "{tile}");
    let row = spoil(&checker, c, 4097..4098, 0..LARGE, |_, _, _| f32::POISON);
    assert!(!row.ok && row.unwritten == LARGE, "{row}");
    transpose(c);
    let transposed = checker.check(c);
    assert!(!transposed.ok && transposed.bad > LARGE / 2, "{transposed}");
    transpose(c);
    assert!(checker.check(c).ok);
}

/// A matrix of the large size, row by row.
fn large(value: impl Fn(usize, usize) -> f32 + Sync) -> Vec<f32> {
    let mut matrix = vec![0.0; LARGE * LARGE];
    matrix.par_chunks_exact_mut(LARGE).enumerate().for_each(|(row, line)| {
        line.iter_mut().enumerate().for_each(|(col, element)| *element = value(row, col));
    });
    matrix
}

#[test]
fn wrong_products_of_the_largest_size_are_caught() {
    // Rank one in small integers: C_ij = f(i) w(j) * sum of g(k) h(k), without any rounding.
    let f = |i: usize| 2.0 * (i * 7 % 5) as f32 - 3.0;
    let g = |k: usize| (k * 3 % 4) as f32 - 1.0;
    let h = |k: usize| (k % 3) as f32 + 1.0;
    let w = |j: usize| (j % 9) as f32 - 4.0;
    let sum = |k: usize| (0..k).map(|k| g(k) * h(k)).sum::<f32>();
    let problem = Problem::<f32>::new(LARGE, LARGE, LARGE);
    {
        let (a, b) = (large(|i, k| f(i) * g(k)), large(|k, j| h(k) * w(j)));
        let (whole, before) = (sum(LARGE), sum(LARGE - TILE));
        assert_ne!(whole, before);
        let mut c = large(|i, j| f(i) * w(j) * whole);
        let stale = |i, j| f(i) * w(j) * before;
        attack_large(&problem, [&a, &b], &mut c, stale);
    }
    // B moves column k of A, random in [-1, 1], to column 3 k: A is column-major here.
    let random = |i: usize, k: usize| {
        let mixed = ((i * LARGE + k) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 * 2f32.powi(-23)
            - 1.0
    };
    let problem = Problem { a: Layout::col_major(LARGE), ..problem };
    let to = |k: usize| 3 * k % LARGE;
    let mut from = vec![0; LARGE];
    (0..LARGE).for_each(|k| from[to(k)] = k);
    let a = large(|k, i| random(i, k));
    let b = large(|k, j| if j == to(k) { 1.0 } else { 0.0 });
    let mut c = large(|i, j| random(i, from[j]));
    let stale = |i, j| random(i, (from[j] + TILE) % LARGE);
    attack_large(&problem, [&a, &b], &mut c, stale);
}
