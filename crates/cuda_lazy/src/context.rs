//! Contexts, and making one current where it is needed.

use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use crate::error::DriverError;
use crate::{Driver, RawContext, raw};

/// A context: a device's primary one, which every library of a process shares on that device, one of its
/// own, or one that somebody else owns.
///
/// A primary context is retained until the last clone, and whatever was made in it, is dropped; so long a
/// context of its own lives. Any thread may use it.
#[derive(Clone, Debug)]
pub struct Context(Arc<Held>);

#[derive(Debug)]
struct Held {
    driver: &'static Driver,
    device: i32,
    raw: RawContext,
    ownership: Ownership,
}

/// What is due when a context is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    /// It was retained, and is released.
    Primary,
    /// It was created, and is destroyed.
    Own,
    /// It is somebody else's.
    Adopted,
}

// SAFETY: the driver's calls may be made from any thread, and a context's handle is only a name to them.
unsafe impl Send for Held {}
// SAFETY: as above; nothing here is changed after it was made.
unsafe impl Sync for Held {}

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
        Ok(Self(Arc::new(Held { driver, device, raw, ownership: Ownership::Primary })))
    }

    /// Creates a context of its own on a device, beside the primary one. No thread has it current.
    ///
    /// # Errors
    /// What the driver answers: an unknown device, or no memory for a context.
    pub fn create(driver: &'static Driver, device: i32) -> Result<Self, DriverError> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a local that outlives the call.
        let code = unsafe { raw::cuCtxCreate_v2(driver.table(), &mut raw, 0, device) };
        driver.check("cuCtxCreate", code)?;
        let created = Self(Arc::new(Held { driver, device, raw, ownership: Ownership::Own }));
        // The call has made it current above what was.
        driver.pop_context();
        Ok(created)
    }

    /// Takes up a context that somebody else has made. A device's primary context is retained, as by
    /// [`Context::primary`]; any other stays the property of whoever made it.
    ///
    /// # Errors
    /// What the driver answers, for instance where the handle is none of a context.
    ///
    /// # Safety
    /// The handle is one of a context. One that is no device's primary context is not destroyed before the
    /// last clone of this value, and whatever was made in it, is dropped.
    pub unsafe fn adopt(driver: &'static Driver, raw: RawContext) -> Result<Self, DriverError> {
        let mut adopted = Held { driver, device: 0, raw, ownership: Ownership::Adopted };
        let device = {
            let _current = CurrentContext::push(driver, raw)?;
            driver.current_device()?
        };
        if let Some(primary) = Self::primary_if(driver, device, raw)? {
            return Ok(primary);
        }
        adopted.device = device;
        Ok(Self(Arc::new(adopted)))
    }

    /// Takes up the context that is current for the calling thread, if it is its device's primary one, which
    /// is retained; `None` where it is another, or where none is current.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn current_primary(driver: &'static Driver) -> Result<Option<Self>, DriverError> {
        let raw = driver.current_context()?;
        if raw.is_null() {
            return Ok(None);
        }
        Self::primary_if(driver, driver.current_device()?, raw)
    }

    /// The primary context of a device, retained, if it is that one.
    fn primary_if(
        driver: &'static Driver,
        device: i32,
        raw: RawContext,
    ) -> Result<Option<Self>, DriverError> {
        // To retain a primary context that nobody has would make one.
        if !driver.has_primary_context(device)? {
            return Ok(None);
        }
        let primary = Self::primary(driver, device)?;
        Ok((primary.as_raw() == raw).then_some(primary))
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

    /// What tells this context from any other of the process, also from a later one with the same handle;
    /// `None` where the driver is older than CUDA 12 and does not say.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        let mut id = 0;
        // SAFETY: `id` is a local that outlives the call; the context lives as long as `self`.
        let code = unsafe { raw::cuCtxGetId(self.driver().table(), self.0.raw, &mut id) };
        (code == 0).then_some(id)
    }

    /// Makes this context current for the calling thread until the guard is dropped. What was current
    /// before is current again then, so that a caller's own use of CUDA is not disturbed.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn enter(&self) -> Result<CurrentContext<'_>, DriverError> {
        CurrentContext::push(self.driver(), self.0.raw)
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

impl Drop for Held {
    fn drop(&mut self) {
        // There is nobody to tell a refusal to.
        match self.ownership {
            Ownership::Primary => {
                // SAFETY: retained once when this was made.
                let _ =
                    unsafe { raw::cuDevicePrimaryCtxRelease_v2(self.driver.table(), self.device) };
            }
            Ownership::Own => {
                // SAFETY: created once, destroyed here alone.
                let _ = unsafe { raw::cuCtxDestroy_v2(self.driver.table(), self.raw) };
            }
            Ownership::Adopted => {}
        }
    }
}

impl Driver {
    /// `cuCtxGetCurrent`: the context that is current for the calling thread, or null.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn current_context(&self) -> Result<RawContext, DriverError> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a local that outlives the call.
        let code = unsafe { raw::cuCtxGetCurrent(self.table(), &mut raw) };
        self.check("cuCtxGetCurrent", code)?;
        Ok(raw)
    }

    /// `cuCtxGetDevice`: the device of the context that is current for the calling thread.
    ///
    /// # Errors
    /// What the driver answers, also where no context is current.
    pub fn current_device(&self) -> Result<i32, DriverError> {
        let mut device = 0;
        // SAFETY: `device` is a local that outlives the call.
        let code = unsafe { raw::cuCtxGetDevice(self.table(), &mut device) };
        self.check("cuCtxGetDevice", code)?;
        Ok(device)
    }

    /// `cuDevicePrimaryCtxGetState`: whether somebody in this process holds the primary context of a device.
    ///
    /// # Errors
    /// What the driver answers: an unknown device.
    pub fn has_primary_context(&self, device: i32) -> Result<bool, DriverError> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: both are locals that outlive the call.
        let code = unsafe {
            raw::cuDevicePrimaryCtxGetState(self.table(), device, &mut flags, &mut active)
        };
        self.check("cuDevicePrimaryCtxGetState", code)?;
        Ok(active != 0)
    }

    /// `cuCtxPopCurrent`. There is nobody to tell a refusal to.
    fn pop_context(&self) {
        let mut popped = ptr::null_mut();
        // SAFETY: `popped` is a local that outlives the call.
        let _ = unsafe { raw::cuCtxPopCurrent_v2(self.table(), &mut popped) };
    }
}

/// A context that is current for this thread, see [`Context::enter`].
#[derive(Debug)]
pub struct CurrentContext<'c> {
    driver: &'static Driver,
    context: PhantomData<&'c Context>,
    /// Contexts are current for a thread: the guard stays where it was made.
    of_this_thread: PhantomData<*const ()>,
}

impl CurrentContext<'_> {
    fn push(driver: &'static Driver, raw: RawContext) -> Result<Self, DriverError> {
        // SAFETY: the context is there as long as the guard: a `Context` is borrowed for it, or the caller of
        // `adopt` has promised it.
        let code = unsafe { raw::cuCtxPushCurrent_v2(driver.table(), raw) };
        driver.check("cuCtxPushCurrent", code)?;
        Ok(Self { driver, context: PhantomData, of_this_thread: PhantomData })
    }
}

impl Drop for CurrentContext<'_> {
    fn drop(&mut self) {
        // Guards are dropped in the reverse order on one thread, or leaked, in which case a context stays
        // current for longer.
        self.driver.pop_context();
    }
}
