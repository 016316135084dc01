//! One GPU: its context, its stream, its modules, and what it allows.

use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cuda_lazy::{Context, DeviceMemory, Driver, FunctionAttribute, RawFunction, RawModule, Stream};
use gemm_spec::{Arch, DeviceLimits, SHARED_WITHOUT_OPT_IN};
use kernels_gpu::Kernel;

use super::host_path::Staging;
use super::listing::{DeviceInfo, count, describe, start};
use super::workspace::Workspaces;
use super::{arguments, refused};
use crate::error::Error;

/// Threads in a block on every device since compute capability 2.0.
const MAX_THREADS_PER_BLOCK: u32 = 1024;

/// A GPU that is ready to launch, in its primary context. Any number of threads may use it at once.
///
/// Modules are compiled by the driver when the first of their kernels is launched, and kept; so is the
/// memory that the largest product so far took besides its operands.
pub struct Gpu {
    info: DeviceInfo,
    limits: DeviceLimits,
    // Dropped in this order: what lives in the context goes before the context.
    modules: [OnceLock<LoadedModule>; Arch::ALL.len()],
    /// Held while a module is compiled, so that two threads do not compile the same one.
    compiling: Mutex<()>,
    workspaces: Workspaces,
    /// What operands in host memory travel through.
    staging: Mutex<Option<Staging>>,
    stream: Stream,
    context: Context,
}

