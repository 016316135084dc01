//! Measuring: how fast each implementation is, and how sure that is.
//!
//! `run` answers "is it right, and roughly how long does it take"; this answers "how fast is it", in
//! a way that two runs can be held against each other. For each implementation and size:
//!
//! 1. the result of a first run is checked;
//! 2. runs are thrown away until the warm-up time is over;
//! 3. runs are repeated until the middle half of them lies within the wanted spread, or the time is
//!    up; on a GPU a run is a batch of launches between two events, so that no gap is measured;
//! 4. the result is checked again, since a kernel may go wrong only under load;
//! 5. a rate above what the units can do is refused: it is a mistake of the measurement or the kernel.
//!    A CPU's units are measured just before and after the runs.
//!
//! With cold caches the operands turn through sets that together are larger than twice the last-level
//! cache, so that no run finds its own.
//!
//! Implementations can be measured beside [peers](crate::peers), all of them by turns: see [`Rounds`].

pub mod compare;
mod energy;
mod entrant;
pub mod idle;
pub mod peak;
mod processors;
pub mod ragged;
mod rounds;
mod subject;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gemm_spec::{Problem, Types};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fill::Distribution;
use crate::gpu::{GpuState, watch};
use crate::measure::{Effort, Timing, repeat};
use crate::registry::Implementation;
use crate::report::skipped::without_gpu;
use crate::run::{DeviceChoice, Observer};
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::Method;
pub use energy::Energy;
pub(crate) use entrant::Ready;
pub use entrant::{AUTO, Entrant};
use gemm_spec::with_gemm_types;
pub(crate) use processors::Processors;
pub use rounds::{Rounds, end_with_parent};
use subject::{Inputs, Subject};

/// The version of the documents that this module writes and reads.
pub const FORMAT: &str = "tessera-bench 1";

/// Fewer runs than this cannot say how far they scatter.
const LEAST_RUNS: usize = 10;
/// Percent of a CPU's measured peak above which a rate is refused. The clock moves between the two
/// measurements: a few percent more are no mistake.
const MOST_OF_CPU_PEAK: f64 = 105.0;
/// Percent of a GPU's peak above which a rate is refused. It counts with the highest clock that there
/// is.
const MOST_OF_GPU_PEAK: f64 = 100.0;

/// Whether runs may find their operands in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Every run uses the same operands.
    #[default]
    Warm,
    /// Operands turn through sets beyond twice the last-level cache.
    Cold,
}

/// What is measured: everything that a row needs to be measured again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The implementation.
    pub kernel: String,
    /// `cpu` or `cuda:I`.
    pub device: String,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element type.
    pub dtype: String,
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of the old C.
    pub beta: f64,
    /// Seed of the inputs.
    pub seed: u64,
    /// How the inputs are drawn.
    pub dist: String,
    /// CPU threads.
    pub threads: usize,
    /// Caches.
    pub cache: Cache,
}

