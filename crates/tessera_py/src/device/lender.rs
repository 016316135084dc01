//! What is asked of the library that an operand is of: new arrays, copies, workspace, in the product's stream.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use tessera::gpu::{Context, Workspace};

use super::library::Library;
use super::operand::{Located, Operand, torch_dtype};
use super::own::{DeviceArray, Memory};
use super::state;
use super::streams::{self, StreamHandle};
use crate::dlpack::contiguous;
use crate::failure::failure;
use crate::kind::Kind;
use crate::numpy;

/// A library's part in a product.
pub(super) struct Lender<'py> {
    pub(super) located: Located,
    pub(super) context: Context,
    pub(super) stream: StreamHandle,
    /// An array of the library.
    like: Bound<'py, PyAny>,
    /// What makes the stream the library's current one, where it is another.
    within: Option<Bound<'py, PyAny>>,
}

/// Memory for a run besides its operands.
pub(super) enum Scratch<'py> {
    None,
    /// Of the library's, which reuses it in the stream's order.
    Lent(Workspace, Bound<'py, PyAny>),
    /// The stream's.
    Own,
}

/// Of what the address of a workspace is a multiple.
const ALIGNMENT: u64 = 256;

impl<'py> Lender<'py> {
    /// The library that `like` is of, on its device, with the stream that the program names or the library
    /// currently uses.
    pub(super) fn new(
        like: &Bound<'py, PyAny>,
        located: Located,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let py = like.py();
        let Located { library, device } = located;
        let context = state::context(device).map_err(failure)?;
        let named = match stream {
            Some(stream) => Some(StreamHandle::named(stream)?),
            None => None,
        };
        let current = StreamHandle::current(py, library, device)?;
        let stream = named.unwrap_or(current);
        let within = if stream == current { None } else { enters(py, library, device, stream)? };
        Ok(Self { located, context, stream, like: like.clone(), within })
    }

    /// Calls with the stream as the library's current one, and the device as CuPy's and Numba's.
    fn within<R>(&self, call: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        let py = self.like.py();
        let device = match self.located.library {
            Library::CuPy => {
                static DEVICE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let of = DEVICE.import(py, "cupy.cuda", "Device")?;
                let current: u32 = of.call0()?.getattr(intern!(py, "id"))?.extract()?;
                let device = self.located.device;
                if current == device { None } else { Some(of.call1((device,))?) }
            }
            Library::Numba => {
                let gpus = py.import("numba.cuda")?.getattr(intern!(py, "gpus"))?;
                Some(gpus.get_item(self.located.device)?)
            }
            Library::Torch | Library::Jax | Library::Own | Library::Other => None,
        };
        let entered: Vec<_> = device.iter().chain(&self.within).collect();
        let mut opened = Vec::with_capacity(entered.len());
        let mut result = Ok(());
        for manager in entered {
            match manager.call_method0(intern!(py, "__enter__")) {
                Ok(_) => opened.push(manager),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let mut result = result.and_then(|()| call());
        let none = PyTuple::new(py, [py.None(), py.None(), py.None()])?;
        // All of them are left, whatever the first says.
        for manager in opened.into_iter().rev() {
            let left = manager.call_method1(intern!(py, "__exit__"), &none);
            result = result.and_then(|value| left.map(|_| value));
        }
        result
    }

    /// An operand as the library has its numbers in memory: PyTorch's may be marked as the negative of what is
    /// there, and are then written out, in the product's stream.
    pub(super) fn plain(
        &self,
        object: &Bound<'py, PyAny>,
        of: Library,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.like.py();
        let is_own = of == Library::Torch && self.located.library == Library::Torch;
        if !is_own || !object.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
            return Ok(object.clone());
        }
        if name == "out" {
            return Err(PyValueError::new_err(
                "out is marked as the negative of its memory: pass a tensor that is not",
            ));
        }
        let plain = self.within(|| object.call_method0(intern!(py, "resolve_neg")))?;
        self.uses(object)?;
        Ok(plain)
    }

    fn read(&self, object: &Bound<'py, PyAny>, name: &str) -> PyResult<Operand<'py>> {
        let Self { located, context, stream, .. } = self;
        Operand::read(object, name, *located, located.library, context, *stream)
    }

    /// A new array whose elements are whatever they are, contiguous row by row.
    pub(super) fn empty(&self, shape: &[usize], kind: Kind) -> PyResult<Operand<'py>> {
        let py = self.like.py();
        let name = "the result";
        let sizes = PyTuple::new(py, shape)?;
        match self.located.library {
            Library::Torch => {
                let options = PyDict::new(py);
                options.set_item(intern!(py, "dtype"), torch_dtype(py, kind)?)?;
                let empty = self.within(|| {
                    self.like.call_method(intern!(py, "new_empty"), (sizes,), Some(&options))
                })?;
                self.read(&empty, name)
            }
            Library::CuPy => {
                static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let empty = self.within(|| {
                    let dtype = numpy::dtype(py, kind)?;
                    EMPTY.import(py, "cupy", "empty")?.call1((sizes, dtype))
                })?;
                self.read(&empty, name)
            }
            Library::Numba => {
                let empty = self.within(|| {
                    let dtype = numpy::dtype(py, kind)?;
                    let numba = py.import("numba.cuda")?;
                    numba.call_method1(intern!(py, "device_array"), (sizes, dtype))
                })?;
                self.read(&empty, name)
            }
            Library::Jax => {
                let options = PyDict::new(py);
                let devices = self.like.call_method0(intern!(py, "devices"))?;
                let device = devices.call_method0(intern!(py, "pop"))?;
                options.set_item(intern!(py, "dtype"), kind.name())?;
                options.set_item(intern!(py, "device"), device)?;
                let jax = py.import("jax.numpy")?;
                let empty = jax.call_method(intern!(py, "empty"), (sizes,), Some(&options))?;
                let lent = self.read(&empty, name)?;
                // The loan keeps the memory; that array itself nobody else has seen, or will.
                let memory = Memory::Of(lent.kept.unwrap_or(empty).unbind(), lent.address);
                self.own(shape, kind, memory)
            }
            Library::Own | Library::Other => {
                let bytes =
                    shape.iter().try_fold(kind.size(), |all, &count| all.checked_mul(count));
                let memory = state::allocate(&self.context, bytes.unwrap_or(usize::MAX), name)?;
                self.own(shape, kind, Memory::Own(memory))
            }
        }
    }

    /// An array of our own.
    fn own(&self, shape: &[usize], kind: Kind, memory: Memory) -> PyResult<Operand<'py>> {
        let (context, device) = (self.context.clone(), self.located.device);
        let array = DeviceArray::new(context, device, self.stream, (kind, shape.to_vec()), memory);
        let address = array.address();
        let object = Bound::new(self.like.py(), array)?.into_any();
        let strides = contiguous(shape, kind.size().cast_signed());
        Ok(Operand {
            object,
            library: Library::Own,
            kind,
            address,
            shape: shape.to_vec(),
            strides,
            read_only: false,
            kept: None,
        })
    }

