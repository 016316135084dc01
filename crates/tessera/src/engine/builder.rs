//! The settings of an engine.

use std::num::NonZeroUsize;

use cpu_gemm::{CpuContext, CpuIsa, CpuUnits};

use super::Engine;
#[cfg(feature = "cuda")]
use super::on_gpu::{OnGpu, Rule};
use crate::accuracy::Accuracy;
use crate::error::Error;
#[cfg(feature = "cuda")]
use crate::gpu::{Gpu, Kernel, KernelCode};
#[cfg(feature = "cuda")]
use crate::select::Figures;

/// Where an engine may compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// On the CPU or the first GPU, whichever should end first; on the CPU where there is no GPU.
    #[default]
    Auto,
    /// On the CPU alone.
    Cpu,
    /// On the GPU of that number alone, however small a product is.
    #[cfg(feature = "cuda")]
    Cuda(u32),
}

/// Settings of an [`Engine`], see [`Engine::builder`].
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use tessera::{Accuracy, Device, Engine};
///
/// let engine = Engine::builder()
///     .device(Device::Auto)
///     .threads(NonZeroUsize::MIN)
///     .accuracy(Accuracy::Componentwise)
///     .deterministic(true)
///     .build()?;
/// assert!(engine.is_deterministic());
/// # Ok::<(), tessera::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct EngineBuilder {
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "products stay on the CPU"))]
    device: Device,
    threads: Option<NonZeroUsize>,
    cpu: Option<CpuContext>,
    isa: Option<CpuIsa>,
    units: Option<CpuUnits>,
    accuracy: Accuracy,
    deterministic: bool,
    #[cfg(feature = "cuda")]
    figures: Option<Figures>,
    #[cfg(feature = "cuda")]
    kernel: Option<Kernel>,
    #[cfg(feature = "cuda")]
    code: KernelCode,
}

impl EngineBuilder {
    /// Where products may be computed; [`Device::Auto`] if not set.
    pub fn device(self, device: Device) -> Self {
        Self { device, ..self }
    }

