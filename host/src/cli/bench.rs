//! `tessera bench` and `tessera replay`: how fast, and how sure that is.

use std::fs;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use gemm_spec::Types;

use super::Exit;
use super::nothing_ran;
use super::output::{Outputs, Progress, advise, colour, print};
use super::values::{self, Sizes};
use crate::bench::compare::{Comparison, applies, compare, read};
use crate::bench::{
    AUTO, Cache, Config, Document, Entrant, Point, Rounds, Row, again, end_with_parent, idle,
    ragged, run,
};
use crate::error::Error;
use crate::fill::Distribution;
use crate::peers;
use crate::report::Format;
use crate::report::bench::render;
use crate::run::{DeviceChoice, Observer};
use crate::verify::Method;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    sizes: Sizes,
    /// Square sizes in place of -n, -m and -k, such as 512,1024,2048.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::size,
          conflicts_with_all = ["n", "m", "k"])]
    squares: Vec<usize>,
    /// Sizes of any shape, m,n,k each, such as '4096,64,4096;1,4096,4096'; after those of --squares.
    #[arg(long, value_name = "M,N,K;...", value_delimiter = ';', value_parser = shape,
          conflicts_with_all = ["n", "m", "k"])]
    shapes: Vec<[usize; 3]>,
    /// So many shapes of a fixed list, m, n and k between 17 and 9000 and none a multiple of 8; after
    /// those of --shapes.
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true,
          value_parser = ragged_count, conflicts_with_all = ["n", "m", "k"])]
    ragged: usize,
    /// Implementations: patterns such as 'naive,tiled*' or '!serial' (see `tessera list`), and `auto`,
    /// the kernel that the program chooses for each shape on a GPU; beside peers also `none`. Steps of
    /// the ladder that are there for one idea run where they are named.
    #[arg(long, value_name = "PATTERNS", value_parser = values::patterns)]
    kernel: Option<String>,
    /// Measure other projects' matrix products beside these, all by turns: OpenBLAS, oneDNN, BLIS, MKL,
    /// cuBLAS, where they are found, and Rust crates, where the feature `peers` has built them in.
    #[arg(long)]
    peers: bool,
    /// The peers of that list alone: openblas, openblas-skylakex, onednn, blis, mkl, gemm, faer,
    /// matrixmultiply, cublas, cublaslt; `none` has only this project's own take turns.
    #[arg(long, value_name = "LIST")]
    peers_only: Option<String>,
    /// Look for peers' libraries in this folder first; may be given more than once.
    #[arg(long, value_name = "DIR", env = "TESSERA_PEER_PATH", value_delimiter = ':')]
    peer_path: Vec<PathBuf>,
    /// With peers: how often each row has its turn.
    #[arg(long, value_name = "R", default_value = "5", value_parser = values::rounds)]
    rounds: NonZeroUsize,
    /// With peers or --baseline: seconds that a measurement waits for the machine to be idle, at most.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = patience)]
    idle_wait: Duration,
    /// What a turn's own process is told: measure here, without rounds.
    #[arg(long, hide = true)]
    alone: bool,
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = values::types,
          help = values::types_help())]
    dtype: Types,
    /// Processors: auto, cpu, cuda or cuda:I.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = values::device)]
    device: DeviceChoice,
    /// CPU threads [default: RAYON_NUM_THREADS, else one for each core].
    #[arg(long, value_name = "T", value_parser = values::threads)]
    threads: Option<NonZeroUsize>,
    /// Seed of the inputs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Inputs: uniform, normal, int or position.
    #[arg(long, value_name = "DIST", default_value = "uniform")]
    dist: Distribution,
    /// Factor of the product.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = values::factor,
          allow_negative_numbers = true)]
    alpha: f64,
    /// Factor of the old C; with 0 C is not read.
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = values::factor,
          allow_negative_numbers = true)]
    beta: f64,
    /// Check: auto, full, freivalds, sample or none.
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    check: Method,
    /// Caches: warm (the same operands each run) or cold (operands beyond twice the last cache).
    #[arg(long, value_name = "CACHE", default_value = "warm", value_parser = cache)]
    cache: Cache,
    /// Seconds for the runs of each row.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = values::seconds)]
    time: Duration,
    /// Percent of the median within which the middle half of the runs must lie.
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = percent)]
    spread: f64,
    /// Compare with this earlier document; a row slower than the noise ends the program with 5.
    #[arg(long, value_name = "OLD.json")]
    baseline: Option<PathBuf>,
    /// Output: table, md, csv or json [default: by the ending of --out, else table].
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write to this file and not to standard output; may be given more than once.
    #[arg(long, value_name = "FILE")]
    out: Vec<PathBuf>,
}

