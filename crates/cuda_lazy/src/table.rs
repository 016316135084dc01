//! The table of addresses that every call to the driver goes through.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::error::{NOT_FOUND, NOT_INITIALIZED};
use crate::symbols::Symbol;

/// One address per [`Symbol`]; each is callable at any time, whatever the driver has.
///
/// The layout is that of a plain array of pointers, which the trampolines index.
#[repr(transparent)]
pub(crate) struct Table([AtomicPtr<c_void>; Symbol::COUNT]);

/// The table of the process: where the linkable symbols jump through.
pub(crate) static TABLE: Table = Table::unbound();

impl Table {
    /// A table before any driver: calls answer that CUDA is not initialised.
    pub(crate) const fn unbound() -> Self {
        let mut slots =
            [const { AtomicPtr::new(placeholder::not_initialized as *mut c_void) }; Symbol::COUNT];
        slots[Symbol::cuInit as usize] = AtomicPtr::new(init_on_first_use as *mut c_void);
        slots[Symbol::cuDriverGetVersion as usize] =
            AtomicPtr::new(version_on_first_use as *mut c_void);
        slots[Symbol::cuGetErrorName as usize] = AtomicPtr::new(error_name as *mut c_void);
        slots[Symbol::cuGetErrorString as usize] = AtomicPtr::new(error_string as *mut c_void);
        Self(slots)
    }

    /// Fills every slot with what `resolve` finds for its name. A symbol that it does not find gets a
    /// function that answers `CUDA_ERROR_NOT_FOUND`; the two that describe errors keep describing.
    ///
    /// # Safety
    /// What `resolve` returns for a name is the address of a function that has the C signature which
    /// `cuda.h` gives that name, and that stays callable until the process ends.
    pub(crate) unsafe fn bind(&self, resolve: impl Fn(&CStr) -> Option<NonNull<c_void>>) {
        for &symbol in Symbol::ALL {
            let address = match (resolve(symbol.name()), symbol) {
                (Some(address), _) => address.as_ptr(),
                (None, Symbol::cuGetErrorName | Symbol::cuGetErrorString) => continue,
                (None, _) => placeholder::not_found as *mut c_void,
            };
            // Release: who reads this address also sees what loading the library wrote before.
            self.0[symbol as usize].store(address, Ordering::Release);
        }
    }

    /// The address to call for `symbol`; never null.
    pub(crate) fn address(&self, symbol: Symbol) -> *mut c_void {
        self.0[symbol as usize].load(Ordering::Acquire)
    }
}

/// Answers for symbols that have no driver behind them.
///
/// They are called with every signature on the list, so they are naked: a function without a frame
/// that sets the result register and returns is correct for any argument list in these C ABIs, where
/// the caller owns the argument area.
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
mod placeholder {
    use std::arch::naked_asm;

    #[unsafe(naked)]
    pub(super) extern "C" fn not_initialized() {
        naked_asm!("mov eax, {code}", "ret", code = const super::NOT_INITIALIZED)
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn not_found() {
        naked_asm!("mov eax, {code}", "ret", code = const super::NOT_FOUND)
    }
}

#[cfg(all(target_os = "linux", target_arch = "aarch64", target_pointer_width = "64"))]
mod placeholder {
    use std::arch::naked_asm;

    #[unsafe(naked)]
    pub(super) extern "C" fn not_initialized() {
        naked_asm!("mov w0, #{code}", "ret", code = const super::NOT_INITIALIZED)
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn not_found() {
        naked_asm!("mov w0, #{code}", "ret", code = const super::NOT_FOUND)
    }
}

/// Elsewhere `load` never gives a `Driver`, so nothing calls these; they keep the table's type whole.
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod placeholder {
    pub(super) extern "C" fn not_initialized() -> i32 {
        super::NOT_INITIALIZED
    }

    pub(super) extern "C" fn not_found() -> i32 {
        super::NOT_FOUND
    }
}

/// `cuInit` before the driver is loaded: loads it, then calls the real one.
extern "C" fn init_on_first_use(flags: c_uint) -> c_int {
    match crate::load() {
        Ok(driver) => driver.init_code(flags),
        Err(_) => NOT_INITIALIZED,
    }
}

/// `cuDriverGetVersion` before the driver is loaded; like `cuInit`, it is a legal first call.
///
/// # Safety
/// `version` is null or valid for a write, as the driver itself asks.
unsafe extern "C" fn version_on_first_use(version: *mut c_int) -> c_int {
    match crate::load() {
        // SAFETY: `version` is what the caller gave for this very parameter.
        Ok(driver) => unsafe { driver.version_code(version) },
        Err(_) => NOT_INITIALIZED,
    }
}

/// `cuGetErrorName` without a driver.
///
/// # Safety
/// `name` is null or valid for a write, as the driver itself asks.
unsafe extern "C" fn error_name(code: c_int, name: *mut *const c_char) -> c_int {
    let text = match code {
        0 => c"CUDA_SUCCESS",
        NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
        NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        _ => c"CUDA_ERROR",
    };
    // SAFETY: handed on from the caller.
    unsafe { answer(text, name) }
}

/// `cuGetErrorString` without a driver. It must succeed: `cust` formats its errors with it and fails
/// to format, which makes `to_string` panic, where it does not.
///
/// # Safety
/// `string` is null or valid for a write, as the driver itself asks.
unsafe extern "C" fn error_string(code: c_int, string: *mut *const c_char) -> c_int {
    let text = match code {
        0 => c"no error",
        NOT_INITIALIZED => c"the CUDA driver is not loaded",
        _ => c"the CUDA driver gives no text for this error",
    };
    // SAFETY: handed on from the caller.
    unsafe { answer(text, string) }
}

/// Writes `text` to `out` and reports success, or an invalid value where `out` is null.
///
/// # Safety
/// `out` is null or valid for a write.
unsafe fn answer(text: &'static CStr, out: *mut *const c_char) -> c_int {
    if out.is_null() {
        return crate::error::INVALID_VALUE;
    }
    // SAFETY: `out` is not null, so by the contract it is valid for a write; the text is static.
    unsafe { out.write(text.as_ptr()) };
    0
}