    /// The number of threads; if not set `RAYON_NUM_THREADS`, else one for each core.
    pub fn threads(self, threads: NonZeroUsize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// The threads that a program has already, in place of ones of the engine's own; [`EngineBuilder::threads`],
    /// [`EngineBuilder::isa`] and [`EngineBuilder::units`] are then the context's.
    pub fn cpu_context(self, context: CpuContext) -> Self {
        Self { cpu: Some(context), ..self }
    }

    /// The instruction set of vector units; the best one there is if not set. No bit of a result depends on
    /// it.
    pub fn isa(self, isa: CpuIsa) -> Self {
        Self { isa: Some(isa), ..self }
    }

    /// The units of products on the CPU. If not set, [`CpuUnits::All`], of an engine whose
    /// [accuracy](Self::accuracy) allows factors to be rounded [`CpuUnits::Tf32`] or [`CpuUnits::Bf16`], and of a
    /// [deterministic](Self::deterministic) engine [`CpuUnits::SameBits`].
    ///
    /// Matrix units compute sums of f32, f16 and bf16 within the error bound of vector units, mostly with
    /// smaller errors, but not with their bits: where results must not depend on the machine, set
    /// [`CpuUnits::SameBits`].
    pub fn units(self, units: CpuUnits) -> Self {
        Self { units: Some(units), ..self }
    }

    /// What the choice of a kernel keeps to, and of the units of products on the CPU; [`Accuracy::Fp32`] if not set.
    pub fn accuracy(self, accuracy: Accuracy) -> Self {
        Self { accuracy, ..self }
    }

    /// Makes each choice a pure function of the problem and the devices, so that a program gives the same
    /// bits whenever it runs on machines with the same GPU, or without one. On the CPU they are those of
    /// [`cpu_gemm::engine_sum`], unless other [units](Self::units) are asked for.
    ///
    /// Without it the choice may also depend on the builder's figures, on the number of threads and on
    /// the device memory that other programs leave free. With it figures are not used, and a product whose
    /// kernel finds too little free memory is an [`Error::OutOfMemory`] in place of another kernel's.
    pub fn deterministic(self, deterministic: bool) -> Self {
        Self { deterministic, ..self }
    }

    /// What was measured on this machine, on which the choices of a processor and of a kernel then depend in
    /// place of assumptions. Figures of another GPU are not used.
    #[cfg(feature = "cuda")]
    pub fn figures(self, figures: Figures) -> Self {
        Self { figures: Some(figures), ..self }
    }

    /// The one kernel that computes every product, on the device of [`Device::Cuda`], else on the first
    /// GPU.
    #[cfg(feature = "cuda")]
    pub fn kernel(self, kernel: Kernel) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    /// In which form the GPU takes its kernels; [`KernelCode::MachineCode`] if not set. No bit of a result
    /// depends on it.
    #[cfg(feature = "cuda")]
    pub fn kernel_code(self, code: KernelCode) -> Self {
        Self { code, ..self }
    }

    /// Opens the engine.
    ///
    /// # Errors
    /// [`Error::Threads`]; [`Error::Isa`] where this CPU lacks the instruction set; where a GPU was asked
    /// for, [`Error::NoDevice`], [`Error::NoSuchDevice`] and [`Error::Cuda`]; [`Error::Accuracy`] where a
    /// kernel was named that does not keep to the accuracy mode.
    pub fn build(mut self) -> Result<Engine, Error> {
        let cpu = match self.cpu.take() {
            Some(context) => context,
            None => self.start_threads()?,
        };
        #[cfg(feature = "cuda")]
        let gpu = self.open_gpu(&cpu)?;
        Ok(Engine {
            cpu,
            accuracy: self.accuracy,
            deterministic: self.deterministic,
            #[cfg(feature = "cuda")]
            gpu,
        })
    }

    fn start_threads(&self) -> Result<CpuContext, Error> {
        let isa = self.isa.unwrap_or_else(CpuIsa::best);
        let usual = match self.accuracy {
            _ if self.deterministic => CpuUnits::SameBits,
            Accuracy::Bf16 => CpuUnits::Bf16,
            Accuracy::Tf32 => CpuUnits::Tf32,
            Accuracy::Fp32 | Accuracy::Componentwise => CpuUnits::All,
        };
        let units = self.units.unwrap_or(usual);
        Ok(CpuContext::with_isa(self.threads, isa)?.with_units(units))
    }

    #[cfg(feature = "cuda")]
    fn open_gpu(&self, cpu: &CpuContext) -> Result<Option<OnGpu>, Error> {
        let open = |index| Gpu::open_with(index, self.code);
        let (gpu, rule) = match (self.device, self.kernel) {
            (_, Some(kernel)) if !self.accuracy.admits(kernel.spec()) => {
                let accuracy = self.accuracy;
                return Err(Error::Accuracy { kernel: kernel.id, accuracy });
            }
            (Device::Cpu, Some(_)) => {
                let reason = "a kernel was asked for on the CPU".to_owned();
                return Err(Error::NoDevice { reason });
            }
            (Device::Cuda(index), Some(kernel)) => (open(index)?, Rule::Kernel(kernel)),
            (Device::Auto, Some(kernel)) => (open(0)?, Rule::Kernel(kernel)),
            (Device::Cuda(index), None) => (open(index)?, Rule::Always),
            (Device::Cpu, None) => return Ok(None),
            (Device::Auto, None) => match open(0) {
                Ok(gpu) => (gpu, Rule::WhereFaster),
                Err(reason) => {
                    tracing::debug!(%reason, "products stay on the CPU");
                    return Ok(None);
                }
            },
        };
        Ok(Some(OnGpu::new(gpu, rule, cpu, self.figures.as_ref(), self.deterministic)))
    }
}
