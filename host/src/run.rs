//! One problem, every implementation: computed, timed and checked.

mod candidate;
mod explain;
mod kept;
mod on_gpu;
mod predict;
mod times;
mod turn;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use gemm_spec::{DeviceLimits, Element, Operand, Problem, Types};
use kernels_gpu::Kernel;
use serde::Serialize;

use crate::cpu::{self, CpuContext};
use crate::error::Error;
use crate::fill::{Distribution, Draw};
use crate::gpu::{DeviceInfo, DriverInfo, Gpu};
use crate::history;
use crate::machine::{self, Machine};
use crate::registry::Implementation;
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::{Checker, Method, Report};
use candidate::Candidate;
pub use explain::Explanation;
use gemm_spec::with_gemm_types;
use kept::Kept;
pub(crate) use turn::{Outcome, Probe, Steward, in_turn};

/// Which processors take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The CPU, and the first GPU where there is one.
    #[default]
    Auto,
    /// The CPU alone.
    Cpu,
    /// The emulator alone: the GPU kernels' own sources on the CPU, with every access checked.
    Emulate,
    /// The GPU of that number alone; it is an error where there is none.
    Cuda(u32),
}

/// What to run.
#[derive(Clone)]
pub struct Config {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element type.
    pub dtype: Types,
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of the old C.
    pub beta: f64,
    /// Implementations, in the order in which they are shown.
    pub implementations: Vec<Implementation>,
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
    /// Time for the whole run.
    pub budget: Duration,
}

/// The problem as the document shows it.
#[derive(Clone, Debug, Serialize)]
pub struct ProblemInfo {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element type.
    pub dtype: &'static str,
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of the old C.
    pub beta: f64,
    /// Seed of the inputs.
    pub seed: u64,
    /// How the inputs were drawn.
    pub dist: &'static str,
}

/// The machine as the document shows it.
#[derive(Clone, Debug, Serialize)]
pub struct MachineInfo {
    /// The host.
    #[serde(flatten)]
    pub host: Machine,
    /// CPU threads used.
    pub threads: usize,
    /// The driver, where there is one.
    pub driver: Option<DriverInfo>,
    /// The GPU used, where there is one.
    pub gpu: Option<DeviceInfo>,
    /// How long the driver took to compile kernels from PTX, added up; part of no row.
    pub jit_seconds: Option<f64>,
    /// How long it took to load the machine code of kernels, added up; part of no row.
    pub load_seconds: Option<f64>,
}

/// The verdict on one result.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// How it was checked.
    pub method: &'static str,
    /// Whether it is right.
    pub ok: bool,
    /// Largest error found, in the units that `docs/measuring.md` explains.
    pub max_error: f64,
    /// Largest error allowed, in the same units.
    pub bound: f64,
    /// What is wrong, in words, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What it looks like, where something is wrong and could be explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Explanation>,
}

/// One implementation's line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The implementation.
    pub kernel: &'static str,
    /// `cpu`, `cuda:I` or `emulate`.
    pub device: String,
    /// From operands in host memory to the result in host memory: transfers are counted for GPU rows.
    pub seconds: f64,
    /// Whether `seconds` was predicted from some rows of C, or from smaller sizes, and not measured.
    pub estimated: bool,
    /// `2mnk` over the time of the computation alone, in 10⁹ a second.
    pub gflops: f64,
    /// Copying A and B (and C, where beta is not 0) to the device, while the product goes on.
    pub h2d_seconds: Option<f64>,
    /// The kernel between two events, all operands being on the device.
    pub kernel_seconds: Option<f64>,
    /// Copying C from the device, while the product goes on.
    pub d2h_seconds: Option<f64>,
    /// Seconds of `serial` over these seconds, where `serial` is a row.
    pub speedup: Option<f64>,
    /// Runs that the time is the median of.
    pub runs: usize,
    /// The check; none for estimated rows.
    pub check: Option<Verdict>,
    /// What the seeds measured for the same row.
    pub then_seconds: Option<f64>,
}

/// An implementation that has no row.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    /// The implementation.
    pub kernel: &'static str,
    /// Why.
    pub reason: String,
}

/// Everything that a run found.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// What was computed.
    pub problem: ProblemInfo,
    /// Where.
    pub machine: MachineInfo,
    /// The implementations that could run.
    pub rows: Vec<Row>,
    /// Those that could not.
    pub skipped: Vec<Skipped>,
    /// The first implementation that was stopped by an error, for the exit code.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

/// An error in the middle of a run; the other rows stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Memory was short.
    OutOfMemory,
    /// Anything else.
    Other,
}