#[derive(clap::Args)]
pub(super) struct Replay {
    /// A document of `tessera bench --format json`, or one of its rows.
    #[arg(value_name = "ROW.json")]
    file: PathBuf,
    /// Seconds for the runs of each row.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = values::seconds)]
    time: Duration,
    /// Percent of the median within which the middle half of the runs must lie.
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = percent)]
    spread: f64,
    /// Output: table, md, csv or json.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

fn cache(text: &str) -> Result<Cache, String> {
    match text {
        "warm" => Ok(Cache::Warm),
        "cold" => Ok(Cache::Cold),
        _ => Err(format!("`{text}` is none of warm, cold")),
    }
}

/// m, n and k.
fn shape(text: &str) -> Result<[usize; 3], String> {
    let sizes =
        text.split(',').map(|size| values::size(size.trim())).collect::<Result<Vec<_>, _>>()?;
    sizes.try_into().map_err(|_| format!("`{text}` is no shape: three sizes m,n,k"))
}

/// Ragged shapes, at most: what takes a second each takes hours.
const MOST_RAGGED: usize = 10_000;

/// How many shapes of the list.
fn ragged_count(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|count| *count <= MOST_RAGGED)
        .ok_or_else(|| format!("a number of shapes is a whole number from 0 to {MOST_RAGGED}"))
}

/// Seconds from 0 on.
fn patience(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| *seconds <= values::MOST_SECONDS)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| {
            format!("a wait is a number of seconds, 0 or more and up to {:e}", values::MOST_SECONDS)
        })
}

/// A share above 0 and up to 1, typed in percent.
fn percent(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "a spread is a number of percent above 0 and up to 100".to_owned())
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    values::check_scalars(args.dtype, args.alpha, args.beta)?;
    // Before any work: what cannot be read or written is known now.
    let baseline = args.baseline.as_deref().map(document).transpose()?;
    let outputs = Outputs::new(&args.out, args.format)?;
    let listed = args.squares.iter().map(|&n| [n; 3]).chain(args.shapes.iter().copied());
    let mut sizes: Vec<[usize; 3]> = listed.chain(ragged::shapes(args.ragged)).collect();
    if sizes.is_empty() {
        let (m, n, k) = args.sizes.mnk();
        sizes.push([m, n, k]);
    }
    let entrants = entrants(args)?;
    let beside_peers = args.peers || args.peers_only.is_some();
    if args.alone {
        end_with_parent();
    }
    let config = Config {
        sizes,
        entrants,
        peer_folders: args.peer_path.clone(),
        rounds: (beside_peers && !args.alone)
            .then_some(Rounds { count: args.rounds.get(), patience: args.idle_wait }),
        // A turn's parent has looked. Without a baseline the machine's state is told, with one it decides.
        idle_wait: (!args.alone).then_some(if baseline.is_some() {
            args.idle_wait
        } else {
            Duration::ZERO
        }),
        dtype: args.dtype,
        alpha: args.alpha,
        beta: args.beta,
        device: args.device,
        threads: values::thread_count(args.threads)?,
        seed: args.seed,
        distribution: args.dist,
        check: args.check,
        cache: args.cache,
        time: args.time,
        spread: args.spread,
    };
    if baseline.as_ref().is_some_and(|old| !applies(old, &config)) {
        bail!(NOT_COMPARABLE);
    }
    if let Some(rounds) = config.rounds {
        advise(&forecast(&config, rounds));
    }
    let document = run(&config, &mut Turns::new(config.rounds.is_some()))?;
    let comparisons = baseline.as_ref().map_or_else(Vec::new, |old| compare(old, &document));
    outputs.write(|format, colour| render(&document, &comparisons, format, colour))?;
    if document.rows.is_empty() {
        return Ok(nothing_ran::exit(config.device, config.entrants.iter().map(Entrant::on_gpu)));
    }
    if baseline.is_some() && comparisons.is_empty() {
        bail!(NOT_COMPARABLE);
    }
    Ok(exit(&document, &comparisons))
}

