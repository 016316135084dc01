//! The primary context of a device, retained, and made current where it is needed.

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use crate::error::DriverError;
use crate::{Driver, RawContext, raw};

/// A device's primary context: the one that every library of a process shares on that device.
///
/// It is retained until the last clone, and whatever was made in it, is dropped. Any thread may use it.
#[derive(Clone, Debug)]
pub struct Context(Arc<Primary>);

#[derive(Debug)]
struct Primary {
    driver: &'static Driver,
    device: i32,
    raw: RawContext,
}

// SAFETY: the driver's calls may be made from any thread, and a context's handle is only a name to them.
unsafe impl Send for Primary {}
// SAFETY: as above; nothing here is changed after it was made.
unsafe impl Sync for Primary {}

impl Context {
    /// Retains the primary context of a device, which [`Driver::device`] names.
    ///
    /// # Errors
    /// What the driver answers: an unknown device, one in exclusive use, or no memory for a context.
    pub fn primary(driver: &'static Driver, device: i32) -> Result<Self, DriverError> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a local that outlives the call.
        let code = unsafe { raw::cuDevicePrimaryCtxRetain(driver.table(), &mut raw, device) };
        driver.check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Self(Arc::new(Primary { driver, device, raw })))
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &'static Driver {
        self.0.driver
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> i32 {
        self.0.device
    }

    /// The driver's handle, good as long as `self`.
    #[must_use]
    pub fn as_raw(&self) -> RawContext {
        self.0.raw
    }

    /// Makes this context current for the calling thread until the guard is dropped. What was current
    /// before is current again then, so that a caller's own use of CUDA is not disturbed.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn enter(&self) -> Result<CurrentContext<'_>, DriverError> {
        let driver = self.driver();
        // SAFETY: the context is retained as long as `self`.
        let code = unsafe { raw::cuCtxPushCurrent_v2(driver.table(), self.0.raw) };
        driver.check("cuCtxPushCurrent", code)?;
        Ok(CurrentContext { context: self, of_this_thread: PhantomData })
    }

    /// Waits until nothing that was queued in this context is under way.
    ///
    /// # Errors
    /// What the driver answers, also for a launch that failed since the last call.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let _current = self.enter()?;
        // SAFETY: the call takes no argument; the context was made current above.
        let code = unsafe { raw::cuCtxSynchronize(self.driver().table()) };
        self.driver().check("cuCtxSynchronize", code)
    }

    /// Whether both are the same context.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.raw == other.0.raw
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once when this was made. There is nobody to tell a refusal to.
        let _ = unsafe { raw::cuDevicePrimaryCtxRelease_v2(self.driver.table(), self.device) };
    }
}

/// A context that is current for this thread, see [`Context::enter`].
#[derive(Debug)]
pub struct CurrentContext<'c> {
    context: &'c Context,
    /// Contexts are current for a thread: the guard stays where it was made.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for CurrentContext<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: `popped` is a local. Guards are dropped in the reverse order on one thread, or leaked,
        // in which case a context stays current for longer.
        let _ = unsafe { raw::cuCtxPopCurrent_v2(self.context.driver().table(), &mut popped) };
    }
}
