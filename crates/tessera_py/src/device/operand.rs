//! An array on a GPU: address, shape, strides, type, device.

use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use tessera::gpu::Context;

use super::interface::Interface;
use super::library::Library;
use super::own::DeviceArray;
use super::streams::{StreamHandle, follow};
use crate::dlpack::{CUDA, CUDA_MANAGED, Lent};
use crate::kind::Kind;
use crate::numpy;
use crate::shapes::Form;

/// Which library an array on a GPU is of, and on which GPU it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(super) library: Library,
    pub(super) device: u32,
}

/// Where an object's elements are on a GPU; `None` where they are in host memory, or are none.
pub(crate) fn locate(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Located>> {
    let py = object.py();
    let Some(library) = Library::of(object)? else { return Ok(None) };
    let device = match library {
        Library::Torch => {
            if !object
                .getattr_opt(intern!(py, "is_cuda"))?
                .is_some_and(|is| is.is_truthy().unwrap_or(false))
            {
                return Ok(None);
            }
            object.call_method0(intern!(py, "get_device"))?.extract()?
        }
        Library::CuPy => {
            let Some(device) = object.getattr_opt(intern!(py, "device"))? else { return Ok(None) };
            device.getattr(intern!(py, "id"))?.extract()?
        }
        Library::Own => object.cast::<DeviceArray>()?.get().device(),
        Library::Jax | Library::Other => match dlpack_device(object)? {
            Some(Ok(device)) => device,
            Some(Err(())) => return Ok(None),
            None => return by_interface(object, library, name),
        },
        Library::Numba => return by_interface(object, library, name),
    };
    Ok(Some(Located { library, device }))
}

/// The CUDA device that `__dlpack_device__` names, or that it names another one; `None` where an object does
/// not have the method.
fn dlpack_device(object: &Bound<'_, PyAny>) -> PyResult<Option<Result<u32, ()>>> {
    let py = object.py();
    let Some(method) = object.getattr_opt(intern!(py, "__dlpack_device__"))? else {
        return Ok(None);
    };
    let (kind, index): (i32, i32) = method.call0()?.extract()?;
    let index = u32::try_from(index).map_err(|_| ());
    Ok(Some(if matches!(kind, CUDA | CUDA_MANAGED) { index } else { Err(()) }))
}

fn by_interface(
    object: &Bound<'_, PyAny>,
    library: Library,
    name: &str,
) -> PyResult<Option<Located>> {
    let Some(interface) = Interface::of(object, name)? else { return Ok(None) };
    // An array without elements is wherever the others are.
    let device = match interface.memory(name)? {
        Some(info) => u32::try_from(info.device).unwrap_or(0),
        None => 0,
    };
    Ok(Some(Located { library, device }))
}

/// An array on a GPU.
pub(super) struct Operand<'py> {
    pub(super) object: Bound<'py, PyAny>,
    pub(super) library: Library,
    pub(super) kind: Kind,
    pub(super) address: u64,
    pub(super) shape: Vec<usize>,
    /// In bytes.
    pub(super) strides: Vec<isize>,
    pub(super) read_only: bool,
    /// What has to live until the GPU has done with the array.
    pub(super) kept: Option<Bound<'py, PyAny>>,
}

impl<'py> Operand<'py> {
    /// Whether nothing may be written to it: JAX's arrays never change.
    pub(super) fn is_read_only(&self) -> bool {
        self.read_only || self.library == Library::Jax
    }

    /// The elements of an array, ready in a stream. One of the library whose stream that is, `leader`, is ready
    /// there by the library's own rules; any other is made so.
    pub(super) fn read(
        object: &Bound<'py, PyAny>,
        name: &str,
        located: Located,
        leader: Library,
        context: &Context,
        stream: StreamHandle,
    ) -> PyResult<Self> {
        match located.library {
            Library::Torch if leader == Library::Torch => Self::of_torch(object, name),
            Library::CuPy if leader == Library::CuPy => Self::of_cupy(object, name),
            Library::Own => {
                let array = object.cast::<DeviceArray>()?.get();
                array.ready(stream)?;
                Ok(Self {
                    object: object.clone(),
                    library: Library::Own,
                    kind: array.kind(),
                    address: array.address(),
                    shape: array.sizes().to_vec(),
                    strides: array.steps(),
                    read_only: false,
                    kept: Some(object.clone()),
                })
            }
            Library::Numba => Self::of_interface(object, name, located, context, stream),
            library @ (Library::Torch | Library::CuPy | Library::Jax | Library::Other) => {
                if library == Library::Torch {
                    refuse_gradients(object, name)?;
                }
                if object.hasattr(intern!(object.py(), "__dlpack__"))? {
                    Self::of_dlpack(object, name, located, stream)
                } else {
                    Self::of_interface(object, name, located, context, stream)
                }
            }
        }
    }

