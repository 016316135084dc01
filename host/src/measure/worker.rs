//! What computes a product, and where: one interface for implementations, kernels, the emulator and other
//! projects' libraries.

use gemm_spec::Problem;
use kernels_gpu::Kernel;

use super::Processors;
use crate::cpu::CpuImpl;
use crate::emulate;
use crate::error::Error;
use crate::gpu::{GpuPeer, Launch};
use crate::peers::CpuPeer;
use crate::scalar::ScalarTypes;
use crate::verify::Guarded;

/// One that computes products, ready to work.
pub(crate) enum Worker<'p> {
    Cpu(&'static CpuImpl),
    CpuPeer(CpuPeer),
    Gpu(Launch<'p>),
    GpuPeer(&'static str, Box<GpuPeer<'p>>),
    /// A kernel on the CPU's threads.
    Emulator(Kernel),
    /// As soon as there is a problem: see [`Candidate::chosen`](super::Candidate::chosen).
    Auto,
}

impl Worker<'_> {
    /// What is put into the GPU's stream, where it works there.
    pub(crate) fn launch(&self) -> Option<Launch<'_>> {
        match self {
            Self::Gpu(launch) => Some(*launch),
            Self::GpuPeer(id, peer) => Some(Launch::Peer(id, peer)),
            Self::Cpu(_) | Self::CpuPeer(_) | Self::Emulator(_) | Self::Auto => None,
        }
    }

    /// The kernel that it launches on a GPU.
    pub(crate) fn kernel(&self) -> Option<Kernel> {
        match self {
            Self::Gpu(Launch::Kernel(kernel)) => Some(*kernel),
            Self::Gpu(Launch::Peer(..))
            | Self::Cpu(_)
            | Self::CpuPeer(_)
            | Self::GpuPeer(..)
            | Self::Emulator(_)
            | Self::Auto => None,
        }
    }

    /// Where it works, as rows name it.
    pub(crate) fn device(&self, processors: &Processors) -> String {
        match (self, &processors.gpu) {
            (Self::Emulator(_), _) => "emulate".to_owned(),
            (_, Ok(gpu)) if self.launch().is_some() => format!("cuda:{}", gpu.info().index),
            _ => "cpu".to_owned(),
        }
    }

    /// Whether it can do a problem, as far as that is known before.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn supports<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        processors: &Processors,
    ) -> Result<(), String> {
        let supported = match (self, &processors.gpu) {
            (Self::Emulator(kernel), _) => kernel.supports(problem, &emulate::LIMITS),
            (Self::Gpu(Launch::Kernel(kernel)), Ok(gpu)) => kernel.supports(problem, gpu.limits()),
            (Self::Cpu(implementation), _) => return implementation.runs(T::TYPES),
            _ => Ok(()),
        };
        supported.map_err(|reason| reason.to_string())
    }

    /// What a peer says of itself.
    pub(crate) fn description(&self) -> Option<String> {
        match self {
            Self::CpuPeer(peer) => Some(peer.description.clone()),
            Self::GpuPeer(_, peer) => Some(peer.description().to_owned()),
            Self::Cpu(_) | Self::Gpu(_) | Self::Emulator(_) | Self::Auto => None,
        }
    }

    /// Computes a product in a guarded buffer, wherever it works; operands are brought there and back.
    pub(crate) fn compute<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        (a, b): (&[T::A], &[T::B]),
        result: &mut Guarded<T>,
        processors: &Processors,
    ) -> Result<(), Error> {
        let Some(launch) = self.launch() else {
            return self.multiply(problem, (a, b), result.as_mut_slice(), processors);
        };
        let gpu = processors.gpu()?;
        let mut output = gpu.output(result.full(), result.guard_len())?;
        gpu.upload(problem, a, b)?.run(launch, &mut output)?;
        output.download(result.full_mut())?;
        Ok(())
    }

    /// Computes C in host memory, if it works on the CPU.
    pub(crate) fn multiply<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        (a, b): (&[T::A], &[T::B]),
        c: &mut [T::C],
        processors: &Processors,
    ) -> Result<(), Error> {
        let cpu = &processors.cpu;
        match self {
            Self::Cpu(implementation) => implementation.gemm::<T>(problem, a, b, c, cpu),
            Self::CpuPeer(peer) => {
                peer.multiply(problem, a, b, c, cpu).map_err(|reason| Error::Peer { reason })
            }
            Self::Emulator(kernel) => {
                cpu.pool().install(|| emulate::run(*kernel, problem, a, b, c))
            }
            Self::Gpu(_) | Self::GpuPeer(..) | Self::Auto => {
                Err(Error::Peer { reason: "works on a GPU".to_owned() })
            }
        }
    }
}
