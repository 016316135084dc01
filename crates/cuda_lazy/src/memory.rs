//! Memory of a device, and host memory that a device can reach by itself.

use std::ptr::{self, NonNull};

use crate::error::DriverError;
use crate::{Context, DevicePtr, raw};

/// Bytes of device memory, freed when this is dropped.
#[derive(Debug)]
pub struct DeviceMemory {
    address: DevicePtr,
    bytes: usize,
    context: Context,
}

impl DeviceMemory {
    /// Allocates bytes, one at least, whose content is whatever it was.
    ///
    /// # Errors
    /// What the driver answers; [`DriverError::is_out_of_memory`] tells that there is no room.
    pub fn new(context: &Context, bytes: usize) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let (driver, mut address, bytes) = (context.driver(), 0, bytes.max(1));
        // SAFETY: `address` is a local that outlives the call.
        let code = unsafe { raw::cuMemAlloc_v2(driver.table(), &mut address, bytes) };
        driver.check("cuMemAlloc", code)?;
        Ok(Self { address, bytes, context: context.clone() })
    }

    /// The device's address of the first byte.
    #[must_use]
    pub fn address(&self) -> DevicePtr {
        self.address
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is none, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The context that it belongs to.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Copies bytes to the memory from `offset` on and waits.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Panics
    /// Where the bytes do not lie within the memory.
    pub fn write(&mut self, offset: usize, from: &[u8]) -> Result<(), DriverError> {
        let at = self.at(offset, from.len());
        let _current = self.context.enter()?;
        let driver = self.context.driver();
        // SAFETY: `at` has checked that the bytes lie within this memory, which is borrowed exclusively;
        // the source is a slice of that length. The call returns when the source was read.
        let code =
            unsafe { raw::cuMemcpyHtoD_v2(driver.table(), at, from.as_ptr().cast(), from.len()) };
        driver.check("cuMemcpyHtoD", code)
    }

    /// Copies bytes of the memory from `offset` on and waits.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Panics
    /// Where the bytes do not lie within the memory.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), DriverError> {
        let at = self.at(offset, to.len());
        let _current = self.context.enter()?;
        let driver = self.context.driver();
        // SAFETY: `at` has checked that the bytes lie within this memory; the target is a slice of that
        // length, borrowed exclusively, and written when the call returns.
        let code =
            unsafe { raw::cuMemcpyDtoH_v2(driver.table(), to.as_mut_ptr().cast(), at, to.len()) };
        driver.check("cuMemcpyDtoH", code)
    }

    /// The address of some bytes, which must lie within the memory.
    fn at(&self, offset: usize, bytes: usize) -> DevicePtr {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "{bytes} bytes at {offset} of {self:?}");
        self.address + offset as u64
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // The driver waits for work that still uses it. There is nobody to tell a refusal to.
        if let Ok(_current) = self.context.enter() {
            // SAFETY: allocated once, freed here alone.
            let _ = unsafe { raw::cuMemFree_v2(self.context.driver().table(), self.address) };
        }
    }
}

/// Pinned host memory: copies between it and a device run at the bus's rate, and beside the program.
#[derive(Debug)]
pub struct PinnedMemory {
    start: NonNull<u8>,
    bytes: usize,
    context: Context,
}

// SAFETY: the memory is this value's own, as a box's is.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above; a shared borrow only reads.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// Allocates bytes, one at least, all zero.
    ///
    /// # Errors
    /// What the driver answers; [`DriverError::is_out_of_memory`] tells that the system refuses.
    pub fn new(context: &Context, bytes: usize) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let (driver, mut memory, bytes) = (context.driver(), ptr::null_mut(), bytes.max(1));
        // SAFETY: `memory` is a local that outlives the call.
        let code = unsafe { raw::cuMemAllocHost_v2(driver.table(), &mut memory, bytes) };
        driver.check("cuMemAllocHost", code)?;
        let start = NonNull::new(memory.cast::<u8>())
            .expect("invariant: the driver succeeded and gives an address then");
        // SAFETY: the allocation has that many bytes, and nobody else knows it.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { start, bytes, context: context.clone() })
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is none, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the allocation has that many bytes, all written when it was made; `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            let memory = self.start.as_ptr().cast();
            // SAFETY: allocated once, freed here alone.
            let _ = unsafe { raw::cuMemFreeHost(self.context.driver().table(), memory) };
        }
    }
}