/// A module in the GPU's context.
struct LoadedModule {
    /// Its entries, found once: a launch asks the driver for nothing.
    functions: Vec<(&'static str, Handle<RawFunction>)>,
    module: Handle<RawModule>,
    context: Context,
    /// How long the driver took to compile it.
    compile: Duration,
}

/// What the driver calls something by.
#[derive(Clone, Copy)]
struct Handle<R>(R);

// SAFETY: a handle is a name that only the driver reads; it takes it from any thread in whose context
// the module is.
unsafe impl<R> Send for Handle<R> {}
// SAFETY: as above.
unsafe impl<R> Sync for Handle<R> {}

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
        let count = count()?;
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        let info = describe(index)?;
        let during = || format!("opening device {index} ({})", info.name);
        let driver = start()?;
        let device = driver.device(index).map_err(refused(during()))?;
        let context = Context::primary(driver, device).map_err(refused(during()))?;
        let stream = Stream::new(&context).map_err(refused(during()))?;
        let limits = DeviceLimits {
            compute_capability: info.compute_capability,
            max_threads_per_block: MAX_THREADS_PER_BLOCK,
            max_shared_bytes: info.shared_bytes_per_block.max(SHARED_WITHOUT_OPT_IN),
            multiprocessors: info.multiprocessors,
        };
        Ok(Self {
            info,
            limits,
            modules: Default::default(),
            compiling: Mutex::new(()),
            workspaces: Workspaces::default(),
            staging: Mutex::new(None),
            stream,
            context,
        })
    }

    /// What the device is.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// What the device allows a kernel.
    #[must_use]
    pub fn limits(&self) -> &DeviceLimits {
        &self.limits
    }

    /// The device's primary context, which this retains.
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
        let _current = self.context.enter().map_err(failed())?;
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
        DeviceMemory::new(&self.context, len).map_err(|error| {
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

    /// How long the driver took to compile the modules in use; it is part of no measurement.
    #[must_use]
    pub fn compile_time(&self) -> Duration {
        self.modules.iter().filter_map(OnceLock::get).map(|module| module.compile).sum()
    }

    /// The stream of this GPU's own products.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Compiles a kernel's module, if that has not been done yet.
    ///
    /// # Errors
    /// [`Error::Ptx`], and [`Error::Cuda`] where the driver refuses the module.
    pub fn load(&self, kernel: Kernel) -> Result<(), Error> {
        self.loaded(kernel.arch).map(|_| ())
    }

    /// An entry of a module, which is compiled on first use. It lives as long as this.
    pub(super) fn function(&self, arch: Arch, symbol: &str) -> Result<RawFunction, Error> {
        let functions = &self.loaded(arch)?.functions;
        functions.iter().find(|(name, _)| *name == symbol).map(|&(_, handle)| handle.0).ok_or_else(
            || Error::Cuda {
                during: format!("looking for {symbol}"),
                reason: "no kernel of the registry has this entry".to_owned(),
            },
        )
    }

    fn loaded(&self, arch: Arch) -> Result<&LoadedModule, Error> {
        let cell = &self.modules[arch as usize];
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        let _compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        let loaded = self.compile(arch)?;
        Ok(cell.get_or_init(|| loaded))
    }

    fn compile(&self, arch: Arch) -> Result<LoadedModule, Error> {
        let ptx = kernels_gpu::ptx(arch);
        let kernels: Vec<_> =
            kernels_gpu::KERNELS.iter().copied().filter(|spec| spec.arch == arch).collect();
        arguments::check(&format!("{}.ptx", arch.target_cpu()), ptx, &kernels)?;
        let during = || format!("compiling {}.ptx for {}", arch.target_cpu(), self.info.name);
        let failed = |reason: String| Error::Cuda { during: during(), reason };
        let text = CString::new(ptx).map_err(|_| failed("the PTX holds a NUL byte".into()))?;
        let started = Instant::now();
        let _current = self.context.enter().map_err(refused(during()))?;
        let driver = self.context.driver();
        let (module, _) = driver.load_module_logged(&text, false).map_err(|failure| {
            failed(format!(
                "{failure}; the driver may be older than the PTX needs ({})",
                ptx_header(ptx)
            ))
        })?;
        let mut loaded = LoadedModule {
            functions: Vec::new(),
            module: Handle(module),
            context: self.context.clone(),
            compile: Duration::ZERO,
        };
        for form in kernels.iter().flat_map(|kernel| kernel.forms()) {
            let name = CString::new(form.symbol)
                .map_err(|_| failed("an entry's name holds a NUL byte".into()))?;
            // SAFETY: the module was loaded above and stays so as long as `loaded`, which the functions
            // are kept in.
            let function = unsafe { driver.module_get_function(module, &name) };
            let function = function.map_err(refused(during()))?;
            loaded.functions.push((form.symbol, Handle(function)));
            // What the device has no room for, `supports` refuses before a launch.
            let bytes = form.shared_bytes;
            if bytes > SHARED_WITHOUT_OPT_IN && bytes <= self.limits.max_shared_bytes {
                allow_shared(driver, function, bytes).map_err(failed)?;
            }
        }
        loaded.compile = started.elapsed();
        tracing::debug!(
            module = arch.target_cpu(),
            compile = ?loaded.compile,
            "compiled by the driver"
        );
        Ok(loaded)
    }
}

/// Lets a kernel of a loaded module have more dynamic shared memory than every device gives for the
/// asking.
fn allow_shared(driver: &Driver, function: RawFunction, bytes: u32) -> Result<(), String> {
    let bytes = i32::try_from(bytes).map_err(|error| error.to_string())?;
    // SAFETY: the function's module is loaded: the one caller has just found the function in it.
    unsafe {
        driver.func_set_attribute(function, FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)
    }
    .map_err(|error| error.to_string())
}

/// The lines of PTX that decide whether a driver takes it.
fn ptx_header(ptx: &str) -> String {
    let lines: Vec<&str> =
        ptx.lines().filter(|l| l.starts_with(".version") || l.starts_with(".target")).collect();
    lines.join(", ")
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: loaded once, unloaded here alone, and its functions are reached through this value.
            // The GPU's streams have ended their work: whoever owns operands waits before it frees them.
            let _ = unsafe { self.context.driver().module_unload(self.module.0) };
        }
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("info", &self.info).finish_non_exhaustive()
    }
}
