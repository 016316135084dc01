//! Streams as programs name them, and order between two.

use std::ffi::{CString, c_void};
use std::ptr;

use cuda_lazy::{CaptureMode, CaptureModeGuard, Event, RawStream, Timing};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBool;
use tessera::gpu::Context;

use super::library::Library;
use super::refused;

/// A stream by the driver's handle. Whoever names it keeps it alive while its work is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamHandle(usize);

impl StreamHandle {
    /// The default stream that other streams wait for.
    pub(super) const LEGACY: Self = Self(1);
    /// That of the calling thread.
    pub(super) const PER_THREAD: Self = Self(2);

    pub(super) fn new(handle: usize) -> Self {
        if handle == 0 { Self::LEGACY } else { Self(handle) }
    }

    pub(super) fn raw(self) -> RawStream {
        ptr::without_provenance_mut::<c_void>(self.0)
    }

    /// As the array protocols and Python's libraries number it.
    pub(super) fn number(self) -> usize {
        self.0
    }

    /// The stream that a program names.
    pub(super) fn named(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = given.py();
        if !given.is_instance_of::<PyBool>()
            && let Some(handle) = number(given)?
        {
            return Ok(handle);
        }
        // PyTorch; CuPy; cuda.core and whoever else keeps to its protocol; Numba.
        for name in [intern!(py, "cuda_stream"), intern!(py, "ptr")] {
            if let Some(found) = given.getattr_opt(name)?
                && let Some(handle) = number(&found)?
            {
                return Ok(handle);
            }
        }
        if let Some(found) = given.getattr_opt(intern!(py, "__cuda_stream__"))? {
            let found = if found.is_callable() { found.call0()? } else { found };
            let (version, handle): (u32, usize) = found.extract().map_err(|_| {
                PyTypeError::new_err("stream: __cuda_stream__ must give (version, handle)")
            })?;
            if version != 0 {
                let text =
                    format!("stream: __cuda_stream__ of version {version} is not known here");
                return Err(PyTypeError::new_err(text));
            }
            return Ok(Self::new(handle));
        }
        if let Some(found) = given.getattr_opt(intern!(py, "handle"))? {
            let found = found.getattr_opt(intern!(py, "value"))?.unwrap_or(found);
            if found.is_none() {
                return Ok(Self::LEGACY);
            }
            if let Some(handle) = number(&found)? {
                return Ok(handle);
            }
        }
        Err(PyTypeError::new_err(
            "stream must be a handle as int, a stream of PyTorch, CuPy or Numba, or have __cuda_stream__",
        ))
    }

    /// The stream that a library currently uses on a device.
    pub(super) fn current(py: Python<'_>, library: Library, device: u32) -> PyResult<Self> {
        let handle: usize = match library {
            Library::Torch => torch_current(py)?.call1((device,))?.extract()?,
            Library::CuPy => {
                static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let current = CURRENT.import(py, "cupy.cuda", "get_current_stream")?;
                current.call1((device,))?.getattr(intern!(py, "ptr"))?.extract()?
            }
            Library::Jax | Library::Numba | Library::Own | Library::Other => 0,
        };
        Ok(Self::new(handle))
    }
}

/// PyTorch's function from a device to the handle of its current stream. Its public one makes an object of
/// the stream first.
fn torch_current(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let find = || match py.import("torch._C")?.getattr_opt("_cuda_getCurrentRawStream")? {
        Some(private) => Ok(private.unbind()),
        None => {
            let public =
                "lambda device: __import__('torch').cuda.current_stream(device).cuda_stream";
            let public = CString::new(public)?;
            Ok::<_, PyErr>(py.eval(&public, None, None)?.unbind())
        }
    };
    Ok(CURRENT.get_or_try_init(py, find)?.bind(py))
}

/// A handle that is given as a number; `None` where it is none.
fn number(given: &Bound<'_, PyAny>) -> PyResult<Option<StreamHandle>> {
    if let Ok(handle) = given.extract::<usize>() {
        return Ok(Some(StreamHandle::new(handle)));
    }
    match given.extract::<isize>() {
        Ok(negative) => {
            Err(PyValueError::new_err(format!("stream is {negative}, which is no stream's handle")))
        }
        Err(_) => Ok(None),
    }
}

/// Marks what a stream has been given so far.
pub(super) fn record(context: &Context, stream: StreamHandle) -> PyResult<Event> {
    let during = || refused("recording an event");
    let event = Event::new(context.driver_context(), Timing::Off).map_err(during())?;
    let _current = context.driver_context().enter().map_err(during())?;
    // SAFETY: the event's context was entered; the program names a stream of it.
    unsafe { event.record_raw(stream.raw()) }.map_err(during())?;
    Ok(event)
}

/// Lets what a stream is given from now on wait for what an event marks.
pub(super) fn order(context: &Context, event: &Event, stream: StreamHandle) -> PyResult<()> {
    let during = || refused("ordering two streams");
    let _current = context.driver_context().enter().map_err(during())?;
    // SAFETY: the event's context was entered; the program names a stream of it.
    unsafe { event.order_raw(stream.raw()) }.map_err(during())
}

/// Lets what a stream is given from now on wait for what another one has been given so far.
pub(super) fn follow(context: &Context, stream: StreamHandle, other: StreamHandle) -> PyResult<()> {
    if stream == other && stream != StreamHandle::PER_THREAD {
        return Ok(());
    }
    order(context, &record(context, other)?, stream)
}

/// Until it is dropped the calling thread may do what other streams' captures would forbid, which it does
/// outside of them: ask for an event, allocate and free.
pub(super) fn relaxed(context: &Context) -> Option<CaptureModeGuard> {
    context.driver_context().driver().in_capture_mode(CaptureMode::Relaxed).ok()
}

/// Whether a stream's work goes to a graph.
pub(super) fn is_capturing(context: &Context, stream: StreamHandle) -> PyResult<bool> {
    let during = || refused("asking whether a stream is captured");
    let _current = context.driver_context().enter().map_err(during())?;
    let driver = context.driver_context().driver();
    // SAFETY: the program names a stream of the context that was entered.
    unsafe { driver.is_capturing(stream.raw()) }.map_err(during())
}