const NOT_COMPARABLE: &str =
    "--baseline has no row of the same kernel, device, size, inputs and number of threads";

/// How long the turns of a benchmark will take, on a machine that is idle and on one that is not.
fn forecast(config: &Config, rounds: Rounds) -> String {
    let turns = config.entrants.len() * config.sizes.len() * rounds.count;
    // The warm-up is a quarter; starting a process, drawing the inputs and checking are not counted.
    let quiet = turns as f64 * 1.25 * config.time.as_secs_f64();
    let busy = quiet + turns as f64 * rounds.patience.as_secs_f64();
    format!(
        "{turns} turns of {} s at most: up to {quiet:.0} s on an idle machine and {busy:.0} s on a busy \
         one, and what starting and checking take (--time, --rounds, --idle-wait)",
        config.time.as_secs_f64()
    )
}

/// Says what is going on: on a terminal all the time, elsewhere a line now and then where it takes turns.
struct Turns {
    bar: Progress,
    /// When a line was written, where lines are wanted.
    lines: Option<Option<Instant>>,
}

impl Turns {
    /// Time between two lines.
    const BETWEEN: Duration = Duration::from_secs(10);

    fn new(turns: bool) -> Self {
        let lines = (turns && !io::stderr().is_terminal()).then_some(None);
        Self { bar: Progress::new(), lines }
    }
}

impl Observer for Turns {
    fn step(&mut self, what: &str) {
        self.bar.step(what);
        if let Some(last) = &mut self.lines
            && last.is_none_or(|last| last.elapsed() >= Self::BETWEEN)
        {
            advise(what);
            *last = Some(Instant::now());
        }
    }
}

/// This project's implementations and the peers that are asked for.
fn entrants(args: &Args) -> anyhow::Result<Vec<Entrant>> {
    let patterns = match args.peers_only.as_deref() {
        None if args.peers => Some(""),
        only => only,
    };
    let peers = match patterns {
        None | Some("none") => Vec::new(),
        Some(patterns) => peers::select(patterns)?,
    };
    let named = args.kernel.as_deref().unwrap_or_default();
    let (auto, patterns): (Vec<&str>, Vec<&str>) =
        named.split(',').map(str::trim).partition(|pattern| *pattern == AUTO);
    let own = match patterns[..] {
        [] => Vec::new(),
        ["none"] if !peers.is_empty() => Vec::new(),
        _ => values::implementations(Some(&patterns.join(",")))?,
    };
    let own = own.into_iter().map(Entrant::Own).chain(auto.first().map(|_| Entrant::Auto));
    Ok(own.chain(peers.into_iter().map(Entrant::Peer)).collect())
}

