//! What a result is judged against: the problem with the operands it reads.

use std::any::Any;

use gemm_spec::{Convert, Element, Layout, Operand, Order, Problem, ShapeError, bf16, f16};

use super::bound::{self, Format};
use crate::scalar::{Scalar, ScalarTypes};

/// [`Scalar::to_f64`], inlined into loops in every profile: a call for each element would take
/// most of a check's time.
#[inline(always)]
pub(super) fn real<T: Scalar>(value: T) -> f64 {
    let any: &dyn Any = &value;
    if let Some(&value) = any.downcast_ref::<f32>() {
        f64::from(value)
    } else if let Some(&value) = any.downcast_ref::<f64>() {
        value
    } else if let Some(&value) = any.downcast_ref::<f16>() {
        f64::from(value.widen())
    } else if let Some(&value) = any.downcast_ref::<bf16>() {
        f64::from(value.widen())
    } else {
        value.to_f64()
    }
}

/// A matrix in its buffer, seen as contiguous lines: rows where it is row-major, else columns.
#[derive(Clone, Copy)]
pub(super) struct View<'a, T> {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) layout: Layout,
    data: &'a [T],
}

impl<'a, T: Copy> View<'a, T> {
    pub(super) fn new(rows: usize, cols: usize, layout: Layout, data: &'a [T]) -> Self {
        Self { rows, cols, layout, data }
    }

    pub(super) fn data(&self) -> &'a [T] {
        self.data
    }

    pub(super) fn by_rows(&self) -> bool {
        self.layout.order == Order::RowMajor
    }

    pub(super) fn lines(&self) -> usize {
        if self.by_rows() { self.rows } else { self.cols }
    }

    pub(super) fn line_len(&self) -> usize {
        if self.by_rows() { self.cols } else { self.rows }
    }

    /// Line `index` without the padding behind it.
    pub(super) fn line(&self, index: usize) -> &'a [T] {
        match self.line_len() {
            0 => &[],
            len => &self.data[index * self.layout.ld..][..len],
        }
    }

    pub(super) fn at(&self, row: usize, col: usize) -> T {
        self.data[self.layout.index(row, col)]
    }

    pub(super) fn transposed(&self) -> Self {
        Self::new(self.cols, self.rows, self.layout.transposed(), self.data)
    }
}

/// The problem and its operands, of which only what the problem reads is ever touched: no A and B
/// where alpha is zero, no old C where beta is zero.
#[derive(Clone, Copy)]
pub(super) struct Source<'a, T: ScalarTypes> {
    pub(super) problem: Problem<T>,
    pub(super) a: View<'a, T::A>,
    pub(super) b: View<'a, T::B>,
    pub(super) c_before: Option<View<'a, T::C>>,
    /// By how much of itself each product may be off.
    factors: f64,
}

impl<'a, T: ScalarTypes> Source<'a, T> {
    pub(super) fn new(
        problem: &Problem<T>,
        a: &'a [T::A],
        b: &'a [T::B],
        c_before: &'a [T::C],
    ) -> Result<Self, ShapeError> {
        problem.required_len(Operand::C)?;
        let reads_c = problem.beta != T::Acc::ZERO;
        let mut read = vec![];
        if problem.effective_k() > 0 {
            read.extend([(Operand::A, a.len()), (Operand::B, b.len())]);
        }
        if reads_c {
            read.push((Operand::C, c_before.len()));
        }
        for (operand, len) in read {
            let needed = problem.required_len(operand)?;
            if len < needed {
                return Err(ShapeError::BufferTooShort { operand, len, needed });
            }
        }
        let (m, n, k) = (problem.m, problem.n, problem.effective_k());
        Ok(Self {
            problem: *problem,
            a: View::new(m, k, problem.a, a),
            b: View::new(k, n, problem.b, b),
            c_before: reads_c.then(|| View::new(m, n, problem.c, c_before)),
            factors: 0.0,
        })
    }

    /// Products that one element of C sums up.
    pub(super) fn depth(&self) -> usize {
        self.a.cols
    }

    /// A result in its buffer.
    pub(super) fn result<'c>(&self, c: &'c [T::C]) -> View<'c, T::C> {
        View::new(self.problem.m, self.problem.n, self.problem.c, c)
    }

    /// The same product written the other way round, over the same buffers.
    pub(super) fn transposed(&self) -> Source<'a, T::Transposed> {
        Source {
            problem: self.problem.transposed(),
            a: self.b.transposed(),
            b: self.a.transposed(),
            c_before: self.c_before.map(|c| c.transposed()),
            factors: self.factors,
        }
    }

    /// The same where each product `a * b` may be off by that much of itself, its factors being rounded.
    pub(super) fn of_rounded_factors(self, factors: f64) -> Self {
        Self { factors, ..self }
    }

    /// What that adds to a bound, in units of the roundoff of sums.
    pub(super) fn units_of_factors(&self) -> f64 {
        if self.factors == 0.0 { 0.0 } else { self.factors / Format::of(T::TYPES).roundoff }
    }

    /// The bound for an element of C, see [`bound::elementwise`].
    pub(super) fn elementwise(&self) -> f64 {
        bound::elementwise(self.depth()) + self.units_of_factors()
    }
}
