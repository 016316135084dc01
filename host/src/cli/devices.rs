//! `tessera devices`: the processors that this program may use.

use std::fmt::Write;

use clap::ValueEnum;
use cpu_gemm::matrix_units;
use gemm_spec::Types;
use serde::Serialize;

use super::Exit;
use super::output::print;
use crate::bench::peak::{CpuPeak, measure};
use crate::cpu;
use crate::error::Error;
use crate::gpu::{self, DeviceInfo, DriverInfo, Gpu};
use crate::machine::{Machine, available_memory};
use crate::report::bytes::binary;
use crate::report::counted;
use crate::report::layout::{paragraphs, terminal_width};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Output.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Form,
}

/// How devices are shown.
#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Table,
    Json,
}

/// Everything that is shown.
#[derive(Serialize)]
struct Devices {
    host: Machine,
    /// The CPU's matrix units, or why it has none that can be used.
    matrix_units: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_matrix_units: Option<String>,
    /// What the cores multiply and add at most, in f32 and then in f64: one alone and all at once.
    cpu_peaks: Vec<Peak>,
    /// Memory that a process could still get.
    available_bytes: Option<u64>,
    driver: Option<DriverInfo>,
    gpus: Vec<Device>,
    /// Why no GPU can be used, in words, where none can.
    no_gpu: Option<String>,
}

/// What the CPU's units did in one element type.
#[derive(Serialize)]
struct Peak {
    dtype: &'static str,
    #[serde(flatten)]
    peak: CpuPeak,
}

impl Peak {
    fn all() -> Result<Vec<Self>, Error> {
        let context = cpu::context(None)?;
        let mut threads = vec![1, context.threads()];
        threads.dedup();
        let cases = [Types::F32, Types::F64].into_iter();
        let cases = cases.flat_map(|dtype| threads.iter().map(move |&threads| (dtype, threads)));
        let peaks = cases.filter_map(|(dtype, threads)| {
            let peak = measure(&context, threads, dtype, false)?;
            Some(Self { dtype: dtype.name(), peak })
        });
        Ok(peaks.collect())
    }
}

/// A GPU and what it has to give now.
#[derive(Serialize)]
struct Device {
    #[serde(flatten)]
    info: DeviceInfo,
    /// Free memory; none where the device does not open.
    free_bytes: Option<u64>,
    /// Why the device does not open, where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    unusable: Option<String>,
}

impl Device {
    fn new(info: DeviceInfo) -> Self {
        let (free_bytes, unusable) = match free_memory(info.index) {
            Ok(free) => (Some(free), None),
            Err(reason) => (None, Some(reason.to_string())),
        };
        Self { info, free_bytes, unusable }
    }
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let (gpus, no_gpu) = match gpu::devices() {
        Ok(gpus) => (gpus.into_iter().map(Device::new).collect(), None),
        Err(reason) => (Vec::new(), Some(reason.to_string())),
    };
    let devices = Devices {
        host: Machine::probe(),
        matrix_units: matrix_units().ok(),
        no_matrix_units: matrix_units().err().map(|reason| reason.to_string()),
        cpu_peaks: Peak::all()?,
        available_bytes: available_memory(),
        driver: gpu::driver().ok(),
        gpus,
        no_gpu,
    };
    print(&match args.format {
        Form::Table => paragraphs(&table(&devices)?, terminal_width()),
        Form::Json => serde_json::to_string_pretty(&devices)? + "\n",
    })?;
    Ok(Exit::Success)
}

fn free_memory(index: u32) -> Result<u64, Error> {
    Ok(Gpu::open(index)?.free_memory()?)
}

fn table(devices: &Devices) -> Result<String, std::fmt::Error> {
    let Devices {
        host,
        matrix_units,
        no_matrix_units,
        cpu_peaks,
        available_bytes,
        driver,
        gpus,
        no_gpu,
    } = devices;
    let mut text = String::new();
    let size = |bytes: u64| binary(u128::from(bytes));
    let some_size = |bytes: &Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size);
    let features =
        if host.features.is_empty() { "none".to_owned() } else { host.features.join(" ") };

    writeln!(text, "cpu: {}", host.cpu)?;
    writeln!(text, "  system              {}", host.os)?;
    writeln!(text, "  cores               {}", host.cores)?;
    writeln!(text, "  vector features     {features}")?;
    match (matrix_units, no_matrix_units) {
        (Some(name), _) => writeln!(text, "  matrix units        {name}")?,
        (None, Some(reason)) => writeln!(text, "  matrix units        none: {reason}")?,
        (None, None) => {}
    }
    for Peak { dtype, peak } in cpu_peaks {
        let CpuPeak { flops, vectors, threads } = peak;
        let threads = counted(*threads, "thread");
        writeln!(
            text,
            "  peak in {dtype}         {:.1} GFLOP/s, {threads}, {vectors}",
            flops / 1e9
        )?;
    }
    writeln!(text, "  memory              {}", size(host.memory_bytes))?;
    writeln!(text, "  memory available    {}", some_size(available_bytes))?;
    if let Some(driver) = driver {
        let version = driver.version.as_deref().unwrap_or("of unknown version");
        writeln!(text, "driver: {version}, serves CUDA up to {}", driver.cuda)?;
    }
    for Device { info, free_bytes, unusable } in gpus {
        let (major, minor) = info.compute_capability;
        writeln!(text, "cuda:{}: {}", info.index, info.name)?;
        writeln!(text, "  compute capability  {major}.{minor}")?;
        writeln!(text, "  SMs                 {}", info.multiprocessors)?;
        writeln!(text, "  clock               {} MHz", info.clock_mhz)?;
        writeln!(text, "  memory              {}", size(info.memory_bytes))?;
        writeln!(text, "  memory free         {}", some_size(free_bytes))?;
        writeln!(text, "  L2 cache            {}", size(info.l2_bytes))?;
        let shared = u64::from(info.shared_bytes_per_block);
        writeln!(text, "  shared per block    {}", size(shared))?;
        if let Some(reason) = unusable {
            writeln!(text, "  cannot be used      {reason}")?;
        }
    }
    if let Some(reason) = no_gpu {
        writeln!(text, "{reason}")?;
    }
    Ok(text)
}
