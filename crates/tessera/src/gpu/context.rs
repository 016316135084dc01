//! A context with what the library keeps in it: the modules of its kernels, and what is known of the device.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use cuda_lazy::{CurrentContext, Driver, RawContext, RawFunction};
use gemm_spec::{Arch, DeviceLimits, SHARED_WITHOUT_OPT_IN};
use kernels_gpu::{Kernel, Module};

use super::listing::{count, describe, start};
use super::modules::Modules;
use super::{KernelCode, refused};
use crate::device_info::DeviceInfo;
use crate::error::Error;
use crate::select::DeviceModel;

/// Threads in a block on every device since compute capability 2.0.
const MAX_THREADS_PER_BLOCK: u32 = 1024;

/// A CUDA context in which products are computed. It is cheap to clone, and any number of threads may use
/// it.
///
/// Each call of the library makes it current for its own duration alone: what the calling thread had current
/// before is current afterwards. Two handles of one context share its modules, each of which is loaded when a
/// [`Plan`](super::Plan) first needs it.
///
/// ```no_run
/// // Not run: the answer depends on the machine.
/// let context = tessera::gpu::Context::primary(0)?;
/// println!("{}", context.info().name);
/// # Ok::<(), tessera::Error>(())
/// ```
#[derive(Clone)]
pub struct Context(Arc<Opened>);

struct Opened {
    info: DeviceInfo,
    /// By the device's attributes alone.
    model: DeviceModel,
    // Dropped in this order: what lives in the context goes before the context.
    modules: Modules,
    context: cuda_lazy::Context,
}

/// One context serves many threads: nothing in it may lose that.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Context>();
};

/// Contexts in use, by the driver's number: a handle's address may be another context's later.
static IN_USE: Mutex<Vec<(u64, Weak<Opened>)>> = Mutex::new(Vec::new());

impl Context {
    /// The primary context of a device: the one that the CUDA runtime uses, and with it PyTorch, CuPy, candle,
    /// burn and cudarc. It is retained until the last clone, and what was made in it, is dropped.
    ///
    /// # Errors
    /// [`Error::NoDevice`] where there is no driver or no GPU, [`Error::NoSuchDevice`] where the number is too
    /// large, [`Error::Cuda`] where the driver refuses.
    pub fn primary(index: u32) -> Result<Self, Error> {
        Self::shared(index, retain(index)?)
    }

    /// The context that is current for the calling thread, if it is the primary one of its device, which is
    /// retained. One that is nobody's primary context may end at any time: [`Context::from_raw`] is for it,
    /// where the caller promises that it does not.
    ///
    /// # Errors
    /// [`Error::Cuda`] where no context is current, or one that is not primary.
    pub fn current() -> Result<Self, Error> {
        let driver = start()?;
        let during = || refused("taking up the current context");
        let none = || Error::Cuda {
            during: "taking up the current context".to_owned(),
            reason:
                "the calling thread has no primary context current; make one current, or name the \
                     device or the context"
                    .to_owned(),
            code: None,
        };
        let context = cuda_lazy::Context::current_primary(driver).map_err(during())?;
        let context = context.ok_or_else(none)?;
        Self::shared(ordinal(driver, context.device())?, context)
    }

    /// A context by the driver's handle, a `CUcontext`. A device's primary context is retained; any other
    /// stays the property of whoever made it.
    ///
    /// # Errors
    /// As [`Context::primary`], and what the driver answers to a handle that is none.
    ///
    /// # Safety
    /// The handle is one of a context. One that is no primary context is not destroyed before the last clone
    /// of this value, and all that was made in it, is dropped.
    pub unsafe fn from_raw(context: RawContext) -> Result<Self, Error> {
        let driver = start()?;
        // SAFETY: the caller's promise.
        let adopted = unsafe { cuda_lazy::Context::adopt(driver, context) };
        let context = adopted.map_err(refused("taking up a context"))?;
        Self::shared(ordinal(driver, context.device())?, context)
    }

    /// The context that is current for the calling thread, whoever has made it.
    ///
    /// # Errors
    /// [`Error::NoDevice`] where no context is current, else as [`Context::from_raw`].
    ///
    /// # Safety
    /// As [`Context::from_raw`].
    pub unsafe fn from_current() -> Result<Self, Error> {
        let current = start()?.current_context();
        let current = current.map_err(refused("taking up the current context"))?;
        if current.is_null() {
            let reason = "the calling thread has no context current; make one current, or name the \
                          device or the context";
            return Err(Error::NoDevice { reason: reason.to_owned() });
        }
        // SAFETY: the driver's handle of a context, and the caller's promise.
        unsafe { Self::from_raw(current) }
    }

