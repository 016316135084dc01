//! `cargo xtask peers`: the products by which this project measures itself, beside its peers.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::{command, modules};

/// Measure this project beside its peers: every shape of the project's bar
///
/// It builds the program with the feature `peers` and runs `tessera bench --peers` once for each set of
/// shapes, element type and number of threads. Do it on a machine with nothing else to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write each table to this folder of results/ as Markdown and JSON
    #[arg(long, value_name = "DATE-MACHINE")]
    results: Option<String>,
    /// Measure the GPU's kernels beside cuBLAS, and not the CPU
    #[arg(long)]
    gpu: bool,
    /// Look for peers' libraries in this folder first; may be given more than once
    #[arg(long, value_name = "DIR")]
    peer_path: Vec<PathBuf>,
    /// This project's implementations that take part [default: all but those that are slow on purpose]
    #[arg(long, value_name = "PATTERNS")]
    kernel: Option<String>,
    /// Turns of each row
    #[arg(long, value_name = "R", default_value = "5")]
    rounds: u32,
    /// Seconds for the runs of each turn
    #[arg(long, value_name = "SECONDS", default_value = "0.5")]
    time: f64,
    /// Print the command lines and run nothing
    #[arg(long)]
    dry_run: bool,
}

/// One run of the program.
struct Bench {
    /// Names the files of its results.
    name: &'static str,
    dtype: &'static str,
    squares: &'static str,
    shapes: &'static str,
    /// As `--threads` takes it; all where it is `None`.
    threads: Option<&'static str>,
}

const F32_SQUARES: &str = "512,1024,2048,4096,1000,2000,4001";
/// m,n,k: thin in each of the three sizes, a sum of few terms, one row.
const F32_SHAPES: &str = "4096,64,4096;64,4096,4096;4096,4096,64;8192,8192,32;1,4096,4096";
const F64_SQUARES: &str = "1024,2048,4096";

const CPU: [Bench; 4] = [
    Bench {
        name: "peers-f32-1-thread",
        dtype: "f32",
        squares: F32_SQUARES,
        shapes: F32_SHAPES,
        threads: Some("1"),
    },
    Bench {
        name: "peers-f32-all-threads",
        dtype: "f32",
        squares: F32_SQUARES,
        shapes: F32_SHAPES,
        threads: None,
    },
    Bench {
        name: "peers-f64-1-thread",
        dtype: "f64",
        squares: F64_SQUARES,
        shapes: "",
        threads: Some("1"),
    },
    Bench {
        name: "peers-f64-all-threads",
        dtype: "f64",
        squares: F64_SQUARES,
        shapes: "",
        threads: None,
    },
];

const GPU: [Bench; 2] = [
    Bench {
        name: "peers-gpu-f32",
        dtype: "f32",
        squares: "1024,2048,4096,8192,10240",
        shapes: F32_SHAPES,
        threads: None,
    },
    Bench {
        name: "peers-gpu-f64",
        dtype: "f64",
        squares: "1024,2048,4096,8192",
        shapes: "",
        threads: None,
    },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = args.results.as_deref().map(folder).transpose()?;
    if let Some(folder) = &folder {
        fs::create_dir_all(modules::root().join(folder))
            .with_context(|| format!("making {}", folder.display()))?;
    }
    let benches: &[Bench] = if args.gpu { &GPU } else { &CPU };
    for bench in benches {
        let mut cargo = command::cargo();
        cargo.args(arguments(bench, args, folder.as_ref()));
        if args.dry_run {
            println!("{}", cuda_builder::command::line(&cargo));
        } else {
            command::run(&mut cargo)?;
        }
    }
    Ok(())
}

/// The folder of that name under results/, from the workspace's root.
fn folder(name: &str) -> Result<PathBuf> {
    let dated = name.get(..11).is_some_and(|date| {
        date.chars().enumerate().all(|(at, character)| match at {
            4 | 7 | 10 => character == '-',
            _ => character.is_ascii_digit(),
        })
    });
    if !dated || name.contains('/') || name.len() == 11 {
        bail!("--results takes the name of a folder, DATE-MACHINE, such as 2026-11-20-h200");
    }
    Ok(PathBuf::from("results").join(name))
}

