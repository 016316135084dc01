//! The table of cases that every implementation is held to, and how a case is run.

use std::fmt;

use gemm_spec::{Element, Layout};
use lab::fill::{Distribution, fill};
use lab::verify::Guarded;
use lab::{Operand, Problem, Scalar, ScalarTypes};

/// One problem: sizes, padding of each row, scalars, and how the inputs are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Elements between the end of a row and the next, for A, B and C.
    pub(crate) padding: [usize; 3],
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) distribution: Distribution,
}

impl Case {
    pub(crate) const fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            m,
            n,
            k,
            padding: [0; 3],
            alpha: 1.0,
            beta: 0.0,
            distribution: Distribution::Uniform,
        }
    }

    pub(crate) fn problem<T: ScalarTypes>(&self) -> Problem<T> {
        let [a, b, c] = self.padding;
        Problem::new(self.m, self.n, self.k)
            .with_scalars(T::Acc::from_f64(self.alpha), T::Acc::from_f64(self.beta))
            .with_layouts(
                Layout::row_major(self.k + a),
                Layout::row_major(self.n + b),
                Layout::row_major(self.n + c),
            )
    }
}

impl fmt::Display for Case {
    /// The command that repeats the case, padding aside.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "-m {} -n {} -k {} --alpha {} --beta {} --dist {} (row padding {:?})",
            self.m, self.n, self.k, self.alpha, self.beta, self.distribution, self.padding
        )
    }
}

/// Shapes that hurt an implementation with square tiles of that width, with every kind of scalar
/// and padding among them.
pub(crate) fn cases(tile: usize) -> Vec<Case> {
    let t = tile;
    let shapes = [
        (1, 1, 1),
        (t, t, t),
        (t.max(2) - 1, t + 1, t),
        (t + 1, t.max(2) - 1, t + 1),
        // Three tiles and more along k: one that is lost or counted twice shows.
        (t, t, 3 * t),
        (t + 1, 2 * t, 3 * t + 1),
        (1, 2 * t + 1, 5),
        (2 * t + 1, 1, 7),
        (t, t, 1),
        (3, 5, 1),
        (37, 23, 41),
        (5, 67, 3),
        (67, 5, 2 * t + 3),
        (2 * t + 3, 3, t + 2),
    ];
    let scalars = [(1.0, 0.0), (1.5, -0.5), (1.0, 1.0), (-2.0, 0.0), (0.5, 2.0), (0.0, 0.5)];
    let paddings = [[0, 0, 0], [3, 0, 1], [0, 5, 0], [1, 1, 1], [0, 0, 7]];
    let distributions = [Distribution::Uniform, Distribution::Position, Distribution::Normal];
    shapes
        .into_iter()
        .enumerate()
        .flat_map(|(index, (m, n, k))| {
            // Two of the combinations for each shape, so that all pairs occur in the table.
            [index, index + 1].map(|turn| {
                let (alpha, beta) = scalars[turn % scalars.len()];
                Case {
                    padding: paddings[turn % paddings.len()],
                    alpha,
                    beta,
                    distribution: distributions[turn % distributions.len()],
                    ..Case::new(m, n, k)
                }
            })
        })
        .collect()
}

/// Operands of a case. What must not be read is NaN: padding always, A and B where alpha is zero.
pub(crate) struct Operands<T: ScalarTypes> {
    pub(crate) problem: Problem<T>,
    pub(crate) a: Vec<T::A>,
    pub(crate) b: Vec<T::B>,
    pub(crate) c: Vec<T::C>,
}

impl<T: ScalarTypes> Operands<T> {
    pub(crate) fn draw(case: &Case) -> Self {
        let problem = case.problem::<T>();
        let read = problem.alpha != T::Acc::ZERO;
        Self {
            problem,
            a: drawn(&problem, Operand::A, read, case.distribution),
            b: drawn(&problem, Operand::B, read, case.distribution),
            c: match problem.beta == T::Acc::ZERO {
                true => Vec::new(),
                false => drawn(&problem, Operand::C, true, case.distribution),
            },
        }
    }

    /// Runs something on a poisoned C between guard words; a write outside C is an error.
    pub(crate) fn run(
        &self,
        run: impl FnOnce(&Problem<T>, &[T::A], &[T::B], &mut Guarded<T>) -> Result<(), String>,
    ) -> Result<Vec<T::C>, String> {
        let mut c = Guarded::new(&self.problem).map_err(|error| error.to_string())?;
        c.poison(&self.c);
        run(&self.problem, &self.a, &self.b, &mut c)?;
        c.intact().map_err(|error| error.to_string())?;
        Ok(c.as_slice().to_vec())
    }
}

fn drawn<T: ScalarTypes, E: Scalar>(
    problem: &Problem<T>,
    operand: Operand,
    used: bool,
    distribution: Distribution,
) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let ld = problem.layout(operand).ld;
    let mut data = vec![E::POISON; rows * ld];
    if used {
        fill(&mut data, cols, ld, distribution, 1, operand as u64);
    }
    data
}

/// The first element of C whose bits differ, in words.
pub(crate) fn first_difference<T: ScalarTypes>(
    problem: &Problem<T>,
    found: &[T::C],
    expected: &[T::C],
) -> Option<String> {
    for row in 0..problem.m {
        for col in 0..problem.n {
            let index = problem.c.index(row, col);
            let (found, expected) = (found[index], expected[index]);
            if !found.same_bits(expected) {
                return Some(format!("C({row},{col}) is {found}, serial has {expected}"));
            }
        }
    }
    None
}

/// Fails with all failures, each on its line.
pub(crate) fn report(failures: Vec<String>) -> Result<(), String> {
    if failures.is_empty() { Ok(()) } else { Err(format!("\n{}", failures.join("\n"))) }
}
