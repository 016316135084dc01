//! One GPU: its context, its stream, its modules, and what it allows.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cuda_lazy::{DeviceMemory, Stream};
use gemm_spec::DeviceLimits;
use kernels_gpu::{Kernel, Module};

use super::context::{Context, retain};
use super::host_path::Staging;

use super::refused;
use super::workspace::Workspaces;
use crate::device_info::DeviceInfo;
use crate::error::Error;
use crate::select::DeviceModel;

/// In which form a GPU takes its kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelCode {
    /// As machine code, where this library has some for the GPU that its driver takes, else as PTX.
    #[default]
    MachineCode,
    /// As PTX, which the driver compiles, or finds compiled in its cache.
    Ptx,
}

/// A GPU that is ready to launch, in its primary context. Any number of threads may use it at once.
///
/// The driver loads the code of a kernel when it is first launched, and keeps it; so it does the memory
/// that the largest product so far took besides its operands.
pub struct Gpu {
    // Dropped in this order: what lives in the context goes before the context.
    workspaces: Workspaces,
    /// What operands in host memory travel through.
    staging: Mutex<Option<Staging>>,
    stream: Stream,
    context: Context,
}

/// One GPU serves many threads: nothing in it may lose that.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Gpu>();
};

impl Gpu {
    /// Opens the GPU of that number.
    ///
    /// # Errors
    /// [`Error::NoDevice`] where there is no driver or no GPU, [`Error::NoSuchDevice`] where the
    /// number is too large, [`Error::Cuda`] where the driver refuses.
    pub fn open(index: u32) -> Result<Self, Error> {
        Self::open_with(index, KernelCode::default())
    }

    /// Opens the GPU of that number, which takes its kernels in that form. What they compute does not
    /// depend on it.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub fn open_with(index: u32, code: KernelCode) -> Result<Self, Error> {
        let started = Instant::now();
        let context = Context::alone(index, retain(index)?, code)?;
        let during = || format!("opening device {index} ({})", context.info().name);
        let stream = Stream::new(context.driver_context()).map_err(refused(during()))?;
        tracing::debug!(device = context.info().name, time = ?started.elapsed(), "opened");
        Ok(Self { workspaces: Workspaces::default(), staging: Mutex::new(None), stream, context })
    }

    /// What the device is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        self.context.info()
    }

    /// What the device allows a kernel.
    #[must_use]
    pub fn limits(&self) -> &DeviceLimits {
        self.context.limits()
    }

    /// What it is predicted to take for products, by its attributes.
    #[must_use]
    pub fn model(&self) -> &DeviceModel {
        self.context.model()
    }

    /// The device's primary context, which this retains. [`Plan`](super::Plan)s that are made in it use this
    /// GPU's modules.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Bytes of device memory that a product can have: those that are free, and those that are kept from
    /// earlier products.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    pub fn free_memory(&self) -> Result<u64, Error> {
        // A product on its way keeps what it has.
        let staging = self.staging.try_lock().map_or(0, |staging| {
            let memory = staging.as_ref().and_then(|staging| staging.memory.as_ref());
            memory.map_or(0, |memory| memory.len() as u64)
        });
        Ok(self.unused_memory()? + self.workspaces.bytes() + staging)
    }

    /// Bytes of device memory that nobody has.
    fn unused_memory(&self) -> Result<u64, Error> {
        let failed = || refused("reading free memory");
        let _current = self.context.enter()?;
        let memory = self.context.driver().mem_get_info().map_err(failed())?;
        Ok(memory.free as u64)
    }

    /// Frees memory that is kept from earlier products and not in use, where fewer bytes than needed are
    /// free without it; gives the bytes that can be allocated then.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    pub fn make_room(&self, needed: u128) -> Result<u64, Error> {
        let unused = self.unused_memory()?;
        if u128::from(unused) >= needed {
            return Ok(unused);
        }
        // The driver waits for work that still uses the memory.
        if let Ok(mut staging) = self.staging.try_lock()
            && let Some(staging) = &mut *staging
        {
            staging.memory = None;
        }
        self.workspaces.clear();
        self.unused_memory()
    }

    /// Allocates device memory, whose content is whatever it was.
    pub(super) fn allocate(&self, bytes: u64, what: &str) -> Result<DeviceMemory, Error> {
        let available = self.make_room(u128::from(bytes))?;
        let short = || Error::OutOfMemory {
            what: what.to_owned(),
            needed: u128::from(bytes),
            available: Some(u128::from(available)),
        };
        let len = usize::try_from(bytes).map_err(|_| short())?;
        if bytes > available {
            return Err(short());
        }
        DeviceMemory::new(self.context.driver_context(), len).map_err(|error| {
            if error.is_out_of_memory() {
                return short();
            }
            refused(format!("allocating {what}"))(error)
        })
    }

    /// What operands in host memory travel through, for one product at a time.
    pub(super) fn staging(&self) -> MutexGuard<'_, Option<Staging>> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn workspaces(&self) -> &Workspaces {
        &self.workspaces
    }

    /// Whether the driver is given a kernel as machine code; where it is not, or where the driver is older
    /// than that, it compiles the PTX.
    #[must_use]
    pub fn has_machine_code(&self, kernel: Kernel) -> bool {
        Module::of_kernel(kernel.spec())
            .all(|module| self.context.modules().image(module).is_some())
    }

    /// How long the driver took to compile kernels from PTX, those in use added up: zero where it loaded
    /// machine code for them. It is part of no measurement.
    #[must_use]
    pub fn compile_time(&self) -> Duration {
        self.context.modules().time(true)
    }

    /// How long the driver took to load the machine code of kernels, those in use added up. It is part of
    /// no measurement.
    #[must_use]
    pub fn load_time(&self) -> Duration {
        self.context.modules().time(false)
    }

    /// The stream of this GPU's own products.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Loads what launches of a kernel take from the driver, if that has not been done yet.
    ///
    /// # Errors
    /// [`Error::Ptx`], and [`Error::Cuda`] where the driver refuses the kernel's code.
    pub fn load(&self, kernel: Kernel) -> Result<(), Error> {
        self.context.load(kernel)
    }

    /// Loads what launches of several kernels take from the driver, several at once; those that this GPU
    /// does not run are left out. A launch does it, too, for its kernel alone: this is for programs that
    /// will want them all.
    ///
    /// # Errors
    /// As [`Gpu::load`], of one kernel that was refused; the others are loaded.
    pub fn load_all(&self, kernels: &[Kernel]) -> Result<(), Error> {
        let runs = |kernel: &&Kernel| kernel.arch.runs_on(self.info().compute_capability);
        let kernels = kernels.iter().filter(runs);
        self.context.modules().load(kernels.flat_map(|kernel| Module::of_kernel(kernel.spec())))
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("info", self.info()).finish_non_exhaustive()
    }
}
