//! Drawn problems of any layout, and what is compared.

use std::num::NonZeroUsize;

use gemm_spec::Element;
use lab::cpu::{CPU, CpuContext, CpuImpl, CpuIsa, engine_definition};
use lab::{Layout, Operand, Problem, Scalar, ScalarTypes};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) fn packed() -> &'static CpuImpl {
    CPU.iter().find(|implementation| implementation.id == "cpu_packed").expect("it is registered")
}

pub(crate) fn context(isa: CpuIsa, threads: usize) -> CpuContext {
    CpuContext::with_isa(NonZeroUsize::new(threads), isa).expect("the CPU has it")
}

/// Operands of a problem, in buffers that end with their last element. What must not be read is NaN.
pub(crate) struct Operands<T: ScalarTypes> {
    pub(crate) problem: Problem<T>,
    pub(crate) a: Vec<T::A>,
    pub(crate) b: Vec<T::B>,
    pub(crate) c: Vec<T::C>,
}

impl<T: ScalarTypes> Operands<T> {
    pub(crate) fn draw(problem: Problem<T>, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let read = problem.effective_k() > 0;
        let a = drawn(&problem, Operand::A, read, &mut random);
        let b = drawn(&problem, Operand::B, read, &mut random);
        let c = drawn(&problem, Operand::C, problem.beta != T::Acc::ZERO, &mut random);
        Self { problem, a, b, c }
    }

    pub(crate) fn by(&self, implementation: &CpuImpl, context: &CpuContext) -> Vec<T::C> {
        let mut c = self.c.clone();
        implementation
            .gemm::<T>(&self.problem, &self.a, &self.b, &mut c, context)
            .expect("the buffers fit");
        c
    }

    /// What the definition of the engine's sums gives for row-major copies, put where C's layout says.
    pub(crate) fn expected(&self) -> Vec<T::C> {
        let Problem { m, n, k, .. } = self.problem;
        let plain = Problem::<T>::new(m, n, k).with_scalars(self.problem.alpha, self.problem.beta);
        let problem = &self.problem;
        let a = copied(problem, Operand::A, &self.a);
        let b = copied(problem, Operand::B, &self.b);
        let mut found = copied(problem, Operand::C, &self.c);
        engine_definition(&plain, &a, &b, &mut found);
        // Padding stays as it was.
        let mut c = self.c.clone();
        for row in 0..m {
            for col in 0..n {
                c[self.problem.c.index(row, col)] = found[row * n + col];
            }
        }
        c
    }
}

/// An operand of random elements; of small integers all that there are, the least and the largest often.
pub(crate) fn drawn<T: ScalarTypes, E: Scalar>(
    problem: &Problem<T>,
    operand: Operand,
    read: bool,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let layout = problem.layout(operand);
    let mut data = vec![E::POISON; layout.required_len(rows, cols).expect("it is small")];
    let range = if size_of::<E>() == 1 { 160.0 } else { 8.0 };
    if read {
        for row in 0..rows {
            for col in 0..cols {
                data[layout.index(row, col)] = E::from_f64(random.random_range(-range..range));
            }
        }
    }
    data
}

/// A row-major copy of an operand.
pub(crate) fn copied<T: ScalarTypes, E: Scalar>(
    problem: &Problem<T>,
    operand: Operand,
    data: &[E],
) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let layout = problem.layout(operand);
    (0..rows * cols).map(|i| data[layout.index(i / cols, i % cols)]).collect()
}

/// The first difference in bits, NaN being like any other NaN.
pub(crate) fn difference<T: Scalar>(found: &[T], expected: &[T]) -> Option<String> {
    let same = |x: T, y: T| x.same_bits(y) || (x.is_nan() && y.is_nan());
    let at = found.iter().zip(expected).position(|(&x, &y)| !same(x, y))?;
    Some(format!("element {at} of C's buffer is {}, by the definition {}", found[at], expected[at]))
}

pub(crate) fn layout(random: &mut Xoshiro256PlusPlus, rows: usize, cols: usize) -> Layout {
    let padding = [0, 0, 1, 3, 16][random.random_range(0..5)];
    match random.random::<bool>() {
        true => Layout::row_major(cols + padding),
        false => Layout::col_major(rows + padding),
    }
}

/// A problem with sizes round those where tiles and blocks end.
pub(crate) fn some_problem<T: ScalarTypes>(random: &mut Xoshiro256PlusPlus) -> Problem<T> {
    const EDGES: [usize; 22] =
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 23, 31, 33, 47, 48, 49, 65, 97, 129];
    const DEEP: [usize; 13] = [1, 2, 7, 8, 9, 15, 17, 64, 129, 257, 385, 790, 1100];
    let mut size = || match random.random_range(0..4) {
        0 => random.random_range(1..200),
        _ => EDGES[random.random_range(0..EDGES.len())],
    };
    let (m, n) = (size(), size());
    let k = DEEP[random.random_range(0..DEEP.len())];
    let factors = [0.0, 1.0, -1.0, 1.5];
    let mut factor = || T::Acc::from_f64(factors[random.random_range(0..factors.len())]);
    let (alpha, beta) = (factor(), factor());
    Problem::new(m, n, k).with_scalars(alpha, beta).with_layouts(
        layout(random, m, k),
        layout(random, k, n),
        layout(random, m, n),
    )
}
