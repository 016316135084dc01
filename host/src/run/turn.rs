//! One problem by implementations in the order given, each row handed over as soon as it is there.
//!
//! It is how a sweep runs: a steward says before each implementation whether it may run and how
//! often, and takes what came of it.

use std::time::{Duration, Instant};

use gemm_spec::{Operand, Problem};

use super::candidate::Candidate;
use super::kept::Kept;
use super::{Config, Failure, Inputs, Observer, Processors, Row, check_memory};
use crate::error::Error;
use crate::measure::Effort;
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::Checker;
use gemm_spec::with_gemm_types;

/// Predicts the seconds of an implementation from probes that may take so long.
pub(crate) type Probe<'p> = &'p mut dyn FnMut(Duration) -> Result<f64, Error>;

/// Who decides what is run, and takes the rows.
pub(crate) trait Steward {
    /// How often an implementation may be repeated on a problem of so many operations, or why it is
    /// not run at all.
    fn grant(
        &mut self,
        kernel: &'static str,
        flops: f64,
        probe: Probe<'_>,
    ) -> Result<Effort, String>;

    /// What is about to run, in words.
    fn announce(&self, kernel: &'static str) -> String;

    /// A row, or why there is none, in the order of the implementations; `spent` counts repeats and
    /// the check.
    ///
    /// # Errors
    /// What keeps the row from being written: nothing more is run.
    fn take(
        &mut self,
        kernel: &'static str,
        outcome: Outcome,
        spent: Duration,
    ) -> std::io::Result<()>;
}

/// What came of an implementation.
pub(crate) enum Outcome {
    /// It was measured and checked.
    Row(Box<Row>),
    /// It was not run, for this reason.
    Skipped(String),
    /// It was stopped by an error, in words.
    Failed(Failure, String),
}

/// Runs the configuration's implementations as the steward says.
///
/// Sizes that cannot be held become the reason of every row; they do not end a sweep.
///
/// # Errors
/// Those of [`Steward::take`].
pub(crate) fn in_turn(
    processors: &Processors,
    config: &Config,
    steward: &mut dyn Steward,
    observer: &mut dyn Observer,
) -> std::io::Result<()> {
    with_gemm_types!(config.dtype, T => in_turn_as::<T>(processors, config, steward, observer))
}

fn in_turn_as<T: ScalarTypes>(
    processors: &Processors,
    config: &Config,
    steward: &mut dyn Steward,
    observer: &mut dyn Observer,
) -> std::io::Result<()> {
    let problem = Problem::<T>::new(config.m, config.n, config.k)
        .with_scalars(T::Acc::from_f64(config.alpha), T::Acc::from_f64(config.beta));
    let fits = [Operand::A, Operand::B, Operand::C]
        .into_iter()
        .try_for_each(|operand| problem.required_len(operand).map(drop))
        .map_err(Error::from)
        .and_then(|()| check_memory(&problem, config.check));
    let mut granted = Vec::with_capacity(config.implementations.len());
    for (place, implementation) in config.implementations.iter().enumerate() {
        let candidate = fits.as_ref().map_err(stopped).and_then(|()| {
            let Processors { cpu, gpu } = processors;
            Candidate::new(place, *implementation, &problem, config.device, cpu, gpu)
                .map_err(Outcome::Skipped)
        });
        granted.push(candidate.and_then(|mut candidate| {
            let mut probe = |time| {
                candidate.predict(&problem, time, None)?;
                Ok(candidate.predicted)
            };
            let effort = steward.grant(implementation.id(), problem.flops(), &mut probe);
            candidate.effort = effort.map_err(Outcome::Skipped)?;
            Ok(candidate)
        }));
    }

    // Neither inputs nor a check for a size that nobody runs.
    let wanted = granted.iter().any(Result::is_ok);
    let inputs = wanted.then(|| Inputs::draw(&problem, config)).transpose();
    let checker = match &inputs {
        Ok(Some(Inputs { a, b, c })) => Checker::new(&problem, a, b, c, config.check, config.seed)
            .map(Some)
            .map_err(Error::from),
        _ => Ok(None),
    };
    let mut kept = Kept::default();
    for (candidate, implementation) in granted.into_iter().zip(&config.implementations) {
        let started = Instant::now();
        let outcome = match (candidate, &inputs, &checker) {
            (Err(outcome), _, _) => outcome,
            (Ok(_), Err(error), _) | (Ok(_), _, Err(error)) => stopped(error),
            (Ok(candidate), Ok(Some(inputs)), Ok(Some(checker))) => {
                observer.step(&steward.announce(candidate.id()));
                match candidate.measure(&problem, inputs, &mut kept, checker, observer) {
                    Ok(row) => Outcome::Row(Box::new(row)),
                    Err(error) => stopped(&error),
                }
            }
            (Ok(_), Ok(_), Ok(_)) => unreachable!("invariant: a granted row has inputs"),
        };
        steward.take(implementation.id(), outcome, started.elapsed())?;
    }
    Ok(())
}

fn stopped(error: &Error) -> Outcome {
    if let Error::Product { error: tessera::Error::Shape(_) } = error {
        // No machine has such a size: nothing went wrong.
        return Outcome::Skipped(error.to_string());
    }
    Outcome::Failed(Failure::of(error), error.to_string())
}
