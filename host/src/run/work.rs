//! A problem at work: its operands, its check, and what rows hand on.

use gemm_spec::{Element, Problem};

use crate::error::Error;
use crate::gpu::Operands;
use crate::measure::{Config, Inputs, Room};
use crate::scalar::ScalarTypes;
use crate::verify::{Checker, Guarded, Method};

/// What all rows of a problem share. What a row leaves to the next one is made once: hundreds of
/// megabytes take longer to allocate than to be multiplied.
pub(super) struct Work<'d, 'r, T: ScalarTypes> {
    pub(super) problem: &'r Problem<T>,
    pub(super) inputs: &'r Inputs<T>,
    pub(super) checker: Checker<'r, T>,
    /// A and B on the device.
    pub(super) operands: Option<Operands<'d, T>>,
    /// Buffers for C that nobody uses.
    results: Vec<Guarded<T>>,
}

impl<'r, T: ScalarTypes> Work<'_, 'r, T> {
    /// Prepares the check.
    pub(super) fn new(
        problem: &'r Problem<T>,
        inputs: &'r Inputs<T>,
        config: &Config,
    ) -> Result<Self, Error> {
        let Inputs { a, b, c } = inputs;
        let checker = Checker::new(problem, a, b, c, config.check, config.seed)?;
        Ok(Self { problem, inputs, checker, operands: None, results: Vec::new() })
    }

    /// A buffer for C; whatever it holds is to be poisoned.
    pub(super) fn result(&mut self) -> Result<Guarded<T>, Error> {
        Ok(match self.results.pop() {
            Some(result) => result,
            None => Guarded::new(self.problem)?,
        })
    }

    /// Takes a buffer back.
    pub(super) fn keep(&mut self, result: Guarded<T>) {
        self.results.push(result);
    }
}

/// Refuses before anything is allocated what the memory cannot hold: the operands, a result, and the
/// reference of the check.
pub(super) fn check_memory<T: ScalarTypes>(
    problem: &Problem<T>,
    check: Method,
) -> Result<(), Error> {
    let of_c = if problem.beta == T::Acc::ZERO { 1 } else { 2 };
    let room = Room { sets: 1, of_c, check };
    room.check(problem, &room.of_a_product(problem))
}
