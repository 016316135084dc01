//! `tessera sanitize`: every kernel on the emulator, with every access and barrier checked.

use std::time::Instant;

use gemm_spec::Types;
use kernels_gpu::{KERNELS, Kernel};

use super::output::print;
use super::{Exit, nothing_ran, values};
use crate::emulate::Options;
use crate::measure::DeviceChoice;
use crate::registry::Implementation;
use crate::sanitize::{Findings, examine};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Kernels: patterns such as 'tiled*,!tiled2' [default: all].
    #[arg(long, value_name = "PATTERNS", value_parser = values::patterns)]
    kernel: Option<String>,
    /// Element types [default: all that a kernel has].
    #[arg(long, value_name = "TYPE", value_parser = values::types)]
    dtype: Option<Types>,
    /// Random orders of events, besides the fixed ones, of kernels for Hopper.
    #[arg(long, value_name = "N", default_value_t = 2)]
    seeds: u64,
    /// The first of their seeds.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let seeds: Vec<u64> = (0..args.seeds).map(|at| args.seed.wrapping_add(at)).collect();
    let mut exit = None;
    for spec in kernels(args)? {
        let started = Instant::now();
        let mut all = Findings::default();
        for entry in spec.entries {
            if args.dtype.is_none_or(|types| types == entry.types) {
                let found = examine(spec, entry.types, Options::default(), &seeds)?;
                all.products += found.products;
                all.runs += found.runs;
                all.reports.extend(found.reports);
            }
        }
        if all.runs == 0 {
            print(&format!("{}: has no product of these types\n", spec.id))?;
            continue;
        }
        let reports = match all.reports.len() {
            0 => "nothing found".to_owned(),
            number => format!("REPORTS: {number}"),
        };
        let seconds = started.elapsed().as_secs_f64();
        let Findings { products, runs, .. } = all;
        print(&format!(
            "{}: {products} products in {runs} runs, {seconds:.1} s: {reports}\n",
            spec.id
        ))?;
        for report in &all.reports {
            print(&format!("  {report}\n"))?;
        }
        let fine = exit.unwrap_or(Exit::Success) == Exit::Success && all.reports.is_empty();
        exit = Some(if fine { Exit::Success } else { Exit::Wrong });
    }
    Ok(exit.unwrap_or_else(|| nothing_ran::exit(DeviceChoice::Emulate, std::iter::empty())))
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
