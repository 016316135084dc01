//! The evidence: the problem, its operands, the wrong result, and elements to test guesses on.

use gemm_spec::{AccType, Accumulator, Element, Operand, Problem, epilogue};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::super::bound::{self, Format, rounding};
use super::super::report::Mismatch;
use super::super::sample::any_of;
use super::super::source::{View, real};
use crate::scalar::{Scalar, ScalarTypes};

/// Multiply-adds spent on telling right elements from wrong ones.
const MAP_PRODUCTS: usize = 1 << 24;
/// Elements told apart at most.
const MAP_ELEMENTS: usize = 1 << 18;
/// Wrong elements that guesses are tested on.
const WRONG: usize = 128;
/// Right ones.
const RIGHT: usize = 64;

/// What a guess says of an element: a value, give or take what rounding may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) tolerance: f64,
    /// `|alpha||A||B| + |beta||C0|` of what was added.
    pub(super) scale: f64,
}

impl Value {
    pub(super) fn fits(&self, found: f64) -> bool {
        (found - self.value).abs() <= self.tolerance
    }
}

/// A sum of products on its way.
#[derive(Clone, Copy)]
pub(super) struct Sum<T: ScalarTypes> {
    pub(super) real: f64,
    pub(super) scale: f64,
    whole: T::Acc,
    /// Whether nothing but integers was added.
    integral: bool,
}

impl<T: ScalarTypes> Sum<T> {
    pub(super) const ZERO: Self =
        Self { real: 0.0, scale: 0.0, whole: T::Acc::ZERO, integral: true };

    #[inline]
    pub(super) fn add(&mut self, a: T::A, b: T::B) {
        if T::TYPES.is_integer() {
            self.whole = T::mul_add(a, b, self.whole);
        } else {
            let product = real(a) * real(b);
            self.real += product;
            self.scale += product.abs();
            self.integral &= product.trunc() == product;
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            real: self.real + other.real,
            scale: self.scale + other.scale,
            whole: T::Acc::ONE.mul_add(self.whole, other.whole),
            integral: self.integral && other.integral,
        }
    }

    /// The sum itself; integers as they wrapped.
    pub(super) fn value(&self) -> f64 {
        if T::TYPES.is_integer() { self.whole.to_f64() } else { self.real }
    }
}

/// An element that was looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) row: usize,
    pub(super) col: usize,
    pub(super) found: f64,
    /// What the right result holds.
    pub(super) right: Value,
    pub(super) state: State,
    /// Whether it is what C held before the run.
    pub(super) untouched: bool,
}

/// What is to be said of an element without any guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Right,
    Wrong,
    /// Wrong, and as it was before the run.
    Unwritten,
}

/// The evidence.
pub(super) struct Scene<'a, T: ScalarTypes> {
    pub(super) problem: Problem<T>,
    pub(super) a: View<'a, T::A>,
    pub(super) b: View<'a, T::B>,
    pub(super) c: View<'a, T::C>,
    /// What C held before; poison where it is not known.
    pub(super) before: Option<View<'a, T::C>>,
    pub(super) alpha: f64,
    pub(super) beta: f64,
    /// k elements that are summed.
    pub(super) depth: usize,
    format: Format,
}

impl<'a, T: ScalarTypes> Scene<'a, T> {
    pub(super) fn new(
        problem: &Problem<T>,
        a: &'a [T::A],
        b: &'a [T::B],
        before: &'a [T::C],
        c: &'a [T::C],
    ) -> Self {
        let Problem { m, n, .. } = *problem;
        let depth = problem.effective_k();
        let before = (!before.is_empty()).then(|| View::new(m, n, problem.c, before));
        Self {
            problem: *problem,
            a: View::new(m, depth, problem.a, a),
            b: View::new(depth, n, problem.b, b),
            c: View::new(m, n, problem.c, c),
            before,
            alpha: problem.alpha.to_f64(),
            beta: problem.beta.to_f64(),
            depth,
            format: Format::of(T::TYPES),
        }
    }

    /// An element of A; zero outside, as a guarded load gives it.
    #[inline]
    pub(super) fn a_at(&self, row: usize, step: usize) -> T::A {
        if row < self.a.rows && step < self.depth { self.a.at(row, step) } else { T::A::ZERO }
    }

