//! A sweep: implementations over many square sizes, each row written when it is there.
//!
//! The budget is shared out evenly among the implementations that can run. Each spends its share from
//! the smallest size on; a size that by prediction does not fit what is left of the share is skipped
//! with that reason. Nothing is estimated: a row is measured and checked, or says why not.

mod analysis;
mod chart;
mod record;
mod sizes;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gemm_spec::DType;

pub use analysis::{Crossover, Fit, crossovers, fits, summary};
pub use chart::{Axis, draw};
pub use record::{FORMAT, Point, Record, RowFormat, Settings};
pub use sizes::SizeList;

use crate::error::Error;
use crate::fill::Distribution;
use crate::measure::Effort;
use crate::registry::Implementation;
use crate::run::{
    self, DeviceChoice, Failure, MachineInfo, Observer, Outcome, Probe, Processors, Steward,
};
use crate::verify::Method;

/// What to sweep over.
#[derive(Clone)]
pub struct Config {
    /// Square sizes.
    pub sizes: SizeList,
    /// Implementations, in the order of the registry.
    pub implementations: Vec<Implementation>,
    /// Element type.
    pub dtype: DType,
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
    let mut ledger = Ledger {
        share: config.budget.as_secs_f64() / runners.max(1) as f64,
        accounts: HashMap::new(),
        plan: &plan,
        points,
        record,
        n: 0,
        failure: None,
    };
    for index in 0..ledger.points.len() {
        ledger.remember(index);
    }
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

/// What an implementation has spent, and the largest size whose time is known.
#[derive(Clone, Copy, Default)]
struct Account {
    spent: f64,
    /// Operations and seconds, measured or probed.
    known: Option<(f64, f64)>,
}

/// Keeps the accounts and the file.
struct Ledger<'p> {
    /// Seconds that each implementation may spend.
    share: f64,
    accounts: HashMap<&'static str, Account>,
    plan: &'p [(usize, &'static str)],
    points: Vec<Point>,
    record: Record,
    /// The size at work.
    n: usize,
    failure: Option<Failure>,
}

/// Repeats last so long where time is plenty.
const MOST_SECONDS: f64 = 0.3;
/// The share of what an implementation has left that a probe may take.
const PROBE: f64 = 0.05;
/// Within so many times the operations a prediction is believed: that is twice the size.
const NEAR: f64 = 8.0;

/// How often rows are repeated that may take so many seconds together. As in a run a row of some
/// length stands alone.
fn effort(total: f64) -> Effort {
    let total = total.clamp(0.0, MOST_SECONDS);
    let whole = Effort::ROW.single.as_secs_f64() / MOST_SECONDS;
    Effort {
        single: Duration::from_secs_f64(total * whole),
        total: Duration::from_secs_f64(total),
        ..Effort::ROW
    }
}

/// Seconds that repeats of a run of `seconds` take: at least a warm-up and one, unless it stands alone.
fn cost(seconds: f64, effort: Effort) -> f64 {
    if seconds >= effort.single.as_secs_f64() {
        return seconds;
    }
    (effort.most as f64 * seconds).min(effort.total.as_secs_f64()).max(2.0 * seconds)
}

