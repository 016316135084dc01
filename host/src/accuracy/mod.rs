//! The errors of products of f32 and f64: every way to sum, beside peers, on data from easy to ill-conditioned.
//!
//! An element is compared with a reference that has twice the digits and is rounded once to f64, see
//! [`verify`](crate::verify). Two figures are told of a product: the relative error in the Frobenius
//! norm, and the worst element's error over `|A||B|` of that element.

mod data;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use gemm_spec::{Problem, Types};
use serde::Serialize;

pub use self::data::{DataSet, Judged};
use crate::error::Error;
use crate::measure::{self, Candidate, DeviceChoice, Observer, Processors, Room, Verdict};
use crate::registry::{self, Implementation};
use crate::scalar::ScalarTypes;
use crate::verify::{Checker, Guarded, Method};

/// What a document of this form calls itself.
pub const FORMAT: &str = "tessera-accuracy-1";

/// What to compare on what.
#[derive(Clone)]
pub struct Request {
    /// What is multiplied: [`Types::F32`] or [`Types::F64`].
    pub dtype: Types,
    /// Implementations and peers, in the order in which they are shown.
    pub candidates: Vec<Candidate>,
    /// Folders in which peers' libraries are looked for first.
    pub peer_folders: Vec<PathBuf>,
    /// Data sets.
    pub sets: Vec<DataSet>,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Steps, each value of its own.
    pub steps: Vec<usize>,
    /// Processors.
    pub device: DeviceChoice,
    /// CPU threads; `None` takes one for each core.
    pub threads: Option<NonZeroUsize>,
    /// Seed of the data.
    pub seed: u64,
}

/// What holds for all rows of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Head {
    /// [`FORMAT`].
    pub format: &'static str,
    /// What was multiplied.
    pub dtype: &'static str,
    /// Seed of the data.
    pub seed: u64,
    /// Version of this program.
    pub version: &'static str,
    /// The processor, and the GPU if there is one.
    pub processors: Vec<String>,
    /// The GPU's driver.
    pub driver: Option<String>,
}

/// Products, in the order of data sets, steps and implementations.
pub type Document = measure::Document<Head, Row>;

/// One product.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The data set.
    pub data: &'static str,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Steps.
    pub k: usize,
    /// The implementation or peer.
    pub kernel: &'static str,
    /// Norm of the errors over that of the reference; `None` where an element is no number.
    pub frobenius: Option<f64>,
    /// The largest error of an element over `|A||B|`; `None` where that has no end.
    pub worst: Option<f64>,
    /// Whether every element is within the bound that all implementations are checked by.
    pub ok: bool,
}

impl Document {
    /// Whether every product is within its bound.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.rows.iter().all(|row| row.ok)
    }
}

/// One implementation for each way to sum such products: `rayon` for all that add in one chain, since their bits are
/// the same, the CPU engine, and every kernel that does not add in one chain.
#[must_use]
pub fn ways_to_sum(dtype: Types) -> Vec<Implementation> {
    let differs = |implementation: &Implementation| match implementation {
        Implementation::Cpu(cpu) => matches!(cpu.id, "rayon" | "cpu_packed"),
        Implementation::Gpu(spec) => !spec.is_chain() && spec.entry(dtype).is_ok(),
    };
    registry::all().filter(differs).collect()
}

/// Computes and compares everything that is asked for.
///
/// # Errors
/// What stops all of it: a demanded device that is not there, sizes beyond memory, types that are not judged. An
/// implementation that fails is skipped with the reason.
pub fn run(request: &Request, observer: &mut dyn Observer) -> Result<Document, Error> {
    match request.dtype {
        Types::F32 => run_as::<f32>(request, observer),
        Types::F64 => run_as::<f64>(request, observer),
        other @ (Types::I32
        | Types::I8
        | Types::F16
        | Types::BF16
        | Types::F16F32
        | Types::BF16F32) => Err(Error::Check {
            reason: format!("errors of {other} are not told, only those of f32 and f64"),
        }),
    }
}

fn run_as<T>(request: &Request, observer: &mut dyn Observer) -> Result<Document, Error>
where
    T: ScalarTypes<A = T, B = T, C = T> + Judged,
{
    let processors = Processors::open(request.device, request.threads)?;
    let gpu = processors.gpu.as_ref().ok();
    let mut document = Document::new(Head {
        format: FORMAT,
        dtype: T::TYPES.name(),
        seed: request.seed,
        version: env!("CARGO_PKG_VERSION"),
        processors: std::iter::once(processors.host.cpu.clone())
            .chain(gpu.map(|gpu| gpu.info().name.clone()))
            .collect(),
        driver: processors.driver_version(),
    });
    let mut workers = Vec::new();
    for candidate in &request.candidates {
        observer.step(&format!("preparing {}", candidate.id()));
        match candidate.worker(&request.peer_folders, &processors) {
            Ok(worker) => workers.push((candidate.id(), worker)),
            Err(reason) => document.skip(candidate.id(), None, reason),
        }
    }
    let (m, n) = (request.m, request.n);
    let room = Room { sets: 1, of_c: 1, check: Method::Full };
    for &k in &request.steps {
        let problem = Problem::<T>::new(m, n, k);
        room.check(&problem, &room.of_a_product(&problem))?;
    }
    for &set in &request.sets {
        for &k in &request.steps {
            let problem = Problem::<T>::new(m, n, k);
            observer.step(&format!("computing the reference of {set}, k = {k}"));
            let (a, b) = set.draw::<T>(m, n, k, request.seed)?;
            let checker = Checker::new(&problem, &a, &b, &[], Method::Full, request.seed)?;
            for (kernel, worker) in &workers {
                observer.step(&format!("comparing {kernel} on {set}, k = {k}"));
                let mut c = Guarded::new(&problem)?;
                c.poison(&[]);
                match worker.compute(&problem, (&a, &b), &mut c, &processors) {
                    Ok(()) => document.rows.push(row(set, (m, n, k), kernel, &checker, &c)),
                    Err(error) => document.skip(kernel, Some([m, n, k]), error.to_string()),
                }
            }
        }
    }
    Ok(document)
}

fn row<T: ScalarTypes>(
    set: DataSet,
    (m, n, k): (usize, usize, usize),
    kernel: &'static str,
    checker: &Checker<'_, T>,
    c: &Guarded<T>,
) -> Row {
    let accuracy = checker.accuracy(c.as_slice());
    let finite = |value: f64| value.is_finite().then_some(value);
    Row {
        data: set.name(),
        m,
        n,
        k,
        kernel,
        frobenius: accuracy.and_then(|accuracy| finite(accuracy.frobenius)),
        worst: accuracy.and_then(|accuracy| finite(accuracy.worst)),
        ok: Verdict::new(&checker.check(c.as_slice()), c).ok,
    }
}
