//! The processors that a measurement may use.

use std::fmt;
use std::num::NonZeroUsize;

use serde::Serialize;

use super::without_gpu;
use crate::cpu::{self, CpuContext};
use crate::error::Error;
use crate::gpu::{DeviceInfo, DriverInfo, Gpu};
use crate::machine::Machine;

/// Which processors take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The CPU, and the first GPU where there is one.
    #[default]
    Auto,
    /// The CPU alone.
    Cpu,
    /// The emulator alone: the GPU kernels' own sources on the CPU, with every access checked.
    Emulate,
    /// The GPU of that number alone; it is an error where there is none.
    Cuda(u32),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Emulate => f.write_str("emulate"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl DeviceChoice {
    /// Whether it leaves room for an implementation that is a GPU kernel, or is none.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn admits(self, on_gpu: bool) -> Result<(), String> {
        let stay = match self {
            Self::Auto => return Ok(()),
            Self::Cpu => (on_gpu, "CPU"),
            Self::Emulate => (!on_gpu, "emulator"),
            Self::Cuda(_) => (!on_gpu, "GPU"),
        };
        if let (true, place) = stay { Err(told(place)) } else { Ok(()) }
    }
}

/// Why other processors are not used.
fn told(place: &str) -> String {
    format!("the run was told to stay on the {place}")
}

/// The machine as documents show it.
#[derive(Clone, Debug, Serialize)]
pub struct MachineInfo {
    /// The host.
    #[serde(flatten)]
    pub host: Machine,
    /// CPU threads used.
    pub threads: usize,
    /// The driver, where there is one.
    pub driver: Option<DriverInfo>,
    /// The GPU used, where there is one.
    pub gpu: Option<DeviceInfo>,
    /// How long the driver took to compile kernels from PTX, added up; part of no row.
    pub jit_seconds: Option<f64>,
    /// How long it took to load the machine code of kernels, added up; part of no row.
    pub load_seconds: Option<f64>,
}

/// The CPU, and the GPU or why there is none; opened once for all that is measured.
pub(crate) struct Processors {
    pub(crate) choice: DeviceChoice,
    pub(crate) cpu: CpuContext,
    pub(crate) gpu: Result<Gpu, Error>,
    pub(crate) host: Machine,
    driver: Option<DriverInfo>,
}

impl Processors {
    /// Starts the threads and opens the GPU, or keeps the reason why there is none.
    ///
    /// # Errors
    /// [`tessera::Error::Threads`]; where a GPU is demanded also what [`Gpu::open`] answers.
    pub(crate) fn open(choice: DeviceChoice, threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        let cpu = cpu::context(threads)?;
        let gpu = match choice {
            DeviceChoice::Cpu => Err(Error::no_device(told("CPU"))),
            DeviceChoice::Emulate => Err(Error::no_device(told("emulator"))),
            DeviceChoice::Auto => Gpu::open(0),
            DeviceChoice::Cuda(index) => Ok(Gpu::open(index)?),
        };
        let driver = gpu.as_ref().ok().and_then(|_| crate::gpu::driver().ok());
        Ok(Self { choice, cpu, gpu, host: Machine::probe(), driver })
    }

    /// The machine, with what the driver has loaded by now.
    pub(crate) fn machine(&self) -> MachineInfo {
        let gpu = self.gpu.as_ref().ok();
        MachineInfo {
            host: self.host.clone(),
            threads: self.cpu.threads(),
            driver: self.driver.clone(),
            jit_seconds: gpu.map(|gpu| gpu.compile_time().as_secs_f64()),
            load_seconds: gpu.map(|gpu| gpu.load_time().as_secs_f64()),
            gpu: gpu.map(|gpu| gpu.info().clone()),
        }
    }

    /// The driver's version, where there is a GPU and the driver tells.
    pub(crate) fn driver_version(&self) -> Option<String> {
        self.driver.as_ref().and_then(|driver| driver.version.clone())
    }

    /// Whether an implementation that is a GPU kernel, or is none, has a processor to run on.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn admit(&self, on_gpu: bool) -> Result<(), String> {
        self.choice.admits(on_gpu)?;
        if on_gpu && self.choice != DeviceChoice::Emulate {
            self.gpu.as_ref().map_err(without_gpu)?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_says_what_it_leaves_out() {
        let said = |choice: DeviceChoice, on_gpu| choice.admits(on_gpu).err();
        assert_eq!((said(DeviceChoice::Auto, true), said(DeviceChoice::Auto, false)), (None, None));
        for (choice, place, on_gpu) in [
            (DeviceChoice::Cpu, "CPU", false),
            (DeviceChoice::Emulate, "emulator", true),
            (DeviceChoice::Cuda(1), "GPU", true),
        ] {
            let other = Some(format!("the run was told to stay on the {place}"));
            assert_eq!((said(choice, on_gpu), said(choice, !on_gpu)), (None, other));
        }
    }
}
