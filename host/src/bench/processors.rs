//! The processors that a measurement may use.

use std::num::NonZeroUsize;

use crate::cpu::{self, CpuContext};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::machine::Machine;
use crate::run::DeviceChoice;

/// The CPU, and the GPU or why there is none.
pub(crate) struct Processors {
    pub(crate) cpu: CpuContext,
    pub(crate) gpu: Result<Gpu, Error>,
    pub(crate) host: Machine,
    pub(crate) driver: Option<String>,
}

impl Processors {
    /// Opens what a choice names.
    ///
    /// # Errors
    /// A GPU that was demanded and is not there; threads that the system refuses.
    pub(crate) fn open(device: DeviceChoice, threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        let gpu = match device {
            DeviceChoice::Auto => Gpu::open(0),
            DeviceChoice::Cuda(index) => Ok(Gpu::open(index)?),
            DeviceChoice::Cpu | DeviceChoice::Emulate => {
                Err(Error::no_device("the measurement was told to stay on the CPU".to_owned()))
            }
        };
        Ok(Self {
            cpu: cpu::context(threads)?,
            driver: gpu.as_ref().ok().and_then(|_| crate::gpu::driver().ok()?.version),
            gpu,
            host: Machine::probe(),
        })
    }

    /// The GPU, where kernels need one.
    ///
    /// # Errors
    /// [`tessera::Error::NoDevice`].
    pub(crate) fn gpu(&self) -> Result<&Gpu, Error> {
        self.gpu.as_ref().map_err(|error| {
            if let Error::Product { error: tessera::Error::NoDevice { reason } } = error {
                return Error::no_device(reason.clone());
            }
            Error::no_device(error.to_string())
        })
    }
}
