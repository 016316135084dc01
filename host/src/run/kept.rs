//! What rows of a run hand on.

use gemm_spec::Problem;

use crate::error::Error;
use crate::gpu::Operands;
use crate::scalar::ScalarTypes;
use crate::verify::Guarded;

/// What a row leaves to the next one, so that it is made once: hundreds of megabytes take longer to be
/// had from the system than to be multiplied.
pub(super) struct Kept<'d, T: ScalarTypes> {
    /// A and B on the device.
    pub(super) operands: Option<Operands<'d, T>>,
    /// Buffers for C that nobody uses.
    results: Vec<Guarded<T>>,
}

impl<T: ScalarTypes> Default for Kept<'_, T> {
    fn default() -> Self {
        Self { operands: None, results: Vec::new() }
    }
}

impl<T: ScalarTypes> Kept<'_, T> {
    /// A buffer for C; whatever it holds is to be poisoned.
    pub(super) fn result(&mut self, problem: &Problem<T>) -> Result<Guarded<T>, Error> {
        Ok(match self.results.pop() {
            Some(result) => result,
            None => Guarded::new(problem)?,
        })
    }

    /// Takes a buffer back.
    pub(super) fn keep(&mut self, result: Guarded<T>) {
        self.results.push(result);
    }
}
