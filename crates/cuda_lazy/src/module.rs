//! Loading machine code, and PTX with the JIT compiler's own words.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use crate::error::DriverError;
use crate::{Driver, RawFunction, RawModule, raw};

/// What the JIT compiler said about a module that it accepted. It says nothing about one that the
/// driver finds in its cache; `CUDA_CACHE_DISABLE=1` in the environment keeps it from looking there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitLog {
    /// Registers, spills and shared memory of each kernel, where `verbose` was set.
    pub info: String,
    /// Warnings.
    pub warnings: String,
}

/// The driver did not load a module, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name} ({code}){}{log}", if .log.is_empty() { "" } else { ": " })]
pub struct JitFailure {
    /// The driver function that answered.
    pub call: &'static str,
    /// Its result code (`CUresult`).
    pub code: i32,
    /// The code's name, as the loaded driver gives it.
    pub name: String,
    /// The JIT compiler's log, or the driver's text for the code where it logged nothing.
    pub log: String,
}

/// Bytes of each log buffer; a longer log is cut by the driver.
const LOG_BYTES: usize = 64 * 1024;

// CUjit_option
const INFO_LOG_BUFFER: c_int = 3;
const INFO_LOG_BUFFER_SIZE_BYTES: c_int = 4;
const ERROR_LOG_BUFFER: c_int = 5;
const ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
const LOG_VERBOSE: c_int = 12;

impl Driver {
    /// `cuModuleLoadDataEx` of machine code: a cubin, or a fat binary, of which the driver takes what the
    /// current context's device runs. Nothing is compiled. The module stays loaded until
    /// [`module_unload`](Self::module_unload) or the context's end.
    ///
    /// # Errors
    /// What the driver answers, also where no context is current: `CUDA_ERROR_NO_BINARY_FOR_GPU` where
    /// the image has nothing that the device runs, `CUDA_ERROR_INVALID_IMAGE` where the driver is older
    /// than the image's form.
    ///
    /// # Safety
    /// `image` is all of a cubin or a fat binary as NVIDIA's tools write it: the driver finds its way in
    /// it by the sizes that it states itself.
    pub unsafe fn load_module_image(&self, image: &[u8]) -> Result<RawModule, DriverError> {
        let mut module = ptr::null_mut();
        // SAFETY: the image is whole by the contract, and the driver copies what it keeps of it; there are
        // no options, so neither array is read.
        let code = unsafe {
            raw::cuModuleLoadDataEx(
                self.table(),
                &mut module,
                image.as_ptr().cast(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check("cuModuleLoadDataEx", code)?;
        Ok(module)
    }

    /// `cuModuleLoadDataEx` with log buffers: compiles `ptx` for the current context's device and
    /// loads it. The module stays loaded until [`module_unload`](Self::module_unload) or the context's
    /// end. `verbose` asks for registers, spills and shared memory of each kernel.
    ///
    /// # Errors
    /// What the driver and its compiler say, also where no context is current.
    pub fn load_module_logged(
        &self,
        ptx: &CStr,
        verbose: bool,
    ) -> Result<(RawModule, JitLog), JitFailure> {
        let mut info = vec![0_u8; LOG_BYTES];
        let mut errors = vec![0_u8; LOG_BYTES];
        const OPTIONS: u8 = 5;
        let mut options: [c_int; OPTIONS as usize] = [
            INFO_LOG_BUFFER,
            INFO_LOG_BUFFER_SIZE_BYTES,
            ERROR_LOG_BUFFER,
            ERROR_LOG_BUFFER_SIZE_BYTES,
            LOG_VERBOSE,
        ];
        // Numbers travel in the pointer itself, not behind it.
        let mut values: [*mut c_void; OPTIONS as usize] = [
            info.as_mut_ptr().cast(),
            ptr::without_provenance_mut(LOG_BYTES),
            errors.as_mut_ptr().cast(),
            ptr::without_provenance_mut(LOG_BYTES),
            ptr::without_provenance_mut(usize::from(verbose)),
        ];
        let mut module = ptr::null_mut();
        // SAFETY: `ptx` ends in NUL, which is how the driver finds the end of PTX; options and values
        // are arrays of the length given; both buffers have the size stated beside them and live on
        // past the call, after which the driver writes to them no more.
        let code = unsafe {
            raw::cuModuleLoadDataEx(
                self.table(),
                &mut module,
                ptx.as_ptr().cast(),
                OPTIONS.into(),
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        let (info, errors) = (log_text(&info), log_text(&errors));
        match self.check("cuModuleLoadDataEx", code) {
            Ok(()) => Ok((module, JitLog { info, warnings: errors })),
            Err(DriverError { call, code, name, text }) => {
                let log = if errors.is_empty() { text } else { errors };
                Err(JitFailure { call, code, name, log })
            }
        }
    }

    /// `cuModuleGetFunction`: the kernel of that name.
    ///
    /// # Errors
    /// What the driver answers: `CUDA_ERROR_NOT_FOUND` where the module has no such kernel.
    ///
    /// # Safety
    /// `module` is loaded. The function is usable for as long as the module stays so.
    pub unsafe fn module_get_function(
        &self,
        module: RawModule,
        name: &CStr,
    ) -> Result<RawFunction, DriverError> {
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded by the contract; `name` ends in NUL; `function` is a local.
        let code =
            unsafe { raw::cuModuleGetFunction(self.table(), &mut function, module, name.as_ptr()) };
        self.check("cuModuleGetFunction", code)?;
        Ok(function)
    }

    /// `cuModuleUnload`: gives the module's memory back.
    ///
    /// # Errors
    /// What the driver answers, also for an earlier launch that failed.
    ///
    /// # Safety
    /// `module` is loaded, none of its kernels runs, and neither it nor its functions are used again.
    pub unsafe fn module_unload(&self, module: RawModule) -> Result<(), DriverError> {
        // SAFETY: the contract is the driver's own.
        let code = unsafe { raw::cuModuleUnload(self.table(), module) };
        self.check("cuModuleUnload", code)
    }
}

/// The text of a log buffer, up to its NUL.
fn log_text(buffer: &[u8]) -> String {
    let text = buffer.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}
