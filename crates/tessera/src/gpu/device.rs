//! One GPU: its context, its stream, its modules, and what it allows.

use std::cell::{OnceCell, RefCell};
use std::ffi::CString;
use std::time::{Duration, Instant};

use cuda_lazy::{Driver, FunctionAttribute, RawFunction};
use cust::context::{Context, CurrentContext};
use cust::device::Device;
use cust::error::CudaError;
use cust::function::Function;
use cust::memory::DeviceBuffer;
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use gemm_spec::{Arch, DeviceLimits, SHARED_WITHOUT_OPT_IN};

use super::arguments;
use super::host_path::Kept;
use super::listing::{DeviceInfo, count, describe, start};
use super::refused;
use crate::error::Error;

/// Threads in a block on every device since compute capability 2.0.
const MAX_THREADS_PER_BLOCK: u32 = 1024;

/// A GPU that is ready to launch.
///
/// Modules are compiled by the driver when the first of their kernels is launched, and kept.
pub struct Gpu {
    info: DeviceInfo,
    limits: DeviceLimits,
    driver: &'static Driver,
    // Dropped in this order: what lives in the context goes before the context.
    modules: [OnceCell<LoadedModule>; Arch::ALL.len()],
    /// Memory that launches use besides their operands, kept from one product to the next.
    workspace: RefCell<Option<DeviceBuffer<u8>>>,
    /// What operands in host memory travel through, kept likewise.
    host_path: RefCell<Option<Kept>>,
    stream: Stream,
    context: Context,
}

