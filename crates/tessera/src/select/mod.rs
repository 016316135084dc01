//! Which processor should be the first to end with a product whose operands are in host memory.
//!
//! Two models predict seconds: that of the CPU engine from what it was measured to do with a few cubes,
//! that of a GPU from the way there and back and from the peak of its units. [`Figures`] are what both
//! stand on: measured on the machine by `tessera tune`, else assumed. A prediction need not be exact:
//! near the size from which on a GPU is faster both take about as long.

mod cpu;
mod gpu;
mod kernel;
pub mod peak;
mod points;

use gemm_spec::Types;

pub use cpu::{ASSUMED_RATE, CpuFigures, Cube, Curve};
pub use gpu::{COPIES, GpuFigures, TransferModel, Workload};
pub use kernel::best_kernel;
pub(crate) use kernel::in_order;

/// The version of the files that hold figures.
pub const FORMAT: &str = "tessera-figures 3";

/// What the models stand on.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Figures {
    /// [`FORMAT`].
    pub format: String,
    /// Version of the program that measured them.
    pub version: String,
    /// Day on which they were measured, as `2026-11-22`; UTC.
    pub date: String,
    /// The CPU engine.
    pub cpu: CpuFigures,
    /// The way to the GPU and back; `None` where there was none.
    pub gpu: Option<GpuFigures>,
}

impl Figures {
    /// The same without what was measured on a processor of another name.
    #[must_use]
    pub fn on_processor(mut self, name: &str) -> Self {
        if self.cpu.processor != name {
            self.cpu.cubes.clear();
        }
        self
    }
}

/// What an engine goes by: figures of its CPU and its GPU where they were measured, else assumptions.
#[derive(Clone, Debug, Default)]
pub struct CostModel {
    /// Of the types that were measured.
    curves: Vec<(Types, Curve)>,
    gpu: Option<GpuFigures>,
}

impl CostModel {
    /// The figures of the CPU, and those of the GPU if they are of the one of that name.
    #[must_use]
    pub fn of(figures: &Figures, gpu: Option<&str>) -> Self {
        let curve = |types: Types| Some((types, figures.cpu.curve(types.name())?));
        Self {
            curves: Types::ALL.into_iter().filter_map(curve).collect(),
            gpu: figures.gpu.clone().filter(|ways| Some(ways.device.as_str()) == gpu),
        }
    }

    /// Seconds of a product of so many operations by the CPU engine on so many threads.
    #[must_use]
    pub fn cpu_seconds(&self, types: Types, flops: f64, threads: usize) -> f64 {
        match self.curves.iter().find(|(own, _)| *own == types) {
            Some((_, curve)) => curve.seconds(flops, threads),
            None => cpu::assumed(flops, threads),
        }
    }

    /// Operations up to which no GPU of that compute capability ends before the CPU, whatever the product
    /// is: looked up in no time, where a prediction would take as long as such a product.
    #[must_use]
    pub fn cpu_first(&self, types: Types, threads: usize, compute_capability: (u32, u32)) -> f64 {
        let least = self.gpu_seconds(&Workload::LEAST, compute_capability);
        let (mut low, mut high) = (0.0, 1e18);
        if self.cpu_seconds(types, low, threads) > least {
            return low;
        }
        // Predictions grow with the operations.
        while high - low > 1.0 + low / 1024.0 {
            let middle = f64::midpoint(low, high);
            if self.cpu_seconds(types, middle, threads) <= least {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Seconds of a product by a GPU of that compute capability, its operands being in host memory.
    #[must_use]
    pub fn gpu_seconds(&self, work: &Workload, compute_capability: (u32, u32)) -> f64 {
        match &self.gpu {
            Some(ways) => ways.seconds(work),
            None => GpuFigures::assumed(compute_capability).seconds(work),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        Figures {
            format: FORMAT.to_owned(),
            version: "0".to_owned(),
            date: "2026-11-22".to_owned(),
            cpu: CpuFigures {
                processor: "a CPU".to_owned(),
                threads: 4,
                cubes: vec![Cube { dtype: "f32".to_owned(), edge: 100, seconds: 1.0 }],
            },
            gpu: Some(GpuFigures { device: "a GPU".to_owned(), ..GpuFigures::assumed((9, 0)) }),
        }
    }

    #[test]
    fn figures_of_other_processors_are_not_used() {
        let in_use = CostModel::of(&figures().on_processor("a CPU"), Some("a GPU"));
        assert!(in_use.curves.len() == 1 && in_use.gpu.is_some());
        assert_eq!(in_use.cpu_seconds(Types::F32, 2e6, 4), 1.0);
        let other = CostModel::of(&figures().on_processor("another CPU"), None);
        assert!(other.curves.is_empty() && other.gpu.is_none());
        assert!(other.cpu_seconds(Types::F32, 2e6, 4) < 1e-3);
        // A type that was not measured.
        assert!(in_use.cpu_seconds(Types::F64, 2e6, 4) < 1e-3);
    }

    #[test]
    fn what_stays_on_the_cpu_is_what_no_gpu_ends_before() {
        for in_use in
            [CostModel::default(), CostModel::of(&figures().on_processor("a CPU"), Some("a GPU"))]
        {
            let first = in_use.cpu_first(Types::F32, 4, (9, 0));
            let least = in_use.gpu_seconds(&Workload::LEAST, (9, 0));
            assert!(first == 0.0 || in_use.cpu_seconds(Types::F32, first, 4) <= least);
            assert!(in_use.cpu_seconds(Types::F32, first * 1.01 + 2.0, 4) > least);
        }
        assert!(CostModel::default().cpu_first(Types::F32, 4, (9, 0)) > 1e6);
        // A CPU that takes a second for the smallest product.
        assert_eq!(CostModel::of(&figures(), None).cpu_first(Types::F32, 4, (9, 0)), 0.0);
    }

    /// On an H200's server, by assumption: the CPU up to some hundreds, the GPU from some thousands on,
    /// and never back.
    #[test]
    fn small_cubes_stay_on_the_cpu_and_large_ones_go() {
        let in_use = CostModel::default();
        let faster = |n: f64| {
            let matrix = n * n * 4.0;
            let kernel = 2.0 * n.powi(3) / 50e12;
            let work = Workload { common: matrix, banded: matrix, back: matrix, kernel, bands: 1 };
            in_use.gpu_seconds(&work, (9, 0)) < in_use.cpu_seconds(Types::F32, 2.0 * n.powi(3), 16)
        };
        let first = (1..100).map(|step| f64::from(step) * 40.0).find(|n| faster(*n)).unwrap();
        assert!((100.0..1500.0).contains(&first), "{first}");
        assert!((1..200).all(|step| faster(first + f64::from(step) * 40.0)));
    }
}
