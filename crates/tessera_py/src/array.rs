//! An array of whatever library, and where it is in memory.

use std::ffi::CStr;
use std::slice;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{ffi, intern};

use crate::dlpack::{
    ArrayInterface, CPU, CUDA_HOST, Managed, ManagedVersioned, NOT_SWAPPED, READ_ONLY, Tensor,
    UNVERSIONED, VERSIONED, WRITABLE,
};
use crate::family::Family;
use crate::kind::Kind;
use crate::numpy;

/// An array in host memory.
pub(crate) struct Array<'py> {
    /// The array itself.
    pub(crate) object: Bound<'py, PyAny>,
    pub(crate) family: Family,
    /// The type of its elements; `None` where it is none that is multiplied here.
    pub(crate) kind: Option<Kind>,
    pub(crate) at: *mut u8,
    pub(crate) shape: Vec<usize>,
    /// In bytes.
    pub(crate) strides: Vec<isize>,
    pub(crate) read_only: bool,
    /// Whether this is a copy in the machine's order of bytes.
    pub(crate) swapped: bool,
    /// What has to live as long as the address is used.
    pub(crate) _kept: Bound<'py, PyAny>,
}

impl<'py> Array<'py> {
    /// The elements of an object: an array of NumPy, of a library that speaks DLPack, or what NumPy makes an
    /// array of.
    pub(crate) fn of(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let py = object.py();
        if numpy::is_array(object)? {
            return Self::of_numpy(object, Family::NumPy);
        }
        if object.hasattr(intern!(py, "__dlpack__"))? {
            refuse_devices(object, name)?;
            return Self::of_dlpack(object, name);
        }
        if object.hasattr(intern!(py, "__cuda_array_interface__"))? {
            return Err(on_device(name, "a GPU"));
        }
        Self::of_numpy(&numpy::as_array(object)?, Family::NumPy)
    }

    /// An array of NumPy, in the machine's order of bytes.
    fn of_numpy(object: &Bound<'py, PyAny>, family: Family) -> PyResult<Self> {
        let py = object.py();
        let capsule = object.getattr(intern!(py, "__array_struct__"))?;
        let at = pointer(&capsule, None)?.cast::<ArrayInterface>();
        // SAFETY: what `__array_struct__` promises; the capsule lives.
        let interface = unsafe { &*at };
        if interface.two != 2 {
            return Err(PyTypeError::new_err("__array_struct__ of another version than NumPy's"));
        }
        let size = usize::try_from(interface.itemsize).unwrap_or(0);
        let kind = match interface.typekind {
            b'V' => numpy::kind_of(&object.getattr(intern!(py, "dtype"))?)?,
            letter => Kind::of_interface(letter, size),
        };
        if let Some(kind) = kind
            && interface.flags & NOT_SWAPPED == 0
        {
            let native = Self::of_numpy(&numpy::converted(object, kind)?, family)?;
            return Ok(Self { swapped: true, ..native });
        }
        let dimensions = usize::try_from(interface.nd).unwrap_or(0);
        // SAFETY: what `__array_struct__` promises.
        let shape = unsafe { numbers(interface.shape, dimensions) };
        // SAFETY: as above.
        let strides = unsafe { numbers(interface.strides, dimensions) };
        Ok(Self {
            object: object.clone(),
            family,
            kind,
            at: interface.data.cast(),
            shape: shape.iter().map(|&count| usize::try_from(count).unwrap_or(0)).collect(),
            strides: strides.to_vec(),
            read_only: interface.flags & WRITABLE == 0,
            swapped: false,
            _kept: capsule,
        })
    }

