//! What every measurement of products is asked for.

use std::num::NonZeroUsize;

use gemm_spec::{Operand, Problem, Types};

use super::{DeviceChoice, Ops};
use crate::error::Error;
use crate::fill::{Distribution, Draw};
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::Method;

/// What the products of a measurement have in common; their sizes and implementations differ.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Element type.
    pub dtype: Types,
    /// Which factors are stored transposed.
    pub ops: Ops,
    /// Scalar that multiplies A B.
    pub alpha: f64,
    /// Scalar that multiplies the old C.
    pub beta: f64,
    /// Processors.
    pub device: DeviceChoice,
    /// CPU threads; `None` takes one for each core.
    pub threads: Option<NonZeroUsize>,
    /// Seed of the inputs and of the check.
    pub seed: u64,
    /// How the inputs are drawn.
    pub distribution: Distribution,
    /// How results are checked.
    pub check: Method,
}

impl Default for Config {
    /// What the command line takes where nothing is said.
    fn default() -> Self {
        Self {
            dtype: Types::F32,
            ops: Ops::Nn,
            alpha: 1.0,
            beta: 0.0,
            device: DeviceChoice::Auto,
            threads: None,
            seed: 1,
            distribution: Distribution::Uniform,
            check: Method::Auto,
        }
    }
}

impl Config {
    /// The product of these sizes, m, n and k.
    ///
    /// # Errors
    /// [`tessera::Error::Shape`] for sizes whose operands no machine can address.
    pub(crate) fn problem<T: ScalarTypes>(&self, size: [usize; 3]) -> Result<Problem<T>, Error> {
        let [m, n, k] = size;
        let (alpha, beta) = (T::Acc::from_f64(self.alpha), T::Acc::from_f64(self.beta));
        let problem = self.ops.of(Problem::<T>::new(m, n, k).with_scalars(alpha, beta));
        for operand in [Operand::A, Operand::B, Operand::C] {
            problem.required_len(operand)?;
        }
        Ok(problem)
    }

    /// How operands are drawn; sets of operands of different streams have different numbers.
    pub(crate) fn draw(&self, stream: u64) -> Draw {
        let Self { distribution, seed, .. } = *self;
        Draw { distribution, seed, stream, what: "an operand" }
    }
}
