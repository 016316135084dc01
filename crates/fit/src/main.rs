//! The constants of the kernels' cost model, from measured times: `cargo xtask fit`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task says what it does")]

mod records;
mod regret;
mod search;
mod text;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use gemm_spec::DeviceLimits;
use tessera::select::{DeviceModel, Reference};

use self::records::Row;
use self::regret::{Regret, Worst};
use self::search::Fit;

/// Fit the constants of the kernels' cost model to measured times
///
/// Reads what `tessera bench --out FILE.json` and `tessera sweep --out FILE.csv` wrote on one GPU, and says
/// how far predictions are from the times, before and after. The efficiencies of the kernels in the records
/// are fitted; they follow from the records and from the constants that all kernels share.
#[derive(Parser)]
#[command(name = "cargo xtask fit", bin_name = "cargo xtask fit")]
struct Args {
    /// The records
    #[arg(required = true, value_name = "FILE")]
    records: Vec<PathBuf>,
    /// SMs of the GPU
    #[arg(long, value_name = "N", default_value_t = 132)]
    multiprocessors: u32,
    /// Its highest clock in MHz
    #[arg(long, value_name = "MHZ", default_value_t = 1980)]
    clock: u32,
    /// Its compute capability
    #[arg(long, value_name = "MAJOR.MINOR", default_value = "9.0", value_parser = capability)]
    capability: (u32, u32),
    /// Of these kernels only
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Fit what all kernels share as well: what a launch, a second one and a copy take, and the rates
    /// of memory
    #[arg(long, conflicts_with = "kernel")]
    shared: bool,
    /// Print each time with its prediction
    #[arg(long)]
    rows: bool,
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

/// Of a kernel with fewer times nothing is fitted: it has five constants.
const FEWEST_TIMES: usize = 5;

/// The times of all those records, of kernels that a choice may come to: those for thin products, of such
/// products alone.
fn read(paths: &[PathBuf], model: &DeviceModel) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for path in paths {
        let reading = || format!("reading {}", path.display());
        let text = fs::read_to_string(path).with_context(reading)?;
        rows.extend(records::read(&text, model).with_context(reading)?);
    }
    rows.retain(|row| {
        let candidates = model.candidates(row.types, row.sizes);
        candidates.iter().any(|kernel| kernel.id == row.spec.id)
    });
    let mut times: HashMap<&str, usize> = HashMap::new();
    for row in &rows {
        *times.entry(row.spec.id).or_default() += 1;
    }
    rows.retain(|row| times[row.spec.id] >= FEWEST_TIMES);
    Ok(rows)
}