impl Failure {
    /// What an error means for the exit code.
    pub(crate) fn of(error: &Error) -> Self {
        if error.is_out_of_memory() { Self::OutOfMemory } else { Self::Other }
    }
}

impl Document {
    /// Whether every checked row is right.
    #[must_use]
    pub fn all_right(&self) -> bool {
        self.rows.iter().filter_map(|row| row.check.as_ref()).all(|check| check.ok)
    }
}

/// Who is told how a run goes on.
pub trait Observer {
    /// A step has begun, for instance "checking naive".
    fn step(&mut self, what: &str);

    /// A row was added to this document, which is not complete yet.
    fn row(&mut self, _so_far: &Document) {}
}

impl Observer for () {
    fn step(&mut self, _: &str) {}
}

/// Runs everything that the configuration asks for and that fits its budget.
///
/// # Errors
/// What stops the whole run: sizes beyond memory, a demanded device that is not there, operands that
/// cannot be checked. An implementation that fails becomes a skipped one with the reason.
pub fn run(config: &Config, observer: &mut dyn Observer) -> Result<Document, Error> {
    with_gemm_types!(config.dtype, T => run_as::<T>(config, observer))
}

fn run_as<T: ScalarTypes>(config: &Config, observer: &mut dyn Observer) -> Result<Document, Error> {
    let started = Instant::now();
    let deadline = started + config.budget;
    let problem = Problem::<T>::new(config.m, config.n, config.k)
        .with_scalars(T::Acc::from_f64(config.alpha), T::Acc::from_f64(config.beta));
    for operand in [Operand::A, Operand::B, Operand::C] {
        problem.required_len(operand)?;
    }

    let processors = Processors::open(config.device, config.threads)?;
    let Processors { cpu, gpu } = &processors;
    let mut skipped = Vec::new();
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (place, implementation) in config.implementations.iter().enumerate() {
        match Candidate::new(place, *implementation, &problem, config.device, cpu, gpu) {
            Ok(candidate) => candidates.push(candidate),
            Err(reason) => skipped.push(Skipped { kernel: implementation.id(), reason }),
        }
    }

    check_memory(&problem, config.check)?;
    if let Ok(gpu) = gpu {
        let kernels: Vec<_> = candidates.iter().filter_map(Candidate::kernel).collect();
        if !kernels.is_empty() {
            observer.step("loading the kernels");
            // A kernel whose code is refused says so in its own row.
            let _ = gpu.load_all(&kernels);
        }
    }
    observer.step("drawing the inputs");
    let inputs = Inputs::draw(&problem, config)?;
    // A fifth of the budget for all predictions together.
    let parts = u32::try_from(5 * candidates.len().max(1)).unwrap_or(u32::MAX);
    let each = config.budget / parts;
    for candidate in &mut candidates {
        observer.step(&format!("predicting {}", candidate.id()));
        if let Err(error) = candidate.predict(&problem, each, Some(&inputs)) {
            candidate.failure = Some(error);
        }
    }
    observer.step("preparing the check");
    let checker =
        Checker::new(&problem, &inputs.a, &inputs.b, &inputs.c, config.check, config.seed)?;

    let mut document = Document {
        problem: ProblemInfo {
            m: config.m,
            n: config.n,
            k: config.k,
            dtype: config.dtype.name(),
            alpha: config.alpha,
            beta: config.beta,
            seed: config.seed,
            dist: config.distribution.name(),
        },
        machine: machine(cpu, gpu),
        rows: Vec::new(),
        skipped,
        failure: None,
    };
    // The cheapest first, so that what is left of the budget serves as many as it can.
    candidates.sort_by(|a, b| a.predicted.total_cmp(&b.predicted));
    let predicted: Vec<f64> = candidates.iter().map(|candidate| candidate.predicted).collect();
    let mut kept = Kept::default();
    let mut rows = Vec::new();
    for (turn, mut candidate) in candidates.into_iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        // What is left is for all that may still run: one row's repeats must not cost others theirs.
        let waiting = predicted[turn..].iter().filter(|&&seconds| seconds <= left).count();
        let share = left / waiting.max(1) as f64;
        candidate.effort = candidate.effort.within(Duration::from_secs_f64(share));
        let outcome = match candidate.failure {
            Some(error) => Err(error),
            None if candidate.predicted > left => Ok(candidate.estimate(&problem)),
            None => {
                observer.step(&format!("running {}", candidate.id()));
                candidate.measure(&problem, &inputs, &mut kept, &checker, observer)
            }
        };
        match outcome {
            Ok(row) => {
                rows.push((candidate.place, row));
                rows.sort_by_key(|(place, _)| *place);
                document.rows = rows.iter().map(|(_, row)| row.clone()).collect();
                compare(&mut document.rows, config);
                observer.row(&document);
            }
            Err(error) => {
                document.failure.get_or_insert(Failure::of(&error));
                let reason = error.to_string();
                document.skipped.push(Skipped { kernel: candidate.implementation.id(), reason });
            }
        }
    }
    // By now the driver has loaded what it had to.
    document.machine = machine(cpu, gpu);
    Ok(document)
}

