//! `tessera accuracy`: how far products of f32 and f64 are from the truth.

use std::num::NonZeroUsize;

use gemm_spec::Types;

use super::groups::{Output, PeerFolders};
use super::output::Progress;
use super::{Exit, nothing_ran, values};
use crate::accuracy::{DataSet, Request, run, ways_to_sum};
use crate::measure::{Candidate, DeviceChoice};
use crate::peers;
use crate::report::render;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Implementations: patterns such as 'f16x3,split_k_*' [default: `rayon`, whose bits all have that sum in one
    /// chain, `cpu_packed`, and every kernel that sums in another way].
    #[arg(long, value_name = "PATTERNS", value_parser = values::patterns)]
    kernel: Option<String>,
    /// Compare other projects' products too: openblas, onednn, blis, mkl, cublas, cublaslt and others,
    /// see `tessera bench --help`.
    #[arg(long, value_name = "LIST")]
    peers_only: Option<String>,
    #[command(flatten)]
    folders: PeerFolders,
    /// Element type: f32 or f64.
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = judged)]
    dtype: Types,
    /// Data: normal, positive, spread20, spread60, units, spike, cancellation, subnormal, integers
    /// [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    data: Vec<DataSet>,
    /// Lengths of the sums: columns of A and rows of B.
    #[arg(short = 'k', value_name = "LIST", value_delimiter = ',', value_parser = values::size,
          default_value = "16,256,4096")]
    k: Vec<usize>,
    /// Columns of B and C.
    #[arg(short = 'n', value_name = "N", default_value = "256", value_parser = values::size)]
    n: usize,
    /// Rows of A and C [default: N].
    #[arg(short = 'm', value_name = "M", value_parser = values::size)]
    m: Option<usize>,
    /// Processors: auto, cpu, cuda or cuda:I.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = values::processor)]
    device: DeviceChoice,
    /// CPU threads [default: RAYON_NUM_THREADS, else one for each core].
    #[arg(long, value_name = "T", value_parser = values::threads)]
    threads: Option<NonZeroUsize>,
    /// Seed of the data.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let outputs = args.output.open()?;
    let own = match &args.kernel {
        None => ways_to_sum(args.dtype),
        named => values::implementations(named.as_deref())?,
    };
    let others = match args.peers_only.as_deref() {
        None => Vec::new(),
        Some(patterns) => peers::select(patterns)?,
    };
    let own = own.into_iter().map(Candidate::Own);
    let request = Request {
        dtype: args.dtype,
        candidates: own.chain(others.into_iter().map(Candidate::Peer)).collect(),
        peer_folders: args.folders.peer_path.clone(),
        sets: if args.data.is_empty() { DataSet::ALL.to_vec() } else { args.data.clone() },
        m: args.m.unwrap_or(args.n),
        n: args.n,
        steps: args.k.clone(),
        device: args.device,
        threads: values::thread_count(args.threads)?,
        seed: args.seed,
    };
    let document = run(&request, &mut Progress::new())?;
    outputs.write(|format, colour| render(&document, format, colour))?;
    Ok(match document.rows.is_empty() {
        _ if !document.ok() => Exit::Wrong,
        true => nothing_ran::exit(args.device, request.candidates.iter().map(Candidate::on_gpu)),
        false => Exit::Success,
    })
}

/// A type whose errors can be told.
fn judged(text: &str) -> Result<Types, String> {
    match Types::from_name(text) {
        Some(types @ (Types::F32 | Types::F64)) => Ok(types),
        _ => Err("f32 and f64 can be compared".to_owned()),
    }
}
