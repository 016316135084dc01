//! The loaded driver, and its calls that `cust` lacks.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crate::attribute::{DeviceAttribute, DriverVersion, FunctionAttribute, Uuid};
use crate::error::{DriverError, LoadError};
use crate::library::{self, LIBRARY_VARIABLE, Libcuda};
use crate::table::{TABLE, Table};
use crate::{RawFunction, raw};

/// Loads the driver, once for the process: every later call gives the same answer.
///
/// It opens the library that [`LIBRARY_VARIABLE`] names, else `libcuda.so.1`, else `libcuda.so`, and
/// fills the table behind the linkable symbols. It does not start the driver; [`Driver::init`] or
/// `cust::init` does. Any thread may call it.
///
/// # Errors
/// Where there is no driver: what was tried, the loader's reasons, and the remedy.
pub fn load() -> Result<&'static Driver, LoadError> {
    DRIVER.get_or_init(|| Driver::open(&TABLE)).as_ref().map_err(Clone::clone)
}

/// Whether the driver is in this process, be it that [`load`] has opened it or somebody else. Nothing is loaded: where
/// it is not, no address of the process is one of a device.
#[must_use]
pub fn is_in_process() -> bool {
    match DRIVER.get() {
        Some(loaded) => loaded.is_ok(),
        None => library::is_in_process(|| env::var_os(LIBRARY_VARIABLE)),
    }
}

/// The driver of the process, or why there is none.
static DRIVER: OnceLock<Result<Driver, LoadError>> = OnceLock::new();

/// Takes the driver's functions from `resolve` in place of a library, for tests with a driver of their
/// own; `None` where the process has loaded a library before.
///
/// # Safety
/// What `resolve` returns for a name is the address of a function that has the C signature which
/// `cuda.h` gives that name, and that stays callable until the process ends. A process calls this with
/// one `resolve` alone.
pub unsafe fn load_with(
    resolve: impl Fn(&CStr) -> Option<NonNull<c_void>>,
) -> Option<&'static Driver> {
    let driver = DRIVER.get_or_init(|| {
        // SAFETY: the caller's promise.
        unsafe { TABLE.bind(resolve) };
        Ok(Driver { table: &TABLE, library: None })
    });
    driver.as_ref().ok().filter(|driver| driver.library.is_none())
}

/// The platforms that `trampoline` is written for; the same condition stands in lib.rs and table.rs.
const SUPPORTED: bool = cfg!(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
));

/// Proof that the driver is loaded, and its calls.
///
/// Results are [`DriverError`]s made from the driver's own number, so codes that are newer than this
/// program are reported as they are.
pub struct Driver {
    table: &'static Table,
    /// Kept open for good: the table points into it.
    library: Option<Libcuda>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("library", &self.library()).finish()
    }
}

impl Driver {
    /// Opens the library and binds `table` to it.
    fn open(table: &'static Table) -> Result<Self, LoadError> {
        if !SUPPORTED {
            return Err(LoadError::Platform { os: env::consts::OS, arch: env::consts::ARCH });
        }
        let library = Libcuda::open(env::var_os(LIBRARY_VARIABLE))?;
        // SAFETY: the library is the machine's driver (or what the user named as such), whose
        // exports have the signatures of `cuda.h`; the `Driver` that keeps it open is stored in
        // `load`'s static and never dropped, so the addresses stay good until the process ends.
        unsafe { table.bind(|name| library.find(name)) };
        Ok(Self { table, library: Some(library) })
    }

    /// A driver behind a table that a test has filled.
    #[cfg(all(test, feature = "trampolines", target_os = "linux", target_arch = "x86_64"))]
    pub(crate) fn over(table: &'static Table) -> Self {
        Self { table, library: None }
    }

    pub(crate) fn table(&self) -> &Table {
        self.table
    }

    /// The name or path that the driver's library was opened by.
    #[must_use]
    pub fn library(&self) -> &str {
        self.library.as_ref().map_or("", Libcuda::name)
    }

