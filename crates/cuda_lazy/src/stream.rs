//! Streams and events.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::time::Duration;

use crate::abi::{RawCopy2d, RawPlace2d};
use crate::error::{DriverError, NOT_READY};
use crate::{Context, DevicePtr, Driver, RawEvent, RawStream, raw};

/// `CU_STREAM_NON_BLOCKING`: no waiting for, and by, the legacy default stream.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT` and `CU_EVENT_DISABLE_TIMING`.
const TIMED: c_uint = 0;
const UNTIMED: c_uint = 2;

/// A stream of one's own: what is queued in it runs in order.
#[derive(Debug)]
pub struct Stream {
    raw: RawStream,
    context: Context,
}

// SAFETY: the driver's calls may be made from any thread, and a stream's handle is only a name to them.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream that neither waits for the default stream nor makes it wait.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn new(context: &Context) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let (driver, mut raw) = (context.driver(), ptr::null_mut());
        // SAFETY: `raw` is a local that outlives the call.
        let code =
            unsafe { raw::cuStreamCreateWithPriority(driver.table(), &mut raw, NON_BLOCKING, 0) };
        driver.check("cuStreamCreateWithPriority", code)?;
        Ok(Self { raw, context: context.clone() })
    }

    /// The driver's handle, good as long as `self`.
    #[must_use]
    pub fn as_raw(&self) -> RawStream {
        self.raw
    }

    /// The context that it belongs to.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Waits until nothing that was queued is under way.
    ///
    /// # Errors
    /// What the driver answers, also for a launch that failed.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: the stream is alive.
        let code = unsafe { raw::cuStreamSynchronize(self.context.driver().table(), self.raw) };
        self.context.driver().check("cuStreamSynchronize", code)
    }

    /// Lets everything that is queued from now on wait for what the event was recorded behind.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn wait(&self, event: &Event) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: both are alive; the driver keeps what it waits for, though the event may go.
        let code = unsafe {
            raw::cuStreamWaitEvent(self.context.driver().table(), self.raw, event.raw, 0)
        };
        self.context.driver().check("cuStreamWaitEvent", code)
    }

    /// Queues a copy of bytes to the device.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// `to` is an address of this context with room for the bytes. Until the copy is over nobody writes
    /// `from`, which stays allocated, and nothing but later work of this stream uses the room.
    pub unsafe fn copy_to_device(&self, to: DevicePtr, from: &[u8]) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        let (driver, source) = (self.context.driver(), from.as_ptr().cast());
        // SAFETY: the source is a slice of that length; the rest is the caller's promise.
        let code =
            unsafe { raw::cuMemcpyHtoDAsync_v2(driver.table(), to, source, from.len(), self.raw) };
        driver.check("cuMemcpyHtoDAsync", code)
    }

    /// Queues a copy of bytes from the device.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// `from` is an address of this context with as many bytes behind it. Until the copy is over nobody
    /// reads or writes `to`, which stays allocated, and nobody writes the source.
    pub unsafe fn copy_to_host(&self, to: &mut [u8], from: DevicePtr) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        let (driver, bytes, target) = (self.context.driver(), to.len(), to.as_mut_ptr().cast());
        // SAFETY: the target is a slice of that length; the rest is the caller's promise.
        let code =
            unsafe { raw::cuMemcpyDtoHAsync_v2(driver.table(), target, from, bytes, self.raw) };
        driver.check("cuMemcpyDtoHAsync", code)
    }

    /// Queues a fill of bytes on the device.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// `at` is an address of this context with as many bytes behind it, which nothing but later work of
    /// this stream uses until the fill is over.
    pub unsafe fn fill(&self, at: DevicePtr, value: u8, bytes: usize) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: the caller's promise; the stream is alive and of the context that was entered.
        unsafe { self.context.driver().memset_async(self.raw, at, value, bytes) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The driver finishes what is queued. There is nobody to tell a refusal to.
        if let Ok(_current) = self.context.enter() {
            // SAFETY: created once, destroyed here alone.
            let _ = unsafe { raw::cuStreamDestroy_v2(self.context.driver().table(), self.raw) };
        }
    }
}

/// Lines of the same length, each `from_pitch` and `to_pitch` bytes from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineCopy {
    /// Lines.
    pub lines: usize,
    /// Bytes of a line.
    pub bytes: usize,
    /// From the beginning of a line to that of the next, where they are read.
    pub from_pitch: usize,
    /// The same where they are written.
    pub to_pitch: usize,
}

impl LineCopy {
    /// Bytes that are one piece.
    #[must_use]
    pub const fn piece(bytes: usize) -> Self {
        Self { lines: 1, bytes, from_pitch: bytes, to_pitch: bytes }
    }
}

