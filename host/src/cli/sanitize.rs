//! `tessera sanitize`: every kernel on the emulator, with every access and barrier checked.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::ValueEnum;
use cuda_std::emulate::{Observer, Order, Strict};
use gemm_spec::{Arch, Types, with_gemm_types};
use kernels_gpu::{KERNELS, Kernel};
use serde::Serialize;

use super::output::print;
use super::{Exit, nothing_ran, values};
use crate::emulate::Options;
use crate::measure::DeviceChoice;
use crate::registry::Implementation;
use crate::sanitize::{Findings, Outcome, Plan, Planted, Shape, Stopped, Trace, examine, plant};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Kernels: patterns such as 'tiled*,!tiled2' [default: all].
    #[arg(long, value_name = "PATTERNS", value_parser = values::patterns)]
    kernel: Option<String>,
    /// Element types [default: all that a kernel has].
    #[arg(long, value_name = "TYPE", value_parser = values::types)]
    dtype: Option<Types>,
    /// Rows of A and C, with -n and -k [default: several products with edges].
    #[arg(short = 'm', value_name = "M", value_parser = values::size, requires_all = ["n", "k"])]
    m: Option<usize>,
    /// Columns of B and C.
    #[arg(short = 'n', value_name = "N", value_parser = values::size, requires_all = ["m", "k"])]
    n: Option<usize>,
    /// Columns of A and rows of B.
    #[arg(short = 'k', value_name = "K", value_parser = values::size, requires_all = ["m", "n"])]
    k: Option<usize>,
    /// Elements between the rows of A, B and C, of the product that -m, -n and -k name.
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', requires = "m")]
    padding: Option<Vec<usize>>,
    /// The factor of the old C, of that product.
    #[arg(long, value_name = "BETA", value_parser = values::factor, allow_negative_numbers = true, requires = "m")]
    beta: Option<f64>,
    /// Orders of events of kernels for Hopper: late, early, starve, starve:WARPGROUP, random [default: all].
    #[arg(long, value_name = "ORDERS", value_delimiter = ',')]
    orders: Option<Vec<Events>>,
    /// Random orders of events.
    #[arg(long, value_name = "N", default_value_t = 2)]
    seeds: u64,
    /// The first of their seeds.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// SMs of the device, on each of which every order runs: persistent kernels have no more blocks.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    multiprocessors: Option<Vec<u32>>,
    /// Rules beyond the usual, of the memory model's text: scopes (an arrival by another block tells a wait of this one
    /// nothing), init (fence.mbarrier_init before other threads of the block use an mbarrier).
    #[arg(long, value_name = "RULES", value_delimiter = ',', conflicts_with = "plant")]
    strict: Vec<Rule>,
    /// Plant defects in the kernels for Hopper, in each instruction that orders something, and say which nothing shows.
    #[arg(long, conflicts_with_all = ["m", "orders", "multiprocessors", "trace"])]
    plant: bool,
    /// Write each instruction and barrier that a thread comes to into this file, as lines of JSON.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Output: text or json.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    format: Form,
    /// Where: emulate, or cuda, which runs the tools of compute-sanitizer on the first GPU.
    #[arg(long, value_name = "DEVICE", value_enum, default_value = "emulate")]
    device: Device,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Device {
    Emulate,
    Cuda,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Rule {
    Scopes,
    Init,
}

/// Orders of events as they are named.
#[derive(Clone, Copy)]
enum Events {
    Fixed(Order),
    Starve,
    Random,
}

impl std::str::FromStr for Events {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = match text {
            "late" => Some(Self::Fixed(Order::Late)),
            "early" => Some(Self::Fixed(Order::Early)),
            "starve" => Some(Self::Starve),
            "random" => Some(Self::Random),
            _ => text
                .strip_prefix("starve:")
                .and_then(|warpgroup| warpgroup.parse().ok())
                .map(|warpgroup| Self::Fixed(Order::Starve(warpgroup))),
        };
        known
            .ok_or_else(|| "an order is late, early, starve, starve:WARPGROUP or random".to_owned())
    }
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let kernels = kernels(args)?;
    match (args.device, args.plant) {
        (Device::Cuda, _) => on_a_gpu(args),
        (Device::Emulate, true) => planted(args, &kernels),
        (Device::Emulate, false) => examined(args, &kernels),
    }
}

