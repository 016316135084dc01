//! `cargo xtask fit`: the constants of the kernels' cost model, from measured times.

mod records;
mod search;
mod text;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use gemm_spec::DeviceLimits;
use tessera::select::{DeviceModel, Reference};

use self::records::Row;
use self::search::Fit;
use crate::modules;

/// Fit the constants of the kernels' cost model to measured times
///
/// Reads what `tessera bench --out FILE.json` and `tessera sweep --out FILE.csv` wrote on one GPU, and says
/// how far predictions are from the times, before and after.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The records
    #[arg(required = true, value_name = "FILE")]
    records: Vec<PathBuf>,
    /// Multiprocessors of the GPU
    #[arg(long, value_name = "N", default_value_t = 132)]
    multiprocessors: u32,
    /// Its highest clock in MHz
    #[arg(long, value_name = "MHZ", default_value_t = 1980)]
    clock: u32,
    /// Its compute capability
    #[arg(long, value_name = "MAJOR.MINOR", default_value = "9.0", value_parser = capability)]
    capability: (u32, u32),
    /// Fit the efficiencies of these kernels, and leave all other constants as they are
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Write what was fitted to the library's source
    #[arg(long)]
    write: bool,
}

/// The library's source that holds the constants, from the root.
const FITTED: &str = "crates/tessera/src/select/fitted.rs";

fn capability(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parsed.ok_or_else(|| format!("`{text}` is no compute capability such as 9.0"))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let limits = DeviceLimits {
        compute_capability: args.capability,
        max_threads_per_block: 1024,
        max_shared_bytes: 227 * 1024,
        multiprocessors: args.multiprocessors,
    };
    let committed = DeviceModel::new(limits, args.clock);
    let mut rows = Vec::new();
    for path in &args.records {
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let own = records::read(&text, &committed)
            .with_context(|| format!("reading {}", path.display()))?;
        rows.extend(own);
    }
    rows.retain(|row| args.kernel.is_empty() || args.kernel.iter().any(|id| *id == row.spec.id));
    if rows.is_empty() {
        bail!("no record has a time of these kernels");
    }
    let reference = Reference { compute_capability: args.capability, clock_mhz: args.clock };
    let mut start = committed.constants().clone();
    if reference != start.reference {
        // All times are of this device from here on.
        start = search::on_device(&committed, reference);
    }
    let mut fit = Fit::new(limits, start, &rows);
    let before = fit.errors();
    fit.run(args.kernel.is_empty());
    let after = fit.errors();
    println!("{:<20} {:>6} {:>9} {:>9}", "kernel", "times", "before", "after");
    for ((kernel, times, before), (.., after)) in before.iter().zip(&after) {
        println!("{kernel:<20} {times:>6} {before:>8.1}% {after:>8.1}%");
    }
    if args.write {
        let text = text::of(fit.constants());
        fs::write(modules::root().join(FITTED), text)
            .with_context(|| format!("writing {FITTED}"))?;
        println!("{FITTED}: written");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_constants_are_what_would_be_written() {
        let limits = DeviceLimits {
            compute_capability: (9, 0),
            max_threads_per_block: 1024,
            max_shared_bytes: 0,
            multiprocessors: 132,
        };
        let committed = fs::read_to_string(modules::root().join(FITTED)).unwrap();
        assert_eq!(text::of(DeviceModel::new(limits, 1980).constants()), committed);
    }

    #[test]
    fn a_compute_capability_has_two_numbers() {
        assert_eq!(capability("8.9"), Ok((8, 9)));
        assert!(capability("nine").is_err() && capability("9").is_err());
    }
}