struct LoadedModule {
    /// Its entries, found once: a launch asks the driver for nothing.
    functions: Vec<(&'static str, Handle)>,
    /// What they belong to.
    _module: Module,
    /// How long the driver took to compile it.
    compile: Duration,
}

/// An entry as the driver names it.
#[derive(Clone, Copy)]
struct Handle(RawFunction);

// SAFETY: a handle is a name that only the driver reads; it takes it from any thread in whose context
// the module is.
unsafe impl Send for Handle {}

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
        let device = Device::get_device(index).map_err(refused(during()))?;
        let context = Context::new(device).map_err(refused(during()))?;
        CurrentContext::set_current(&context).map_err(refused(during()))?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).map_err(refused(during()))?;
        let limits = DeviceLimits {
            compute_capability: info.compute_capability,
            max_threads_per_block: MAX_THREADS_PER_BLOCK,
            max_shared_bytes: info.shared_bytes_per_block.max(SHARED_WITHOUT_OPT_IN),
            multiprocessors: info.multiprocessors,
        };
        Ok(Self {
            info,
            limits,
            driver: start()?,
            modules: Default::default(),
            workspace: RefCell::new(None),
            host_path: RefCell::new(None),
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

    /// Bytes of device memory that a product can have: those that are free, and those that are kept from
    /// earlier products.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    pub fn free_memory(&self) -> Result<u64, Error> {
        let length = |memory: &Option<DeviceBuffer<u8>>| memory.as_ref().map_or(0, |m| m.len());
        let workspace = self.workspace.try_borrow().map_or(0, |workspace| length(&workspace));
        let operands = self
            .host_path
            .try_borrow()
            .map_or(0, |kept| kept.as_ref().map_or(0, |kept| length(&kept.memory)));
        Ok(self.unused_memory()? + (workspace + operands) as u64)
    }

    /// Bytes of device memory that nobody has.
    fn unused_memory(&self) -> Result<u64, Error> {
        self.enter()?;
        let (free, _) = cust::memory::mem_get_info().map_err(refused("reading free memory"))?;
        Ok(free as u64)
    }

    /// Bytes that can be allocated; where they are fewer than needed, what is kept from earlier products
    /// and not in use is given up first.
    pub(super) fn make_room(&self, needed: u128) -> Result<u64, Error> {
        let unused = self.unused_memory()?;
        if u128::from(unused) >= needed {
            return Ok(unused);
        }
        // The driver waits for work that still uses the memory.
        if let Ok(mut kept) = self.host_path.try_borrow_mut()
            && let Some(kept) = &mut *kept
        {
            kept.memory = None;
        }
        if let Ok(mut workspace) = self.workspace.try_borrow_mut() {
            *workspace = None;
        }
        self.unused_memory()
    }

    /// Allocates device memory, whose content is whatever it was.
    pub(super) fn allocate(&self, bytes: u64, what: &str) -> Result<DeviceBuffer<u8>, Error> {
        let available = self.make_room(u128::from(bytes))?;
        let short = || Error::OutOfMemory {
            what: what.to_owned(),
            needed: u128::from(bytes),
            available: u128::from(available),
        };
        let len = usize::try_from(bytes).map_err(|_| short())?;
        if bytes > available {
            return Err(short());
        }
        // SAFETY: bytes of any value are valid, and launches write what they read.
        unsafe { DeviceBuffer::uninitialized(len) }.map_err(|code| match code {
            CudaError::OutOfMemory => short(),
            code => refused(format!("allocating {what}"))(code),
        })
    }

    /// What operands in host memory travel through, if there has been a product of such.
    pub(super) fn host_path_kept(&self) -> &RefCell<Option<Kept>> {
        &self.host_path
    }

    /// How long the driver took to compile the modules in use; it is part of no measurement.
    #[must_use]
    pub fn compile_time(&self) -> Duration {
        self.modules.iter().filter_map(OnceCell::get).map(|module| module.compile).sum()
    }

    /// Fills the workspace, if there is one, with bytes of that value. For tests, which show that nothing
    /// is read there before it was written.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    #[doc(hidden)]
    pub fn fill_workspace(&self, value: u8) -> Result<(), Error> {
        self.enter()?;
        match self.workspace.borrow_mut().as_mut() {
            // SAFETY: the memory is this GPU's own, and its users come before this in the one stream.
            Some(workspace) => unsafe { workspace.set_8_async(value, self.stream()) }
                .map_err(refused("filling a workspace")),
            None => Ok(()),
        }
    }

    /// Calls with a workspace of so many bytes at least, whose content is whatever it was. All launches
    /// go through one stream, so one product's use of it ends before the next one's begins.
    pub(super) fn with_workspace<R>(
        &self,
        bytes: u64,
        call: impl FnOnce(&DeviceBuffer<u8>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut workspace = self.workspace.borrow_mut();
        let enough = |buffer: &DeviceBuffer<u8>| buffer.len() as u64 >= bytes;
        if !workspace.as_ref().is_some_and(enough) {
            // The old one goes first: there may be no room for both. The driver waits for its users.
            *workspace = None;
            let what = format!("the workspace of a product on {}", self.info.name);
            *workspace = Some(self.allocate(bytes, &what)?);
        }
        call(workspace.as_ref().expect("invariant: the workspace was made above"))
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Makes this device's context the current one of the calling thread.
    pub(super) fn enter(&self) -> Result<(), Error> {
        CurrentContext::set_current(&self.context)
            .map_err(refused(format!("using device {}", self.info.index)))
    }

    /// Compiles a module, if that has not been done yet.
    pub(super) fn load(&self, arch: Arch) -> Result<(), Error> {
        self.loaded(arch).map(|_| ())
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
        if cell.get().is_none() {
            let loaded = self.compile(arch)?;
            // This thread found the cell empty, and the cell is not shared between threads.
            let _ = cell.set(loaded);
        }
        Ok(cell.get().expect("invariant: the cell was filled above"))
    }

    fn compile(&self, arch: Arch) -> Result<LoadedModule, Error> {
        let ptx = kernels_gpu::ptx(arch);
        let kernels: Vec<_> =
            kernels_gpu::KERNELS.iter().copied().filter(|spec| spec.arch == arch).collect();
        arguments::check(&format!("{}.ptx", arch.target_cpu()), ptx, &kernels)?;
        let during = || format!("compiling {}.ptx for {}", arch.target_cpu(), self.info.name);
        let failed = |reason: String| Error::Cuda { during: during(), reason };
        let text = CString::new(ptx)
            .map_err(|_| failed("the PTX holds a NUL byte; run `cargo xtask build-ptx`".into()))?;
        let started = Instant::now();
        self.enter()?;
        // First through the call that answers with any code and the compiler's log: `cust` has an
        // enum of the codes of its own time. The driver caches what it compiled.
        let driver = self.driver;
        let (raw, _) = driver.load_module_logged(&text, false).map_err(|failure| {
            failed(format!(
                "{failure}; the driver may be older than the PTX needs ({})",
                ptx_header(ptx)
            ))
        })?;
        // SAFETY: just loaded, nothing of it was used.
        unsafe { driver.module_unload(raw) }.map_err(|error| failed(error.to_string()))?;
        let module = Module::from_ptx_cstr(&text, &[]).map_err(refused(during()))?;
        let mut functions = Vec::new();
        for form in kernels.iter().flat_map(|spec| spec.forms()) {
            let function = module.get_function(form.symbol).map_err(refused(during()))?;
            functions.push((form.symbol, Handle(function.to_raw().cast())));
            // What the device has no room for, `supports` refuses before a launch.
            let bytes = form.shared_bytes;
            if bytes > SHARED_WITHOUT_OPT_IN && bytes <= self.limits.max_shared_bytes {
                allow_shared(driver, &function, bytes).map_err(failed)?;
            }
        }
        let compile = started.elapsed();
        tracing::debug!(module = arch.target_cpu(), ?compile, "compiled by the driver");
        Ok(LoadedModule { functions, _module: module, compile })
    }
}

/// Lets a kernel have more dynamic shared memory than every device gives for the asking.
fn allow_shared(driver: &Driver, function: &Function<'_>, bytes: u32) -> Result<(), String> {
    let bytes = i32::try_from(bytes).map_err(|error| error.to_string())?;
    // SAFETY: the function borrows its module, which is loaded as long as the borrow lasts.
    unsafe {
        driver.func_set_attribute(
            function.to_raw().cast(),
            FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES,
            bytes,
        )
    }
    .map_err(|error| error.to_string())
}

/// The lines of PTX that decide whether a driver takes it.
fn ptx_header(ptx: &str) -> String {
    let lines: Vec<&str> =
        ptx.lines().filter(|l| l.starts_with(".version") || l.starts_with(".target")).collect();
    lines.join(", ")
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Modules and the stream are freed in their own context, whatever thread drops this.
        let _ = CurrentContext::set_current(&self.context);
    }
}