/// The processors of a run, opened once for all its problems.
pub struct Processors {
    cpu: CpuContext,
    gpu: Result<Gpu, Error>,
}

impl Processors {
    /// Starts the threads and opens the GPU, or keeps the reason why there is none.
    ///
    /// # Errors
    /// [`tessera::Error::Threads`]; where a GPU is demanded also what [`Gpu::open`] answers.
    pub fn open(device: DeviceChoice, threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        let told =
            |place: &str| Err(Error::no_device(format!("the run was told to stay on the {place}")));
        Ok(Self {
            cpu: cpu::context(threads)?,
            gpu: match device {
                DeviceChoice::Cpu => told("CPU"),
                DeviceChoice::Emulate => told("emulator"),
                DeviceChoice::Auto => Gpu::open(0),
                DeviceChoice::Cuda(index) => Ok(Gpu::open(index)?),
            },
        })
    }

    /// The machine as a document shows it.
    #[must_use]
    pub fn machine(&self) -> MachineInfo {
        machine(&self.cpu, &self.gpu)
    }
}

fn machine(cpu: &CpuContext, gpu: &Result<Gpu, Error>) -> MachineInfo {
    let gpu = gpu.as_ref().ok();
    MachineInfo {
        host: Machine::probe(),
        threads: cpu.threads(),
        driver: gpu.and_then(|_| crate::gpu::driver().ok()),
        jit_seconds: gpu.map(|gpu| gpu.compile_time().as_secs_f64()),
        load_seconds: gpu.map(|gpu| gpu.load_time().as_secs_f64()),
        gpu: gpu.map(|gpu| gpu.info().clone()),
    }
}

/// The operands in host memory; `c` is what C holds before, empty where beta is 0.
struct Inputs<T: ScalarTypes> {
    a: Vec<T::A>,
    b: Vec<T::B>,
    c: Vec<T::C>,
}

impl<T: ScalarTypes> Inputs<T> {
    fn draw(problem: &Problem<T>, config: &Config) -> Result<Self, Error> {
        let Config { distribution, seed, .. } = *config;
        let draw = Draw { distribution, seed, stream: 0, what: "an operand" };
        let reads_c = problem.beta != T::Acc::ZERO;
        Ok(Self {
            a: draw.operand(problem, Operand::A)?,
            b: draw.operand(problem, Operand::B)?,
            c: if reads_c { draw.operand(problem, Operand::C)? } else { Vec::new() },
        })
    }
}

/// Refuses before anything is allocated what the memory cannot hold.
fn check_memory<T: ScalarTypes>(problem: &Problem<T>, check: Method) -> Result<(), Error> {
    let copies = if problem.beta == T::Acc::ZERO { 1 } else { 2 };
    let bytes = [Operand::A, Operand::B, Operand::C].map(|operand| {
        let (rows, cols) = problem.dims(operand);
        let times = if operand == Operand::C { copies } else { 1 };
        (rows as u128 * cols as u128).saturating_mul(T::TYPES.of(operand).size() as u128 * times)
    });
    let checked = check.reference_bytes(problem);
    let needed = bytes.into_iter().fold(checked, u128::saturating_add);
    let Problem { m, n, k, .. } = problem;
    let checked = if checked == 0 { "" } else { " with every element checked" };
    machine::check_memory(&format!("a product of {m} x {n} x {k}{checked}"), needed)
}

/// Fills in what compares a row with others: the serial row, and the seeds' figures.
fn compare(rows: &mut [Row], config: &Config) {
    let serial = rows.iter().find(|row| row.kernel == "serial").map(|row| row.seconds);
    for row in rows {
        row.speedup = serial.map(|serial| serial / row.seconds);
        // An emulated kernel's time is no time of the kernel.
        if config.dtype == Types::F32 && config.device != DeviceChoice::Emulate {
            row.then_seconds = history::then(row.kernel, config.m, config.n, config.k)
                .map(|figure| figure.seconds);
        }
    }
}