/// The workspace's root: cargo says at run time which checkout it runs.
fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.ancestors().nth(2).map_or_else(|| package.clone(), Path::to_owned)
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let limits = DeviceLimits {
        compute_capability: args.capability,
        max_threads_per_block: 1024,
        max_shared_bytes: 227 * 1024,
        multiprocessors: args.multiprocessors,
    };
    let committed = DeviceModel::new(limits, args.clock);
    let mut paths = args.records.clone();
    let source = fs::read_to_string(root().join(FITTED))?;
    if !args.kernel.is_empty() {
        // The other kernels keep what they have, and so the records that it is from.
        let known = text::records(&source).map(PathBuf::from);
        paths.splice(..0, known.filter(|path| !args.records.contains(path)));
    }
    let mut rows = read(&paths, &committed)?;
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
    let choice = |fit: &Fit<'_>| regret::of(&fit.model(), &rows);
    let chosen_before = choice(&fit);
    fit.run(args.shared);
    let after = fit.errors();
    println!("{:<20} {:>6} {:>9} {:>9}", "kernel", "times", "before", "after");
    for ((kernel, times, before), (.., after)) in before.iter().zip(&after) {
        println!("{kernel:<20} {times:>6} {before:>8.1}% {after:>8.1}%");
    }
    for (of, regrets) in [("before", chosen_before), ("after", choice(&fit))] {
        for (types, Regret { products, mean, worst }) in regrets {
            let Worst { factor, sizes: [m, n, k], chosen, fastest } = worst;
            println!(
                "choice {of}, {types}: {mean:.3} times the fastest kernel's time in the mean of {products} \
                 products; at most {factor:.2}, {m} x {n} x {k} by {chosen}, not {fastest}"
            );
        }
    }
    if args.rows {
        for (row, predicted) in fit.predictions() {
            let Row { spec, types, sizes: [m, n, k], ranges, seconds } = row;
            let (measured, predicted) = (seconds * 1e6, predicted / 1e3);
            let (id, types) = (spec.id, types.name());
            println!("{id} {types} {m} x {n} x {k} / {ranges}: {measured:.1} us, {predicted:.1}");
        }
    }
    if args.write {
        let path = |path: &PathBuf| path.display().to_string();
        let records: Vec<String> = paths.iter().map(path).collect();
        let text = text::of(fit.constants(), &records);
        fs::write(root().join(FITTED), text).with_context(|| format!("writing {FITTED}"))?;
        println!("{FITTED}: written");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gemm_spec::Types;
    use tessera::select::KernelConstants;

    use super::*;

    const H200: DeviceLimits = DeviceLimits {
        compute_capability: (9, 0),
        max_threads_per_block: 1024,
        max_shared_bytes: 227 * 1024,
        multiprocessors: 132,
    };

    fn committed() -> (String, DeviceModel) {
        let source = fs::read_to_string(root().join(FITTED)).unwrap();
        (source, DeviceModel::new(H200, 1980))
    }

    #[test]
    fn the_committed_constants_are_what_would_be_written() {
        let (source, model) = committed();
        let records: Vec<String> = text::records(&source).map(str::to_owned).collect();
        assert_eq!(text::of(model.constants(), &records), source);
    }

    #[test]
    fn the_source_names_its_records() {
        let records = ["results/a/fit.json".to_owned(), "results/b/fit.csv".to_owned()];
        let source = text::of(committed().1.constants(), &records);
        assert!(text::records(&source).eq(&records));
    }

    /// The kernels whose efficiencies are not within one per cent of those that a fit to the records finds:
    /// systems differ in a logarithm's last bit, and so where the search ends.
    fn unlike(model: &DeviceModel, rows: &[Row]) -> Vec<&'static str> {
        let mut fit = Fit::new(H200, model.constants().clone(), rows);
        fit.run(false);
        let near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.01;
        let own = |kernels: &[KernelConstants]| -> Vec<[f64; 4]> {
            let of =
                |own: &KernelConstants| [own.aligned, own.ragged].map(|of| [of.alone, of.full]);
            kernels.iter().map(|own| of(own).concat().try_into().unwrap()).collect()
        };
        let (found, known) = (own(&fit.constants().kernels), own(&model.constants().kernels));
        let pairs = known.iter().zip(&found).zip(model.constants().kernels.iter());
        let unlike = pairs.filter(|((known, found), _)| {
            known.iter().zip(found.iter()).any(|(known, found)| !near(*known, *found))
        });
        unlike.map(|(_, own)| own.kernel).collect()
    }

    #[test]
    fn the_committed_efficiencies_follow_from_their_records() {
        let (source, model) = committed();
        let paths: Vec<PathBuf> = text::records(&source).map(|path| root().join(path)).collect();
        let mut rows = read(&paths, &model).unwrap();
        assert_eq!(unlike(&model, &rows), [""; 0]);
        // Other times give others.
        let spec = kernels_gpu::Kernel::named("async_copy_64x128").unwrap().spec();
        rows.retain(|row| row.spec.id != spec.id);
        for n in [64, 256, 1024, 4096] {
            rows.push(Row { spec, types: Types::F32, sizes: [n; 3], ranges: 1, seconds: 1.0 });
        }
        assert_eq!(unlike(&model, &rows), ["async_copy_64x128"]);
    }

    #[test]
    fn a_compute_capability_has_two_numbers() {
        assert_eq!(capability("8.9"), Ok((8, 9)));
        assert!(capability("nine").is_err() && capability("9").is_err());
    }
}
