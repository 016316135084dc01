//! `tessera doctor`: whether each processor is found and multiplies right, and what would mend it if not.

use std::env;
use std::fmt::Write;

use cpu_gemm::matrix_units;
use gemm_spec::{Problem, Types, with_gemm_types};

use super::Exit;
use super::output::print;
use crate::cpu::implementation::{ISA_VARIABLE, UNITS_VARIABLE};
use crate::error::Error;
use crate::figures::{self, Kept};
use crate::fill::{Distribution, Draw};
use crate::gpu;
use crate::measure::{Candidate, DeviceChoice, Inputs, Processors, Verdict, without_gpu};
use crate::peers;
use crate::report::counted;
use crate::report::layout::{paragraphs, terminal_width};
use crate::scalar::ScalarTypes;
use crate::verify::{Checker, Guarded, Method};

/// Ragged in m, n and k, so that tiles of every kind of edge take part.
const SIZES: [usize; 3] = [129, 67, 200];

/// What all of the project's variables begin with.
const PREFIX: &str = "TESSERA_";

/// Those that the program reads.
const VARIABLES: [&str; 7] = [
    ISA_VARIABLE,
    UNITS_VARIABLE,
    figures::FOLDER_VARIABLE,
    cuda_lazy::LIBRARY_VARIABLE,
    gpu::CODE_VARIABLE,
    gpu::CUBLAS_VARIABLE,
    peers::FOLDERS_VARIABLE,
];

#[derive(clap::Args)]
pub(super) struct Args {}

/// What was found, and how the program ends for it.
struct Findings {
    text: String,
    exit: Exit,
}

impl Findings {
    fn note(&mut self, subject: &str, found: &str) -> std::fmt::Result {
        writeln!(self.text, "{subject:<14}{found}")
    }

    /// Something that needs mending; of several exit codes that of a wrong product stays.
    fn fault(&mut self, subject: &str, found: &str, exit: Exit) -> std::fmt::Result {
        if self.exit != Exit::Wrong {
            self.exit = exit;
        }
        self.note(subject, &format!("FAULT: {found}"))
    }
}

pub(super) fn main(_: &Args) -> anyhow::Result<Exit> {
    let mut findings = Findings { text: String::new(), exit: Exit::Success };
    variables(&mut findings)?;
    let processors = Processors::open(DeviceChoice::Auto, None)?;
    cpu(&mut findings, &processors)?;
    device(&mut findings, &processors)?;
    kept(&mut findings)?;
    for name in ["cpu_packed", "cpu_amx", "auto"] {
        products(&mut findings, &processors, Candidate::find(name)?)?;
    }
    let verdict =
        if findings.exit == Exit::Success { "nothing needs mending" } else { "see above" };
    findings.note("", verdict)?;
    print(&paragraphs(&findings.text, terminal_width()))?;
    Ok(findings.exit)
}

/// A misspelt variable is read by nobody, and nobody says so.
fn variables(findings: &mut Findings) -> std::fmt::Result {
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && !VARIABLES.contains(&name.as_ref()) {
            let known = VARIABLES.join(", ");
            let found = format!("{name} is set and nothing reads it; there are {known}");
            findings.fault("environment", &found, Exit::Usage)?;
        }
    }
    Ok(())
}

fn cpu(findings: &mut Findings, processors: &Processors) -> std::fmt::Result {
    let context = &processors.cpu;
    let threads = counted(context.threads(), "thread");
    let model = &processors.host.cpu;
    findings.note("cpu", &format!("{model}, {threads}, tiles of {}", context.isa()))?;
    match matrix_units() {
        Ok(name) => {
            findings.note("matrix units", &format!("{name}, --cpu-units is {}", context.units()))
        }
        Err(reason) => findings.note("matrix units", &format!("none: {reason}")),
    }
}

/// No driver and no GPU is a machine without one; a GPU that does not open is a fault.
fn device(findings: &mut Findings, processors: &Processors) -> std::fmt::Result {
    let version = processors.driver_version();
    match (&processors.gpu, gpu::devices()) {
        (Ok(gpu), _) => {
            let driver = version.unwrap_or_else(|| "of unknown version".to_owned());
            findings.note("gpu", &format!("{}, driver {driver}", gpu.info().name))
        }
        (Err(error), Ok(devices)) if !devices.is_empty() => {
            let found = format!("{} does not open: {}", devices[0].name, without_gpu(error));
            findings.fault("gpu", &found, Exit::NoDevice)
        }
        // Who names the driver's library means to have a GPU.
        (Err(error), _) if env::var_os(cuda_lazy::LIBRARY_VARIABLE).is_some() => {
            findings.fault("gpu", &format!("none: {}", without_gpu(error)), Exit::NoDevice)
        }
        (Err(error), _) => findings.note("gpu", &format!("none: {}", without_gpu(error))),
    }
}

fn kept(findings: &mut Findings) -> std::fmt::Result {
    match figures::file().map_or(Kept::Nothing, |path| figures::read(&path)) {
        Kept::Figures(_) => findings.note("figures", "measured; `tessera tune --show` shows them"),
        Kept::Nothing => findings
            .note("figures", "not measured; `tessera tune` makes the choice of processor surer"),
        Kept::Unusable(reason) => findings.fault("figures", &reason, Exit::Usage),
    }
}

/// A product of each type by one candidate, every element checked.
fn products(
    findings: &mut Findings,
    processors: &Processors,
    candidate: Candidate,
) -> std::fmt::Result {
    let mut right = Vec::new();
    for types in Types::ALL {
        match with_gemm_types!(types, T => product::<T>(processors, candidate)) {
            Ok(None) => {}
            Ok(Some(Verdict { ok: true, .. })) => right.push(types.name()),
            Ok(Some(Verdict { detail, .. })) => {
                let found = format!("{types} is wrong: {}", detail.unwrap_or_default());
                findings.fault(candidate.id(), &found, Exit::Wrong)?;
            }
            Err(error) => {
                findings.fault(candidate.id(), &format!("{types}: {error}"), Exit::Wrong)?
            }
        }
    }
    if right.is_empty() {
        return Ok(());
    }
    let [m, n, k] = SIZES;
    let found = format!("right in {}: {m} x {n} x {k}, every element checked", right.join(", "));
    findings.note(candidate.id(), &found)
}

/// `None` where the candidate does not run here or has nothing for the types.
fn product<T: ScalarTypes>(
    processors: &Processors,
    candidate: Candidate,
) -> Result<Option<Verdict>, Error> {
    let [m, n, k] = SIZES;
    let problem = Problem::<T>::new(m, n, k);
    let draw = Draw { distribution: Distribution::Uniform, seed: 1, stream: 0, what: "a product" };
    let worker = candidate
        .chosen(&problem, processors)
        .and_then(|chosen| chosen.worker(&[], processors))
        .and_then(|worker| worker.supports(&problem, processors).map(|()| worker));
    let Ok(worker) = worker else { return Ok(None) };
    let Inputs { a, b, .. } = Inputs::that_are_read(&problem, draw)?;
    let checker = Checker::new(&problem, &a, &b, &[], Method::Full, 1)?;
    let mut result = Guarded::new(&problem)?;
    result.poison(&[]);
    worker.compute(&problem, (&a, &b), &mut result, processors)?;
    Ok(Some(Verdict::new(&checker.check(result.as_slice()), &result)))
}
