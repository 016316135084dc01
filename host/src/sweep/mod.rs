//! A sweep: implementations over many square sizes, each row written when it is there.
//!
//! The budget is shared out evenly among the implementations that can run. Each spends its share from
//! the smallest size on; a size that by prediction does not fit what is left of the share is skipped
//! with that reason. Nothing is estimated: a row is measured and checked, or says why not.

mod analysis;
mod chart;
mod ledger;
mod record;
mod row;
mod sizes;
mod ticks;

use std::path::PathBuf;
use std::time::Duration;

use gemm_spec::with_gemm_types;

pub use analysis::{Crossover, Fit, crossovers, fits, summary, undrawn};
pub use chart::{Axis, draw};
pub use record::Record;
pub use row::{FORMAT, Point, RowFormat, Settings};
pub use sizes::SizeList;

use crate::error::Error;
use crate::measure::{Config, MachineInfo, Observer, Processors};
use crate::registry::Implementation;
use crate::run::{self, Failure};
use ledger::Ledger;

/// What to sweep over.
#[derive(Clone)]
pub struct Request {
    /// The products.
    pub config: Config,
    /// Square sizes.
    pub sizes: SizeList,
    /// Implementations, in the order of the registry.
    pub implementations: Vec<Implementation>,
    /// Time for the whole sweep.
    pub budget: Duration,
    /// Where the rows are kept; `None` is standard output.
    pub out: Option<PathBuf>,
    /// How they are written.
    pub format: RowFormat,
    /// Whether to go on from the file where it is there.
    pub resume: bool,
}

/// What a sweep found.
pub struct Sweep {
    /// Every row, those of the file among them.
    pub points: Vec<Point>,
    /// The machine.
    pub machine: MachineInfo,
    /// The first implementation that an error stopped, in this run.
    pub failure: Option<Failure>,
}

impl Sweep {
    /// Whether every checked row is right.
    #[must_use]
    pub fn all_right(&self) -> bool {
        self.points.iter().all(|point| point.ok != Some(false))
    }
}

/// Measures everything that is asked for, fits the budget and is not in the file yet.
///
/// # Errors
/// A size with more bytes than can be addressed, a device that is demanded and not there,
/// [`Error::SweepFile`].
pub fn sweep(request: &Request, observer: &mut dyn Observer) -> Result<Sweep, Error> {
    let Request { config, implementations, format, .. } = request;
    for &n in request.sizes.as_slice() {
        // What no memory could hold is a mistake in the command, and no row that was skipped.
        with_gemm_types!(config.dtype, T => config.problem::<T>([n; 3]).map(drop))?;
    }
    let processors = Processors::open(config.device, config.threads)?;
    let (settings, plan) = (settings(request, &processors), plan(request));
    let (record, points) = match &request.out {
        None => (Record::stdout(*format, &settings).map_err(unwritten(request))?, Vec::new()),
        Some(path) if request.resume => Record::resume(path, *format, &settings, &plan)?,
        Some(path) => (Record::create(path, *format, &settings)?, Vec::new()),
    };
    // The budget is for those that have a processor.
    let runs = |one: &&Implementation| processors.admit(one.on_gpu()).is_ok();
    let runners = implementations.iter().filter(runs).count();
    let share = request.budget.as_secs_f64() / runners.max(1) as f64;
    let mut ledger = Ledger::new(share, &plan, record, points);
    for &n in request.sizes.as_slice() {
        let rest = ledger.rest(n);
        if rest.is_empty() {
            continue;
        }
        ledger.n = n;
        let rest = |one: &Implementation| rest.contains(&one.id());
        let rest: Vec<_> = implementations.iter().copied().filter(rest).collect();
        match run::interleaved(&processors, config, [n; 3], &rest, &mut ledger, observer) {
            // Nobody reads on: that ends the work and is no error.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            result => result.map_err(unwritten(request))?,
        }
    }
    Ok(Sweep { points: ledger.points, machine: processors.machine(), failure: ledger.failure })
}

fn unwritten(request: &Request) -> impl FnOnce(std::io::Error) -> Error {
    |error| {
        let path = request.out.clone().unwrap_or_else(|| PathBuf::from("standard output"));
        Error::SweepFile { path, reason: format!("it cannot be written: {error}") }
    }
}

fn settings(request: &Request, processors: &Processors) -> Settings {
    let config = &request.config;
    Settings {
        sizes: request.sizes.as_slice().to_vec(),
        kernels: request.implementations.iter().map(|one| one.id().to_owned()).collect(),
        dtype: config.dtype.name().to_owned(),
        device: config.device.to_string(),
        threads: processors.cpu.threads(),
        alpha: config.alpha,
        beta: config.beta,
        seed: config.seed,
        dist: config.distribution.name().to_owned(),
        check: config.check.to_string(),
        cpu: processors.host.cpu.clone(),
        gpu: processors.gpu.as_ref().ok().map(|gpu| gpu.info().name.clone()),
        driver: processors.driver_version(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Every row, in the order of the file: by size, then as in the registry.
fn plan(request: &Request) -> Vec<(usize, &'static str)> {
    let sizes = request.sizes.as_slice().iter();
    sizes.flat_map(|&n| request.implementations.iter().map(move |one| (n, one.id()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn request() -> Request {
        Request {
            config: Config { device: crate::measure::DeviceChoice::Cpu, ..Config::default() },
            sizes: "10,20,40".parse().unwrap(),
            implementations: crate::registry::select("serial").unwrap(),
            budget: Duration::from_secs(1),
            out: None,
            format: RowFormat::Csv,
            resume: false,
        }
    }

    fn wrong<T: crate::ScalarTypes>(
        problem: &gemm_spec::Problem<T>,
        _: &[T::A],
        _: &[T::B],
        c: &mut [T::C],
        _: &crate::cpu::CpuContext,
    ) -> Result<(), cpu_gemm::Error> {
        // One element right, the others never written.
        c[problem.c.index(0, 0)] = crate::scalar::Scalar::from_f64(0.0);
        Ok(())
    }

    static WRONG: crate::cpu::CpuImpl = crate::cpu::CpuImpl {
        id: "wrong",
        about: "writes nothing",
        origin: "a test",
        blocked: false,
        parallel: false,
        any_order: false,
        sums: crate::cpu::Sums::Chain,
        needs: crate::cpu::implementation::NOTHING,
        study: false,
        forms: crate::cpu::implementation::forms!(wrong),
    };

    #[test]
    fn a_wrong_row_is_written_and_the_others_stand() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut request = request();
        request.implementations.insert(0, Implementation::Cpu(&WRONG));
        request.out = Some(path.clone());
        let sweep = sweep(&request, &mut ()).unwrap();
        assert!(!sweep.all_right() && sweep.failure.is_none());
        let verdicts: Vec<_> = sweep.points.iter().map(|p| (p.kernel.as_str(), p.ok)).collect();
        assert_eq!(verdicts, [("wrong", Some(false)), ("serial", Some(true))].repeat(3));
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.matches(",wrong,cpu,").count(), 3, "{text}");
        assert!(summary(&sweep.points).contains("WRONG: wrong at n = 40"));
    }
}
