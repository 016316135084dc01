//! Which processor should be the first to end with a product whose operands are in host memory.
//!
//! Each processor has one model that predicts seconds: [`CpuModel`] for the CPU engine, from what it was
//! measured to do with a few cubes, and [`DeviceModel`] for a GPU. The latter also chooses among the kernels
//! and says in how many ranges they sum k. It is made of the device's attributes, of the kernels'
//! efficiencies, which `cargo xtask fit` fits to measured times, and of [`Figures`], where `tessera tune`
//! has measured the device. A prediction need not be exact: near the size from which on a GPU is faster
//! both take about as long.

mod batch;
mod constants;
mod cpu;
mod device;
mod fitted;
mod gpu;
mod kernel;
mod measured;
pub mod peak;
mod points;
mod thin;

use gemm_spec::{KernelSpec, Problem, Types};

pub use constants::{Constants, Efficiency, Finishing, KernelConstants, Reference};
pub use cpu::{ASSUMED_RATE, CpuFigures, CpuModel, Cube, Curve};
pub use device::DeviceModel;
pub use gpu::{COPIES, GpuFigures, TransferModel, Workload};
pub(crate) use kernel::in_order;
pub use measured::KernelTime;

use kernels_gpu::Kernel;

use crate::accuracy::Accuracy;
use crate::element::GemmTypes;

/// The version of the files that hold figures.
pub const FORMAT: &str = "tessera-figures 4";

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
    /// The GPU, and the way there and back; `None` where there was none.
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

    /// What was measured of the GPU of that name.
    #[must_use]
    pub fn of_gpu(&self, name: &str) -> Option<&GpuFigures> {
        self.gpu.as_ref().filter(|figures| figures.device == name)
    }
}

/// What an engine chooses from: the model of its CPU and that of its GPU.
#[derive(Clone, Debug)]
pub struct CostModel {
    cpu: CpuModel,
    gpu: DeviceModel,
}

/// What a product is predicted to take, from operands in host memory to the result there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The kernel.
    pub kernel: Kernel,
    /// Seconds by it.
    pub gpu: f64,
    /// Seconds by the CPU.
    pub cpu: f64,
}

impl CostModel {
    /// Figures of the CPU, and of the GPU if they are of the one of that name.
    #[must_use]
    pub fn new(gpu: DeviceModel, name: &str, figures: Option<&Figures>) -> Self {
        let gpu = match figures.and_then(|figures| figures.of_gpu(name)) {
            Some(figures) => gpu.with_figures(figures),
            None => gpu,
        };
        Self { cpu: figures.map(|figures| CpuModel::new(&figures.cpu)).unwrap_or_default(), gpu }
    }

    /// The model of the GPU.
    #[must_use]
    pub fn gpu(&self) -> &DeviceModel {
        &self.gpu
    }

    /// Whether a kernel should end with a product before the CPU does on that many threads, from operands in
    /// host memory to the result there.
    #[must_use]
    pub fn is_faster<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        spec: &KernelSpec,
        threads: usize,
    ) -> bool {
        self.gpu.seconds(problem, spec) < self.cpu.seconds(T::TYPES, problem.flops(), threads)
    }

    /// What the kernel that suits a canonical problem should take, of those for which that many bytes are free and
    /// that keep to the accuracy mode, and the CPU; `None` where there is no such kernel.
    #[must_use]
    pub fn predicted<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        free: u64,
        accuracy: Accuracy,
        threads: usize,
    ) -> Option<Predicted> {
        let kernel = self.gpu.best_kernel(problem, free, accuracy)?;
        let gpu = self.gpu.seconds(&in_order(problem, &kernel), kernel.spec());
        let cpu = self.cpu.seconds(T::TYPES, problem.flops(), threads);
        Some(Predicted { kernel, gpu, cpu })
    }

    /// Operations up to which the GPU does not end before the CPU on that many threads, whatever the product
    /// is: looked up in no time, where a prediction would take as long as such a product.
    #[must_use]
    pub fn cpu_first(&self, types: Types, threads: usize) -> f64 {
        let least = self.gpu.least_seconds();
        let (mut low, mut high) = (0.0, 1e18);
        if self.cpu.seconds(types, low, threads) > least {
            return low;
        }
        // Predictions grow with the operations.
        while high - low > 1.0 + low / 1024.0 {
            let middle = f64::midpoint(low, high);
            if self.cpu.seconds(types, middle, threads) <= least {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::DeviceLimits;

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

    const LIMITS: DeviceLimits = DeviceLimits {
        compute_capability: (9, 0),
        max_threads_per_block: 1024,
        max_shared_bytes: 227 * 1024,
        multiprocessors: 132,
    };

    fn model(gpu: &str, figures: Option<Figures>) -> CostModel {
        CostModel::new(DeviceModel::new(LIMITS, 1980), gpu, figures.as_ref())
    }

    #[test]
    fn figures_of_other_processors_are_not_used() {
        let slow = GpuFigures { launch: 1.0, ..figures().gpu.unwrap() };
        let figures = Figures { gpu: Some(slow), ..figures() };
        let seconds = |model: &CostModel, types| model.cpu.seconds(types, 2e6, 4);
        let in_use = model("a GPU", Some(figures.clone().on_processor("a CPU")));
        assert_eq!(seconds(&in_use, Types::F32), 1.0);
        assert!(in_use.gpu.least_seconds() > 1.0);
        let other = model("another GPU", Some(figures.on_processor("another CPU")));
        assert!(seconds(&other, Types::F32) < 1e-3);
        assert!(other.gpu.least_seconds() < 1e-3);
        // A type that was not measured.
        assert!(seconds(&in_use, Types::F64) < 1e-3);
    }

    #[test]
    fn what_stays_on_the_cpu_is_what_no_gpu_ends_before() {
        for in_use in [model("", None), model("a GPU", Some(figures().on_processor("a CPU")))] {
            let first = in_use.cpu_first(Types::F32, 4);
            let least = in_use.gpu.least_seconds();
            assert!(first == 0.0 || in_use.cpu.seconds(Types::F32, first, 4) <= least);
            assert!(in_use.cpu.seconds(Types::F32, first * 1.01 + 2.0, 4) > least);
        }
        assert!(model("", None).cpu_first(Types::F32, 4) > 1e6);
        // A CPU that takes a second for the smallest product.
        assert_eq!(model("", Some(figures())).cpu_first(Types::F32, 4), 0.0);
    }

    /// On an H200's server, by assumption: the CPU up to some hundreds, the GPU from some thousands on,
    /// and never back.
    #[test]
    fn small_cubes_stay_on_the_cpu_and_large_ones_go() {
        let in_use = model("", None);
        let faster = |n: usize| {
            let problem = Problem::<f32>::new(n, n, n);
            let kernel = in_use.gpu.best_kernel(&problem, u64::MAX, Accuracy::default()).unwrap();
            in_use.is_faster(&problem, kernel.spec(), 16)
        };
        let first = (1..100).map(|step| step * 40).find(|n| faster(*n)).unwrap();
        assert!((100..1500).contains(&first), "{first}");
        assert!((1..200).all(|step| faster(first + step * 40)));
    }
}
