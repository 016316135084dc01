//! Devices: contexts in which products are computed where the matrices are.

#![expect(non_camel_case_types, reason = "the names of C")]

use std::ffi::{CString, c_char, c_void};

use tessera::gpu::Context;

use crate::guard::{given, guard, hand_out, take_back, text_of};
use crate::status::{Fault, tessera_status};

/// A CUDA context in which products are computed, by the driver that was found when the program ran. Any
/// number of threads may use one at once. Each function makes it current for its own duration alone: what the
/// calling thread had current before is current afterwards.
///
/// It may be destroyed while plans, groups and streams of it are in use: they keep what they need.
pub struct tessera_device {
    context: Context,
    name: CString,
}

impl tessera_device {
    fn of(context: Context) -> Self {
        let name = text_of(&format!("{context:?}"));
        Self { context, name }
    }
}

/// The context of a device.
///
/// # Safety
/// `at` is null, not aligned, or that of a device that is not destroyed meanwhile.
pub(crate) unsafe fn context_of<'a>(at: *const tessera_device) -> Result<&'a Context, Fault> {
    // SAFETY: the caller's promise.
    unsafe { given(at, "device") }.map(|device| &device.context)
}

/// The GPU of that number, in its primary context: the one of the CUDA runtime, and so of cuBLAS, PyTorch and
/// whatever else does not make one of its own. It is retained until the device, and all that was made in it,
/// is destroyed.
///
/// TESSERA_NO_DEVICE where there is no driver or no such GPU.
///
/// # Safety
/// `device` points to room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_device_create(
    index: u32,
    device: *mut *mut tessera_device,
) -> tessera_status {
    let make = || Ok(tessera_device::of(Context::primary(index)?));
    // SAFETY: the caller's promise.
    guard(|| unsafe { hand_out(device, "device", make) })
}

/// The context that is current for the calling thread, whoever has made it. A primary context is retained;
/// any other stays the property of whoever made it.
///
/// TESSERA_NO_DEVICE where none is current.
///
/// # Safety
/// `device` points to room for an address. A context that is no primary one is not destroyed before the
/// device and all that was made in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_device_create_current(
    device: *mut *mut tessera_device,
) -> tessera_status {
    let make = || {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::from_current() }?;
        Ok(tessera_device::of(context))
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { hand_out(device, "device", make) })
}

/// The same of a context by its handle, a CUcontext, which need not be current.
///
/// # Safety
/// As `tessera_device_create_current`; `context` is the handle of a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_device_create_from_context(
    context: *mut c_void,
    device: *mut *mut tessera_device,
) -> tessera_status {
    let make = || {
        if context.is_null() {
            return Err(Fault::argument("context is null"));
        }
        // SAFETY: the caller's promise.
        let context = unsafe { Context::from_raw(context) }?;
        Ok(tessera_device::of(context))
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { hand_out(device, "device", make) })
}

/// Lets go of a device; does nothing where it is NULL.
///
/// # Safety
/// It is null or was made by one of the functions above, is not used any more, and is destroyed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_device_destroy(device: *mut tessera_device) {
    // SAFETY: the caller's promise.
    unsafe { take_back(device) }
}

/// The number and the name of the GPU, in a line. Valid as long as the device; empty where it is NULL, never
/// null.
///
/// # Safety
/// It is null or that of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_device_name(device: *const tessera_device) -> *const c_char {
    let mut name = c"".as_ptr();
    guard(|| {
        // SAFETY: the caller's promise.
        name = unsafe { given(device, "device") }?.name.as_ptr();
        Ok(())
    });
    name
}