/// The same for streams of a caller's own, by their handles.
impl Driver {
    /// Waits until nothing that was queued in a stream is under way.
    ///
    /// # Errors
    /// What the driver answers, also for a launch that failed.
    ///
    /// # Safety
    /// The stream is one of the current context.
    pub unsafe fn stream_synchronize(&self, stream: RawStream) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        let code = unsafe { raw::cuStreamSynchronize(self.table(), stream) };
        self.check("cuStreamSynchronize", code)
    }

    /// `cuMemcpyDtoDAsync` where the lines are one piece, else `cuMemcpy2DAsync`: queues a copy of lines on
    /// the device.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// Both are addresses with all lines behind them, which do not overlap. Until the copy is over nobody
    /// writes what is read, and nothing but later work of this stream uses what is written. The stream is one
    /// of the current context.
    pub unsafe fn copy_lines(
        &self,
        stream: RawStream,
        to: DevicePtr,
        from: DevicePtr,
        copy: LineCopy,
    ) -> Result<(), DriverError> {
        let LineCopy { lines, bytes, from_pitch, to_pitch } = copy;
        if lines <= 1 || (from_pitch == bytes && to_pitch == bytes) {
            // SAFETY: the caller's promise.
            let code =
                unsafe { raw::cuMemcpyDtoDAsync_v2(self.table(), to, from, lines * bytes, stream) };
            return self.check("cuMemcpyDtoDAsync", code);
        }
        let (from, to) =
            (RawPlace2d::on_device(from, from_pitch), RawPlace2d::on_device(to, to_pitch));
        // SAFETY: the caller's promise.
        unsafe { self.copy_2d(stream, from, to, copy) }
    }

    /// The same from host memory, by `cuMemcpyHtoDAsync` where the lines are one piece.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// As [`Driver::copy_lines`]; the host's memory stays as it is until the copy is over.
    pub unsafe fn copy_lines_to_device(
        &self,
        stream: RawStream,
        to: DevicePtr,
        from: *const u8,
        copy: LineCopy,
    ) -> Result<(), DriverError> {
        let host = from.cast_mut().cast::<c_void>();
        let LineCopy { lines, bytes, from_pitch, to_pitch } = copy;
        if lines <= 1 {
            let code =
                // SAFETY: the caller's promise.
                unsafe { raw::cuMemcpyHtoDAsync_v2(self.table(), to, host, lines * bytes, stream) };
            return self.check("cuMemcpyHtoDAsync", code);
        }
        let (from, to) =
            (RawPlace2d::on_host(host, from_pitch), RawPlace2d::on_device(to, to_pitch));
        // SAFETY: the caller's promise.
        unsafe { self.copy_2d(stream, from, to, copy) }
    }

    /// The same to host memory, by `cuMemcpyDtoHAsync` where the lines are one piece.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// As [`Driver::copy_lines`]; nobody uses the host's memory until the copy is over.
    pub unsafe fn copy_lines_to_host(
        &self,
        stream: RawStream,
        to: *mut u8,
        from: DevicePtr,
        copy: LineCopy,
    ) -> Result<(), DriverError> {
        let (LineCopy { lines, bytes, from_pitch, to_pitch }, host) = (copy, to.cast::<c_void>());
        if lines <= 1 {
            let code =
                // SAFETY: the caller's promise.
                unsafe { raw::cuMemcpyDtoHAsync_v2(self.table(), host, from, lines * bytes, stream) };
            return self.check("cuMemcpyDtoHAsync", code);
        }
        let (from, to) =
            (RawPlace2d::on_device(from, from_pitch), RawPlace2d::on_host(host, to_pitch));
        // SAFETY: the caller's promise.
        unsafe { self.copy_2d(stream, from, to, copy) }
    }

    /// Queues a copy of lines.
    ///
    /// # Safety
    /// As [`Driver::copy_lines`].
    unsafe fn copy_2d(
        &self,
        stream: RawStream,
        from: RawPlace2d,
        to: RawPlace2d,
        LineCopy { lines, bytes, .. }: LineCopy,
    ) -> Result<(), DriverError> {
        let copy = RawCopy2d { from, to, width: bytes, height: lines };
        // SAFETY: the description is a local that outlives the call; the rest is the caller's promise.
        let code = unsafe { raw::cuMemcpy2DAsync_v2(self.table(), &copy, stream) };
        self.check("cuMemcpy2DAsync", code)
    }

    /// `cuMemsetD8Async`: queues a fill of bytes on the device.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// As [`Stream::fill`]; the stream is one of the current context.
    pub unsafe fn memset_async(
        &self,
        stream: RawStream,
        at: DevicePtr,
        value: u8,
        bytes: usize,
    ) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        let code = unsafe { raw::cuMemsetD8Async(self.table(), at, value, bytes, stream) };
        self.check("cuMemsetD8Async", code)
    }

    /// Copies bytes from the device behind what the stream was given before, and waits for it.
    ///
    /// # Errors
    /// What the driver answers, also for a launch that failed.
    ///
    /// # Safety
    /// `from` is an address with as many bytes behind it; the stream is one of the current context.
    pub unsafe fn read_in_order(
        &self,
        stream: RawStream,
        to: &mut [u8],
        from: DevicePtr,
    ) -> Result<(), DriverError> {
        let (bytes, target) = (to.len(), to.as_mut_ptr().cast());
        // SAFETY: the target is a slice of that length, borrowed until the wait below; the rest is the
        // caller's promise.
        let code = unsafe { raw::cuMemcpyDtoHAsync_v2(self.table(), target, from, bytes, stream) };
        self.check("cuMemcpyDtoHAsync", code)?;
        // SAFETY: the caller's promise.
        let code = unsafe { raw::cuStreamSynchronize(self.table(), stream) };
        self.check("cuStreamSynchronize", code)
    }
}