/// What cargo is told.
fn arguments(bench: &Bench, args: &Args, folder: Option<&PathBuf>) -> Vec<String> {
    let line = "run --release -p host --features peers -- bench --peers";
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let mut add = |flag: &str, value: &str| words.extend([flag.to_owned(), value.to_owned()]);
    let (device, kernels) = match args.gpu {
        true => ("cuda", "!single_block,!naive,!tiled*"),
        false => ("cpu", "!serial,!mutex_queue"),
    };
    add("--device", device);
    add("--kernel", args.kernel.as_deref().unwrap_or(kernels));
    add("--dtype", bench.dtype);
    add("--squares", bench.squares);
    if !bench.shapes.is_empty() {
        add("--shapes", bench.shapes);
    }
    if let Some(threads) = bench.threads {
        add("--threads", threads);
    }
    add("--rounds", &args.rounds.to_string());
    add("--time", &args.time.to_string());
    for path in &args.peer_path {
        add("--peer-path", &path.display().to_string());
    }
    if let Some(folder) = folder {
        for ending in ["md", "json"] {
            let file = folder.join(format!("{}.{ending}", bench.name));
            add("--out", &file.display().to_string());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn lines(words: &[&str]) -> Vec<String> {
        let args = Line::parse_from([&["peers"], words].concat()).args;
        let folder = args.results.as_deref().map(|name| folder(name).unwrap());
        let benches: &[Bench] = if args.gpu { &GPU } else { &CPU };
        benches.iter().map(|bench| arguments(bench, &args, folder.as_ref()).join(" ")).collect()
    }

    #[test]
    fn every_shape_of_the_bar_is_measured_with_one_thread_and_with_all() {
        let lines = lines(&["--results", "2026-11-20-here", "--peer-path", "/opt/blas"]);
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("run --release -p host --features peers -- bench --peers "));
        for (line, dtype, threads) in
            [(0, "f32", true), (1, "f32", false), (2, "f64", true), (3, "f64", false)]
        {
            let line = &lines[line];
            assert!(line.contains(&format!("--dtype {dtype} ")), "{line}");
            assert!(line.contains("--device cpu --kernel !serial,!mutex_queue "), "{line}");
            assert_eq!(line.contains("--threads 1 "), threads, "{line}");
            assert_eq!(line.contains("--shapes 4096,64,4096;"), dtype == "f32", "{line}");
            assert!(line.contains("--peer-path /opt/blas --out results/2026-11-20-here/peers-"));
        }
        assert!(lines[3].ends_with("results/2026-11-20-here/peers-f64-all-threads.json"));
    }

    #[test]
    fn the_program_takes_the_lines() {
        for words in [&[][..], &["--gpu"], &["--results", "2026-11-20-here", "--time", "0.25"]] {
            for line in lines(words) {
                let (_, line) = line.split_once(" -- ").unwrap();
                let words = std::iter::once("tessera").chain(line.split(' '));
                let taken = lab::cli::command().try_get_matches_from(words);
                assert!(taken.is_ok(), "{line}: {}", taken.unwrap_err());
            }
        }
    }

    #[test]
    fn the_gpu_is_measured_on_its_own() {
        for line in lines(&["--gpu", "--kernel", "register*"]) {
            assert!(line.contains("--device cuda --kernel register* "), "{line}");
            assert!(!line.contains("--out"), "{line}");
        }
    }

    #[test]
    fn results_go_to_a_dated_folder() {
        assert_eq!(folder("2026-11-20-h200").unwrap(), PathBuf::from("results/2026-11-20-h200"));
        for name in ["h200", "2026-11-20", "2026-11-20-", "2026-11-20-a/b", "../2026-11-20-a"] {
            assert!(folder(name).is_err(), "{name}");
        }
    }
}