    /// `cuInit(0)`: starts the driver. As often as wanted.
    ///
    /// # Errors
    /// What the driver answers: `CUDA_ERROR_NO_DEVICE` (100) where it sees no GPU.
    pub fn init(&self) -> Result<(), DriverError> {
        self.check("cuInit", self.init_code(0))
    }

    /// `cuInit` with the bare result code.
    pub(crate) fn init_code(&self, flags: c_uint) -> c_int {
        // SAFETY: no pointer is passed, and flags that the driver does not know it refuses.
        unsafe { raw::cuInit(self.table, flags) }
    }

    /// `cuDriverGetVersion`: the newest CUDA version that the driver serves. Needs no `init`.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn version(&self) -> Result<DriverVersion, DriverError> {
        let mut version = 0;
        // SAFETY: `version` is a local that outlives the call.
        let code = unsafe { self.version_code(&mut version) };
        self.check("cuDriverGetVersion", code)?;
        Ok(DriverVersion::from_raw(version))
    }

    /// `cuDriverGetVersion` with the bare result code.
    ///
    /// # Safety
    /// `version` is null or valid for a write.
    pub(crate) unsafe fn version_code(&self, version: *mut c_int) -> c_int {
        // SAFETY: the contract is the driver's own.
        unsafe { raw::cuDriverGetVersion(self.table, version) }
    }

    /// `cuGetErrorName`: the name of a result code, if the driver knows it.
    #[must_use]
    pub fn error_name(&self, code: i32) -> Option<String> {
        // SAFETY: `describe` passes a pointer to a local.
        describe(|out| unsafe { raw::cuGetErrorName(self.table, code, out) })
    }

    /// `cuGetErrorString`: what a result code means, if the driver knows it.
    #[must_use]
    pub fn error_text(&self, code: i32) -> Option<String> {
        // SAFETY: `describe` passes a pointer to a local.
        describe(|out| unsafe { raw::cuGetErrorString(self.table, code, out) })
    }

    /// `cuDeviceGetAttribute`: one number that describes a device, by its ordinal.
    ///
    /// # Errors
    /// What the driver answers: an unknown attribute or device.
    pub fn device_attribute(
        &self,
        device: i32,
        attribute: DeviceAttribute,
    ) -> Result<i32, DriverError> {
        let mut value = 0;
        // SAFETY: `value` is a local; the driver checks both numbers.
        let code =
            unsafe { raw::cuDeviceGetAttribute(self.table, &mut value, attribute.0, device) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(value)
    }

    /// `cuDeviceGetPCIBusId`: where the device is, as `domain:bus:device.function`.
    ///
    /// # Errors
    /// What the driver answers: an unknown device.
    pub fn device_pci_bus_id(&self, device: i32) -> Result<String, DriverError> {
        const LEN: u8 = 32;
        let mut id = [0_u8; LEN as usize];
        // SAFETY: the buffer is a local of the length given.
        let code = unsafe {
            raw::cuDeviceGetPCIBusId(self.table, id.as_mut_ptr().cast(), LEN.into(), device)
        };
        self.check("cuDeviceGetPCIBusId", code)?;
        let id = id.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(id).into_owned())
    }

    /// `cuDeviceGetUuid`: which device it is.
    ///
    /// # Errors
    /// What the driver answers: an unknown device.
    pub fn device_uuid(&self, device: i32) -> Result<Uuid, DriverError> {
        let mut uuid = Uuid::default();
        // SAFETY: `uuid` is a local of the 16 bytes that the driver writes.
        let code = unsafe { raw::cuDeviceGetUuid(self.table, &mut uuid, device) };
        self.check("cuDeviceGetUuid", code)?;
        Ok(uuid)
    }

    /// `cuMemGetInfo`: free and total memory of the current context's device.
    ///
    /// # Errors
    /// What the driver answers, also where no context is current.
    pub fn mem_get_info(&self) -> Result<MemoryInfo, DriverError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are locals that outlive the call.
        let code = unsafe { raw::cuMemGetInfo_v2(self.table, &mut free, &mut total) };
        self.check("cuMemGetInfo", code)?;
        Ok(MemoryInfo { free, total })
    }

    /// `cuFuncGetAttribute`: one number that describes a kernel.
    ///
    /// # Errors
    /// What the driver answers: an unknown attribute.
    ///
    /// # Safety
    /// `function` belongs to a loaded module.
    pub unsafe fn func_get_attribute(
        &self,
        function: RawFunction,
        attribute: FunctionAttribute,
    ) -> Result<i32, DriverError> {
        let mut value = 0;
        // SAFETY: the function is valid by the contract; `value` is a local.
        let code =
            unsafe { raw::cuFuncGetAttribute(self.table, &mut value, attribute.0, function) };
        self.check("cuFuncGetAttribute", code)?;
        Ok(value)
    }

    /// `cuFuncSetAttribute`: sets a kernel's limit or preference, for instance the most dynamic
    /// shared memory it may be launched with.
    ///
    /// # Errors
    /// What the driver answers: an attribute that cannot be set, or more than the device has.
    ///
    /// # Safety
    /// `function` belongs to a loaded module.
    pub unsafe fn func_set_attribute(
        &self,
        function: RawFunction,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Result<(), DriverError> {
        // SAFETY: the function is valid by the contract; the driver checks both numbers.
        let code = unsafe { raw::cuFuncSetAttribute(self.table, function, attribute.0, value) };
        self.check("cuFuncSetAttribute", code)
    }

    /// `cuMemHostRegister`: pins `bytes` of host memory, so that copies run at full speed and beside
    /// the program. `flags` are the driver's; 0 is the usual choice.
    ///
    /// # Errors
    /// What the driver answers, for instance memory that is pinned already.
    ///
    /// # Safety
    /// The memory is mapped, and stays so until [`host_unregister`](Self::host_unregister).
    pub unsafe fn host_register(
        &self,
        memory: *mut c_void,
        bytes: usize,
        flags: u32,
    ) -> Result<(), DriverError> {
        // SAFETY: the contract is the driver's own.
        let code = unsafe { raw::cuMemHostRegister_v2(self.table, memory, bytes, flags) };
        self.check("cuMemHostRegister", code)
    }

    /// `cuMemHostUnregister`: unpins what [`host_register`](Self::host_register) pinned.
    ///
    /// # Errors
    /// What the driver answers, for instance memory that is not pinned.
    ///
    /// # Safety
    /// `memory` is the start that was registered, and no copy to or from it is under way.
    pub unsafe fn host_unregister(&self, memory: *mut c_void) -> Result<(), DriverError> {
        // SAFETY: the contract is the driver's own.
        let code = unsafe { raw::cuMemHostUnregister(self.table, memory) };
        self.check("cuMemHostUnregister", code)
    }

    /// Turns a result code into a result, with the driver's words for it.
    pub(crate) fn check(&self, call: &'static str, code: c_int) -> Result<(), DriverError> {
        if code == 0 {
            return Ok(());
        }
        let name = self.error_name(code).unwrap_or_else(|| "unknown code".to_owned());
        let text = self
            .error_text(code)
            .unwrap_or_else(|| "the driver gives no text for this error".to_owned());
        Err(DriverError { call, code, name, text })
    }
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Free bytes.
    pub free: usize,
    /// All bytes.
    pub total: usize,
}

/// The text that a call writes a pointer to, where the call succeeds.
fn describe(call: impl FnOnce(*mut *const c_char) -> c_int) -> Option<String> {
    let mut text = ptr::null();
    if call(&mut text) != 0 || text.is_null() {
        return None;
    }
    // SAFETY: the driver succeeded and wrote the address of a NUL-terminated string of its own, which
    // is never freed.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