/// The verdict as the document shows it.
fn verdict(report: &Report) -> Verdict {
    Verdict {
        method: report.method,
        ok: report.ok,
        max_error: report.max_error,
        bound: report.bound,
        detail: (!report.ok).then(|| report.to_string()),
        diagnosis: None,
    }
}

/// Which kernels of the registry a device cannot run for a problem, and why.
///
/// # Errors
/// The reason, in words.
fn supported<T: ScalarTypes>(
    spec: Kernel,
    problem: &Problem<T>,
    limits: &DeviceLimits,
) -> Result<(), String> {
    spec.supports(problem, limits).map_err(|reason| reason.to_string())
}

#[cfg(test)]
mod tests {
    use gemm_spec::Convert;

    use super::*;
    use crate::cpu::CpuImpl;
    use crate::report::{Format, render};

    /// Reads A's tiles of 8 x 8 transposed.
    fn transposed_tiles<T: ScalarTypes>(
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
        _: &CpuContext,
    ) -> Result<(), cpu_gemm::Error> {
        let Problem { m, n, k, .. } = *problem;
        for row in 0..m {
            for col in 0..n {
                let mut acc = T::Acc::ZERO;
                for step in 0..k {
                    let (i, l) = (row - row % 8 + step % 8, step - step % 8 + row % 8);
                    let value = if i < m && l < k { a[problem.a.index(i, l)] } else { T::A::ZERO };
                    acc = T::mul_add(value, b[problem.b.index(step, col)], acc);
                }
                c[problem.c.index(row, col)] = T::C::narrow(acc);
            }
        }
        Ok(())
    }

    static BROKEN: CpuImpl = CpuImpl {
        id: "broken",
        about: "reads tiles transposed",
        origin: "a test",
        blocked: false,
        parallel: false,
        any_order: false,
        study: false,
        forms: crate::cpu::implementation::forms!(transposed_tiles),
    };

    fn config() -> Config {
        Config {
            m: 150,
            n: 40,
            k: 50,
            dtype: Types::F32,
            alpha: 1.0,
            beta: 0.0,
            implementations: vec![Implementation::Cpu(&BROKEN)],
            device: DeviceChoice::Cpu,
            threads: NonZeroUsize::new(1),
            seed: 0,
            distribution: Distribution::Uniform,
            check: Method::Auto,
            budget: Duration::from_secs(60),
        }
    }

    /// A product whose inner loop is five times slower where B is large, as one that leaves the cache.
    fn slow_where_large<T: ScalarTypes>(
        problem: &Problem<T>,
        _: &[T::A],
        _: &[T::B],
        _: &mut [T::C],
        _: &CpuContext,
    ) -> Result<(), cpu_gemm::Error> {
        let times = if problem.n < 1000 { 1.0 } else { 5.0 };
        std::thread::sleep(Duration::from_secs_f64(times * problem.flops() / 2e9));
        Ok(())
    }

    static SLOW: CpuImpl = CpuImpl {
        id: "slow",
        forms: crate::cpu::implementation::forms!(slow_where_large),
        ..BROKEN
    };

    #[test]
    fn an_estimate_counts_what_a_smaller_size_does_not_show() {
        let config = Config {
            m: 1000,
            n: 1000,
            k: 1000,
            implementations: vec![Implementation::Cpu(&SLOW)],
            budget: Duration::from_millis(800),
            ..config()
        };
        let document = run(&config, &mut ()).unwrap();
        let row = &document.rows[0];
        // Sleeping may take longer than it was told, and never less.
        assert!(row.estimated && (4.5..8.0).contains(&row.seconds), "{row:?}");
    }

    #[test]
    fn a_wrong_row_says_what_it_looks_like() {
        let config = config();
        let document = run(&config, &mut ()).unwrap();
        assert!(!document.all_right());
        let table = render(&document, Format::Table, false).unwrap();
        let note = "broken: tiles of A, 8 x 8, are read transposed (confidence ";
        assert!(table.lines().any(|line| line.starts_with(note)), "{table}");
        let json = render(&document, Format::Json, false).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let diagnosis = &json["rows"][0]["check"]["diagnosis"]["diagnoses"][0];
        assert_eq!(diagnosis["pattern"]["name"], "transposed_in_tiles");
        assert_eq!(diagnosis["pattern"]["operand"], "A");
        assert_eq!(diagnosis["pattern"]["width"], 8);

        let right = Implementation::Cpu(crate::cpu::CPU[0]);
        let document = run(&Config { implementations: vec![right], ..config }, &mut ()).unwrap();
        let table = render(&document, Format::Table, false).unwrap();
        assert!(document.all_right() && !table.contains("confidence"), "{table}");
    }
}
