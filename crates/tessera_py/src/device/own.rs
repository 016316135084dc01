//! The array of libraries that are not known here: memory on a GPU with both protocols.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use cuda_lazy::{DeviceMemory, Event};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tessera::gpu::Context;

use super::state;
use super::streams::{self, StreamHandle};
use crate::dlpack::{CUDA, Managed, ManagedVersioned, Tensor, UNVERSIONED, VERSIONED};
use crate::kind::Kind;

/// An array on a GPU: the result for libraries that have no way of their own to make one.
///
/// It shows itself by __dlpack__ and __cuda_array_interface__, and is contiguous row by row.
#[pyclass(frozen, module = "tessera")]
pub(crate) struct DeviceArray {
    kind: Kind,
    shape: Vec<usize>,
    address: u64,
    device: u32,
    written: Mutex<Written>,
    /// What lends the memory, if it is not this array's own.
    lender: Option<Py<PyAny>>,
    // Dropped in this order: memory goes before the context that it is of.
    memory: Option<DeviceMemory>,
    context: Context,
}

/// Where an array was written last.
struct Written {
    stream: StreamHandle,
    /// Whose stream it is where each thread has one of its own.
    thread: ThreadId,
    /// The end of that; nothing where a graph writes it.
    end: Option<Event>,
}

impl Written {
    fn in_stream(stream: StreamHandle, end: Option<Event>) -> Self {
        Self { stream, thread: thread::current().id(), end }
    }
}

/// Whose memory an array is in.
pub(super) enum Memory {
    Own(DeviceMemory),
    /// That of an object, which is kept.
    Of(Py<PyAny>, u64),
}

impl DeviceArray {
    pub(super) fn new(
        context: Context,
        device: u32,
        stream: StreamHandle,
        (kind, shape): (Kind, Vec<usize>),
        memory: Memory,
    ) -> Self {
        let (address, memory, lender) = match memory {
            Memory::Own(memory) => (memory.address(), Some(memory), None),
            Memory::Of(lender, address) => (address, None, Some(lender)),
        };
        let written = Mutex::new(Written::in_stream(stream, None));
        Self { kind, shape, address, device, written, lender, memory, context }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn device(&self) -> u32 {
        self.device
    }

    pub(super) fn sizes(&self) -> &[usize] {
        &self.shape
    }

    /// Strides in bytes.
    pub(super) fn steps(&self) -> Vec<isize> {
        crate::dlpack::contiguous(&self.shape, self.kind.size().cast_signed())
    }

    /// Marks the end of what a stream has been given to write it with.
    pub(super) fn is_written(&self, stream: StreamHandle, end: Event) {
        *self.written() = Written::in_stream(stream, Some(end));
    }

    /// Lets what a stream is given from now on find the array written.
    pub(super) fn ready(&self, stream: StreamHandle) -> PyResult<()> {
        let written = self.written();
        match &written.end {
            Some(_) if stream == written.stream && stream != StreamHandle::PER_THREAD => Ok(()),
            Some(end) => streams::order(&self.context, end, stream),
            None => Ok(()),
        }
    }

    /// A stream that finds the array written, by a number that means the same to every thread.
    fn ready_in(&self) -> PyResult<StreamHandle> {
        let (stream, thread) = {
            let written = self.written();
            (written.stream, written.thread)
        };
        if stream != StreamHandle::PER_THREAD || thread == thread::current().id() {
            return Ok(stream);
        }
        self.ready(StreamHandle::LEGACY)?;
        Ok(StreamHandle::LEGACY)
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl DeviceArray {
    /// How many elements there are in each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The name of the elements' type, as NumPy and ml_dtypes have it.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.kind.name()
    }

    /// The GPU, as device= names it.
    #[getter]
    #[pyo3(name = "device")]
    fn device_name(&self) -> String {
        format!("cuda:{}", self.device)
    }

    /// The address of the first element.
    #[getter]
    fn ptr(&self) -> u64 {
        self.address
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.kind == Kind::BF16 {
            let text = "the CUDA array interface has no bfloat16; use DLPack";
            return Err(PyAttributeError::new_err(text));
        }
        let letter = if self.kind == Kind::I32 { 'i' } else { 'f' };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", format!("<{letter}{}", self.kind.size()))?;
        interface.set_item("data", (self.address, false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", self.ready_in()?.number())?;
        Ok(interface)
    }

    fn __dlpack_device__(&self) -> (i32, u32) {
        (CUDA, self.device)
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, u32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = slf.get();
        if dl_device.is_some_and(|device| device != own.__dlpack_device__()) {
            return Err(PyBufferError::new_err("the array is on another device"));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("the array lends its memory, and makes no copies"));
        }
        match stream {
            // The consumer sees to it.
            Some(-1) => {}
            None => own.ready(StreamHandle::LEGACY)?,
            Some(stream) => match usize::try_from(stream) {
                Ok(stream) if stream != 0 => own.ready(StreamHandle::new(stream))?,
                _ => {
                    let text = format!("stream is {stream}, which DLPack gives no meaning");
                    return Err(PyValueError::new_err(text));
                }
            },
        }
        export(slf, max_version.is_some_and(|(major, _)| major >= 1))
    }

    fn __repr__(&self) -> String {
        let Self { kind, shape, device, .. } = self;
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        let shape = shape.join(", ");
        format!(
            "tessera.DeviceArray(shape=({shape}{comma}), dtype={}, device=cuda:{device})",
            kind.name()
        )
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        let _allowed = streams::relaxed(&self.context);
        // The driver waits for the users of its own memory. A lender is told when the stream has written.
        drop(self.memory.take());
        let written = self.written.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let (Some(lender), Some(event)) = (self.lender.take(), written.end.take())
            && !event.is_done().unwrap_or(true)
        {
            state::keep(&self.context, event, vec![lender]);
        }
    }
}

/// What an exported capsule leads to: the struct of DLPack, and what it points to.
#[repr(C)]
struct Export<M> {
    managed: M,
    shape: Vec<i64>,
    strides: Vec<i64>,
    array: Option<Py<DeviceArray>>,
}

/// Gives a loan back.
///
/// # Safety
/// `managed` leads to an `Export` that `export` has leaked, and that nobody uses any more.
unsafe extern "C" fn give_back<M>(managed: *mut M) {
    // SAFETY: the struct is the first field of what was leaked, by `repr(C)`.
    let mut export = unsafe { Box::from_raw(managed.cast::<Export<M>>()) };
    let array = export.array.take();
    // Any thread may come here. Where the interpreter has ended its objects are gone as they are.
    let mut array = Some(array);
    if Python::try_attach(|_| drop(array.take())).is_none() {
        std::mem::forget(array);
    }
}

/// The end of a capsule that nobody has taken.
///
/// # Safety
/// `capsule` is a capsule that `export` has made.
unsafe extern "C" fn end_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: the caller's promise.
    unsafe { end::<ManagedVersioned>(capsule, VERSIONED) }
}

/// # Safety
/// As `end_versioned`.
unsafe extern "C" fn end_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: the caller's promise.
    unsafe { end::<Managed>(capsule, UNVERSIONED) }
}

/// # Safety
/// As `end_versioned`; `M` and the name are those of the capsule.
unsafe fn end<M>(capsule: *mut ffi::PyObject, name: &CStr) {
    // Whoever takes the loan gives the capsule another name.
    // SAFETY: the interpreter passes its capsule; the name lives.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: as above.
    let at = unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) };
    if !at.is_null() {
        // SAFETY: it leads to what `export` has leaked, and nobody has taken it.
        unsafe { give_back(at.cast::<M>()) };
    }
}