/// What was typed, made sense of.
fn plan(args: &Args) -> anyhow::Result<Plan> {
    let seeds: Vec<u64> = (0..args.seeds).map(|at| args.seed.wrapping_add(at)).collect();
    let shape = match (args.m, args.n, args.k) {
        (Some(m), Some(n), Some(k)) => {
            let padding = args.padding.as_deref().unwrap_or(&[0, 0, 0]);
            let padding = padding.try_into().context("--padding takes three numbers, as 1,0,3")?;
            Some(Shape { sizes: [m, n, k], padding, beta: args.beta.unwrap_or(0.0) })
        }
        _ => None,
    };
    let orders: Option<Vec<Order>> = args.orders.as_ref().map(|orders| {
        let named = |order: &Events| match *order {
            Events::Fixed(order) => vec![order],
            Events::Starve => vec![Order::Starve(0), Order::Starve(1)],
            Events::Random => seeds.iter().map(|&seed| Order::Random(seed)).collect(),
        };
        orders.iter().flat_map(named).collect()
    });
    if orders.as_ref().is_some_and(Vec::is_empty) {
        bail!("--orders random with --seeds 0 is no order; give --seeds 1 or more");
    }
    let multiprocessors = args.multiprocessors.clone();
    let has = |rule| args.strict.contains(&rule);
    let strict = Strict { scopes: has(Rule::Scopes), init: has(Rule::Init) };
    let base = Options { strict, ..Options::default() };
    Ok(Plan { shape, orders, multiprocessors, seeds, base })
}

fn examined(args: &Args, kernels: &[Kernel]) -> anyhow::Result<Exit> {
    let plan = plan(args)?;
    let trace = match &args.trace {
        Some(path) => {
            let trace = Trace::create(path);
            Some(trace.with_context(|| format!("--trace {}", path.display()))?)
        }
        None => None,
    };
    let text = args.format == Form::Text;
    let mut all = Vec::new();
    for &spec in kernels {
        let observer = trace.as_ref().map(|trace| trace as &dyn Observer);
        let found = examine(spec, args.dtype, &plan, observer)?;
        if text {
            print(&line(&found))?;
        }
        all.push(found);
    }
    if let (Some(trace), Some(path)) = (trace, &args.trace) {
        trace.finish().with_context(|| format!("--trace {}", path.display()))?;
    }
    if !text {
        print(&(serde_json::to_string_pretty(&all)? + "\n"))?;
    }
    if all.iter().all(|found| found.runs == 0) {
        return Ok(nothing_ran::exit(DeviceChoice::Emulate, std::iter::empty()));
    }
    let fine = all.iter().all(|found| found.reports.is_empty());
    Ok(if fine { Exit::Success } else { Exit::Wrong })
}

/// A kernel's line, and those of its reports.
fn line(found: &Findings) -> String {
    let Findings { kernel, products, runs, seconds, reports } = found;
    if *runs == 0 {
        return format!("{kernel}: has no such product\n");
    }
    let verdict = match reports.len() {
        0 => "nothing found".to_owned(),
        number => format!("REPORTS: {number}"),
    };
    let mut text =
        format!("{kernel}: {products} products in {runs} runs, {seconds:.1} s: {verdict}\n");
    for report in reports {
        let [m, n, k] = report.sizes;
        let (types, order, fault) = (&report.types, &report.order, &report.fault);
        let on = report.multiprocessors;
        text += &format!(
            "  {types}, {m} x {n} x {k} (m x n x k), {order}, on {on} multiprocessors: {fault}\n"
        );
        if let Some(remedy) = &report.remedy {
            text += &format!("    remedy: {remedy}\n");
        }
        for stopped in report.stopped.iter().flat_map(Stopped::lines) {
            text += &format!("    {stopped}\n");
        }
        text += &format!("    repeat: {}\n", report.repeat);
    }
    text
}

/// What was planted in a kernel.
#[derive(Serialize)]
struct Sown {
    kernel: &'static str,
    types: String,
    planted: usize,
    reported: usize,
    other_bits: usize,
    /// Those that nothing shows.
    unseen: Vec<String>,
}