    /// An array that its library lends by DLPack. The capsule is not taken: it is asked for, read, and goes
    /// when the array does, which gives the loan back.
    fn of_dlpack(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let py = object.py();
        let dlpack = object.getattr(intern!(py, "__dlpack__"))?;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "max_version"), (1, 0))?;
        let capsule = match dlpack.call((), Some(&options)) {
            Ok(capsule) => capsule,
            // Libraries from before version 1 do not know the argument.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => dlpack.call0()?,
            Err(error) => return Err(error),
        };
        let (tensor, read_only) = match pointer(&capsule, Some(VERSIONED)) {
            Ok(at) => {
                // SAFETY: what a capsule of that name leads to; it lives.
                let managed = unsafe { &*at.cast::<ManagedVersioned>() };
                if managed.major != 1 {
                    let text = format!("{name}: DLPack {}.{}", managed.major, managed.minor);
                    return Err(PyBufferError::new_err(text));
                }
                (&managed.tensor, managed.flags & READ_ONLY != 0)
            }
            Err(_) => {
                let at = pointer(&capsule, Some(UNVERSIONED))?.cast::<Managed>();
                // SAFETY: as above.
                (&unsafe { &*at }.tensor, false)
            }
        };
        let Tensor {
            data, device_type, ndim, code, bits, lanes, shape, strides, byte_offset, ..
        } = *tensor;
        if !matches!(device_type, CPU | CUDA_HOST) {
            return Err(on_device(name, &format!("a device of DLPack's type {device_type}")));
        }
        let dimensions = usize::try_from(ndim).unwrap_or(0);
        // SAFETY: what DLPack promises.
        let shape = unsafe { numbers(shape, dimensions) };
        let shape: Vec<usize> =
            shape.iter().map(|&count| usize::try_from(count).unwrap_or(0)).collect();
        let kind = if lanes == 1 { Kind::of_dlpack(code, bits) } else { None };
        let size = kind.map_or(0, Kind::size).cast_signed();
        let strides = if strides.is_null() {
            contiguous(&shape, size)
        } else {
            // SAFETY: what DLPack promises.
            let strides = unsafe { numbers(strides, dimensions) };
            let bytes = |&stride: &i64| isize::try_from(stride).ok()?.checked_mul(size);
            let bytes: Option<Vec<isize>> = strides.iter().map(bytes).collect();
            bytes.ok_or_else(|| PyValueError::new_err(format!("{name}: a stride is too large")))?
        };
        let offset = isize::try_from(byte_offset).unwrap_or(0);
        let at = data.cast::<u8>().wrapping_offset(offset);
        let (object, family) = (object.clone(), Family::of(object)?);
        Ok(Self {
            object,
            family,
            kind,
            at,
            shape,
            strides,
            read_only,
            swapped: false,
            _kept: capsule,
        })
    }

    /// The kind of its elements, or what is said of those that are not multiplied here.
    pub(crate) fn known(&self, name: &str) -> PyResult<Kind> {
        self.kind.ok_or_else(|| {
            let dtype = self.object.getattr("dtype").and_then(|it| it.str()?.extract::<String>());
            let dtype = dtype.unwrap_or_else(|_| "its type".to_owned());
            PyTypeError::new_err(format!("{name}: there are no products of {dtype} here"))
        })
    }
}

/// Strides of an array whose last dimension is contiguous, in bytes.
pub(crate) fn contiguous(shape: &[usize], size: isize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = size;
    for (own, &count) in strides.iter_mut().zip(shape).rev() {
        *own = stride;
        stride = stride.saturating_mul(count.max(1).cast_signed());
    }
    strides
}

/// Numbers at an address that may be null where there are none.
///
/// # Safety
/// There are as many.
unsafe fn numbers<'a, T>(at: *const T, count: usize) -> &'a [T] {
    if count == 0 || at.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(at, count) }
}

/// What a capsule of that name leads to.
fn pointer(capsule: &Bound<'_, PyAny>, name: Option<&CStr>) -> PyResult<*mut u8> {
    let name = name.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: an object, and a text that lives; what is no such capsule is an error.
    let at = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name) };
    if at.is_null() { Err(PyErr::fetch(capsule.py())) } else { Ok(at.cast()) }
}

/// Fails where an array says that it is not in host memory.
fn refuse_devices(object: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    let py = object.py();
    let device = object.getattr(intern!(py, "__dlpack_device__"))?.call0()?;
    let (kind, _index): (i32, i32) = device.extract()?;
    match kind {
        CPU | CUDA_HOST => Ok(()),
        2 | 13 => Err(on_device(name, "a GPU")),
        other => Err(on_device(name, &format!("a device of DLPack's type {other}"))),
    }
}

/// Products of arrays on a GPU: where they are to be built in.
fn on_device(name: &str, what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{name} is on {what}: this version multiplies arrays in host memory alone, for which it may use a \
         GPU by itself; copy it to the host first"
    ))
}