/// Whether an event can be asked for a time: one that cannot costs less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// It can, see [`Event::since`].
    On,
    /// It orders work and no more.
    Off,
}

/// A point in a stream's work.
#[derive(Debug)]
pub struct Event {
    raw: RawEvent,
    context: Context,
}

// SAFETY: the driver's calls may be made from any thread, and an event's handle is only a name to them.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event that was not recorded yet.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn new(context: &Context, timing: Timing) -> Result<Self, DriverError> {
        let _current = context.enter()?;
        let flags = match timing {
            Timing::On => TIMED,
            Timing::Off => UNTIMED,
        };
        let (driver, mut raw) = (context.driver(), ptr::null_mut());
        // SAFETY: `raw` is a local that outlives the call.
        let code = unsafe { raw::cuEventCreate(driver.table(), &mut raw, flags) };
        driver.check("cuEventCreate", code)?;
        Ok(Self { raw, context: context.clone() })
    }

    /// Records it behind all that was queued in the stream.
    ///
    /// # Errors
    /// What the driver answers, for instance for a stream of another context.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: both are alive.
        let code =
            unsafe { raw::cuEventRecord(self.context.driver().table(), self.raw, stream.raw) };
        self.context.driver().check("cuEventRecord", code)
    }

    /// Records it behind all that was queued in a stream that is somebody else's.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The stream is one of the event's context, which is current.
    pub unsafe fn record_raw(&self, stream: RawStream) -> Result<(), DriverError> {
        let driver = self.context.driver();
        // SAFETY: the event is alive; the stream is the caller's promise.
        let code = unsafe { raw::cuEventRecord(driver.table(), self.raw, stream) };
        driver.check("cuEventRecord", code)
    }

    /// Lets everything that such a stream is given from now on wait for what the event was recorded behind.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// As [`Event::record_raw`].
    pub unsafe fn order_raw(&self, stream: RawStream) -> Result<(), DriverError> {
        let driver = self.context.driver();
        // SAFETY: the event is alive, and the driver keeps what it waits for; the stream is the caller's
        // promise.
        let code = unsafe { raw::cuStreamWaitEvent(driver.table(), stream, self.raw, 0) };
        driver.check("cuStreamWaitEvent", code)
    }

    /// Whether all that it was recorded behind is done.
    ///
    /// # Errors
    /// What the driver answers, also for a launch that failed.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: the event is alive.
        let code = unsafe { raw::cuEventQuery(self.context.driver().table(), self.raw) };
        if code == NOT_READY {
            return Ok(false);
        }
        self.context.driver().check("cuEventQuery", code)?;
        Ok(true)
    }

    /// Waits for all that it was recorded behind.
    ///
    /// # Errors
    /// What the driver answers, also for a launch that failed.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let _current = self.context.enter()?;
        // SAFETY: the event is alive.
        let code = unsafe { raw::cuEventSynchronize(self.context.driver().table(), self.raw) };
        self.context.driver().check("cuEventSynchronize", code)
    }

    /// The time from an earlier event to this one; both are done and have [`Timing::On`].
    ///
    /// # Errors
    /// What the driver answers, for instance where one of them is not done.
    pub fn since(&self, earlier: &Self) -> Result<Duration, DriverError> {
        let _current = self.context.enter()?;
        let (driver, mut milliseconds) = (self.context.driver(), 0.0f32);
        // SAFETY: both are alive; the time is a local that outlives the call.
        let code = unsafe {
            raw::cuEventElapsedTime(driver.table(), &mut milliseconds, earlier.raw, self.raw)
        };
        driver.check("cuEventElapsedTime", code)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: created once, destroyed here alone; the driver keeps what still waits for it.
            let _ = unsafe { raw::cuEventDestroy_v2(self.context.driver().table(), self.raw) };
        }
    }
}
