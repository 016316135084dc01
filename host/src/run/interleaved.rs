//! One problem by implementations in the order given, each row handed over as soon as it is there.
//!
//! It is how a sweep runs: a scheduler says before each implementation whether it may run and how
//! often, and takes what came of it.

use std::time::{Duration, Instant};

use gemm_spec::{Problem, with_gemm_types};

use super::plan::RowPlan;
use super::work::{Work, check_memory};
use super::{Failure, Row};
use crate::error::Error;
use crate::measure::{Config, Effort, Inputs, Observer, Processors};
use crate::registry::Implementation;
use crate::scalar::ScalarTypes;

/// Predicts the seconds of an implementation from probes that may take so long.
pub(crate) type Probe<'p> = &'p mut dyn FnMut(Duration) -> Result<f64, Error>;

/// Who decides what is run, and takes the rows.
pub(crate) trait Scheduler {
    /// How often an implementation may be repeated on a problem of that many operations, or why it is
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

/// Runs these implementations on one product, as the scheduler says.
///
/// Sizes that cannot be held become the reason of every row; they do not end a sweep.
///
/// # Errors
/// Those of [`Scheduler::take`].
pub(crate) fn interleaved(
    processors: &Processors,
    config: &Config,
    size: [usize; 3],
    implementations: &[Implementation],
    scheduler: &mut dyn Scheduler,
    observer: &mut dyn Observer,
) -> std::io::Result<()> {
    with_gemm_types!(config.dtype, T => {
        let problem = config.problem::<T>(size);
        let fitting = problem.and_then(|problem| {
            check_memory(&problem, config.check)?;
            Ok(problem)
        });
        match fitting {
            Ok(problem) => {
                let turn = Interleaved { processors, config, problem: &problem };
                turn.all(implementations, scheduler, observer)
            }
            Err(error) => implementations
                .iter()
                .try_for_each(|one| scheduler.take(one.id(), stopped(&error), Duration::ZERO)),
        }
    })
}

/// One product, by one implementation after the other.
struct Interleaved<'r, T: ScalarTypes> {
    processors: &'r Processors,
    config: &'r Config,
    problem: &'r Problem<T>,
}

impl<'r, T: ScalarTypes> Interleaved<'r, T> {
    fn all(
        &self,
        implementations: &[Implementation],
        scheduler: &mut dyn Scheduler,
        observer: &mut dyn Observer,
    ) -> std::io::Result<()> {
        let granted: Vec<_> = implementations
            .iter()
            .map(|one| self.granted(*one, scheduler).map_err(Outcome::Skipped))
            .collect();
        // Neither inputs nor a check for a size that nobody runs.
        let wanted = granted.iter().any(Result::is_ok);
        let draw = || Inputs::that_are_read(self.problem, self.config.draw(0));
        let inputs = wanted.then(draw).transpose();
        let work = |inputs| Work::new(self.problem, inputs, self.config);
        let mut work = match &inputs {
            Ok(inputs) => inputs.as_ref().map(work).transpose(),
            Err(_) => Ok(None),
        };
        for (plan, implementation) in granted.into_iter().zip(implementations) {
            let started = Instant::now();
            let outcome = match (plan, &inputs, &mut work) {
                (Err(outcome), _, _) => outcome,
                (Ok(_), Err(error), _) => stopped(error),
                (Ok(_), _, Err(error)) => stopped(error),
                (Ok(plan), Ok(_), Ok(Some(work))) => {
                    observer.step(&scheduler.announce(plan.id()));
                    match plan.measure(work, observer) {
                        Ok(row) => Outcome::Row(Box::new(row)),
                        Err(error) => stopped(&error),
                    }
                }
                (Ok(_), Ok(_), Ok(None)) => {
                    unreachable!("invariant: where one is granted there are inputs")
                }
            };
            scheduler.take(implementation.id(), outcome, started.elapsed())?;
        }
        Ok(())
    }

    /// An implementation that can run and may, with as many repeats as it is granted; else why not.
    fn granted(
        &self,
        implementation: Implementation,
        scheduler: &mut dyn Scheduler,
    ) -> Result<RowPlan<'r>, String> {
        let mut plan = RowPlan::new(0, implementation, self.problem, self.processors)?;
        let mut probe = |time| {
            plan.predict(self.problem, time, None)?;
            Ok(plan.predicted)
        };
        plan.effort = scheduler.grant(implementation.id(), self.problem.flops(), &mut probe)?;
        Ok(plan)
    }
}

fn stopped(error: &Error) -> Outcome {
    if let Error::Product { error: tessera::Error::Shape(_) } = error {
        // No machine has such a size: nothing went wrong.
        return Outcome::Skipped(error.to_string());
    }
    Outcome::Failed(Failure::of(error), error.to_string())
}
