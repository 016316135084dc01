//! Arguments that several commands take alike.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use gemm_spec::Types;

use super::output::Outputs;
use super::values;
use crate::fill::Distribution;
use crate::measure::{Config, DeviceChoice, Ops};
use crate::peers::FOLDERS_VARIABLE;
use crate::registry::Implementation;
use crate::report::Format;
use crate::verify::Method;

/// The implementations that run.
#[derive(Args, Clone)]
pub(super) struct Implementations {
    /// Implementations: patterns such as 'naive,tiled*' or '!serial' (see `tessera list`). Some
    /// steps of the ladder run only where they are named.
    #[arg(long, value_name = "PATTERNS", value_parser = values::patterns)]
    kernel: Option<String>,
}

impl Implementations {
    /// Those that were named, else those that run by default.
    pub(super) fn select(&self) -> anyhow::Result<Vec<Implementation>> {
        values::implementations(self.kernel.as_deref())
    }
}

/// Where other projects' libraries are.
#[derive(Args, Clone)]
pub(super) struct PeerFolders {
    /// Look for peers' libraries in this folder first; may be given more than once.
    #[arg(long, value_name = "DIR", env = FOLDERS_VARIABLE, value_delimiter = ':')]
    pub(super) peer_path: Vec<PathBuf>,
}

/// What the products of a measurement have in common.
#[derive(Args, Clone)]
pub(super) struct Products {
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = values::types,
          help = values::types_help())]
    pub(super) dtype: Types,
    /// Processors: auto, cpu, cuda or cuda:I; for run and sweep also emulate: the GPU kernels on the CPU,
    /// with every access checked.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = values::device)]
    pub(super) device: DeviceChoice,
    /// CPU threads [default: RAYON_NUM_THREADS, else one for each core].
    #[arg(long, value_name = "T", value_parser = values::threads)]
    pub(super) threads: Option<NonZeroUsize>,
    /// Seed of the inputs.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(super) seed: u64,
    /// Inputs: uniform, normal, int or position.
    #[arg(long, value_name = "DIST", default_value = "uniform")]
    pub(super) dist: Distribution,
    /// Scalar that multiplies A B.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = values::factor,
          allow_negative_numbers = true)]
    pub(super) alpha: f64,
    /// Scalar that multiplies the old C; with 0 C is not read.
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = values::factor,
          allow_negative_numbers = true)]
    pub(super) beta: f64,
    /// Check: auto, full, freivalds, sample or none.
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    pub(super) check: Method,
}

impl Products {
    /// What was typed, made sense of.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        let Self { dtype, device, threads, seed, dist, alpha, beta, check } = *self;
        values::check_scalars(dtype, alpha, beta)?;
        let threads = values::thread_count(threads)?;
        Ok(Config {
            dtype,
            ops: Ops::Nn,
            alpha,
            beta,
            device,
            threads,
            seed,
            distribution: dist,
            check,
        })
    }
}

/// Where a document goes, and how it is written.
#[derive(Args, Clone)]
pub(super) struct Output {
    /// Output: table, md, csv or json [default: by the ending of --out, else table].
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// Write to this file instead of standard output; may be given more than once, as for run.md and
    /// run.json of one run.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Vec<PathBuf>,
}

impl Output {
    /// The places, prepared before any work.
    pub(super) fn open(&self) -> anyhow::Result<Outputs> {
        Outputs::new(&self.out, self.format)
    }
}