impl Ledger<'_> {
    /// Implementations whose row at a size is not in the file.
    fn rest(&self, n: usize) -> Vec<&'static str> {
        let rest = &self.plan[self.points.len()..];
        rest.iter().filter(|(size, _)| *size == n).map(|(_, kernel)| *kernel).collect()
    }

    /// Learns from a row how long larger ones will take.
    fn remember(&mut self, index: usize) {
        let ((n, kernel), point) = (self.plan[index], &self.points[index]);
        if let Some(seconds) = point.seconds {
            let flops = 2.0 * (n as f64).powi(3);
            self.accounts.entry(kernel).or_default().known = Some((flops, seconds));
        }
    }

    /// Predicted seconds by c·n³ from the largest size that is known, and how many times its
    /// operations that are.
    fn predicted(&self, kernel: &str, flops: f64) -> Option<(f64, f64)> {
        let (largest, seconds) = self.accounts.get(kernel)?.known?;
        Some((seconds * flops / largest, flops / largest))
    }

    /// What the row of an implementation may take, repeats included.
    fn allowance(&self, kernel: &str) -> (f64, Effort) {
        let left = self.share - self.accounts.get(kernel).map_or(0.0, |account| account.spent);
        let rest = self.plan[self.points.len()..].iter().filter(|(_, other)| *other == kernel);
        (left, effort(left / rest.count().max(1) as f64))
    }

    /// Predicted seconds until the end; rows that will not fit take none.
    fn left(&self) -> f64 {
        let mut lefts = HashMap::new();
        for &(n, kernel) in &self.plan[self.points.len()..] {
            let (left, effort) = *lefts.entry(kernel).or_insert_with(|| self.allowance(kernel));
            let flops = 2.0 * (n as f64).powi(3);
            let predicted = self.predicted(kernel, flops).map_or(0.0, |(seconds, _)| seconds);
            let cost = cost(predicted, effort);
            if cost <= left {
                lefts.insert(kernel, (left - cost, effort));
            }
        }
        let kernels = lefts.iter().map(|(kernel, (left, _))| self.allowance(kernel).0 - left);
        kernels.sum()
    }
}

