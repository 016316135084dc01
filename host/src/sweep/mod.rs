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

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use gemm_spec::Types;

pub use analysis::{Crossover, Fit, crossovers, fits, summary, undrawn};
pub use chart::{Axis, draw};
pub use record::Record;
pub use row::{FORMAT, Point, RowFormat, Settings};
pub use sizes::SizeList;

use crate::error::Error;
use crate::fill::Distribution;
use crate::registry::Implementation;
use crate::run::{self, DeviceChoice, Failure, MachineInfo, Observer, Processors};
use crate::verify::Method;
use ledger::Ledger;

/// What to sweep over.
#[derive(Clone)]
pub struct Config {
    /// Square sizes.
    pub sizes: SizeList,
    /// Implementations, in the order of the registry.
    pub implementations: Vec<Implementation>,
    /// Element type.
    pub dtype: Types,
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of the old C.
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

/// Measures everything that the configuration asks for, fits the budget and is not in the file yet.
///
/// # Errors
/// A device that is demanded and not there, [`Error::SweepFile`].
pub fn sweep(config: &Config, observer: &mut dyn Observer) -> Result<Sweep, Error> {
    let processors = Processors::open(config.device, config.threads)?;
    let machine = processors.machine();
    let (settings, plan) = (settings(config, &machine), plan(config));
    let (record, points) = match &config.out {
        None => (Record::stdout(config.format, &settings).map_err(unwritten(config))?, Vec::new()),
        Some(path) if config.resume => Record::resume(path, config.format, &settings, &plan)?,
        Some(path) => (Record::create(path, config.format, &settings)?, Vec::new()),
    };
    let runners = runners(config, &machine);
    let share = config.budget.as_secs_f64() / runners.max(1) as f64;
    let mut ledger = Ledger::new(share, &plan, record, points);
    for &n in config.sizes.as_slice() {
        let rest = ledger.rest(n);
        if rest.is_empty() {
            continue;
        }
        ledger.n = n;
        let implementations = config.implementations.iter().copied();
        let problem = run::Config {
            m: n,
            n,
            k: n,
            dtype: config.dtype,
            alpha: config.alpha,
            beta: config.beta,
            implementations: implementations.filter(|one| rest.contains(&one.id())).collect(),
            device: config.device,
            threads: config.threads,
            seed: config.seed,
            distribution: config.distribution,
            check: config.check,
            budget: config.budget,
        };
        match run::in_turn(&processors, &problem, &mut ledger, observer) {
            // Nobody reads on: that ends the work and is no error.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            result => result.map_err(unwritten(config))?,
        }
    }
    Ok(Sweep { points: ledger.points, machine: processors.machine(), failure: ledger.failure })
}

fn refused(config: &Config, reason: String) -> Error {
    let path = config.out.clone().unwrap_or_else(|| PathBuf::from("standard output"));
    Error::SweepFile { path, reason }
}

fn unwritten(config: &Config) -> impl FnOnce(std::io::Error) -> Error {
    |error| refused(config, format!("it cannot be written: {error}"))
}

fn settings(config: &Config, machine: &MachineInfo) -> Settings {
    Settings {
        sizes: config.sizes.as_slice().to_vec(),
        kernels: config.implementations.iter().map(|one| one.id().to_owned()).collect(),
        dtype: config.dtype.name().to_owned(),
        device: match config.device {
            DeviceChoice::Auto => "auto".to_owned(),
            DeviceChoice::Cpu => "cpu".to_owned(),
            DeviceChoice::Emulate => "emulate".to_owned(),
            DeviceChoice::Cuda(index) => format!("cuda:{index}"),
        },
        threads: machine.threads,
        alpha: config.alpha,
        beta: config.beta,
        seed: config.seed,
        dist: config.distribution.name().to_owned(),
        check: config.check.to_string(),
        cpu: machine.host.cpu.clone(),
        gpu: machine.gpu.as_ref().map(|gpu| gpu.name.clone()),
        driver: machine.driver.as_ref().and_then(|driver| driver.version.clone()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Every row, in the order of the file: by size, then as in the registry.
fn plan(config: &Config) -> Vec<(usize, &'static str)> {
    let sizes = config.sizes.as_slice().iter();
    sizes.flat_map(|&n| config.implementations.iter().map(move |one| (n, one.id()))).collect()
}

/// How many implementations the budget is shared among.
fn runners(config: &Config, machine: &MachineInfo) -> usize {
    let runs = |one: &&Implementation| match (config.device, one.on_gpu()) {
        (DeviceChoice::Emulate, on_gpu) => on_gpu,
        (DeviceChoice::Cuda(_), on_gpu) => on_gpu,
        (_, true) => machine.gpu.is_some(),
        (_, false) => true,
    };
    config.implementations.iter().filter(runs).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn config() -> Config {
        Config {
            sizes: "10,20,40".parse().unwrap(),
            implementations: crate::registry::select("serial").unwrap(),
            dtype: Types::F32,
            alpha: 1.0,
            beta: 0.0,
            device: DeviceChoice::Cpu,
            threads: None,
            seed: 1,
            distribution: Distribution::Uniform,
            check: Method::default(),
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
        study: false,
        forms: crate::cpu::implementation::forms!(wrong),
    };

    #[test]
    fn a_wrong_row_is_written_and_the_others_stand() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut config = config();
        config.implementations.insert(0, Implementation::Cpu(&WRONG));
        config.out = Some(path.clone());
        let sweep = sweep(&config, &mut ()).unwrap();
        assert!(!sweep.all_right() && sweep.failure.is_none());
        let verdicts: Vec<_> = sweep.points.iter().map(|p| (p.kernel.as_str(), p.ok)).collect();
        assert_eq!(verdicts, [("wrong", Some(false)), ("serial", Some(true))].repeat(3));
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.matches(",wrong,cpu,").count(), 3, "{text}");
        assert!(summary(&sweep.points).contains("WRONG: wrong at n = 40"));
    }
}
