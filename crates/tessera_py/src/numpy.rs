//! What is asked of NumPy, which is imported when a product first needs it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule, PySlice, PyTuple, PyType};

use crate::kind::Kind;

pub(crate) fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let numpy = NUMPY.get_or_try_init(py, || PyModule::import(py, "numpy").map(Bound::unbind))?;
    Ok(numpy.bind(py))
}

fn ndarray(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let find = || Ok::<_, PyErr>(module(py)?.getattr("ndarray")?.cast_into::<PyType>()?.unbind());
    Ok(TYPE.get_or_try_init(py, find)?.bind(py))
}

fn memmap(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let find = || Ok::<_, PyErr>(module(py)?.getattr("memmap")?.cast_into::<PyType>()?.unbind());
    Ok(TYPE.get_or_try_init(py, find)?.bind(py))
}

/// Whether an object is an array of NumPy or of a type made of it.
pub(crate) fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.is_instance(ndarray(object.py())?)
}

/// Whether it is one whose products are those of its elements: other types may give them a meaning of
/// their own, as masked arrays do.
pub(crate) fn is_plain(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, of) = (object.py(), object.get_type());
    Ok(of.is(ndarray(py)?) || of.is(memmap(py)?))
}

/// An array of whatever NumPy makes arrays of, without a copy where there are elements already.
pub(crate) fn as_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    module(object.py())?.call_method1(intern!(object.py(), "asarray"), (object,))
}

/// A new array of uninitialised elements. `like` is an array or a type of it.
pub(crate) fn empty<'py>(
    py: Python<'py>,
    shape: &[usize],
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let shape = PyTuple::new(py, shape)?;
    module(py)?.call_method1(intern!(py, "empty"), (shape, dtype))
}

/// The same with its elements at a multiple of 64 bytes: what JAX asks of memory that it takes without a copy.
pub(crate) fn empty_aligned<'py>(
    py: Python<'py>,
    shape: &[usize],
    dtype: &Bound<'py, PyAny>,
    size: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = shape.iter().try_fold(size, |all, &count| all.checked_mul(count));
    let with_room = bytes.and_then(|bytes| bytes.checked_add(ALIGNED)).unwrap_or(usize::MAX);
    let bytes = bytes.unwrap_or(usize::MAX);
    let room = empty(py, &[with_room], &self::dtype(py, Kind::U8)?)?;
    let at: usize = room.getattr(intern!(py, "ctypes"))?.getattr(intern!(py, "data"))?.extract()?;
    let first = at.next_multiple_of(ALIGNED) - at;
    let part = room.get_item(PySlice::new(
        py,
        first.cast_signed(),
        first.wrapping_add(bytes).cast_signed(),
        1,
    ))?;
    let elements = part.call_method1(intern!(py, "view"), (dtype,))?;
    elements.call_method1(intern!(py, "reshape"), (PyTuple::new(py, shape)?,))
}

const ALIGNED: usize = 64;

/// NumPy's type of a kind. That of bfloat16 is another package's, which registers it.
pub(crate) fn dtype(py: Python<'_>, kind: Kind) -> PyResult<Bound<'_, PyAny>> {
    if kind == Kind::BF16 {
        return PyModule::import(py, "ml_dtypes")?
            .getattr("bfloat16")
            .and_then(|of| module(py)?.call_method1(intern!(py, "dtype"), (of,)));
    }
    module(py)?.call_method1(intern!(py, "dtype"), (kind.name(),))
}

/// The kind of a type of NumPy's or what stands for one; `None` where it is none of ours.
pub(crate) fn kind_of(dtype: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
    let py = dtype.py();
    let dtype = module(py)?.call_method1(intern!(py, "dtype"), (dtype,))?;
    let name: String = dtype.getattr(intern!(py, "name"))?.extract()?;
    Ok(Kind::from_name(&name))
}

/// The kind that NumPy promotes two arrays to; `None` where it is none of ours.
pub(crate) fn promoted(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
    let py = a.py();
    let dtype = module(py)?.call_method1(intern!(py, "result_type"), (a, b))?;
    kind_of(&dtype)
}

/// An array converted, or itself where it is of that type in the machine's order of bytes.
pub(crate) fn converted<'py>(array: &Bound<'py, PyAny>, kind: Kind) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "copy"), false)?;
    array.call_method(intern!(py, "astype"), (dtype(py, kind)?,), Some(&options))
}

/// Copies an array to another of the same shape, of whatever type, as `casting` allows.
pub(crate) fn copy_to(
    to: &Bound<'_, PyAny>,
    from: &Bound<'_, PyAny>,
    casting: &str,
) -> PyResult<()> {
    let py = to.py();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "casting"), casting)?;
    module(py)?.call_method(intern!(py, "copyto"), (to, from), Some(&options))?;
    Ok(())
}

/// Whether NumPy casts a kind to another without losing its kind of numbers.
pub(crate) fn can_cast(py: Python<'_>, from: Kind, to: Kind) -> PyResult<bool> {
    let (from, to) = (dtype(py, from)?, dtype(py, to)?);
    module(py)?.call_method1(intern!(py, "can_cast"), (from, to, "same_kind"))?.extract()
}