    /// A tensor of PyTorch, whose numbers are those in memory, by its own methods, which take less time than
    /// DLPack.
    fn of_torch(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let py = object.py();
        refuse_gradients(object, name)?;
        let dtype = object.getattr(intern!(py, "dtype"))?;
        let kind = torch_kind(&dtype)?.ok_or_else(|| unknown(name, &dtype))?;
        let size = kind.size().cast_signed();
        let strides: Vec<isize> = object.call_method0(intern!(py, "stride"))?.extract()?;
        Ok(Self {
            library: Library::Torch,
            kind,
            address: object.call_method0(intern!(py, "data_ptr"))?.extract()?,
            shape: object.getattr(intern!(py, "shape"))?.extract()?,
            strides: strides.into_iter().map(|stride| stride.saturating_mul(size)).collect(),
            read_only: false,
            kept: None,
            object: object.clone(),
        })
    }

    /// An array of CuPy by its attributes.
    fn of_cupy(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        let py = object.py();
        let dtype = object.getattr(intern!(py, "dtype"))?;
        let kind = numpy_kind(&dtype)?.ok_or_else(|| unknown(name, &dtype))?;
        Ok(Self {
            object: object.clone(),
            library: Library::CuPy,
            kind,
            address: object.getattr(intern!(py, "data"))?.getattr(intern!(py, "ptr"))?.extract()?,
            shape: object.getattr(intern!(py, "shape"))?.extract()?,
            strides: object.getattr(intern!(py, "strides"))?.extract()?,
            read_only: false,
            kept: None,
        })
    }

    /// An array that its library lends by DLPack, having ordered it before what the stream is given next.
    fn of_dlpack(
        object: &Bound<'py, PyAny>,
        name: &str,
        located: Located,
        stream: StreamHandle,
    ) -> PyResult<Self> {
        let py = object.py();
        let method = object.getattr(intern!(py, "__dlpack__"))?;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "stream"), stream.number())?;
        options.set_item(intern!(py, "max_version"), (1, 0))?;
        let capsule = match method.call((), Some(&options)) {
            Ok(capsule) => capsule,
            // Libraries from before version 1 do not know the second argument.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                options.del_item(intern!(py, "max_version"))?;
                method.call((), Some(&options))?
            }
            Err(error) => return Err(error),
        };
        let lent = Lent::of(&capsule, name)?;
        let is_here = matches!(lent.device_type, CUDA | CUDA_MANAGED)
            && u32::try_from(lent.device_id) == Ok(located.device);
        if !is_here {
            let text = format!("{name}: __dlpack__ and __dlpack_device__ name different devices");
            return Err(PyBufferError::new_err(text));
        }
        let Some(kind) = lent.kind.filter(|kind| Kind::ON_GPU.contains(kind)) else {
            let dtype = object.getattr_opt(intern!(py, "dtype"))?;
            return Err(match dtype {
                Some(dtype) => unknown(name, &dtype),
                None => unknown(name, PyString::new(py, "its type").as_any()),
            });
        };
        Ok(Self {
            object: object.clone(),
            library: located.library,
            kind,
            address: lent.at.addr() as u64,
            shape: lent.shape,
            strides: lent.strides,
            read_only: lent.read_only,
            kept: Some(capsule),
        })
    }

    /// An array that shows itself by the CUDA array interface, ordered before what the stream is given next.
    pub(super) fn of_interface(
        object: &Bound<'py, PyAny>,
        name: &str,
        located: Located,
        context: &Context,
        stream: StreamHandle,
    ) -> PyResult<Self> {
        let missing = || {
            let text = format!("{name} has neither __dlpack__ nor __cuda_array_interface__");
            PyTypeError::new_err(text)
        };
        let interface = Interface::of(object, name)?.ok_or_else(missing)?;
        if let Some(info) = interface.memory(name)?
            && !info.context.is_null()
            && info.context != context.as_raw()
        {
            return Err(PyValueError::new_err(format!(
                "{name} is in memory of another context than its device's primary one"
            )));
        }
        let Some(kind) = interface.kind.filter(|kind| Kind::ON_GPU.contains(kind)) else {
            return Err(PyTypeError::new_err(format!(
                "{name}: there are no products of {:?} on a GPU here",
                interface.typestr
            )));
        };
        if let Some(ready_in) = interface.stream {
            follow(context, stream, StreamHandle::new(ready_in))?;
        }
        Ok(Self {
            object: object.clone(),
            library: located.library,
            kind,
            address: interface.address,
            shape: interface.shape,
            strides: interface.strides,
            read_only: interface.read_only,
            kept: None,
        })
    }

    pub(super) fn form(&self) -> Form<'_> {
        Form { at: pointer(self.address), shape: &self.shape, strides: &self.strides }
    }
}