/// The verdict on the results before and after the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// How it was checked.
    pub method: String,
    /// Whether both results are right.
    pub ok: bool,
    /// Larger of the two errors, in the units that `docs/measuring.md` explains.
    pub max_error: f64,
    /// Largest error allowed.
    pub bound: f64,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    #[serde(flatten)]
    pub point: Point,
    /// Seconds of one product, the operands being where it needs them; with rounds, of the rounds'
    /// medians.
    pub seconds: Timing,
    /// Each round's runs, where there were rounds.
    #[serde(default)]
    pub rounds: Vec<Timing>,
    /// Share of all cores' time that was in use just before, with rounds the largest of all of them.
    #[serde(default)]
    pub busy_before: Option<f64>,
    /// Share of the median within which the middle half of the runs lies.
    pub spread: f64,
    /// Whether the spread came below the wanted one before the time was up.
    pub settled: bool,
    /// Products in each timed run: launches of a batch on a GPU, else 1.
    pub batch: usize,
    /// Sets of operands that the runs turned through.
    pub sets: usize,
    /// `2mnk` over the median, in 10⁹ a second.
    pub gflops: f64,
    /// Percent of what the device's units can do, where that is known.
    pub percent_of_peak: Option<f64>,
    /// What the units can do, in 10⁹ operations a second: a GPU's by its table, a CPU's measured beside
    /// this row with as many threads.
    #[serde(default)]
    pub peak_gflops: Option<f64>,
    /// The vectors that gave a CPU's peak.
    #[serde(default)]
    pub peak_vectors: Option<String>,
    /// Percent of the fastest row of the same problem.
    pub percent_of_best: Option<f64>,
    /// This rate over that of the fastest peer for the same problem on the same processor.
    #[serde(default)]
    pub ratio_to_best_peer: Option<f64>,
    /// What a peer says of itself: name, version, the processor that it takes this one for.
    #[serde(default)]
    pub peer: Option<String>,
    /// The kernel that was chosen for the problem, where that was left to the program.
    #[serde(default)]
    pub chosen: Option<String>,
    /// The check.
    pub check: Check,
    /// Why the rate is not believed, where it is not.
    pub refused: Option<String>,
    /// The GPU when the runs began.
    pub before: Option<GpuState>,
    /// The GPU when they ended.
    pub after: Option<GpuState>,
    /// What the runs cost the GPU, warm-up included; with rounds, those of all of them.
    #[serde(default)]
    pub energy: Option<Energy>,
    /// The command that measures this row again.
    pub command: Vec<String>,
    /// SHA-256 of the sources of the PTX, for kernels.
    pub ptx_sources: Option<String>,
    /// Version of this program.
    pub version: String,
    /// Processor or GPU that did it.
    pub processor: String,
    /// Driver, for kernels.
    pub driver: Option<String>,
}

/// What a benchmark found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// Measurements, in the order of sizes and of the registry.
    pub rows: Vec<Row>,
    /// What could not be measured: implementation, size and reason.
    pub skipped: Vec<SkippedPoint>,
}

/// An implementation that has no row for a size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SkippedPoint {
    /// The implementation.
    pub kernel: String,
    /// Rows, columns and steps; `None` where it takes part at no size.
    pub size: Option<[usize; 3]>,
    /// Why.
    pub reason: String,
}

/// What to measure and how well.
#[derive(Clone)]
pub struct Config {
    /// m, n and k of each problem.
    pub sizes: Vec<[usize; 3]>,
    /// Implementations and peers, in the order in which they are shown.
    pub entrants: Vec<Entrant>,
    /// Folders in which peers' libraries are looked for first.
    pub peer_folders: Vec<PathBuf>,
    /// Measures all by turns, those on the CPU in processes of their own, which run the program that
    /// calls: it must be `tessera`. `None` measures one after the other in this process.
    pub rounds: Option<Rounds>,
    /// How long a row without rounds waits for an idle machine, at most; `None` does not look.
    pub idle_wait: Option<Duration>,
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
    /// Caches.
    pub cache: Cache,
    /// Time for the runs of one row; the warm-up takes a quarter of it in addition.
    pub time: Duration,
    /// The spread at which a row is settled, as a share of its median.
    pub spread: f64,
}

/// Measures everything that the configuration asks for.
///
/// # Errors
/// What stops the whole benchmark: a demanded device that is not there, sizes beyond memory. An
/// implementation that fails becomes a skipped one with the reason.
pub fn run(config: &Config, observer: &mut dyn Observer) -> Result<Document, Error> {
    with_gemm_types!(config.dtype, T => run_as::<T>(config, observer))
}

fn run_as<T: ScalarTypes>(config: &Config, observer: &mut dyn Observer) -> Result<Document, Error> {
    let processors = Processors::open(config.device, config.threads)?;
    let mut document =
        Document { format: FORMAT.to_owned(), rows: Vec::new(), skipped: Vec::new() };
    match config.rounds {
        Some(rounds) => {
            rounds::measure::<T>(config, rounds, &processors, observer, &mut document)?;
        }
        None => one_by_one::<T>(config, &processors, observer, &mut document)?,
    }
    document.rank();
    Ok(document)
}

