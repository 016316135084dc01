//! `tessera tune`: measures what the choices of a processor and of a kernel depend on, and keeps it; judges
//! the choices.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use gemm_spec::Types;

use super::output::{Progress, Replacement, advise, print};
use super::{Exit, values};
use crate::auto::{self, EDGES, Judged};
use crate::bench::idle::{self, IDLE};
use crate::cpu;
use crate::figures::{self, FOLDER_VARIABLE, Kept};
use crate::gpu::devices;
use crate::machine::Machine;
use crate::measure::{DeviceChoice, Observer, Processors};
use crate::multiplier::Multiplier;
use crate::report::counted;
use crate::report::duration::seconds as in_seconds;
use gemm_spec::with_gemm_types;
use tessera::Accuracy;
use tessera::select::{ASSUMED_RATE, Figures, GpuFigures, TransferModel};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show the figures in use and where they come from; nothing is measured.
    #[arg(long, conflicts_with = "forget")]
    show: bool,
    /// Delete the stored figures: the built-in assumptions apply again.
    #[arg(long)]
    forget: bool,
    /// Time products of 8 x 8 x 8 to 8192 x 8192 x 8192 by every implementation, interleaved, from host memory
    /// to host memory, and show what the choice costs beside the fastest; nothing is stored.
    #[arg(long, conflicts_with_all = ["show", "forget"])]
    judge: bool,
    /// Largest size that is judged.
    #[arg(long, value_name = "N", default_value_t = 8192, requires = "judge",
          value_parser = clap::value_parser!(u64).range(EDGES[0] as u64..))]
    most: u64,
    /// Element type that is judged.
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = values::types,
          requires = "judge")]
    dtype: Types,
    /// Processors: auto, cpu, cuda or cuda:I.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = values::processor,
          conflicts_with_all = ["show", "forget"])]
    device: DeviceChoice,
    /// CPU threads [default: RAYON_NUM_THREADS, else one for each core].
    #[arg(long, value_name = "T", value_parser = values::threads,
          conflicts_with_all = ["show", "forget"])]
    threads: Option<NonZeroUsize>,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    if args.judge {
        print(&judged(args)?)?;
        return Ok(Exit::Success);
    }
    let path = figures::file().ok_or_else(|| {
        anyhow!("the system names no folder for caches; name one in {FOLDER_VARIABLE}")
    })?;
    if args.show {
        print(&shown(&path)?)?;
    } else if args.forget {
        print(&forget(&path)?)?;
    } else {
        let figures = measured(args)?;
        // First: they are the work of some seconds, whether they can be kept or not.
        print(&text(&figures))?;
        keep(&path, &figures)?;
        advise(&format!("{}: kept; `tessera tune --forget` deletes it", path.display()));
    }
    Ok(Exit::Success)
}

/// How long the machine may take to become idle.
const PATIENCE: Duration = Duration::from_secs(3);

/// Measures this machine.
fn measured(args: &Args) -> anyhow::Result<Figures> {
    let processors = Processors::open(args.device, values::thread_count(args.threads)?)?;
    let mut progress = Progress::new();
    progress.step("waiting for an idle machine");
    if let Some(busy) = idle::wait(PATIENCE).filter(|busy| *busy > IDLE) {
        advise(&format!(
            "other programs use {:.0} % of the machine: rates measured now are too low; run `tessera tune` \
             again when it is idle",
            100.0 * busy
        ));
    }
    progress.step("measuring");
    let Processors { cpu, gpu, host, .. } = &processors;
    Ok(auto::tune(cpu, gpu.as_ref().ok(), &host.cpu, &mut progress)?)
}

/// What the choice costs, a line for each size.
fn judged(args: &Args) -> anyhow::Result<String> {
    let threads = values::thread_count(args.threads)?;
    let multiplier = Multiplier::open(None, args.device, Accuracy::default(), threads, None)?;
    let edges: Vec<usize> = EDGES.into_iter().filter(|&edge| edge as u64 <= args.most).collect();
    let mut progress = Progress::new();
    let sizes = with_gemm_types!(args.dtype, T => auto::judge::<T>(multiplier.engine(), &edges, &mut progress))?;
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).force_no_tty();
    table.set_header(["n", "chosen", "seconds", "fastest", "seconds", "cost", "ways"]);
    for size in &sizes {
        let cost = size.cost();
        let Judged { edge, chosen, seconds, best, best_seconds, ways } = size;
        table.add_row([
            edge.to_string(),
            (*chosen).to_owned(),
            in_seconds(*seconds),
            (*best).to_owned(),
            in_seconds(*best_seconds),
            format!("{cost:.2}x"),
            ways.to_string(),
        ]);
    }
    for column in [0, 2, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let worst = sizes.iter().max_by(|one, other| one.cost().total_cmp(&other.cost()));
    let worst = worst.map_or_else(String::new, |size| {
        format!(
            "\nthe choice costs at most {:.2}x the fastest way, at n = {}\n",
            size.cost(),
            size.edge
        )
    });
    Ok(format!("{table}\n{worst}"))
}