    /// The handle that others have of this context, or the first one.
    fn shared(index: u32, context: cuda_lazy::Context) -> Result<Self, Error> {
        let Some(id) = context.id() else {
            return Self::alone(index, context, KernelCode::default());
        };
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.retain(|(_, opened)| opened.strong_count() > 0);
        let known = in_use.iter().find(|(other, _)| *other == id);
        if let Some(opened) = known.and_then(|(_, opened)| opened.upgrade()) {
            return Ok(Self(opened));
        }
        let fresh = Self::alone(index, context, KernelCode::default())?;
        in_use.push((id, Arc::downgrade(&fresh.0)));
        Ok(fresh)
    }

    /// A context whose modules are not shared with other handles.
    pub(super) fn alone(
        index: u32,
        context: cuda_lazy::Context,
        code: KernelCode,
    ) -> Result<Self, Error> {
        let info = describe(index)?;
        let limits = DeviceLimits {
            compute_capability: info.compute_capability,
            max_threads_per_block: MAX_THREADS_PER_BLOCK,
            max_shared_bytes: info.shared_bytes_per_block.max(SHARED_WITHOUT_OPT_IN),
            multiprocessors: info.multiprocessors,
        };
        let modules = Modules::new(&context, limits, &info.name, code);
        let model = DeviceModel::new(limits, info.clock_mhz);
        Ok(Self(Arc::new(Opened { info, model, modules, context })))
    }

    /// What the device is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// What the device allows a kernel.
    #[must_use]
    pub fn limits(&self) -> &DeviceLimits {
        self.0.model.limits()
    }

    /// What the device is predicted to take for products, by its attributes.
    #[must_use]
    pub fn model(&self) -> &DeviceModel {
        &self.0.model
    }

    /// The driver's handle, a `CUcontext`, good as long as `self`.
    #[must_use]
    pub fn as_raw(&self) -> RawContext {
        self.0.context.as_raw()
    }

    /// Whether both are the same context.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.context.is(&other.0.context)
    }

    /// Waits until nothing that was queued in this context is under way.
    ///
    /// # Errors
    /// [`Error::Cuda`], also for a kernel that failed meanwhile.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.0.context.synchronize().map_err(refused(format!("waiting for {self:?}")))
    }

    /// The same as `cuda_lazy` has it, for memory, streams and events.
    #[doc(hidden)]
    #[must_use]
    pub fn driver_context(&self) -> &cuda_lazy::Context {
        &self.0.context
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.0.context.driver()
    }

    /// Makes the context current until the guard is dropped.
    pub(super) fn enter(&self) -> Result<CurrentContext<'_>, Error> {
        self.0.context.enter().map_err(|error| refused(format!("entering {self:?}"))(error))
    }

    pub(super) fn modules(&self) -> &Modules {
        &self.0.modules
    }

    /// Loads what launches of a kernel take from the driver, if that has not been done yet.
    pub(super) fn load(&self, kernel: Kernel) -> Result<(), Error> {
        self.0.modules.load(Module::of_kernel(kernel.spec()))
    }

    /// Loads what copies operands to rows, likewise.
    pub(super) fn load_common(&self) -> Result<(), Error> {
        self.0.modules.load(std::iter::once(Module::common()))
    }

    /// An entry, whose module is loaded on first use. It lives as long as this.
    pub(super) fn function(&self, arch: Arch, symbol: &str) -> Result<RawFunction, Error> {
        self.0.modules.function(arch, symbol)
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuda:{} ({})", self.0.info.index, self.0.info.name)
    }
}

/// The primary context of the device of that number, retained.
pub(super) fn retain(index: u32) -> Result<cuda_lazy::Context, Error> {
    let count = count()?;
    if index >= count {
        return Err(Error::NoSuchDevice { index, count });
    }
    let during = || refused(format!("opening device {index}"));
    let driver = start()?;
    let device = driver.device(index).map_err(during())?;
    cuda_lazy::Context::primary(driver, device).map_err(during())
}

/// The number of a device that the driver knows by a handle.
fn ordinal(driver: &Driver, device: i32) -> Result<u32, Error> {
    let count = count()?;
    let is_it = |&index: &u32| driver.device(index).is_ok_and(|other| other == device);
    (0..count).find(is_it).ok_or(Error::NoDevice {
        reason: format!("the context's device, {device}, is none of the {count} that are visible"),
    })
}
