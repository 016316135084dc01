//! Who is measured: an implementation of this project or a peer.

use std::path::PathBuf;

use gemm_spec::Problem;
use tessera::Accuracy;

use super::{DeviceChoice, Processors, Worker, without_gpu};
use crate::error::Error;
use crate::figures;
use crate::gpu::Launch;
use crate::peers::{self, CpuPeer, Peer};
use crate::registry::{self, Implementation};
use crate::scalar::ScalarTypes;

/// The name of [`Candidate::Auto`].
pub const AUTO: &str = "auto";

/// One that is measured.
#[derive(Clone, Copy)]
pub enum Candidate {
    /// An implementation of the registry.
    Own(Implementation),
    /// The kernel that an engine chooses for the problem on this GPU.
    Auto,
    /// A matrix product of another project.
    Peer(&'static Peer),
}

impl Candidate {
    /// Name on the command line and in reports.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Own(implementation) => implementation.id(),
            Self::Auto => AUTO,
            Self::Peer(peer) => peer.id,
        }
    }

    /// The candidate of that exact name.
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

    /// CPU threads that it uses, of those there are; `None` where it runs on a GPU.
    pub(crate) fn threads(&self, threads: usize) -> Option<usize> {
        match self {
            Self::Own(implementation) => implementation.threads(threads),
            Self::Auto => None,
            Self::Peer(peer) => peer.cuda().is_none().then_some(threads),
        }
    }

    /// The candidate that does the work for a problem: of [`Candidate::Auto`] the kernel that an engine
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
        let model = figures::device_model(gpu);
        let within = |free| model.best_kernel(problem, free, Accuracy::default());
        let chosen = within(free).ok_or_else(|| match within(u64::MAX) {
            Some(_) => format!(
                "its matrices and what a kernel needs besides take more than the {free} bytes that are free \
                 on the GPU; choose a smaller size"
            ),
            None => format!("there is no kernel for {}", T::TYPES),
        })?;
        Ok(Self::Own(Implementation::Gpu(chosen)))
    }

    /// What works for it on these processors, a peer's library being looked for in these folders first;
    /// says in words why nothing can.
    pub(crate) fn worker<'p>(
        self,
        peer_folders: &[PathBuf],
        processors: &'p Processors,
    ) -> Result<Worker<'p>, String> {
        processors.admit(self.on_gpu())?;
        match self {
            Self::Own(Implementation::Cpu(implementation)) => Ok(Worker::Cpu(implementation)),
            Self::Own(Implementation::Gpu(kernel)) => Ok(match processors.choice {
                DeviceChoice::Emulate => Worker::Emulator(kernel),
                DeviceChoice::Auto | DeviceChoice::Cpu | DeviceChoice::Cuda(_) => {
                    Worker::Gpu(Launch::Kernel(kernel))
                }
            }),
            Self::Auto => Ok(Worker::Auto),
            Self::Peer(peer) => match peer.cuda() {
                None => Ok(Worker::CpuPeer(CpuPeer::open(peer, peer_folders, &processors.cpu)?)),
                Some(library) => {
                    let gpu = processors.gpu.as_ref().map_err(without_gpu)?;
                    let opened =
                        gpu.open_peer(library, peer_folders).map_err(|error| error.to_string())?;
                    Ok(Worker::GpuPeer(peer.id, Box::new(opened)))
                }
            },
        }
    }
}