/// Measures every size, one entrant after the other.
fn one_by_one<T: ScalarTypes>(
    config: &Config,
    processors: &Processors,
    observer: &mut dyn Observer,
    document: &mut Document,
) -> Result<(), Error> {
    let entrants: Vec<_> = config
        .entrants
        .iter()
        .map(|entrant| (*entrant, entrant.ready(&config.peer_folders, processors)))
        .collect();
    for &[m, n, k] in &config.sizes {
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(T::Acc::from_f64(config.alpha), T::Acc::from_f64(config.beta));
        let inputs = Inputs::draw(&problem, config, processors)?;
        let mut subject = Subject::new(&inputs, config, processors)?;
        for (entrant, ready) in &entrants {
            observer.step(&format!("measuring {} at {m} x {n} x {k}", entrant.id()));
            let mut busy = None;
            let found = match ready {
                Ok(ready) => {
                    busy = config.idle_wait.and_then(idle::wait);
                    row(config, processors, &problem, *entrant, ready, &mut subject, false)
                }
                Err(reason) => Err(reason.clone()),
            };
            match found {
                Ok(row) => document.rows.push(Row { busy_before: busy, ..row }),
                Err(reason) => {
                    let kernel = entrant.id().to_owned();
                    let size = Some([m, n, k]);
                    document.skipped.push(SkippedPoint { kernel, size, reason });
                }
            }
        }
    }
    Ok(())
}

impl Row {
    /// Whether the results are right and the rate is possible.
    #[must_use]
    pub fn believed(&self) -> bool {
        self.check.ok && self.refused.is_none()
    }

    /// Holds the rate against the units' peak: gives its percentage, and refuses what is too much.
    fn weigh(&mut self) {
        let most = if self.point.device == "cpu" { MOST_OF_CPU_PEAK } else { MOST_OF_GPU_PEAK };
        self.percent_of_peak = self.peak_gflops.map(|peak| 100.0 * self.gflops / peak);
        self.refused = self.percent_of_peak.filter(|percent| *percent > most).map(|percent| {
            format!("{percent:.0} % of the units' peak: no kernel on these units does that")
        });
    }
}

impl Document {
    /// Gives each row its share of the fastest believed row of the same problem, and its ratio to the
    /// fastest believed peer on the same processor.
    pub fn rank(&mut self) {
        let problem = |row: &Row| (row.point.m, row.point.n, row.point.k, row.point.dtype.clone());
        let rates: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.believed())
            .map(|row| (problem(row), row.gflops))
            .collect();
        let peers: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.believed() && row.peer.is_some())
            .map(|row| (problem(row), row.point.device.clone(), row.gflops))
            .collect();
        for row in &mut self.rows {
            let own = problem(row);
            let alike = rates.iter().filter(|(other, _)| *other == own);
            let best = alike.map(|(_, rate)| *rate).fold(0.0, f64::max);
            // In this order the best has all of itself, and not a digit more.
            row.percent_of_best = (best > 0.0).then(|| 100.0 * (row.gflops / best));
            let beside = peers
                .iter()
                .filter(|(other, device, _)| *other == own && *device == row.point.device);
            let peer = beside.map(|(_, _, rate)| *rate).fold(0.0, f64::max);
            row.ratio_to_best_peer = (peer > 0.0).then(|| row.gflops / peer);
        }
    }

    /// Whether every row is right and possible.
    #[must_use]
    pub fn all_believed(&self) -> bool {
        self.rows.iter().all(Row::believed)
    }
}

