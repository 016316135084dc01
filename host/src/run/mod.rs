//! One problem, every implementation: computed, timed and checked.

mod explain;
mod interleaved;
mod on_gpu;
mod plan;
mod predict;
mod row;
#[cfg(test)]
mod tests;
mod times;
mod work;

use std::time::{Duration, Instant};

use gemm_spec::with_gemm_types;

use crate::error::Error;
use crate::measure::{Config, Inputs, Observer, Processors};
use crate::registry::Implementation;
use crate::scalar::ScalarTypes;
pub use explain::Explanation;
pub(crate) use interleaved::{Outcome, Probe, Scheduler, interleaved};
use plan::RowPlan;
pub use row::{Check, Document, Failure, Head, ProblemInfo, Row};
use work::Work;

/// What to run.
#[derive(Clone)]
pub struct Request {
    /// The product.
    pub config: Config,
    /// m, n and k.
    pub size: [usize; 3],
    /// Implementations, in the order in which they are shown.
    pub implementations: Vec<Implementation>,
    /// Time for the whole run.
    pub budget: Duration,
}

/// Who is told how a run goes on.
pub trait RowObserver: Observer {
    /// A row was added to this document, which is not complete yet.
    fn row(&mut self, _so_far: &Document) {}
}

impl RowObserver for () {}

/// Runs everything that is asked for and that fits its budget.
///
/// # Errors
/// What stops the whole run: sizes beyond memory, a demanded device that is not there, operands that
/// cannot be checked. An implementation that fails becomes a skipped one with the reason.
pub fn run(request: &Request, observer: &mut dyn RowObserver) -> Result<Document, Error> {
    with_gemm_types!(request.config.dtype, T => run_as::<T>(request, observer))
}

fn run_as<T: ScalarTypes>(
    request: &Request,
    observer: &mut dyn RowObserver,
) -> Result<Document, Error> {
    let started = Instant::now();
    let Request { config, size, implementations, budget } = request;
    let deadline = started + *budget;
    let problem = config.problem::<T>(*size)?;

    let processors = Processors::open(config.device, config.threads)?;
    let mut document = Document::new(Head {
        problem: row::ProblemInfo::new(config, *size),
        machine: processors.machine(),
        failure: None,
    });
    let mut plans: Vec<RowPlan<'_>> = Vec::new();
    for (place, implementation) in implementations.iter().enumerate() {
        match RowPlan::new(place, *implementation, &problem, &processors) {
            Ok(plan) => plans.push(plan),
            Err(reason) => document.skip(implementation.id(), None, reason),
        }
    }

    work::check_memory(&problem, config.check)?;
    if let Ok(gpu) = &processors.gpu {
        let kernels: Vec<_> = plans.iter().filter_map(RowPlan::kernel).collect();
        if !kernels.is_empty() {
            observer.step("loading the kernels");
            // A kernel whose code is refused says so in its own row.
            let _ = gpu.load_all(&kernels);
        }
    }
    observer.step("drawing the inputs");
    let inputs = Inputs::that_are_read(&problem, config.draw(0))?;
    // A fifth of the budget for all predictions together.
    let parts = u32::try_from(5 * plans.len().max(1)).unwrap_or(u32::MAX);
    let each = *budget / parts;
    for plan in &mut plans {
        observer.step(&format!("predicting {}", plan.id()));
        if let Err(error) = plan.predict(&problem, each, Some(&inputs)) {
            plan.failure = Some(error);
        }
    }
    observer.step("preparing the check");
    let mut work = Work::new(&problem, &inputs, config)?;

    // The cheapest first, so that what is left of the budget serves as many as it can.
    plans.sort_by(|a, b| a.predicted.total_cmp(&b.predicted));
    let predicted: Vec<f64> = plans.iter().map(|plan| plan.predicted).collect();
    let mut rows = Vec::new();
    for (turn, mut plan) in plans.into_iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        // What is left is for all that may still run: one row's repeats must not cost others theirs.
        let waiting = predicted[turn..].iter().filter(|&&seconds| seconds <= left).count();
        let share = left / waiting.max(1) as f64;
        plan.effort = plan.effort.within(Duration::from_secs_f64(share));
        let outcome = match plan.failure.take() {
            Some(error) => Err(error),
            None if plan.predicted > left => Ok(plan.estimate(&problem)),
            None => {
                observer.step(&format!("running {}", plan.id()));
                plan.measure(&mut work, observer)
            }
        };
        match outcome {
            Ok(row) => {
                rows.push((plan.place, row));
                rows.sort_by_key(|(place, _)| *place);
                document.rows = rows.iter().map(|(_, row)| row.clone()).collect();
                document.compare(config.device);
                observer.row(&document);
            }
            Err(error) => {
                document.head.failure.get_or_insert(Failure::of(&error));
                document.skip(plan.id(), None, error.to_string());
            }
        }
    }
    // By now the driver has loaded what it had to.
    document.head.machine = processors.machine();
    Ok(document)
}