impl Steward for Ledger<'_> {
    fn grant(
        &mut self,
        kernel: &'static str,
        flops: f64,
        probe: Probe<'_>,
    ) -> Result<Effort, String> {
        let (left, effort) = self.allowance(kernel);
        let fits = |seconds: f64| cost(seconds, effort) <= left;
        let known = self.predicted(kernel, flops);
        let mut predicted = known.map(|(seconds, _)| seconds);
        let near = known.is_some_and(|(_, times)| times <= NEAR);
        // From far smaller sizes, where overheads weigh, a prediction is too high: look closer.
        if !near && !predicted.is_some_and(fits) && left > 0.0 {
            let started = Instant::now();
            let time = Duration::from_secs_f64(left * PROBE);
            let probed = probe(time).map_err(|error| error.to_string())?;
            let seconds = predicted.map_or(probed, |seconds| seconds.min(probed));
            let account = self.accounts.entry(kernel).or_default();
            account.spent += started.elapsed().as_secs_f64();
            account.known = Some((flops, seconds));
            predicted = Some(seconds);
        }
        match predicted {
            Some(seconds) if fits(seconds) => Ok(effort),
            Some(seconds) if left > 0.0 => Err(format!(
                "by prediction {} s: it does not fit its share of the budget; give --budget SECONDS",
                crate::report::duration::seconds(seconds)
            )),
            _ => Err("its share of the budget is spent; give --budget SECONDS".to_owned()),
        }
    }

    fn announce(&self, kernel: &'static str) -> String {
        let (done, all) = (self.points.len() + 1, self.plan.len());
        format!("{kernel} at {}, row {done} of {all}, about {:.0} s left", self.n, self.left())
    }

    fn take(
        &mut self,
        kernel: &'static str,
        outcome: Outcome,
        spent: Duration,
    ) -> std::io::Result<()> {
        let n = self.n;
        let mut point = Point { n, kernel: kernel.to_owned(), ..Point::default() };
        match outcome {
            Outcome::Row(row) => {
                self.accounts.entry(kernel).or_default().spent += spent.as_secs_f64();
                point.device = Some(row.device);
                point.seconds = Some(row.seconds);
                point.gflops = Some(row.gflops);
                point.h2d_seconds = row.h2d_seconds;
                point.kernel_seconds = row.kernel_seconds;
                point.d2h_seconds = row.d2h_seconds;
                point.runs = Some(row.runs);
                if let Some(check) = row.check {
                    point.check = Some(check.method.to_owned());
                    point.ok = Some(check.ok);
                    // A NaN or infinity has no place in JSON.
                    point.max_error = Some(check.max_error).filter(|error| error.is_finite());
                    point.bound = Some(check.bound).filter(|bound| bound.is_finite());
                }
            }
            Outcome::Skipped(reason) => point.skipped = Some(reason),
            Outcome::Failed(failure, reason) => {
                self.failure.get_or_insert(failure);
                point.skipped = Some(reason);
            }
        }
        self.record.add(&point)?;
        self.points.push(point);
        self.remember(self.points.len() - 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &[(usize, &str)] = &[(10, "serial"), (20, "serial"), (40, "serial")];

    fn config() -> Config {
        Config {
            sizes: "10,20,40".parse().unwrap(),
            implementations: crate::registry::select("serial").unwrap(),
            dtype: DType::F32,
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

    fn ledger(folder: &tempfile::TempDir, share: f64) -> Ledger<'static> {
        let config = config();
        assert_eq!(plan(&config), PLAN);
        let machine = Processors::open(config.device, config.threads).unwrap().machine();
        let settings = settings(&config, &machine);
        let path = folder.path().join("rows.csv");
        Ledger {
            share,
            accounts: HashMap::new(),
            plan: PLAN,
            points: Vec::new(),
            record: Record::create(&path, RowFormat::Csv, &settings).unwrap(),
            n: 10,
            failure: None,
        }
    }

    #[test]
    fn a_share_is_spent_from_the_smallest_size_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&folder, 3.0);
        let flops = |n: f64| 2.0 * n.powi(3);
        let mut never = |_: Duration| -> Result<f64, Error> { panic!("no probe is needed") };
        assert_eq!(ledger.grant("serial", flops(10.0), &mut |_| Ok(0.1)).unwrap().most, 100);
        // As if 10 had taken 0.25 s: 20 takes 2 s, 40 takes 16.
        ledger.points.push(Point { n: 10, seconds: Some(0.25), ..Point::default() });
        ledger.remember(0);
        ledger.accounts.get_mut("serial").unwrap().spent = 0.5;
        assert!(ledger.grant("serial", flops(20.0), &mut never).is_ok());
        assert!((ledger.left() - 2.0).abs() < 1e-9, "{}", ledger.left());
        // Far off a probe is asked, which may find that the prediction was too high, and is believed
        // from then on.
        assert!(ledger.grant("serial", flops(40.0), &mut |_| Ok(1.0)).is_ok());
        let refusal = ledger.grant("serial", flops(80.0), &mut never).unwrap_err();
        assert!(refusal.contains("by prediction 8.000 s"), "{refusal}");
        ledger.accounts.get_mut("serial").unwrap().spent = 3.5;
        let refusal = ledger.grant("serial", flops(20.0), &mut never).unwrap_err();
        assert!(refusal.contains("is spent"), "{refusal}");
        assert_eq!(ledger.left(), 0.0);
    }

    #[test]
    fn progress_says_the_row_and_the_time_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&folder, 1000.0);
        ledger.points.push(Point { n: 10, seconds: Some(1.0), ..Point::default() });
        ledger.remember(0);
        ledger.n = 20;
        // 8 s at 20 and 64 s at 40; each stands alone.
        assert_eq!(ledger.announce("serial"), "serial at 20, row 2 of 3, about 72 s left");
    }

    fn wrong<T: crate::Scalar>(
        problem: &gemm_spec::Problem<T>,
        _: &[T],
        _: &[T],
        c: &mut [T],
        _: &crate::cpu::CpuContext,
    ) {
        // One element right, the others never written.
        c[problem.c.index(0, 0)] = T::ZERO;
    }

    static WRONG: crate::cpu::CpuImpl = crate::cpu::CpuImpl {
        id: "wrong",
        about: "writes nothing",
        origin: "a test",
        parallel: false,
        f32: wrong,
        f64: wrong,
        i32: wrong,
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

    #[test]
    fn repeats_shrink_with_the_time_there_is() {
        assert_eq!(effort(10.0).total, Effort::ROW.total);
        assert_eq!(effort(10.0).single, Effort::ROW.single);
        let short = effort(0.03);
        assert_eq!((short.total.as_millis(), short.single.as_millis()), (30, 50));
        assert_eq!(cost(1.0, short), 1.0);
        assert_eq!(cost(0.04, short), 0.08);
        assert_eq!(cost(0.001, short), 0.03);
        assert!((cost(0.000_01, short) - 0.001).abs() < 1e-12);
    }
}