    /// An element of B; zero outside.
    #[inline]
    pub(super) fn b_at(&self, step: usize, col: usize) -> T::B {
        if step < self.depth && col < self.b.cols { self.b.at(step, col) } else { T::B::ZERO }
    }

    /// The product of a row of A and a column of B over some steps.
    pub(super) fn dot(&self, row: usize, col: usize, steps: std::ops::Range<usize>) -> Sum<T> {
        let mut sum = Sum::ZERO;
        for step in steps {
            sum.add(self.a_at(row, step), self.b_at(step, col));
        }
        sum
    }

    /// What is stored at (row, col) for a sum, with the problem's factors.
    pub(super) fn store(&self, row: usize, col: usize, sum: &Sum<T>) -> Value {
        self.store_with(row, col, sum, self.alpha, self.beta)
    }

    /// What is stored at (row, col) for a sum, with these factors. The old C is not looked at where
    /// it is not known.
    pub(super) fn store_with(
        &self,
        row: usize,
        col: usize,
        sum: &Sum<T>,
        alpha: f64,
        beta: f64,
    ) -> Value {
        let before = match self.before {
            Some(before) if beta != 0.0 => before.at(row, col),
            _ => T::C::ZERO,
        };
        if T::TYPES.is_integer() {
            let (alpha, beta) = (T::Acc::from_f64(alpha), T::Acc::from_f64(beta));
            let value = epilogue(alpha, sum.whole, beta, || before).to_f64();
            return Value { value, tolerance: 0.0, scale: value.abs() };
        }
        let old = beta * real(before);
        let value = alpha * sum.real + old;
        let scale = alpha.abs() * sum.scale + old.abs();
        let integral = |x: f64| x.trunc() == x;
        let exact = sum.integral
            && integral(alpha)
            && integral(old)
            && scale.max(sum.scale) <= self.format.exact_limit;
        if exact {
            return Value { value: T::C::from_f64(value).to_f64(), tolerance: 0.0, scale };
        }
        let last = if T::ROUNDS { rounding(T::C::from_f64(value)) } else { 0.0 };
        let tolerance = self.tolerance(scale, alpha) + last;
        Value { value, tolerance, scale }
    }

    /// What rounding may do to a value of that scale. The sums here are plain ones, so that f64 has
    /// their own rounding to allow for.
    pub(super) fn tolerance(&self, scale: f64, alpha: f64) -> f64 {
        let own = if T::TYPES.acc() == AccType::F64 { 2.0 } else { 1.0 };
        own * bound::elementwise(self.depth) * self.format.roundoff * scale
            + bound::underflow(self.depth, alpha, self.format)
    }

    /// Units of roundoff in an error.
    pub(super) fn units(&self, error: f64, scale: f64) -> f64 {
        error / (self.format.roundoff * scale)
    }

    /// Looks at one element; nothing where the right value is not finite or out of range, so that
    /// there is no telling.
    pub(super) fn look(&self, row: usize, col: usize) -> Option<Sample> {
        let right = self.store(row, col, &self.dot(row, col, 0..self.depth));
        if !right.value.is_finite() || right.scale > self.format.element_max / 4.0 {
            return None;
        }
        let element = self.c.at(row, col);
        let found = element.to_f64();
        let untouched = match self.before {
            Some(before) => element.same_bits(before.at(row, col)),
            None => element.same_bits(T::C::POISON),
        };
        let state = match right.fits(found) {
            true => State::Right,
            false if untouched => State::Unwritten,
            false => State::Wrong,
        };
        Some(Sample { row, col, found, right, state, untouched })
    }

