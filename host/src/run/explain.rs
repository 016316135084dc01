//! Why a row is wrong: a diagnosis of its result, and of one more run on data that tells more.

use gemm_spec::Problem;
use serde::Serialize;

use super::plan::RowPlan;
use crate::error::Error;
use crate::fill::{Distribution, Draw};
use crate::measure::Inputs;
use crate::scalar::ScalarTypes;
use crate::verify::{Diagnosis, Evidence, Mismatch, diagnose};

/// What a wrong result looks like, and on which data that was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Rows of A and C of the run that was diagnosed.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Whether this was a second, smaller run on inputs that tell their places.
    pub rerun: bool,
    /// The first wrong element seen in it.
    pub first: Mismatch,
    /// What it looks like, the likeliest first.
    pub diagnoses: Vec<Diagnosis>,
}

impl Explanation {
    fn confidence(&self) -> f64 {
        self.diagnoses.first().map_or(0.0, |diagnosis| diagnosis.confidence)
    }
}

impl RowPlan<'_> {
    /// The surer diagnosis of two: of a wrong result, and of the result of a second, small run
    /// on position-coded inputs with numbers in C.
    pub(super) fn explain<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        inputs: &Inputs<T>,
        c: &[T::C],
        hint: Option<(usize, usize)>,
    ) -> Option<Explanation> {
        let Inputs { a, b, c: before } = inputs;
        let own = explanation(&Evidence { problem, a, b, c_before: before, c, hint }, false);
        let rerun = || {
            self.rerun(&small(problem, self.quick_size())).inspect_err(|error| {
                tracing::warn!(%error, "the second run of {} failed", self.id());
            })
        };
        let other = rerun().ok().flatten();
        // What both say as well is said of the user's own data.
        match (own, other) {
            (Some(own), Some(other)) if other.confidence() > own.confidence() => Some(other),
            (own, other) => own.or(other),
        }
    }

    fn rerun<T: ScalarTypes>(&self, problem: &Problem<T>) -> Result<Option<Explanation>, Error> {
        let distribution = Distribution::Position;
        let draw = Draw { distribution, seed: 0, stream: 0, what: "a second run" };
        let inputs = Inputs::draw(problem, draw)?;
        let c = self.compute(problem, &inputs)?;
        let Inputs { a, b, c: before } = &inputs;
        let evidence = Evidence { c_before: before, ..Evidence::new(problem, a, b, &c) };
        Ok(explanation(&evidence, true))
    }
}

fn explanation<T: ScalarTypes>(evidence: &Evidence<'_, T>, rerun: bool) -> Option<Explanation> {
    let case = diagnose(evidence).ok().flatten()?;
    let Problem { m, n, k, .. } = *evidence.problem;
    Some(Explanation { m, n, k, rerun, first: case.first, diagnoses: case.diagnoses })
}

/// A packed problem of less than twice that size, which leaves over what the large one does where
/// tiles are no wider than the size.
fn small<T: ScalarTypes>(problem: &Problem<T>, base: usize) -> Problem<T> {
    let [m, n, k] = [problem.m, problem.n, problem.k]
        .map(|size| if size < base { size } else { base + size % base });
    Problem::new(m, n, k).with_scalars(problem.alpha, problem.beta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_problems_leave_over_what_large_ones_do() {
        let large = Problem::<f32>::new(10_240, 1003, 77).with_scalars(2.0, 3.0);
        let small = small(&large, 128);
        assert_eq!((small.m, small.n, small.k), (128, 128 + 1003 % 128, 77));
        assert_eq!((small.alpha, small.beta), (2.0, 3.0));
        for width in [2, 4, 8, 16, 32, 64, 128] {
            assert_eq!(small.n % width, large.n % width);
        }
    }
}