/// Writes the file; one that is there is replaced when all is written.
fn keep(path: &Path, figures: &Figures) -> anyhow::Result<()> {
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let file = Replacement::new(path)?;
    let mut json = serde_json::to_string_pretty(figures)?;
    json.push('\n');
    file.write(json.as_bytes())
}

/// Deletes the file, and says whether there was one.
fn forget(path: &Path) -> anyhow::Result<String> {
    match fs::remove_file(path) {
        Ok(()) => Ok(format!("{}: deleted\n", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(format!("{}: there is none\n", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot delete {}", path.display())),
    }
}

/// The figures that an engine on this machine uses, and from where.
fn shown(path: &Path) -> anyhow::Result<String> {
    let (cpu, gpus) = (Machine::probe().cpu, devices().unwrap_or_default());
    let (from, figures) = match figures::read(path) {
        Kept::Figures(figures) => {
            let Figures { date, version, .. } = &*figures;
            let from = format!("{}, measured on {date} by tessera {version}", path.display());
            (from, Some(figures))
        }
        Kept::Nothing => (format!("assumptions; there is no {}", path.display()), None),
        Kept::Unusable(reason) => (format!("assumptions; {reason}"), None),
    };
    let mut out = format!("from: {from}\n");
    match figures.as_deref().filter(|figures| figures.cpu.processor == cpu) {
        Some(figures) => out.push_str(&cpu_text(figures)),
        None => {
            let threads = counted(cpu::context(None)?.threads(), "thread");
            let rate = ASSUMED_RATE / 1e9;
            writeln!(out, "cpu: assumed, {rate} GFLOP/s for each of {threads} of {cpu}")?;
        }
    }
    let measured = figures.as_deref().and_then(|figures| figures.gpu.as_ref());
    match gpus.first() {
        Some(gpu) => match measured.filter(|ways| ways.device == gpu.name) {
            Some(ways) => out.push_str(&gpu_text(&ways.device, ways)),
            None => {
                let assumed = GpuFigures::assumed(gpu.compute_capability);
                out.push_str(&gpu_text(&format!("assumed for {}", gpu.name), &assumed));
            }
        },
        None => out.push_str("gpu: none, all products stay on the CPU\n"),
    }
    Ok(out)
}

/// Everything that was measured.
fn text(figures: &Figures) -> String {
    let gpu = figures.gpu.as_ref().map(|ways| gpu_text(&ways.device, ways));
    cpu_text(figures) + gpu.as_deref().unwrap_or("gpu: none\n")
}

/// The rates of the CPU engine: a line for each type, a column for each size.
fn cpu_text(figures: &Figures) -> String {
    let cpu = &figures.cpu;
    let threads = counted(cpu.threads, "thread");
    let mut out = format!("cpu: {}, {threads}, GFLOP/s\n", cpu.processor);
    let mut edges: Vec<usize> = cpu.cubes.iter().map(|cube| cube.edge).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut types: Vec<&str> = cpu.cubes.iter().map(|cube| cube.dtype.as_str()).collect();
    types.dedup();
    let names = types.iter().map(|name| name.len()).max().unwrap_or(0);
    let line = |name: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>9}")).collect();
        format!("  {name:<names$}{cells}\n")
    };
    out += &line("n", edges.iter().map(ToString::to_string).collect());
    for dtype in types {
        let rate = |&edge: &usize| {
            let own = cpu.cubes.iter().find(|cube| cube.dtype == dtype && cube.edge == edge);
            own.map_or_else(String::new, |cube| format!("{:.1}", cube.flops() / cube.seconds / 1e9))
        };
        out += &line(dtype, edges.iter().map(rate).collect());
    }
    out
}

/// Both ways and the launch.
fn gpu_text(name: &str, ways: &GpuFigures) -> String {
    let way = |what: &str, way: &TransferModel| {
        format!(
            "  {what:<12}{:>7.1} GB/s, the bus {:.1} GB/s, the shortest copy {:.1} us\n",
            way.rate() / 1e9,
            way.bus_rate / 1e9,
            way.latency() * 1e6
        )
    };
    let launch = format!("  {:<12}{:>7.1} us\n", "launch", ways.launch * 1e6);
    let both = way("to device", &ways.to_device) + &way("from device", &ways.from_device);
    let kernels = match ways.kernels.len() {
        0 => String::new(),
        times => format!("  {:<12}{:>7}\n", "kernels", counted(times, "time")),
    };
    format!("gpu: {name}\n{both}{launch}{kernels}")
}