/// Measures one entrant on one problem. Its result is checked before, unless an earlier turn of it
/// `was_right`, and after.
fn row<T: ScalarTypes>(
    config: &Config,
    processors: &Processors,
    problem: &Problem<T>,
    entrant: Entrant,
    ready: &Ready<'_>,
    subject: &mut Subject<'_, T>,
    was_right: bool,
) -> Result<Row, String> {
    let worker = entrant.chosen(problem, processors)?;
    let of_worker;
    let ready = if let Ready::Auto = ready {
        of_worker = worker.ready(&config.peer_folders, processors)?;
        &of_worker
    } else {
        ready
    };
    let gpu = if worker.on_gpu() {
        let gpu = processors.gpu.as_ref().map_err(without_gpu)?;
        if let Entrant::Own(Implementation::Gpu(spec)) = worker {
            spec.supports(problem, gpu.limits()).map_err(|reason| reason.to_string())?;
        }
        Some(gpu)
    } else if matches!(config.device, DeviceChoice::Cuda(_)) {
        return Err("the benchmark was told to stay on the GPU".to_owned());
    } else {
        None
    };
    let reason = |error: Error| error.to_string();
    let first = (!was_right).then(|| subject.check(ready)).transpose().map_err(reason)?;
    let batch = subject.batch(ready).map_err(reason)?;

    let cpu_peak = || {
        let threads = entrant.threads(processors.cpu.threads())?;
        peak::measure(&processors.cpu, threads, config.dtype)
    };
    let peak_before = cpu_peak();
    let eye = gpu.and_then(|gpu| watch(gpu.info().index));
    let before = eye.as_ref().map(|eye| eye.look());
    let effort = Effort {
        single: config.time,
        warm_up: config.time / 4,
        total: config.time,
        least: LEAST_RUNS,
        most: 100_000,
        spread: config.spread,
        wall: Duration::MAX,
    };
    // The time that a row may take is that of its batches.
    let mut products = 0;
    let whole = || {
        products += batch;
        Ok(subject.seconds(ready, batch)? * batch as f64)
    };
    let began = Instant::now();
    let seconds = repeat(effort, whole).map_err(reason)?.of_each(batch);
    let lasted = began.elapsed().as_secs_f64();
    let after = eye.as_ref().map(|eye| eye.look());
    let peak_after = cpu_peak();
    let last = subject.check(ready).map_err(reason)?;

    let gflops = problem.flops() / seconds.median / 1e9;
    let cpu_peak = peak_before
        .into_iter()
        .chain(peak_after)
        .max_by(|one, other| one.flops.total_cmp(&other.flops));
    let peak = match gpu {
        Some(gpu) => worker.gpu_peak(gpu, config.dtype),
        None => cpu_peak.as_ref().map(|peak| peak.flops),
    };
    let device = gpu.map_or_else(|| "cpu".to_owned(), |gpu| format!("cuda:{}", gpu.info().index));
    let size = [problem.m, problem.n, problem.k];
    let point = config.point(entrant, size, processors.cpu.threads(), device);
    let worse = first.as_ref().filter(|first| !first.ok || last.ok).unwrap_or(&last);
    let first_error = first.as_ref().map_or(last.max_error, |first| first.max_error);
    let mut row = Row {
        command: words(&point, config, None),
        point,
        rounds: Vec::new(),
        busy_before: None,
        spread: seconds.spread(),
        settled: seconds.runs >= LEAST_RUNS && seconds.spread() < config.spread,
        seconds,
        batch,
        sets: subject.sets(),
        gflops,
        refused: None,
        percent_of_peak: None,
        peak_gflops: peak.map(|peak| peak / 1e9),
        peak_vectors: cpu_peak.map(|peak| peak.vectors),
        percent_of_best: None,
        ratio_to_best_peer: None,
        peer: ready.description(),
        chosen: matches!(entrant, Entrant::Auto).then(|| worker.id().to_owned()),
        check: Check {
            method: worse.method.to_owned(),
            ok: worse.ok,
            max_error: first_error.max(last.max_error),
            bound: worse.bound,
        },
        energy: Energy::between(before.as_ref(), after.as_ref(), products, lasted),
        before,
        after,
        ptx_sources: ptx_sources(worker),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        processor: gpu.map_or_else(|| processors.host.cpu.clone(), |gpu| gpu.info().name.clone()),
        driver: gpu.and_then(|_| processors.driver.clone()),
    };
    row.weigh();
    Ok(row)
}

impl Config {
    /// What is measured of an entrant at one size.
    fn point(
        &self,
        entrant: Entrant,
        [m, n, k]: [usize; 3],
        threads: usize,
        device: String,
    ) -> Point {
        Point {
            kernel: entrant.id().to_owned(),
            device,
            m,
            n,
            k,
            dtype: self.dtype.name().to_owned(),
            alpha: self.alpha,
            beta: self.beta,
            seed: self.seed,
            dist: self.distribution.name().to_owned(),
            threads,
            cache: self.cache,
        }
    }
}

