//! Who is measured: an implementation of this project or a peer.

use std::path::PathBuf;

use gemm_spec::{Problem, Types};

use super::{Processors, peak};
use crate::auto;
use crate::cpu::CpuImpl;
use crate::error::Error;
use crate::gpu::{Gpu, GpuPeer, Launch};
use crate::peers::{self, CpuPeer, Peer};
use crate::registry::{self, Implementation};
use crate::report::skipped::without_gpu;
use crate::scalar::ScalarTypes;
use crate::verify::Guarded;
use tessera::Accuracy;

/// The name of [`Entrant::Auto`].
pub const AUTO: &str = "auto";

/// One that is measured.
#[derive(Clone, Copy)]
pub enum Entrant {
    /// An implementation of the registry.
    Own(Implementation),
    /// The kernel that an engine chooses for the problem on this GPU.
    Auto,
    /// A matrix product of another project.
    Peer(&'static Peer),
}

impl Entrant {
    /// Name on the command line and in reports.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Own(implementation) => implementation.id(),
            Self::Auto => AUTO,
            Self::Peer(peer) => peer.id,
        }
    }

    /// The entrant of that exact name.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`].
    pub fn find(name: &str) -> Result<Self, Error> {
        match peers::find(name) {
            None if name == AUTO => Ok(Self::Auto),
            Some(peer) => Ok(Self::Peer(peer)),
            None => Ok(Self::Own(registry::find(name)?)),
        }
    }

    /// Whether it works on a GPU.
    #[must_use]
    pub fn on_gpu(&self) -> bool {
        match self {
            Self::Own(implementation) => implementation.on_gpu(),
            Self::Auto => true,
            Self::Peer(peer) => peer.cuda().is_some(),
        }
    }

    /// CPU threads that it uses of so many; `None` where it runs on a GPU.
    pub(super) fn threads(&self, threads: usize) -> Option<usize> {
        match self {
            Self::Own(implementation) => implementation.threads(threads),
            Self::Auto => None,
            Self::Peer(peer) => peer.cuda().is_none().then_some(threads),
        }
    }

    /// What a GPU can do at most for it, in operations a second.
    pub(super) fn gpu_peak(&self, gpu: &Gpu, types: Types) -> Option<f64> {
        match self {
            Self::Own(Implementation::Gpu(spec)) => {
                peak::kernel_peak(spec.spec(), gpu.info(), types)
            }
            Self::Own(_) | Self::Auto => peak::peak(gpu.info(), types),
            Self::Peer(_) => peak::library_peak(gpu.info(), types),
        }
    }

    /// The entrant that does the work for a problem: of [`Entrant::Auto`] the kernel that an engine
    /// would choose, of others themselves.
    pub(crate) fn chosen<T: ScalarTypes>(
        self,
        problem: &Problem<T>,
        processors: &Processors,
    ) -> Result<Self, String> {
        if !matches!(self, Self::Auto) {
            return Ok(self);
        }
        let reason = |error: tessera::Error| error.to_string();
        let gpu = processors.gpu.as_ref().map_err(without_gpu)?;
        let free = gpu.free_memory().map_err(reason)?;
        let chosen = auto::device_model(gpu).best_kernel(problem, free, Accuracy::default());
        let chosen = chosen.ok_or_else(|| format!("there is no kernel for {}", T::TYPES))?;
        Ok(Self::Own(Implementation::Gpu(chosen)))
    }

    /// Makes it ready to work on these processors, a peer's library being looked for in these folders
    /// first; says in words why it cannot.
    pub(crate) fn ready<'p>(
        &self,
        peer_folders: &[PathBuf],
        processors: &'p Processors,
    ) -> Result<Ready<'p>, String> {
        match *self {
            Self::Own(Implementation::Cpu(implementation)) => Ok(Ready::Cpu(implementation)),
            Self::Own(Implementation::Gpu(spec)) => Ok(Ready::Gpu(Launch::Kernel(spec))),
            Self::Auto => Ok(Ready::Auto),
            Self::Peer(peer) => match peer.cuda() {
                None => {
                    let peer = CpuPeer::open(peer, peer_folders, &processors.cpu)?;
                    Ok(Ready::CpuPeer(peer))
                }
                Some(library) => {
                    let gpu = processors.gpu.as_ref().map_err(without_gpu)?;
                    let opened =
                        gpu.open_peer(library, peer_folders).map_err(|error| error.to_string())?;
                    Ok(Ready::GpuPeer(peer.id, Box::new(opened)))
                }
            },
        }
    }
}

/// An entrant at the start.
pub(crate) enum Ready<'p> {
    Cpu(&'static CpuImpl),
    CpuPeer(CpuPeer),
    Gpu(Launch<'p>),
    GpuPeer(&'static str, Box<GpuPeer<'p>>),
    /// As soon as there is a problem: see [`Entrant::chosen`].
    Auto,
}

impl Ready<'_> {
    /// What is put into the GPU's stream, where it works there.
    pub(super) fn launch(&self) -> Option<Launch<'_>> {
        match self {
            Self::Gpu(launch) => Some(*launch),
            Self::GpuPeer(id, peer) => Some(Launch::Peer(id, peer)),
            Self::Cpu(_) | Self::CpuPeer(_) | Self::Auto => None,
        }
    }

    /// What a peer says of itself.
    pub(super) fn description(&self) -> Option<String> {
        match self {
            Self::CpuPeer(peer) => Some(peer.description.clone()),
            Self::GpuPeer(_, peer) => Some(peer.description().to_owned()),
            Self::Cpu(_) | Self::Gpu(_) | Self::Auto => None,
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
            return self.multiply(problem, a, b, result.as_mut_slice(), processors);
        };
        let gpu = processors.gpu()?;
        let mut output = gpu.output(result.full(), result.guard_len())?;
        gpu.upload(problem, a, b)?.run(launch, &mut output)?;
        output.download(result.full_mut())?;
        Ok(())
    }

    /// Computes C on the CPU, if that is where it works.
    pub(super) fn multiply<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
        processors: &Processors,
    ) -> Result<(), Error> {
        match self {
            Self::Cpu(implementation) => {
                implementation.gemm::<T>(problem, a, b, c, &processors.cpu)
            }
            Self::CpuPeer(peer) => peer
                .multiply(problem, a, b, c, &processors.cpu)
                .map_err(|reason| Error::Peer { reason }),
            Self::Gpu(_) | Self::GpuPeer(..) | Self::Auto => {
                Err(Error::Peer { reason: "works on a GPU".to_owned() })
            }
        }
    }
}
