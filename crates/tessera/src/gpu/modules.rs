//! The modules of a GPU: each is loaded when one of its entries is first asked for, and kept.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::CString;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cuda_lazy::{
    CaptureMode, Context, Driver, DriverError, FunctionAttribute, RawFunction, RawModule,
};
use gemm_spec::{Arch, DeviceLimits, SHARED_WITHOUT_OPT_IN};
use kernels_gpu::Module;

use super::{KernelCode, arguments, refused};
use crate::error::Error;

/// The modules in a GPU's context.
pub(super) struct Modules {
    slots: Vec<Slot>,
    context: Context,
    limits: DeviceLimits,
    /// What the device is called in messages.
    device: String,
    code: KernelCode,
}

/// The place of a module that may be loaded.
struct Slot {
    module: Module,
    loaded: OnceLock<LoadedModule>,
    /// Held while it is loaded, so that two threads do not load it both. Other modules may be loaded
    /// meanwhile.
    loading: Mutex<()>,
}

/// A module in the GPU's context.
struct LoadedModule {
    /// Its entries, found once: a launch asks the driver for nothing.
    functions: Vec<(&'static str, Handle<RawFunction>)>,
    module: Handle<RawModule>,
    context: Context,
    /// Whether the driver had to compile it.
    compiled: bool,
    /// How long the driver took.
    time: Duration,
}

/// What the driver calls something by.
#[derive(Clone, Copy)]
struct Handle<R>(R);

// SAFETY: a handle is a name that only the driver reads; it takes it from any thread in whose context
// the module is.
unsafe impl<R> Send for Handle<R> {}
// SAFETY: as above.
unsafe impl<R> Sync for Handle<R> {}

/// Where the slot of each entry's module is.
static SLOTS: LazyLock<HashMap<(Arch, &'static str), usize>> = LazyLock::new(|| {
    let entries = Module::all().enumerate().flat_map(|(slot, module)| {
        module.forms().iter().map(move |form| ((module.arch, form.symbol), slot))
    });
    entries.collect()
});

impl Modules {
    /// None of them is loaded yet.
    pub(super) fn new(
        context: &Context,
        limits: DeviceLimits,
        device: &str,
        code: KernelCode,
    ) -> Self {
        let slot = |module| Slot { module, loaded: OnceLock::new(), loading: Mutex::default() };
        Self {
            slots: Module::all().map(slot).collect(),
            context: context.clone(),
            limits,
            device: device.to_owned(),
            code,
        }
    }