pub(super) fn replay(args: &Replay) -> anyhow::Result<Exit> {
    let rows = rows(&args.file)?;
    let mut new = Document {
        format: crate::bench::FORMAT.to_owned(),
        rows: Vec::with_capacity(rows.len()),
        skipped: Vec::new(),
    };
    let mut entrants = Vec::new();
    let configs = rows.iter().enumerate().map(|(index, row)| {
        let check: Method = row.check.method.parse().unwrap_or_default();
        can_be_meant(index, &row.point)?;
        Ok(again(row, args.time, args.spread, check)?)
    });
    let configs: Vec<Config> = configs.collect::<anyhow::Result<_>>()?;
    let mut progress = Progress::new();
    for config in &configs {
        entrants.extend(&config.entrants);
        let mut document = run(config, &mut progress)?;
        new.rows.append(&mut document.rows);
        new.skipped.append(&mut document.skipped);
    }
    drop(progress);
    new.rank();
    let old = Document { format: crate::bench::FORMAT.to_owned(), rows, skipped: Vec::new() };
    let comparisons = compare(&old, &new);
    print(&render(&new, &comparisons, args.format, colour())?)?;
    if new.rows.is_empty() {
        // A row of a GPU that is not there has ended it before.
        return Ok(nothing_ran::exit(DeviceChoice::Cpu, entrants.iter().map(Entrant::on_gpu)));
    }
    // A replay tells; it is a baseline that judges.
    Ok(exit(&new, &[]))
}

/// Refuses a row of a record that the command line could not ask for.
fn can_be_meant(index: usize, point: &Point) -> anyhow::Result<()> {
    let refused = |what: String| {
        let reason = format!("row {}: {what}; measure it anew with `tessera bench`", index + 1);
        Err(Error::Record { reason }.into())
    };
    for (name, size) in [("m", point.m), ("n", point.n), ("k", point.k)] {
        if let Err(reason) = values::size(&size.to_string()) {
            return refused(format!("{name} is {size}, {reason}"));
        }
    }
    if let Err(reason) = values::threads(&point.threads.to_string()) {
        return refused(format!("threads are {}, {reason}", point.threads));
    }
    match Types::from_name(&point.dtype) {
        Some(dtype) => values::check_scalars(dtype, point.alpha, point.beta),
        None => refused(format!("`{}` is no element type", point.dtype)),
    }
}

/// A document of an earlier run.
fn document(path: &Path) -> anyhow::Result<Document> {
    let text = text(path)?;
    read(&text).with_context(|| path.display().to_string())
}

/// The rows of a document, or the one row that the file holds.
fn rows(path: &Path) -> anyhow::Result<Vec<Row>> {
    let text = text(path)?;
    let rows = match serde_json::from_str::<Row>(&text) {
        Ok(row) => vec![row],
        Err(_) => read(&text).with_context(|| path.display().to_string())?.rows,
    };
    ensure!(!rows.is_empty(), "{}: it has no rows to measure again", path.display());
    Ok(rows)
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn exit(document: &Document, comparisons: &[Comparison]) -> Exit {
    // The document may go to a file: what ends the program with an error is said here, too.
    for row in document.rows.iter().filter(|row| !row.believed()) {
        let [m, n, k] = [row.point.m, row.point.n, row.point.k];
        let reason = row.refused.as_deref().unwrap_or("the check failed");
        advise(&format!("{} at {m} x {n} x {k}: {reason}", row.point.kernel));
    }
    for slower in comparisons.iter().filter(|comparison| comparison.slower) {
        let [m, n, k] = [slower.point.m, slower.point.n, slower.point.k];
        let (kernel, speedup) = (&slower.point.kernel, slower.speedup);
        advise(&format!(
            "{kernel} at {m} x {n} x {k}: slower than the baseline, {speedup:.3}x of then"
        ));
    }
    let busy = document.rows.iter().filter_map(|row| row.busy_before).fold(0.0, f64::max);
    if comparisons.iter().any(|comparison| comparison.slower) && busy > idle::IDLE {
        advise(&format!(
            "other programs used up to {:.0} % of the machine: compare again when it is idle, or give \
             --idle-wait more",
            100.0 * busy
        ));
    }
    if !document.all_believed() {
        Exit::Wrong
    } else if comparisons.iter().any(|comparison| comparison.slower) {
        Exit::Slower
    } else {
        Exit::Fine
    }
}
