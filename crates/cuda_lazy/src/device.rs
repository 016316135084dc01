//! What devices there are.

use std::ffi::c_int;

use crate::error::DriverError;
use crate::{Driver, raw};

impl Driver {
    /// `cuDeviceGetCount`: how many devices this process may use.
    ///
    /// # Errors
    /// What the driver answers, for instance before [`Driver::init`].
    pub fn device_count(&self) -> Result<u32, DriverError> {
        let mut count = 0;
        // SAFETY: `count` is a local that outlives the call.
        let code = unsafe { raw::cuDeviceGetCount(self.table(), &mut count) };
        self.check("cuDeviceGetCount", code)?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// `cuDeviceGet`: the driver's handle of a device, by its ordinal.
    ///
    /// # Errors
    /// What the driver answers: an ordinal that no device has.
    pub fn device(&self, ordinal: u32) -> Result<i32, DriverError> {
        let mut device = 0;
        // An ordinal beyond the driver's type is one that no device has.
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: `device` is a local that outlives the call.
        let code = unsafe { raw::cuDeviceGet(self.table(), &mut device, ordinal) };
        self.check("cuDeviceGet", code)?;
        Ok(device)
    }

    /// `cuDeviceGetName`: what a device calls itself.
    ///
    /// # Errors
    /// What the driver answers: an unknown device.
    pub fn device_name(&self, device: i32) -> Result<String, DriverError> {
        const LENGTH: c_int = 256;
        let mut name = [0_u8; LENGTH as usize];
        // SAFETY: the buffer is a local of the length given.
        let code =
            unsafe { raw::cuDeviceGetName(self.table(), name.as_mut_ptr().cast(), LENGTH, device) };
        self.check("cuDeviceGetName", code)?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// `cuDeviceTotalMem`: bytes of a device's memory.
    ///
    /// # Errors
    /// What the driver answers: an unknown device.
    pub fn device_total_memory(&self, device: i32) -> Result<u64, DriverError> {
        let mut bytes = 0;
        // SAFETY: `bytes` is a local that outlives the call.
        let code = unsafe { raw::cuDeviceTotalMem_v2(self.table(), &mut bytes, device) };
        self.check("cuDeviceTotalMem", code)?;
        Ok(bytes as u64)
    }
}
