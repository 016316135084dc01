//! What the driver knows about an address.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use crate::error::DriverError;
use crate::{DevicePtr, Driver, RawContext, raw};

/// Where an address is, as the driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerInfo {
    /// The context that it was allocated in; null for memory that belongs to none.
    pub context: RawContext,
    /// The device that it is on.
    pub device: i32,
    /// Whether it is memory of a device, managed memory among it; else it is memory of the host that the
    /// driver knows.
    pub on_device: bool,
    /// Whether it is managed memory, which the host may use as well.
    pub managed: bool,
    /// Where its allocation begins.
    pub start: DevicePtr,
    /// Bytes of its allocation.
    pub bytes: usize,
}

/// `CU_POINTER_ATTRIBUTE_CONTEXT`, `_MEMORY_TYPE`, `_IS_MANAGED`, `_DEVICE_ORDINAL`, `_RANGE_START_ADDR`,
/// `_RANGE_SIZE`.
const ASKED: [c_int; 6] = [1, 2, 8, 9, 11, 12];
const COUNT: c_uint = 6;
/// `CU_MEMORYTYPE_DEVICE` and `CU_MEMORYTYPE_UNIFIED`.
const ON_DEVICE: [c_uint; 2] = [2, 4];

impl Driver {
    /// `cuPointerGetAttributes`: what an address points to; `None` where the driver has not allocated it.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn pointer_info(&self, address: DevicePtr) -> Result<Option<PointerInfo>, DriverError> {
        let mut context: RawContext = ptr::null_mut();
        let (mut memory, mut device): (c_uint, c_int) = (0, -1);
        // The driver writes a number of four bytes, or of one.
        let mut managed: c_uint = 0;
        let (mut start, mut bytes): (DevicePtr, usize) = (0, 0);
        let mut asked = ASKED;
        let mut places: [*mut c_void; ASKED.len()] = [
            (&raw mut context).cast(),
            (&raw mut memory).cast(),
            (&raw mut managed).cast(),
            (&raw mut device).cast(),
            (&raw mut start).cast(),
            (&raw mut bytes).cast(),
        ];
        // SAFETY: both lists have as many entries as are named; each place is a local of the type that the
        // driver writes for its attribute. The address is only looked up.
        let code = unsafe {
            raw::cuPointerGetAttributes(
                self.table(),
                COUNT,
                asked.as_mut_ptr(),
                places.as_mut_ptr(),
                address,
            )
        };
        self.check("cuPointerGetAttributes", code)?;
        let on_device = ON_DEVICE.contains(&memory);
        let known = memory != 0;
        Ok(known.then_some(PointerInfo {
            context,
            device,
            on_device,
            managed: managed != 0,
            start,
            bytes,
        }))
    }
}
