//! `tessera sweep`: implementations over many sizes, as lines.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use gemm_spec::Types;

use super::groups::{Implementations, Products};
use super::output::{Progress, Replacement, advise, print};
use super::{Exit, nothing_ran, values};
use crate::bench::peak::peak;
use crate::history::FIGURES;
use crate::measure::{Config, DeviceChoice};
use crate::run::Failure;
use crate::sweep::{Axis, Request, RowFormat, SizeList, Sweep, draw, summary, sweep, undrawn};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Square sizes: 8:2096:8 (from, to, step), 2^4:2^13, 64,128,1000, or a mixture with commas.
    #[arg(long, value_name = "SIZES", default_value = "2^4:2^10")]
    sizes: SizeList,
    #[command(flatten)]
    implementations: Implementations,
    #[command(flatten)]
    products: Products,
    /// Seconds for the whole sweep, in equal shares for the implementations; rows that do not fit are
    /// skipped and say so.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = values::seconds)]
    budget: Duration,
    /// Rows: csv or jsonl, an object on each line [default: by the ending of --out, else csv].
    #[arg(long, value_name = "FORMAT")]
    format: Option<RowFormat>,
    /// Write each row to this file as soon as it is there, and not to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Continue the file of --out, whose settings must be the same.
    #[arg(long, requires = "out")]
    resume: bool,
    /// Draw the lines into this file, as SVG, on linear and on logarithmic axes.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// What the picture shows: seconds or gflops.
    #[arg(long, value_name = "AXIS", default_value = "seconds")]
    axis: Axis,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let by_ending = || args.out.as_deref().map_or_else(RowFormat::default, RowFormat::of);
    let request = Request {
        config: args.products.config()?,
        sizes: args.sizes.clone(),
        implementations: args.implementations.select()?,
        budget: args.budget,
        format: args.format.unwrap_or_else(by_ending),
        out: args.out.clone(),
        resume: args.resume,
    };
    let picture = args.svg.as_deref().map(Replacement::new).transpose()?;
    if let (Some(picture), Some(out)) = (&picture, &args.out)
        && picture.same_file(out)
    {
        bail!("--out and --svg name one file, {}; name two", out.display());
    }
    let sweep = sweep(&request, &mut Progress::new())?;
    let summary = summary(&sweep.points);
    // Where the rows are on standard output, words about them would spoil it.
    match args.out {
        Some(_) => print(&summary)?,
        None => summary.lines().for_each(advise),
    }
    let mut drawn = true;
    if let (Some(file), Some(path)) = (picture, &args.svg) {
        match chart(args.axis, &request.config, &sweep)? {
            Some(svg) => file.write(svg.as_bytes())?,
            None => {
                drawn = false;
                advise(&format!("{} is not written: {}", path.display(), undrawn(&sweep.points)));
            }
        }
    }
    Ok(match sweep.failure {
        _ if !sweep.all_right() => Exit::Wrong,
        Some(Failure::OutOfMemory) => Exit::OutOfMemory,
        Some(Failure::Other) => Exit::Wrong,
        // Where nobody read on, the rest was not tried.
        None if sweep.points.len()
            == args.sizes.as_slice().len() * request.implementations.len()
            && sweep.points.iter().all(|point| point.seconds.is_none()) =>
        {
            let on_gpu = request.implementations.iter().map(|one| one.on_gpu());
            nothing_ran::exit(request.config.device, on_gpu)
        }
        // Nobody read on before the first row was there.
        None if !drawn => Exit::Usage,
        None => Exit::Success,
    })
}

fn chart(axis: Axis, config: &Config, sweep: &Sweep) -> anyhow::Result<Option<String>> {
    let &Config { dtype, device, .. } = config;
    let machine = &sweep.machine;
    let mut title = format!("C = A B, n x n x n, {}: {}", dtype, machine.host.cpu);
    if let Some(gpu) = &machine.gpu {
        title = format!("{title}; {}", gpu.name);
    }
    let peak = machine.gpu.as_ref().and_then(|gpu| peak(gpu, dtype)).map(|rate| rate / 1e9);
    // The seeds measured f32, and no emulator.
    let alike = dtype == Types::F32 && device != DeviceChoice::Emulate;
    let figures = if alike { FIGURES } else { &[] };
    draw(&sweep.points, axis, peak, figures, &title)
        .map_err(|error| anyhow!("cannot draw: {error}"))
}