/// A device's address as shapes carry it; nothing is read there.
pub(super) fn pointer(address: u64) -> *mut u8 {
    std::ptr::without_provenance_mut(usize::try_from(address).unwrap_or(usize::MAX))
}

/// What is said of a type that nothing here multiplies on a GPU.
fn unknown(name: &str, dtype: &Bound<'_, PyAny>) -> PyErr {
    let dtype = dtype.str().map_or_else(|_| "its type".to_owned(), |dtype| dtype.to_string());
    PyTypeError::new_err(format!("{name}: there are no products of {dtype} on a GPU here"))
}

/// Products are not recorded for gradients.
fn refuse_gradients(object: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    let py = object.py();
    if !object.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
        return Ok(());
    }
    if py.import("torch")?.call_method0(intern!(py, "is_grad_enabled"))?.is_truthy()? {
        return Err(PyRuntimeError::new_err(format!(
            "{name} requires grad, and products here are not recorded: pass {name}.detach()"
        )));
    }
    Ok(())
}

/// PyTorch's types.
fn torch_types(py: Python<'_>) -> PyResult<&Vec<(Py<PyAny>, Kind)>> {
    static TYPES: PyOnceLock<Vec<(Py<PyAny>, Kind)>> = PyOnceLock::new();
    TYPES.get_or_try_init(py, || {
        let torch = py.import("torch")?;
        let own = |kind: Kind| Ok::<_, PyErr>((torch.getattr(kind.name())?.unbind(), kind));
        Kind::ON_GPU.into_iter().map(own).collect()
    })
}

/// The kind of a type of PyTorch's.
fn torch_kind(dtype: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
    let types = torch_types(dtype.py())?;
    Ok(types.iter().find(|(own, _)| own.is(dtype)).map(|&(_, kind)| kind))
}

/// The reverse.
pub(super) fn torch_dtype(py: Python<'_>, kind: Kind) -> PyResult<&Py<PyAny>> {
    let found = torch_types(py)?.iter().find(|&&(_, own)| own == kind).map(|(dtype, _)| dtype);
    found.ok_or_else(|| PyTypeError::new_err(format!("PyTorch has no {}", kind.name())))
}

/// The kind of a type of NumPy's. Those that NumPy itself has are one object each.
fn numpy_kind(dtype: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
    static TYPES: PyOnceLock<Vec<(Py<PyAny>, Kind)>> = PyOnceLock::new();
    let py = dtype.py();
    let find = || {
        let own = |kind: Kind| Ok::<_, PyErr>((numpy::dtype(py, kind)?.unbind(), kind));
        let kinds = Kind::ON_GPU.into_iter().filter(|&kind| kind != Kind::BF16);
        kinds.map(own).collect::<PyResult<Vec<_>>>()
    };
    let types = TYPES.get_or_try_init(py, find)?;
    match types.iter().find(|(own, _)| own.is(dtype)) {
        Some(&(_, kind)) => Ok(Some(kind)),
        None => Ok(numpy::kind_of(dtype)?.filter(|kind| Kind::ON_GPU.contains(kind))),
    }
}