    /// Loads modules, where that has not been done yet, on as many threads as there are cores: the driver
    /// compiles each on the thread that asks for it. Goes on after a failure, and gives the first.
    pub(super) fn load(&self, modules: impl Iterator<Item = Module>) -> Result<(), Error> {
        let wanted: Vec<Module> = modules.collect();
        let asked = self.slots.iter().filter(|slot| wanted.contains(&slot.module));
        let mut missing: Vec<&Slot> = asked.filter(|slot| slot.loaded.get().is_none()).collect();
        // The largest first, so that none of them is left alone at the end.
        missing.sort_by_key(|slot| Reverse(slot.module.ptx().len()));
        if let [slot] = missing[..] {
            return self.loaded(slot).map(drop);
        }
        let next = AtomicUsize::new(0);
        let first = Mutex::new(None);
        let work = || {
            while let Some(slot) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.loaded(slot) {
                    first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        };
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        thread::scope(|scope| {
            for _ in 1..cores.min(missing.len()) {
                // Where the system gives no thread, those that there are do the work.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), Err)
    }

    /// An entry, whose module is loaded on first use. It lives as long as this.
    pub(super) fn function(&self, arch: Arch, symbol: &str) -> Result<RawFunction, Error> {
        let missing = || Error::Cuda {
            during: format!("looking for {symbol}"),
            reason: "no kernel of the registry has this entry".to_owned(),
            code: None,
        };
        let slot = SLOTS.get(&(arch, symbol)).ok_or_else(missing)?;
        let functions = &self.loaded(&self.slots[*slot])?.functions;
        let found = functions.iter().find(|(name, _)| *name == symbol);
        found.map(|&(_, handle)| handle.0).ok_or_else(missing)
    }

    /// How long the driver took for the modules in use that it compiled, or for those that it did not,
    /// added up.
    pub(super) fn time(&self, compiled: bool) -> Duration {
        let loaded = self.slots.iter().filter_map(|slot| slot.loaded.get());
        loaded.filter(|loaded| loaded.compiled == compiled).map(|loaded| loaded.time).sum()
    }

    fn loaded<'a>(&self, slot: &'a Slot) -> Result<&'a LoadedModule, Error> {
        if let Some(loaded) = slot.loaded.get() {
            return Ok(loaded);
        }
        let _loading = slot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = slot.loaded.get() {
            return Ok(loaded);
        }
        let loaded = self.open(slot.module)?;
        Ok(slot.loaded.get_or_init(|| loaded))
    }

    /// Has the driver load a module: its machine code where it has some for this GPU, else its PTX, which
    /// the driver compiles. A driver that is older than the machine code refuses it and takes the PTX.
    fn open(&self, module: Module) -> Result<LoadedModule, Error> {
        // Loading may not be done while a stream is captured, unless the thread says that it knows. Each
        // thread says so for itself.
        let driver = self.context.driver();
        let relaxed = driver.in_capture_mode(CaptureMode::Relaxed);
        let _relaxed = relaxed.map_err(refused(self.during(module)))?;
        let _current = self.context.enter().map_err(refused(self.during(module)))?;
        let started = Instant::now();
        let mut loaded = match self.load_image(module) {
            Some(Ok(loaded)) => loaded,
            Some(Err(reason)) => {
                tracing::debug!(module = module.place(), %reason, "the driver refuses machine code");
                self.compile(module)?
            }
            None => self.compile(module)?,
        };
        self.find_entries(module, &mut loaded)?;
        loaded.time = started.elapsed();
        let how = if loaded.compiled { "compiled by the driver" } else { "loaded" };
        tracing::debug!(module = module.place(), time = ?loaded.time, "{how}");
        Ok(loaded)
    }

    /// Has the driver load a module's machine code; none where it has none for this GPU.
    fn load_image(&self, module: Module) -> Option<Result<LoadedModule, DriverError>> {
        let image = self.image(module)?;
        // SAFETY: the image is a whole file of the `fatbinary` tool's, whose digest the kernels' crate
        // records and a test compares.
        let handle = unsafe { self.context.driver().load_module_image(image) };
        Some(handle.map(|handle| self.holding(handle, false)))
    }

    /// The machine code of a module, where it has some for this GPU and is wanted.
    pub(super) fn image(&self, module: Module) -> Option<&'static [u8]> {
        let assembled = module.assembled()?;
        let runs = assembled.runs_on(self.limits.compute_capability);
        (runs && self.code == KernelCode::MachineCode).then_some(assembled.image)
    }

    fn during(&self, module: Module) -> String {
        format!("loading {} for {}", module.place(), self.device)
    }

    /// Has the driver compile a module's PTX.
    ///
    /// The text is compared with what launches pass, although a test compares it, too: that takes a fraction
    /// of a millisecond to some milliseconds, and compiling it a hundred times as long. Machine code is made
    /// from the same text, so that nothing is left to compare.
    fn compile(&self, module: Module) -> Result<LoadedModule, Error> {
        let ptx = module.ptx();
        arguments::check(&format!("{}.ptx", module.place()), ptx, module.forms())?;
        let during = || format!("compiling {}.ptx for {}", module.place(), self.device);
        let failed = |reason: String| Error::Cuda { during: during(), reason, code: None };
        let text = CString::new(ptx).map_err(|_| failed("the PTX holds a NUL byte".into()))?;
        let driver = self.context.driver();
        let (handle, _) = driver.load_module_logged(&text, false).map_err(|failure| {
            failed(format!(
                "{failure}; the driver may be older than the PTX needs ({})",
                ptx_header(ptx)
            ))
        })?;
        Ok(self.holding(handle, true))
    }

    /// A module that the driver has just loaded, and that is unloaded with the value.
    fn holding(&self, module: RawModule, compiled: bool) -> LoadedModule {
        LoadedModule {
            functions: Vec::new(),
            module: Handle(module),
            context: self.context.clone(),
            compiled,
            time: Duration::ZERO,
        }
    }

    /// Looks up the entries of a loaded module.
    fn find_entries(&self, module: Module, loaded: &mut LoadedModule) -> Result<(), Error> {
        let failed =
            |reason: String| Error::Cuda { during: self.during(module), reason, code: None };
        let driver = self.context.driver();
        for form in module.forms() {
            let name = CString::new(form.symbol)
                .map_err(|_| failed("an entry's name holds a NUL byte".into()))?;
            // SAFETY: the module was loaded for `loaded` and stays so as long as it, which the
            // functions are kept in.
            let function = unsafe { driver.module_get_function(loaded.module.0, &name) };
            let function = function.map_err(refused(self.during(module)))?;
            loaded.functions.push((form.symbol, Handle(function)));
            // What the device has no room for, `supports` refuses before a launch.
            let bytes = form.shared_bytes;
            if bytes > SHARED_WITHOUT_OPT_IN && bytes <= self.limits.max_shared_bytes {
                allow_shared(driver, function, bytes).map_err(failed)?;
            }
        }
        Ok(())
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