    /// Looks at all of C, or at some rows and columns of it where that is too much; `hint` is an
    /// element known to be wrong.
    pub(super) fn survey(&self, hint: Option<(usize, usize)>) -> Survey {
        let Problem { m, n, .. } = self.problem;
        let elements = (MAP_PRODUCTS / self.depth.max(1)).min(MAP_ELEMENTS);
        let whole = m.saturating_mul(n) <= elements;
        let random = &mut Xoshiro256PlusPlus::seed_from_u64(0x7e55_e7a0);
        let (rows, cols) = if whole {
            ((0..m).collect(), (0..n).collect())
        } else {
            let side = elements.isqrt().clamp(16, 256);
            let rows =
                lines(m, side.max(elements / n.max(1)).min(1024), hint.map(|at| at.0), random);
            let cols = lines(n, (elements / rows.len()).max(16), hint.map(|at| at.1), random);
            (rows, cols)
        };
        let mut survey = Survey { whole, ..Survey::default() };
        let mut right = Vec::new();
        for &row in &rows {
            for &col in &cols {
                let Some(sample) = self.look(row, col) else { continue };
                survey.looked += 1;
                match sample.state {
                    State::Right => right.push(sample),
                    State::Wrong => survey.wrong.push(sample),
                    State::Unwritten => survey.unwritten.push(sample),
                }
            }
        }
        survey.wrong_count = survey.wrong.len();
        survey.unwritten_count = survey.unwritten.len();
        let bad = survey.wrong.iter().chain(&survey.unwritten);
        survey.first = bad.min_by_key(|sample| (sample.row, sample.col)).map(|sample| Mismatch {
            row: sample.row,
            col: sample.col,
            found: sample.found,
            expected: sample.right.value,
        });
        survey.edges = edges(&survey.wrong, &survey.unwritten);
        survey.written_end = written_end(&survey.wrong, &right);
        for (samples, count) in
            [(&mut survey.wrong, WRONG), (&mut survey.unwritten, WRONG), (&mut right, RIGHT)]
        {
            choose(samples, count, random);
        }
        survey.right = right;
        survey
    }
}

/// What a look at C gave.
#[derive(Default)]
pub(super) struct Survey {
    /// Whether every element was looked at.
    pub(super) whole: bool,
    pub(super) looked: usize,
    pub(super) wrong_count: usize,
    pub(super) unwritten_count: usize,
    pub(super) first: Option<Mismatch>,
    /// Rows and columns where wrong ones begin or end, which may be a tile's edge.
    pub(super) edges: Vec<usize>,
    /// The first row and column behind everything that was written.
    pub(super) written_end: (usize, usize),
    /// Some of each.
    pub(super) right: Vec<Sample>,
    pub(super) wrong: Vec<Sample>,
    pub(super) unwritten: Vec<Sample>,
}

/// Lines to look at: the ends, the hint, a run of neighbours, and random ones.
fn lines(
    len: usize,
    count: usize,
    hint: Option<usize>,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<usize> {
    if len <= count {
        return (0..len).collect();
    }
    let quarter = count / 4;
    let mut chosen: Vec<usize> = (0..quarter).chain(len - quarter..len).collect();
    chosen.extend(hint);
    while chosen.len() < count {
        chosen.push(any_of(len, random));
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Keeps `count` samples at random, in their order. Random, since a regular step would meet the same
/// place of every tile.
fn choose(samples: &mut Vec<Sample>, count: usize, random: &mut Xoshiro256PlusPlus) {
    let mut left = samples.len();
    let mut wanted = count.min(left);
    samples.retain(|_| {
        let take = (random.next_u64() % left as u64) < wanted as u64;
        left -= 1;
        wanted -= usize::from(take);
        take
    });
}

/// Where runs of rows, and of columns, with something wrong in them begin and end.
fn edges(wrong: &[Sample], unwritten: &[Sample]) -> Vec<usize> {
    let mut edges = Vec::new();
    for samples in [wrong, unwritten] {
        for axis in [|s: &Sample| s.row, |s: &Sample| s.col] {
            let mut lines: Vec<usize> = samples.iter().map(axis).collect();
            lines.sort_unstable();
            lines.dedup();
            let mut last = None;
            for &line in &lines {
                if last.is_none_or(|last| line != last + 1) {
                    edges.push(line);
                    edges.extend(last.map(|last: usize| last + 1));
                }
                last = Some(line);
            }
            edges.extend(last.map(|last| last + 1));
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges.retain(|&edge| edge > 1);
    edges.truncate(16);
    edges
}

fn written_end(wrong: &[Sample], right: &[Sample]) -> (usize, usize) {
    // An element may be right without having been written: what was there before was.
    let written = || wrong.iter().chain(right.iter().filter(|sample| !sample.untouched));
    let end = |axis: fn(&Sample) -> usize| written().map(|s| axis(s) + 1).max().unwrap_or(0);
    (end(|s| s.row), end(|s| s.col))
}

/// The operands that a wrong leading dimension may hit.
pub(super) const OPERANDS: [Operand; 3] = [Operand::A, Operand::B, Operand::C];