/// A capsule that lends an array.
fn export<'py>(array: &Bound<'py, DeviceArray>, versioned: bool) -> PyResult<Bound<'py, PyAny>> {
    let (py, own) = (array.py(), array.get());
    let size = own.kind.size().cast_signed();
    let number = |count: &usize| i64::try_from(*count).unwrap_or(i64::MAX);
    let shape: Vec<i64> = own.shape.iter().map(number).collect();
    let strides: Vec<i64> = own.steps().iter().map(|&stride| (stride / size) as i64).collect();
    let (code, bits) = own.kind.in_dlpack();
    let tensor = Tensor {
        data: super::operand::pointer(own.address).cast::<c_void>(),
        device_type: CUDA,
        device_id: i32::try_from(own.device).unwrap_or(i32::MAX),
        ndim: i32::try_from(shape.len()).unwrap_or(i32::MAX),
        code,
        bits,
        lanes: 1,
        // What a vector holds stays where it is when the vector moves.
        shape: shape.as_ptr(),
        strides: strides.as_ptr(),
        byte_offset: 0,
    };
    let array = Some(array.clone().unbind());
    let manager_ctx = ptr::null_mut();
    let (at, name, end): (*mut c_void, _, unsafe extern "C" fn(*mut ffi::PyObject)) = if versioned {
        let deleter = Some(give_back::<ManagedVersioned> as unsafe extern "C" fn(_));
        let managed =
            ManagedVersioned { major: 1, minor: 0, manager_ctx, deleter, flags: 0, tensor };
        let export = Box::new(Export { managed, shape, strides, array });
        (Box::into_raw(export).cast(), VERSIONED, end_versioned)
    } else {
        let deleter = Some(give_back::<Managed> as unsafe extern "C" fn(_));
        let managed = Managed { tensor, manager_ctx, deleter };
        let export = Box::new(Export { managed, shape, strides, array });
        (Box::into_raw(export).cast(), UNVERSIONED, end_unversioned)
    };
    // SAFETY: the address is not null, the name is static, and the destructor is that of such a capsule.
    let capsule = unsafe { ffi::PyCapsule_New(at, name.as_ptr(), Some(end)) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}
