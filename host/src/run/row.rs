//! What a run found: the rows of its document.

use gemm_spec::Types;
use serde::Serialize;

use super::Explanation;
use super::times::Times;
use crate::error::Error;
use crate::history;
use crate::measure::{self, Config, DeviceChoice, MachineInfo, Verdict};

/// The problem as the document shows it.
#[derive(Clone, Debug, Serialize)]
pub struct ProblemInfo {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element type.
    pub dtype: &'static str,
    /// Scalar that multiplies A B.
    pub alpha: f64,
    /// Scalar that multiplies the old C.
    pub beta: f64,
    /// Seed of the inputs.
    pub seed: u64,
    /// How the inputs were drawn.
    pub dist: &'static str,
}

impl ProblemInfo {
    pub(super) fn new(config: &Config, [m, n, k]: [usize; 3]) -> Self {
        Self {
            m,
            n,
            k,
            dtype: config.dtype.name(),
            alpha: config.alpha,
            beta: config.beta,
            seed: config.seed,
            dist: config.distribution.name(),
        }
    }
}

/// What holds for all rows of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Head {
    /// What was computed.
    pub problem: ProblemInfo,
    /// Where.
    pub machine: MachineInfo,
    /// The first implementation that was stopped by an error, for the exit code.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

/// The verdict on a row's result, and what a wrong one looks like.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What it looks like, where something is wrong and could be explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Explanation>,
}

/// One implementation's line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The implementation.
    pub kernel: &'static str,
    /// `cpu`, `cuda:I` or `emulate`.
    pub device: String,
    /// From operands in host memory to the result in host memory: transfers are counted for GPU rows.
    pub seconds: f64,
    /// Whether `seconds` was predicted from some rows of C, or from smaller sizes, and not measured.
    pub estimated: bool,
    /// `2mnk` over the time of the computation alone, in 10⁹ a second.
    pub gflops: f64,
    /// Copying A and B (and C, where beta is not 0) to the device, while the product goes on.
    pub h2d_seconds: Option<f64>,
    /// The kernel between two events, all operands being on the device.
    pub kernel_seconds: Option<f64>,
    /// Copying C from the device, while the product goes on.
    pub d2h_seconds: Option<f64>,
    /// Seconds of `serial` over these seconds, where `serial` is a row.
    pub speedup: Option<f64>,
    /// Runs that the time is the median of.
    pub runs: usize,
    /// The check; none for estimated rows.
    pub check: Option<Check>,
    /// What the seeds measured for the same row.
    pub then_seconds: Option<f64>,
}

impl Row {
    /// The row of an implementation that took that long for a number of operations; it is not checked yet.
    pub(super) fn new(kernel: &'static str, device: String, flops: f64, times: &Times) -> Self {
        let computing = times.split.map_or(times.seconds, |(_, kernel, _)| kernel);
        Self {
            kernel,
            device,
            seconds: times.seconds,
            estimated: times.runs == 0,
            gflops: flops / computing / 1e9,
            h2d_seconds: times.split.map(|(h2d, _, _)| h2d),
            kernel_seconds: times.split.map(|(_, kernel, _)| kernel),
            d2h_seconds: times.split.map(|(_, _, d2h)| d2h),
            speedup: None,
            runs: times.runs,
            check: None,
            then_seconds: None,
        }
    }
}

/// Everything that a run found.
pub type Document = measure::Document<Head, Row>;

impl Document {
    /// Whether every checked row is right.
    #[must_use]
    pub fn all_right(&self) -> bool {
        self.rows.iter().filter_map(|row| row.check.as_ref()).all(|check| check.verdict.ok)
    }

    /// Fills in what compares a row with others: the serial row, and the seeds' figures.
    pub(super) fn compare(&mut self, device: DeviceChoice) {
        let ProblemInfo { m, n, k, dtype, .. } = self.head.problem;
        let serial = self.rows.iter().find(|row| row.kernel == "serial").map(|row| row.seconds);
        for row in &mut self.rows {
            row.speedup = serial.map(|serial| serial / row.seconds);
            // An emulated kernel's time is no time of the kernel.
            if dtype == Types::F32.name() && device != DeviceChoice::Emulate {
                row.then_seconds = history::then(row.kernel, m, n, k).map(|figure| figure.seconds);
            }
        }
    }
}

/// An error in the middle of a run; the other rows stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Memory was short.
    OutOfMemory,
    /// Anything else.
    Other,
}

impl Failure {
    /// What an error means for the exit code.
    pub(crate) fn of(error: &Error) -> Self {
        if error.is_out_of_memory() { Self::OutOfMemory } else { Self::Other }
    }
}
