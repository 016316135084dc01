//! What measures a row again: a command line for another process, a request for this one.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use gemm_spec::Types;

use super::{Point, Request, Rounds, Row};
use crate::error::Error;
use crate::measure::{Candidate, Config, DeviceChoice};
use crate::verify::Method;

/// The command line that measures a row, in rounds or at once.
pub(super) fn words(point: &Point, request: &Request, rounds: Option<Rounds>) -> Vec<String> {
    let Point { kernel, device, m, n, k, dtype, alpha, beta, seed, dist, threads, cache, .. } =
        point;
    let cache = cache.name();
    let spread = request.spread * 100.0;
    let time = request.time.as_secs_f64();
    let line = format!(
        "tessera bench -m {m} -n {n} -k {k} --dtype {dtype} --device {device} --threads {threads} \
         --seed {seed} --dist {dist} --alpha {alpha} --beta {beta} --check {} --cache {cache} \
         --time {time} --spread {spread}",
        request.config.check
    );
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if !point.ops.is_usual() {
        words.extend(["--ops".to_owned(), point.ops.to_string()]);
    }
    let peer = crate::peers::find(kernel).is_some();
    let names = if peer {
        ["--kernel", "none", "--peers-only", kernel]
    } else {
        ["--kernel", kernel, "--peers-only", "none"]
    };
    // Without rounds and peers it is the plain benchmark.
    let names = if peer || rounds.is_some() { &names[..] } else { &names[..2] };
    words.extend(names.iter().map(|&word| word.to_owned()));
    if peer {
        for folder in &request.peer_folders {
            words.extend(["--peer-path".to_owned(), folder.display().to_string()]);
        }
    }
    if let Some(Rounds { count, patience }) = rounds {
        let patience = patience.as_secs_f64();
        words.extend(["--rounds".to_owned(), count.to_string()]);
        words.extend(["--idle-wait".to_owned(), patience.to_string()]);
    }
    words
}

/// What measures a row again, from the row itself.
///
/// # Errors
/// [`Error::UnknownKernel`] and [`Error::Record`] where the row is of another version of this program.
pub fn again(row: &Row, time: Duration, spread: f64, check: Method) -> Result<Request, Error> {
    let point = &row.point;
    let unreadable = |what: &str| Error::Record { reason: format!("{what} cannot be read") };
    let config = Config {
        dtype: Types::from_name(&point.dtype).ok_or_else(|| unreadable("its dtype"))?,
        ops: point.ops,
        alpha: point.alpha,
        beta: point.beta,
        device: match point.device.as_str() {
            "cpu" => DeviceChoice::Cpu,
            device => {
                let index = device.strip_prefix("cuda:").and_then(|index| index.parse().ok());
                DeviceChoice::Cuda(index.ok_or_else(|| unreadable("its device"))?)
            }
        },
        threads: NonZeroUsize::new(point.threads),
        seed: point.seed,
        distribution: point.dist.parse().map_err(|_| unreadable("its dist"))?,
        check,
    };
    Ok(Request {
        config,
        sizes: vec![[point.m, point.n, point.k]],
        candidates: vec![Candidate::find(&point.kernel)?],
        peer_folders: folders(&row.command),
        rounds: match row.rounds.len() {
            0 => None,
            count => Some(Rounds { count, patience: time }),
        },
        idle_wait: Some(Duration::ZERO),
        cache: point.cache,
        time,
        spread,
    })
}

/// The folders of a command line's `--peer-path`.
fn folders(words: &[String]) -> Vec<PathBuf> {
    let pairs = words.windows(2).filter(|pair| pair[0] == "--peer-path");
    pairs.map(|pair| PathBuf::from(&pair[1])).collect()
}
