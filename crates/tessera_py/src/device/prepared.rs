//! A right factor that is split into limbs once.

use cuda_lazy::DeviceMemory;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tessera::gpu::{Context, GemmDesc, Limbs, Operand as Factor, PlanLimits, PreparedFactor};
use tessera::{Layout, Types};
use tessera_raw::Strided;

use super::layout::layout;
use super::lender::{Lender, inexpressible};
use super::operand::{Operand, locate, pointer};
use super::{refused, state, streams};
use crate::failure::failure;
use crate::kind::Kind;
use crate::settings;

/// PreparedMatrix(array, /, *, limbs="two_f16", accuracy=None, stream=None)
/// --
///
/// The right factor of float32 products on a GPU, split into limbs once: matmul, Plan and explain take it as b, and
/// split a alone.
///
/// array has two dimensions and is kept. Nobody may write it from now on: what limbs do not hold, as infinities, is
/// read from it. limbs is "two_f16", which keeps to the accuracy "fp32" in as many bytes as the array, or "three_bf16",
/// which keeps to "componentwise" as well in half as many again.
///
/// The splitting is queued in the library's current stream or in stream, and waited for, so that every stream may use
/// what comes of it. A graph that uses it does not keep it.
#[pyclass(frozen, module = "tessera")]
pub(crate) struct PreparedMatrix {
    /// What was split.
    #[pyo3(get)]
    array: Py<PyAny>,
    limbs: Limbs,
    device: u32,
    address: u64,
    shape: Vec<usize>,
    /// In bytes.
    strides: Vec<isize>,
    // Dropped in this order: memory goes before the context that it is of.
    memory: Option<DeviceMemory>,
    context: Context,
}

/// The name of the array in messages.
const NAME: &str = "array";

/// "two_f16" or "three_bf16".
pub(crate) fn limbs_named(name: &str, argument: &str) -> PyResult<Limbs> {
    match name {
        "two_f16" => Ok(Limbs::TwoF16),
        "three_bf16" => Ok(Limbs::ThreeBf16),
        _ => Err(PyValueError::new_err(format!(
            "{argument} is {name:?}; it may be \"two_f16\" or \"three_bf16\""
        ))),
    }
}

/// The reverse.
pub(super) const fn name_of(limbs: Limbs) -> &'static str {
    match limbs {
        Limbs::TwoF16 => "two_f16",
        Limbs::ThreeBf16 => "three_bf16",
    }
}

/// B as an array, and what it was prepared to where it was. A is never one that was.
pub(crate) fn right<'a, 'py>(
    a: &Bound<'py, PyAny>,
    b: &'a Bound<'py, PyAny>,
) -> PyResult<(&'a Bound<'py, PyAny>, Option<&'a PreparedMatrix>)> {
    if a.is_instance_of::<PreparedMatrix>() {
        return Err(PyTypeError::new_err(
            "a is a PreparedMatrix, which is a right factor: pass it as b, of transposed arrays if need be",
        ));
    }
    Ok(match b.cast::<PreparedMatrix>() {
        Ok(prepared) => {
            let prepared = prepared.get();
            (prepared.array.bind(b.py()), Some(prepared))
        }
        Err(_) => (b, None),
    })
}

impl PreparedMatrix {
    pub(super) fn limbs(&self) -> Limbs {
        self.limbs
    }

    /// Where the limbs are.
    pub(super) fn factor(&self) -> PreparedFactor {
        let memory = self.memory.as_ref();
        PreparedFactor {
            address: memory.map_or(0, DeviceMemory::address),
            bytes: self.limb_bytes() as u64,
        }
    }

    /// Fails where the array's elements are no longer those that were split, as of a tensor that was resized.
    pub(super) fn check(&self, array: &Operand<'_>) -> PyResult<()> {
        if array.address == self.address
            && array.shape == self.shape
            && array.strides == self.strides
        {
            return Ok(());
        }
        Err(PyValueError::new_err(
            "the array of b has other memory, shape or strides than when it was prepared: prepare it anew",
        ))
    }

    /// One that is not split, for tests on a device without kernels for it.
    #[cfg(feature = "emulated")]
    pub(crate) fn unsplit(array: &Bound<'_, PyAny>, limbs: &str) -> PyResult<Self> {
        let (lender, array) = read(array, None)?;
        let memory = state::allocate(&lender.context, 1, WHAT)?;
        Ok(Self::of(&lender, array, limbs_named(limbs, "limbs")?, memory))
    }

    fn of(lender: &Lender<'_>, array: Operand<'_>, limbs: Limbs, memory: DeviceMemory) -> Self {
        let Operand { object, address, shape, strides, .. } = array;
        let (device, context) = (lender.located.device, lender.context.clone());
        let (array, memory) = (object.unbind(), Some(memory));
        Self { array, limbs, device, address, shape, strides, memory, context }
    }
}

/// What is allocated, in messages.
const WHAT: &str = "a prepared matrix";