    /// A result whose writing has been queued; a new one as an array of the library.
    pub(super) fn finished(
        &self,
        result: Operand<'py>,
        is_new: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.like.py();
        let object = result.object;
        if let Ok(own) = object.cast::<DeviceArray>() {
            if !streams::is_capturing(&self.context, self.stream)? {
                let end = streams::record(&self.context, self.stream)?;
                own.get().is_written(self.stream, end);
            }
            if is_new && self.located.library == Library::Jax {
                let jax = py.import("jax.dlpack")?;
                return jax.call_method1(intern!(py, "from_dlpack"), (object,));
            }
        }
        Ok(object)
    }

    /// Whether the library copies an array in the product's stream.
    pub(super) fn copies(&self, array: &Operand<'_>) -> bool {
        let library = self.located.library;
        matches!(library, Library::Torch | Library::CuPy) && array.library == library
    }

    /// A copy whose rows are contiguous, by the library.
    pub(super) fn contiguous(&self, array: &Operand<'py>, name: &str) -> PyResult<Operand<'py>> {
        let py = self.like.py();
        let object = &array.object;
        if !self.copies(array) {
            return Err(inexpressible(array, name));
        }
        let copied = self.within(|| {
            if array.library == Library::Torch {
                return object.call_method0(intern!(py, "contiguous"));
            }
            py.import("cupy")?.call_method1(intern!(py, "ascontiguousarray"), (object,))
        })?;
        self.used(&[array])?;
        self.read(&copied, name)
    }

    /// Copies an array to another one, to whose shape it is broadcast, by the library.
    pub(super) fn copy(&self, to: &Operand<'py>, from: &Operand<'py>, name: &str) -> PyResult<()> {
        let py = self.like.py();
        if !self.copies(to) || !self.copies(from) {
            return Err(inexpressible(from, name));
        }
        let copied = self.within(|| {
            if from.library == Library::Torch {
                return to.object.call_method1(intern!(py, "copy_"), (&from.object,));
            }
            py.import("cupy")?.call_method1(intern!(py, "copyto"), (&to.object, &from.object))
        });
        copied?;
        self.used(&[to, from])
    }

    /// Memory of that many bytes for a run in the stream.
    pub(super) fn scratch(&self, bytes: u64) -> PyResult<Scratch<'py>> {
        let py = self.like.py();
        if bytes == 0 {
            return Ok(Scratch::None);
        }
        // Whatever multiple the library's allocator keeps to, there is one of ours in it.
        let with_room = bytes.saturating_add(ALIGNMENT);
        let (memory, address): (_, u64) = match self.located.library {
            Library::Torch => {
                let options = PyDict::new(py);
                let dtype = py.import("torch")?.getattr(intern!(py, "uint8"))?;
                options.set_item(intern!(py, "dtype"), dtype)?;
                let memory = self.within(|| {
                    self.like.call_method(intern!(py, "new_empty"), (with_room,), Some(&options))
                })?;
                let address = memory.call_method0(intern!(py, "data_ptr"))?.extract()?;
                (memory, address)
            }
            // A graph keeps none of CuPy's memory.
            Library::CuPy if !streams::is_capturing(&self.context, self.stream)? => {
                let memory = self.within(|| {
                    py.import("cupy.cuda")?.call_method1(intern!(py, "alloc"), (with_room,))
                })?;
                let address = memory.getattr(intern!(py, "ptr"))?.extract()?;
                (memory, address)
            }
            Library::CuPy | Library::Jax | Library::Numba | Library::Own | Library::Other => {
                if streams::is_capturing(&self.context, self.stream)? {
                    return Err(PyValueError::new_err(format!(
                        "a product that needs {bytes} bytes of workspace is captured: give a Plan workspace="
                    )));
                }
                return Ok(Scratch::Own);
            }
        };
        let address = address.next_multiple_of(ALIGNMENT);
        Ok(Scratch::Lent(Workspace { address, bytes }, memory))
    }

