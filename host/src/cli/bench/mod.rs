//! `tessera bench`: how fast, and how sure that is.

pub(super) mod replay;
mod words;

use std::fs;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::groups::{Output, PeerFolders, Products};
use super::output::{Progress, advise};
use super::values::{self, Sizes};
use super::{Exit, nothing_ran};
use crate::bench::compare::{Comparison, applies, compare, read};
use crate::bench::{Cache, Document, Request, Rounds, end_with_parent, idle, ragged, run};
use crate::measure::{AUTO, Candidate, Config, DeviceChoice, Observer, Ops};
use crate::peers;
use crate::report::bench::Compared;
use crate::report::render;
use words::{cache, patience, percent, ragged_count, shape};

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
    /// The first COUNT shapes of a fixed list, m, n and k between 17 and 9000 and none a multiple of 8;
    /// after those of --shapes.
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true,
          value_parser = ragged_count, conflicts_with_all = ["n", "m", "k"])]
    ragged: usize,
    /// Implementations: patterns such as 'naive,tiled*' or '!serial' (see `tessera list`), and `auto`,
    /// the kernel that the program chooses for each shape on a GPU; beside peers also `none`. Some steps
    /// of the ladder run only where they are named.
    #[arg(long, value_name = "PATTERNS", value_parser = values::patterns)]
    kernel: Option<String>,
    /// Measure other projects' matrix products beside these, interleaved: OpenBLAS, oneDNN, BLIS, MKL,
    /// cuBLAS, where they are found, and Rust crates, where the feature `peers` has built them in.
    #[arg(long)]
    peers: bool,
    /// The peers of that list alone: openblas, openblas-skylakex, onednn, blis, mkl, gemm, faer,
    /// matrixmultiply, cublas, cublaslt; `none` has only this project's own take turns.
    #[arg(long, value_name = "LIST")]
    peers_only: Option<String>,
    #[command(flatten)]
    folders: PeerFolders,
    /// With peers: how often each row has its turn.
    #[arg(long, value_name = "R", default_value = "5", value_parser = values::rounds)]
    rounds: NonZeroUsize,
    /// With peers or --baseline: seconds that a measurement waits for the machine to be idle, at most; 0 does not
    /// look whether it is.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = patience)]
    idle_wait: Duration,
    /// What a turn's own process is told: measure here, without rounds.
    #[arg(long, hide = true)]
    alone: bool,
    #[command(flatten)]
    products: Products,
    /// Which of A and B are stored transposed, as in BLAS: nn, nt, tn or tt; nt has B as n rows of k
    /// elements, as the weights of a linear layer.
    #[arg(long, value_name = "OPS", default_value_t = Ops::Nn)]
    ops: Ops,
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
    #[command(flatten)]
    output: Output,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let config = Config { ops: args.ops, ..args.products.config()? };
    ensure!(config.device != DeviceChoice::Emulate, values::NOT_EMULATED);
    // Before any work: what cannot be read or written is known now.
    let baseline = args.baseline.as_deref().map(document).transpose()?;
    let outputs = args.output.open()?;
    let candidates = candidates(args)?;
    let beside_peers = args.peers || args.peers_only.is_some();
    if args.alone {
        end_with_parent();
    }
    let request =
        Request {
            config,
            sizes: sizes(args),
            candidates,
            peer_folders: args.folders.peer_path.clone(),
            rounds: (beside_peers && !args.alone)
                .then_some(Rounds { count: args.rounds.get(), patience: args.idle_wait }),
            // A turn's parent has looked. Without a baseline the machine's state is told, with one it decides.
            idle_wait: (!args.alone && !args.idle_wait.is_zero())
                .then_some(if baseline.is_some() { args.idle_wait } else { Duration::ZERO }),
            cache: args.cache,
            time: args.time,
            spread: args.spread,
        };
    if baseline.as_ref().is_some_and(|old| !applies(old, &request)) {
        bail!(NOT_COMPARABLE);
    }
    if let Some(rounds) = request.rounds {
        advise(&forecast(&request, rounds));
    }
    let document = run(&request, &mut Turns::new(request.rounds.is_some()))?;
    let comparisons = baseline.as_ref().map_or_else(Vec::new, |old| compare(old, &document));
    let compared = Compared { document: &document, comparisons: &comparisons };
    outputs.write(|format, colour| render(&compared, format, colour))?;
    if document.rows.is_empty() {
        let on_gpu = request.candidates.iter().map(Candidate::on_gpu);
        return Ok(nothing_ran::exit(request.config.device, on_gpu));
    }
    if baseline.is_some() && comparisons.is_empty() {
        bail!(NOT_COMPARABLE);
    }
    Ok(exit(&document, &comparisons))
}

const NOT_COMPARABLE: &str =
    "--baseline has no row of the same kernel, device, size, inputs and number of threads";

/// The problems that were asked for, else the one of -m, -n and -k.
fn sizes(args: &Args) -> Vec<[usize; 3]> {
    let listed = args.squares.iter().map(|&n| [n; 3]).chain(args.shapes.iter().copied());
    let mut sizes: Vec<_> = listed.chain(ragged::shapes(args.ragged)).collect();
    if sizes.is_empty() {
        sizes.push(args.sizes.mnk());
    }
    sizes
}

/// How long the turns of a benchmark will take, on a machine that is idle and on one that is not.
fn forecast(request: &Request, rounds: Rounds) -> String {
    let turns = request.candidates.len() * request.sizes.len() * rounds.count;
    // The warm-up is a quarter; starting a process, drawing the inputs and checking are not counted.
    let quiet = turns as f64 * 1.25 * request.time.as_secs_f64();
    let busy = quiet + turns as f64 * rounds.patience.as_secs_f64();
    format!(
        "{turns} turns of {} s at most: up to {quiet:.0} s on an idle machine and {busy:.0} s on a busy \
         one, and what starting and checking take (--time, --rounds, --idle-wait)",
        request.time.as_secs_f64()
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
fn candidates(args: &Args) -> anyhow::Result<Vec<Candidate>> {
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
    let own = own.into_iter().map(Candidate::Own).chain(auto.first().map(|_| Candidate::Auto));
    Ok(own.chain(peers.into_iter().map(Candidate::Peer)).collect())
}

/// A document of an earlier run.
fn document(path: &Path) -> anyhow::Result<Document> {
    let text = text(path)?;
    read(&text).with_context(|| path.display().to_string())
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn exit(document: &Document, comparisons: &[Comparison]) -> Exit {
    // The document may go to a file: what ends the program with an error is said here, too.
    for row in document.rows.iter().filter(|row| !row.believed()) {
        let [m, n, k] = [row.point.m, row.point.n, row.point.k];
        let reason = row.refused.as_deref().or(row.check.detail.as_deref());
        let reason = reason.unwrap_or("the check failed");
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
        Exit::Success
    }
}