/// An array that may be split, ready in the stream.
fn read<'py>(
    array: &Bound<'py, PyAny>,
    stream: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Lender<'py>, Operand<'py>)> {
    let Some(located) = locate(array, NAME)? else {
        return Err(PyTypeError::new_err("array must be an array on a GPU: copy it there"));
    };
    let lender = Lender::new(array, located, stream)?;
    if streams::is_capturing(&lender.context, lender.stream)? {
        return Err(PyValueError::new_err(
            "the stream is being captured: prepare the matrix before, since that waits for the GPU",
        ));
    }
    let object = lender.plain(array, located.library, NAME)?;
    let (context, stream) = (&lender.context, lender.stream);
    let array = Operand::read(&object, NAME, located, located.library, context, stream)?;
    if array.kind != Kind::F32 {
        let text = format!("array is of {}: only float32 is split into limbs", array.kind.name());
        return Err(PyTypeError::new_err(text));
    }
    if array.shape.len() != 2 || array.shape.contains(&0) {
        return Err(PyValueError::new_err(format!(
            "array has the shape {:?}, it must have two dimensions, neither of them empty",
            array.shape
        )));
    }
    Ok((lender, array))
}

/// The array as the matrix B of products.
fn factor_of(array: &Operand<'_>) -> Option<(Layout, [usize; 2])> {
    let (&[rows, cols], &[row_stride, col_stride]) = (&array.shape[..], &array.strides[..]) else {
        return None;
    };
    let at = pointer(array.address);
    let matrix = Strided { at, rows, cols, row_stride, col_stride };
    Some((layout(&matrix, array.kind.size())?, [rows, cols]))
}

#[pymethods]
impl PreparedMatrix {
    #[new]
    #[pyo3(
        signature = (array, /, *, limbs="two_f16", accuracy=None, stream=None),
        text_signature = "(array, /, *, limbs=\"two_f16\", accuracy=None, stream=None)"
    )]
    fn new(
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        limbs: &str,
        accuracy: Option<&str>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        state::release();
        let limbs = limbs_named(limbs, "limbs")?;
        let accuracy = settings::accuracy(accuracy)?;
        let (lender, array) = read(array, stream)?;
        let (of_b, [k, n]) = factor_of(&array).ok_or_else(|| inexpressible(&array, NAME))?;
        // How many rows the other factor has does not matter.
        let desc = GemmDesc::new(Types::F32, 1, n, k)
            .with_layouts(Layout::row_major(k), of_b, Layout::row_major(n))
            .with_accuracy(accuracy)
            .with_prepared(Factor::B, limbs);
        let limits = PlanLimits::default().for_addresses(&[array.address]);
        let device = lender.located.device;
        let plan = py.detach(|| state::plan(device, desc, limits)).map_err(failure)?;
        let bytes = usize::try_from(plan.prepared_bytes()).unwrap_or(usize::MAX);
        let memory = state::allocate(&lender.context, bytes, WHAT)?;
        let (stream, address) = (lender.stream, array.address);
        let prepared = Self::of(&lender, array, limbs, memory);
        let factor = prepared.factor();
        // SAFETY: (1) the array is one of its library in the primary context of the device, which is the plan's, and as
        // long as its shape and strides say; the memory is new and as long as the plan asks. (2) The program names a
        // stream of the context. The array is kept, and that nobody writes it meanwhile is what every array library
        // asks of its callers; the memory is nobody else's before the stream was waited for, and where that fails the
        // driver waits when it is freed.
        let queued = py.detach(|| unsafe { plan.prepare(stream.raw(), address, factor) });
        queued.map_err(failure)?;
        let end = streams::record(&lender.context, stream)?;
        let context = &lender.context;
        let waited = py.detach(|| {
            let _allowed = streams::relaxed(context);
            end.synchronize()
        });
        waited.map_err(refused("waiting for a matrix to be prepared"))?;
        Ok(prepared)
    }

    /// How many rows and columns it has.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The name of the type of the array's elements.
    #[getter]
    fn dtype(&self) -> &'static str {
        Kind::F32.name()
    }

    /// The GPU, as device= names it.
    #[getter]
    #[pyo3(name = "device")]
    fn device_name(&self) -> String {
        format!("cuda:{}", self.device)
    }

    /// What each element was split into, as limbs= names it.
    #[getter]
    #[pyo3(name = "limbs")]
    fn limbs_name(&self) -> &'static str {
        name_of(self.limbs)
    }

    /// Bytes of device memory that the limbs take, besides those of the array.
    #[getter]
    fn limb_bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, DeviceMemory::len)
    }

    fn __repr__(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        let (shape, dtype, limbs) = (shape.join(", "), self.dtype(), name_of(self.limbs));
        let device = self.device;
        format!(
            "tessera.PreparedMatrix(shape=({shape}), dtype={dtype}, device=cuda:{device}, limbs={limbs})"
        )
    }
}

impl Drop for PreparedMatrix {
    fn drop(&mut self) {
        let _allowed = streams::relaxed(&self.context);
        // The driver waits for the users of its memory; the array goes after that.
        drop(self.memory.take());
    }
}