/// Plants defects in the kernels that have instructions which order something.
fn planted(args: &Args, kernels: &[Kernel]) -> anyhow::Result<Exit> {
    let mut all = Vec::new();
    for &spec in kernels.iter().filter(|spec| spec.arch == Arch::Sm90a) {
        let mut entries = spec.entries.iter();
        let entry = entries.find(|entry| args.dtype.is_none_or(|types| types == entry.types));
        let Some(entry) = entry else { continue };
        let found = with_gemm_types!(entry.types, T => plant::<T>(spec, |_| true))?;
        let sown = sown(spec, entry.types, &found);
        if args.format == Form::Text {
            let Sown { kernel, types, planted, reported, other_bits, unseen } = &sown;
            let number = unseen.len();
            print(&format!(
                "{kernel}, {types}: {planted} defects, {reported} reported, {other_bits} change C, {number} unseen\n"
            ))?;
            for defect in unseen {
                print(&format!("  {defect}\n"))?;
            }
        }
        all.push(sown);
    }
    if args.format == Form::Json {
        print(&(serde_json::to_string_pretty(&all)? + "\n"))?;
    }
    if all.is_empty() {
        return Ok(nothing_ran::exit(DeviceChoice::Emulate, std::iter::empty()));
    }
    Ok(Exit::Success)
}

fn sown(spec: Kernel, types: Types, found: &[Planted]) -> Sown {
    let of = |outcome: fn(&Option<Outcome>) -> bool| {
        found.iter().filter(|planted| outcome(&planted.outcome)).count()
    };
    let unseen = found.iter().filter(|planted| planted.outcome.is_none());
    Sown {
        kernel: spec.id,
        types: types.to_string(),
        planted: found.len(),
        reported: of(|outcome| matches!(outcome, Some(Outcome::Reported(_)))),
        other_bits: of(|outcome| matches!(outcome, Some(Outcome::OtherBits))),
        unseen: unseen.map(|planted| planted.defect.to_string()).collect(),
    }
}

/// The tools of compute-sanitizer.
const TOOLS: [&str; 4] = ["memcheck", "racecheck", "initcheck", "synccheck"];

/// Runs this program under each tool of compute-sanitizer.
fn on_a_gpu(args: &Args) -> anyhow::Result<Exit> {
    if args.plant
        || args.trace.is_some()
        || args.orders.is_some()
        || !args.strict.is_empty()
        || args.format == Form::Json
    {
        bail!(
            "--plant, --trace, --orders, --strict and --format json are the emulator's: leave them or --device cuda out"
        );
    }
    let program = std::env::current_exe().context("this program's own file")?;
    let mut arguments = vec!["run".to_owned(), "--device".to_owned(), "cuda".to_owned()];
    let mut add = |name: &str, value: Option<String>| {
        arguments.extend(value.map(|value| [name.to_owned(), value]).into_iter().flatten());
    };
    add("--kernel", args.kernel.clone());
    add("--dtype", args.dtype.map(|types| types.to_string()));
    add("-m", Some(args.m.unwrap_or(300).to_string()));
    add("-n", Some(args.n.unwrap_or(400).to_string()));
    add("-k", Some(args.k.unwrap_or(500).to_string()));
    let mut exit = Exit::Success;
    for tool in TOOLS {
        let status = Command::new("compute-sanitizer")
            .args(["--tool", tool, "--error-exitcode", "1"])
            .arg(&program)
            .args(&arguments)
            .status()
            .context("compute-sanitizer is not on PATH; it comes with the CUDA toolkit")?;
        print(&format!(
            "{tool}: {}\n",
            if status.success() { "nothing found" } else { "REPORTS" }
        ))?;
        if !status.success() {
            exit = Exit::Wrong;
        }
    }
    print(
        "not seen by these tools: races of copies by TMA and of wgmma with other accesses; the emulator looks for them\n",
    )?;
    Ok(exit)
}

/// The kernels that were asked for.
fn kernels(args: &Args) -> anyhow::Result<Vec<Kernel>> {
    let Some(patterns) = &args.kernel else { return Ok(KERNELS.to_vec()) };
    let selected = values::implementations(Some(patterns))?;
    Ok(selected
        .into_iter()
        .filter_map(|one| match one {
            Implementation::Gpu(kernel) => Some(kernel),
            Implementation::Cpu(_) => None,
        })
        .collect())
}
