//! What a benchmark found: the rows of its document.

use serde::{Deserialize, Serialize};

use super::Energy;
use crate::gpu::GpuState;
use crate::measure::{self, Ops, Timing, Verdict};

/// The version of the documents that this module writes and reads.
pub const FORMAT: &str = "tessera-bench 1";

/// Percent of a CPU's measured peak above which a rate is refused. The clock moves between the two
/// measurements: a few percent more are no mistake.
const MOST_OF_CPU_PEAK: f64 = 105.0;
/// Percent of a GPU's peak above which a rate is refused. It counts with the highest clock that there
/// is.
const MOST_OF_GPU_PEAK: f64 = 100.0;

/// Whether runs may find their operands in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Every run uses the same operands.
    #[default]
    Warm,
    /// Operands turn through sets beyond twice the last-level cache.
    Cold,
}

impl Cache {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

/// What is measured: everything that a row needs to be measured again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The implementation.
    pub kernel: String,
    /// `cpu` or `cuda:I`.
    pub device: String,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element type.
    pub dtype: String,
    /// Which factors are stored transposed; not written where none is.
    #[serde(default, skip_serializing_if = "Ops::is_usual")]
    pub ops: Ops,
    /// Scalar that multiplies A B.
    pub alpha: f64,
    /// Scalar that multiplies the old C.
    pub beta: f64,
    /// Seed of the inputs.
    pub seed: u64,
    /// How the inputs are drawn.
    pub dist: String,
    /// CPU threads.
    pub threads: usize,
    /// Caches.
    pub cache: Cache,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    #[serde(flatten)]
    pub point: Point,
    /// Seconds of one product, the operands being where it needs them; with rounds, of the rounds'
    /// medians.
    pub seconds: Timing,
    /// Each round's runs, where there were rounds.
    #[serde(default)]
    pub rounds: Vec<Timing>,
    /// Share of all cores' time that was in use just before, with rounds the largest of all of them.
    #[serde(default)]
    pub busy_before: Option<f64>,
    /// Share of the median within which the middle half of the runs lies.
    pub spread: f64,
    /// Whether the spread came below the wanted one before the time was up.
    pub settled: bool,
    /// Products in each timed run: launches of a batch on a GPU, else 1.
    pub batch: usize,
    /// Sets of operands that the runs turned through.
    pub sets: usize,
    /// `2mnk` over the median, in 10⁹ a second.
    pub gflops: f64,
    /// Percent of what the device's units can do, where that is known.
    pub percent_of_peak: Option<f64>,
    /// What the units can do, in 10⁹ operations a second: a GPU's by its table, a CPU's measured beside
    /// this row with as many threads.
    #[serde(default)]
    pub peak_gflops: Option<f64>,
    /// The vectors that gave a CPU's peak.
    #[serde(default)]
    pub peak_vectors: Option<String>,
    /// Percent of the fastest row of the same problem.
    pub percent_of_best: Option<f64>,
    /// This rate over that of the fastest peer for the same problem on the same processor.
    #[serde(default)]
    pub ratio_to_best_peer: Option<f64>,
    /// What a peer says of itself: name, version, the processor that it takes this one for.
    #[serde(default)]
    pub peer: Option<String>,
    /// The kernel that was chosen for the problem, where that was left to the program.
    #[serde(default)]
    pub chosen: Option<String>,
    /// In how many ranges of k a kernel on a GPU summed.
    #[serde(default)]
    pub ranges: Option<u32>,
    /// The check.
    pub check: Verdict,
    /// Why the rate is not believed, where it is not.
    pub refused: Option<String>,
    /// The GPU when the runs began.
    pub before: Option<GpuState>,
    /// The GPU when they ended.
    pub after: Option<GpuState>,
    /// What the runs cost the GPU, warm-up included; with rounds, those of all of them.
    #[serde(default)]
    pub energy: Option<Energy>,
    /// The command that measures this row again.
    pub command: Vec<String>,
    /// SHA-256 of the sources of the PTX, for kernels.
    pub ptx_sources: Option<String>,
    /// Version of this program.
    pub version: String,
    /// Processor or GPU that did it.
    pub processor: String,
    /// Driver, for kernels.
    pub driver: Option<String>,
}

/// What holds for all rows of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// [`FORMAT`].
    pub format: String,
}

impl Default for Head {
    fn default() -> Self {
        Self { format: FORMAT.to_owned() }
    }
}

/// What a benchmark found: measurements in the order of sizes and of the registry.
pub type Document = measure::Document<Head, Row>;

impl Row {
    /// Whether the results are right and the rate is possible.
    #[must_use]
    pub fn believed(&self) -> bool {
        self.check.ok && self.refused.is_none()
    }

    /// Holds the rate against the units' peak: gives its percentage, and refuses what is too much.
    pub(super) fn weigh(&mut self) {
        let most = if self.point.device == "cpu" { MOST_OF_CPU_PEAK } else { MOST_OF_GPU_PEAK };
        self.percent_of_peak = self.peak_gflops.map(|peak| 100.0 * self.gflops / peak);
        self.refused = self.percent_of_peak.filter(|percent| *percent > most).map(|percent| {
            format!("{percent:.0} % of the units' peak: no kernel on these units does that")
        });
    }
}

impl Document {
    /// Gives each row its share of the fastest believed row of the same problem, and its ratio to the
    /// fastest believed peer on the same processor.
    pub fn rank(&mut self) {
        let problem =
            |Row { point, .. }: &Row| (point.m, point.n, point.k, point.dtype.clone(), point.ops);
        let rates: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.believed())
            .map(|row| (problem(row), row.gflops))
            .collect();
        let peers: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.believed() && row.peer.is_some())
            .map(|row| (problem(row), row.point.device.clone(), row.gflops))
            .collect();
        for row in &mut self.rows {
            let own = problem(row);
            let alike = rates.iter().filter(|(other, _)| *other == own);
            let best = alike.map(|(_, rate)| *rate).fold(0.0, f64::max);
            // In this order the best has all of itself, and not a digit more.
            row.percent_of_best = (best > 0.0).then(|| 100.0 * (row.gflops / best));
            let beside = peers
                .iter()
                .filter(|(other, device, _)| *other == own && *device == row.point.device);
            let peer = beside.map(|(_, _, rate)| *rate).fold(0.0, f64::max);
            row.ratio_to_best_peer = (peer > 0.0).then(|| row.gflops / peer);
        }
    }

    /// Whether every row is right and possible.
    #[must_use]
    pub fn all_believed(&self) -> bool {
        self.rows.iter().all(Row::believed)
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::compare;

    #[test]
    fn a_rate_above_the_peak_is_refused_with_a_margin_where_the_peak_is_measured() {
        let weighed = |device: &str, gflops: f64| {
            let mut row = compare::tests::row("a", 1.0, 0.0);
            row.point.device = device.to_owned();
            row.gflops = gflops;
            row.peak_gflops = Some(100.0);
            row.weigh();
            assert_eq!(row.percent_of_peak, Some(gflops));
            row.believed()
        };
        assert!(weighed("cpu", 104.0) && !weighed("cpu", 106.0));
        assert!(weighed("cuda:0", 99.0) && !weighed("cuda:0", 101.0));
    }
}
