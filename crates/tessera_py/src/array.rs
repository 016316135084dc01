//! An array of whatever library, and where it is in memory.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack::{
    ArrayInterface, CPU, CUDA_HOST, Lent, NOT_SWAPPED, WRITABLE, numbers, pointer,
};
use crate::family::Family;
use crate::kind::Kind;
use crate::numpy;
use crate::shapes::Form;

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
        let lent = Lent::of(&capsule, name)?;
        let Lent { at, device_type, kind, shape, strides, read_only, .. } = lent;
        if !matches!(device_type, CPU | CUDA_HOST) {
            return Err(on_device(name, device_type));
        }
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

    pub(crate) fn form(&self) -> Form<'_> {
        Form { at: self.at, shape: &self.shape, strides: &self.strides }
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

/// Fails where an array says that it is not in host memory.
fn refuse_devices(object: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    let py = object.py();
    let device = object.getattr(intern!(py, "__dlpack_device__"))?.call0()?;
    let (kind, _index): (i32, i32) = device.extract()?;
    if matches!(kind, CPU | CUDA_HOST) { Ok(()) } else { Err(on_device(name, kind)) }
}

/// What is said of arrays in memory that is neither the host's nor a CUDA device's.
fn on_device(name: &str, device_type: i32) -> PyErr {
    PyTypeError::new_err(format!(
        "{name} is on a device of DLPack's type {device_type}: arrays are multiplied in host memory and on \
         CUDA devices"
    ))
}

/// The array that a result goes to. NumPy's functions also take it as a tuple of one.
pub(crate) fn single(out: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    match out.cast::<PyTuple>() {
        Ok(tuple) if tuple.len() == 1 => tuple.get_item(0),
        _ => Ok(out),
    }
}

/// An array in host memory that something is written to.
pub(crate) fn writable<'py>(given: Bound<'py, PyAny>, name: &str) -> PyResult<Array<'py>> {
    let py = given.py();
    if !numpy::is_array(&given)? && !given.hasattr(intern!(py, "__dlpack__"))? {
        return Err(PyTypeError::new_err(format!("{name} must be an array")));
    }
    let array = Array::of(&given, name)?;
    if array.read_only || !array.family.may_be_written() {
        return Err(PyValueError::new_err(format!("{name} must not be written: it is read-only")));
    }
    // One in another order of bytes was copied.
    if !array.object.is(&given) {
        return Err(PyTypeError::new_err(format!(
            "{name} must be in the machine's order of bytes"
        )));
    }
    Ok(array)
}

/// An array as one of another kind, by way of NumPy; whether that was needed.
pub(crate) fn converted<'py>(array: Array<'py>, to: Option<Kind>) -> PyResult<(Array<'py>, bool)> {
    let Some(kind) = to.filter(|&kind| array.kind != Some(kind)) else {
        return Ok((array, false));
    };
    let py = array.object.py();
    if array.family == Family::NumPy {
        return Ok((Array::of(&numpy::converted(&array.object, kind)?, "")?, true));
    }
    let lent = numpy::module(py)?.call_method1(intern!(py, "from_dlpack"), (&array.object,))?;
    let other = Array::of(&numpy::converted(&lent, kind)?, "")?;
    // The result is one of the library that the array was of.
    let (family, object) = (array.family, array.object);
    Ok((Array { family, object, ..other }, true))
}