/// The command line that measures a row, in rounds or at once.
fn words(point: &Point, config: &Config, rounds: Option<Rounds>) -> Vec<String> {
    let Point { kernel, device, m, n, k, dtype, alpha, beta, seed, dist, threads, cache } = point;
    let cache = match cache {
        Cache::Warm => "warm",
        Cache::Cold => "cold",
    };
    let spread = config.spread * 100.0;
    let time = config.time.as_secs_f64();
    let line = format!(
        "tessera bench -m {m} -n {n} -k {k} --dtype {dtype} --device {device} --threads {threads} \
         --seed {seed} --dist {dist} --alpha {alpha} --beta {beta} --check {} --cache {cache} \
         --time {time} --spread {spread}",
        config.check
    );
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let peer = crate::peers::find(kernel).is_some();
    let names = if peer {
        ["--kernel", "none", "--peers-only", kernel]
    } else {
        ["--kernel", kernel, "--peers-only", "none"]
    };
    // Without rounds and peers it is the plain benchmark.
    let names = if peer || rounds.is_some() { &names[..] } else { &names[..2] };
    words.extend(names.iter().map(|&word| word.to_owned()));
    if peer {
        for folder in &config.peer_folders {
            words.extend(["--peer-path".to_owned(), folder.display().to_string()]);
        }
    }
    if let Some(Rounds { count, patience }) = rounds {
        let patience = patience.as_secs_f64();
        words.extend(["--rounds".to_owned(), count.to_string()]);
        words.extend(["--idle-wait".to_owned(), patience.to_string()]);
    }
    words
}

/// The digest in the header of a kernel's module.
fn ptx_sources(entrant: Entrant) -> Option<String> {
    let Entrant::Own(Implementation::Gpu(spec)) = entrant else { return None };
    let digest = kernels_gpu::Module { arch: spec.arch, name: spec.id }
        .ptx()
        .lines()
        .find_map(|line| line.strip_prefix("// sources sha256 "));
    Some(digest.unwrap_or("unknown").to_owned())
}

/// What measures a row again, from the row itself.
///
/// # Errors
/// [`Error::UnknownKernel`] and [`Error::Record`] where the row is of another version of this program.
pub fn again(row: &Row, time: Duration, spread: f64, check: Method) -> Result<Config, Error> {
    let point = &row.point;
    let unreadable = |what: &str| Error::Record { reason: format!("{what} cannot be read") };
    Ok(Config {
        sizes: vec![[point.m, point.n, point.k]],
        entrants: vec![Entrant::find(&point.kernel)?],
        peer_folders: folders(&row.command),
        rounds: match row.rounds.len() {
            0 => None,
            count => Some(Rounds { count, patience: time }),
        },
        idle_wait: Some(Duration::ZERO),
        dtype: Types::from_name(&point.dtype).ok_or_else(|| unreadable("its dtype"))?,
        alpha: point.alpha,
        beta: point.beta,
        device: match point.device.as_str() {
            "cpu" => DeviceChoice::Cpu,
            device => {
                let index = device.strip_prefix("cuda:").and_then(|index| index.parse().ok());
                DeviceChoice::Cuda(index.ok_or_else(|| unreadable("its device"))?)
            }
        },
        threads: NonZeroUsize::new(point.threads),
        seed: point.seed,
        distribution: point.dist.parse().map_err(|_| unreadable("its dist"))?,
        check,
        cache: point.cache,
        time,
        spread,
    })
}

/// The folders of a command line's `--peer-path`.
fn folders(words: &[String]) -> Vec<PathBuf> {
    let pairs = words.windows(2).filter(|pair| pair[0] == "--peer-path");
    pairs.map(|pair| PathBuf::from(&pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_above_the_peak_is_refused_with_a_margin_where_the_peak_is_measured() {
        let weighed = |device: &str, gflops: f64| {
            let mut row = compare::tests::row("a", 1.0, 0.0);
            row.point.device = device.to_owned();
            row.gflops = gflops;
            row.peak_gflops = Some(100.0);
            row.weigh();
            assert_eq!(row.percent_of_peak, Some(gflops));
            row.believed()
        };
        assert!(weighed("cpu", 104.0) && !weighed("cpu", 106.0));
        assert!(weighed("cuda:0", 99.0) && !weighed("cuda:0", 101.0));
    }
}
