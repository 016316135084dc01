//! CUDA graphs: what a stream is given, captured once and launched again.

use std::ffi::c_int;
use std::ptr;

use crate::error::DriverError;
use crate::{Context, Driver, RawGraph, RawGraphExec, RawStream, raw};

/// Which calls are refused while a stream is captured, because they may not be made meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum CaptureMode {
    /// On every thread that has not said otherwise.
    Global = 0,
    /// On the thread that captures.
    ThreadLocal = 1,
    /// None.
    Relaxed = 2,
}

impl CaptureMode {
    const fn from_raw(raw: c_int) -> Self {
        match raw {
            0 => Self::Global,
            1 => Self::ThreadLocal,
            _ => Self::Relaxed,
        }
    }
}

impl Driver {
    /// `cuStreamIsCapturing`: whether what the stream is given goes to a graph.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The stream is one of the current context.
    pub unsafe fn is_capturing(&self, stream: RawStream) -> Result<bool, DriverError> {
        let mut status = 0;
        // SAFETY: the stream is the caller's promise; `status` is a local that outlives the call.
        let code = unsafe { raw::cuStreamIsCapturing(self.table(), stream, &mut status) };
        self.check("cuStreamIsCapturing", code)?;
        Ok(status != 0)
    }

    /// `cuThreadExchangeStreamCaptureMode`: what the calling thread may do while streams are captured, until
    /// the guard is dropped.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn in_capture_mode(
        &'static self,
        mode: CaptureMode,
    ) -> Result<CaptureModeGuard, DriverError> {
        let before = self.exchange_capture_mode(mode)?;
        Ok(CaptureModeGuard { driver: self, before })
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode, DriverError> {
        let mut exchanged = mode as c_int;
        // SAFETY: `exchanged` is a local that outlives the call.
        let code = unsafe { raw::cuThreadExchangeStreamCaptureMode(self.table(), &mut exchanged) };
        self.check("cuThreadExchangeStreamCaptureMode", code)?;
        Ok(CaptureMode::from_raw(exchanged))
    }
}

/// The calling thread's mode, see [`Driver::in_capture_mode`].
#[derive(Debug)]
pub struct CaptureModeGuard {
    driver: &'static Driver,
    before: CaptureMode,
}

impl Drop for CaptureModeGuard {
    fn drop(&mut self) {
        // There is nobody to tell a refusal to.
        let _ = self.driver.exchange_capture_mode(self.before);
    }
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct Graph {
    graph: RawGraph,
    exec: RawGraphExec,
    context: Context,
}

// SAFETY: the driver's calls may be made from any thread, and the handles are only names to them; graphs are
// not changed after they were made.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    /// Captures what `call` gives a stream, which does none of it meanwhile.
    ///
    /// # Errors
    /// What the driver answers, in particular for calls that may not be made during a capture, and what
    /// `call` answers. The capture ends in each case.
    ///
    /// # Safety
    /// The stream is one of that context, is not being captured, and nobody else gives it anything
    /// meanwhile. What its work uses stays valid as long as the graph is launched.
    pub unsafe fn capture<E: From<DriverError>>(
        context: &Context,
        stream: RawStream,
        mode: CaptureMode,
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let _current = context.enter()?;
        let (driver, mut graph) = (context.driver(), ptr::null_mut());
        // SAFETY: the stream is the caller's promise.
        let code = unsafe { raw::cuStreamBeginCapture_v2(driver.table(), stream, mode as c_int) };
        driver.check("cuStreamBeginCapture", code)?;
        let called = call();
        // SAFETY: as above; `graph` is a local that outlives the call.
        let code = unsafe { raw::cuStreamEndCapture(driver.table(), stream, &mut graph) };
        // It is destroyed with this, whatever went wrong.
        let mut captured = Self { graph, exec: ptr::null_mut(), context: context.clone() };
        called?;
        driver.check("cuStreamEndCapture", code)?;
        // SAFETY: the graph was just made; the place of the result outlives the call.
        let code = unsafe {
            raw::cuGraphInstantiateWithFlags(driver.table(), &mut captured.exec, graph, 0)
        };
        driver.check("cuGraphInstantiateWithFlags", code)?;
        Ok(captured)
    }

    /// Queues all that was captured.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The stream is one of the graph's context; what the captured work uses is valid until it is over, and
    /// nobody else uses it meanwhile.
    pub unsafe fn launch(&self, stream: RawStream) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        let driver = self.context.driver();
        // SAFETY: the graph is alive; the rest is the caller's promise.
        let code = unsafe { raw::cuGraphLaunch(driver.table(), self.exec, stream) };
        driver.check("cuGraphLaunch", code)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Ok(_current) = self.context.enter() else { return };
        let table = self.context.driver().table();
        if !self.exec.is_null() {
            // SAFETY: made once, destroyed here alone; the driver finishes launches that are under way.
            let _ = unsafe { raw::cuGraphExecDestroy(table, self.exec) };
        }
        if !self.graph.is_null() {
            // SAFETY: as above.
            let _ = unsafe { raw::cuGraphDestroy(table, self.graph) };
        }
    }
}