    /// Tells PyTorch that tensors are used in a stream that is not its current one, so that their memory is not
    /// reused before that is over.
    pub(super) fn used(&self, tensors: &[&Operand<'py>]) -> PyResult<()> {
        let tensors = tensors.iter().filter(|tensor| tensor.library == Library::Torch);
        self.record(tensors.map(|tensor| &tensor.object))
    }

    /// The same of one that is a tensor.
    pub(super) fn uses(&self, tensor: &Bound<'py, PyAny>) -> PyResult<()> {
        self.record(std::iter::once(tensor))
    }

    fn record<'a>(&self, tensors: impl Iterator<Item = &'a Bound<'py, PyAny>>) -> PyResult<()>
    where
        'py: 'a,
    {
        let py = self.like.py();
        if self.located.library != Library::Torch || self.within.is_none() {
            return Ok(());
        }
        let stream = torch_stream(py, self.located.device, self.stream)?;
        for tensor in tensors {
            tensor.call_method1(intern!(py, "record_stream"), (&stream,))?;
        }
        Ok(())
    }
}

/// What is said of an array whose lines no leading dimension expresses.
pub(super) fn inexpressible(array: &Operand<'_>, name: &str) -> PyErr {
    let Operand { shape, strides, .. } = array;
    PyValueError::new_err(format!(
        "{name} of shape {shape:?} with strides of {strides:?} bytes is no stack of matrices with a leading \
         dimension: make a contiguous copy of it"
    ))
}

/// PyTorch's stream of a handle.
fn torch_stream(py: Python<'_>, device: u32, stream: StreamHandle) -> PyResult<Bound<'_, PyAny>> {
    let cuda = py.import("torch.cuda")?;
    if stream == StreamHandle::LEGACY {
        return cuda.call_method1(intern!(py, "default_stream"), (device,));
    }
    let name = format!("cuda:{device}");
    cuda.call_method1(intern!(py, "ExternalStream"), (stream.number(), name))
}

/// A library's context manager that makes a stream its current one, where it has such.
fn enters(
    py: Python<'_>,
    library: Library,
    device: u32,
    stream: StreamHandle,
) -> PyResult<Option<Bound<'_, PyAny>>> {
    Ok(match library {
        Library::Torch => {
            let stream = torch_stream(py, device, stream)?;
            Some(py.import("torch.cuda")?.call_method1(intern!(py, "stream"), (stream,))?)
        }
        Library::CuPy => {
            let cuda = py.import("cupy.cuda")?;
            let of = cuda.getattr(intern!(py, "Stream"))?;
            Some(match stream {
                StreamHandle::LEGACY => of.getattr(intern!(py, "null"))?,
                StreamHandle::PER_THREAD => of.getattr(intern!(py, "ptds"))?,
                other => {
                    let arguments = (other.number(), device);
                    cuda.call_method1(intern!(py, "ExternalStream"), arguments)?
                }
            })
        }
        Library::Jax | Library::Numba | Library::Own | Library::Other => None,
    })
}

/// A dtype= that names a type of PyTorch's or of NumPy's.
pub(super) fn kind_named(dtype: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let text = dtype.str()?.to_string();
    let kind = match text.strip_prefix("torch.") {
        Some(name) => Kind::from_name(name),
        None => numpy::kind_of(dtype)?,
    };
    let refused =
        || PyTypeError::new_err(format!("dtype: there are no products of {text} on a GPU here"));
    kind.filter(|kind| Kind::ON_GPU.contains(kind)).ok_or_else(refused)
}
