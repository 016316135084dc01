//! A product from arguments to result.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tessera_raw::{Factors, Scalar};

use crate::array::{Array, single, writable};
use crate::epilogue::{self, OnHost};
use crate::product::{self, Settings};
use crate::{device, numpy, settings};

/// Matrix product alpha * (a @ b) + beta * c, by NumPy's rules of shapes.
///
/// Arrays of NumPy, PyTorch, CuPy, JAX, Numba or any library that speaks DLPack or has the CUDA array
/// interface; whatever else NumPy makes arrays of. The result is of a's library, or is written to out. Elements
/// in host memory are promoted as NumPy does it; with dtype=float32 or a float32 out sums of 16-bit floats are
/// not rounded, with dtype=int32 those of int8 not cut off. Arrays on a GPU are multiplied there, in the
/// library's current stream or in stream, without waiting. For arrays in host memory device is "auto", "cpu" or
/// "cuda"; accuracy is "fp32", "componentwise", "tf32" or "bf16". epilogue adds a bias, applies an activation and
/// more before the result is rounded: see Epilogue. b may be a PreparedMatrix.
#[pyfunction]
#[pyo3(
    signature = (a, b, /, out=None, *, alpha=None, beta=None, c=None, accuracy=None, device=None, threads=None, stream=None, dtype=None, epilogue=None),
    text_signature = "(a, b, /, out=None, *, alpha=1, beta=0, c=None, accuracy=None, device=None, threads=None, stream=None, dtype=None, epilogue=None)"
)]
#[expect(clippy::too_many_arguments, reason = "each has a name")]
pub(crate) fn matmul<'py>(
    py: Python<'py>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    out: Option<Bound<'py, PyAny>>,
    alpha: Option<&Bound<'py, PyAny>>,
    beta: Option<&Bound<'py, PyAny>>,
    c: Option<&Bound<'py, PyAny>>,
    accuracy: Option<&str>,
    device: Option<&str>,
    threads: Option<isize>,
    stream: Option<&Bound<'py, PyAny>>,
    dtype: Option<&Bound<'py, PyAny>>,
    epilogue: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let epilogue = epilogue::given(epilogue)?;
    let settings = Settings::given([alpha, beta], device, accuracy, threads)?;
    let c = settings::addend(settings.factors, beta.is_some(), c)?;
    let (b, prepared) = device::right(a, b)?;
    if on_gpu([Some(a), Some(b), out.as_ref(), c])? {
        let out = out.map(single).transpose()?;
        let (Settings { factors, device, accuracy, .. }, planned) = (settings, None);
        let request = device::Request {
            a,
            b,
            c,
            out,
            factors,
            accuracy,
            device,
            stream,
            dtype,
            planned,
            prepared,
            epilogue,
        };
        return device::matmul(py, &request);
    }
    if stream.is_some() {
        return Err(PyValueError::new_err(
            "stream is for arrays on a GPU; these are in host memory",
        ));
    }
    let out = match out {
        Some(out) => Some(writable(single(out)?, "out")?),
        None => None,
    };
    let out_kind = out.as_ref().and_then(|out| out.kind);
    let product = match product::read(a, b)? {
        Some(arrays) => product::prepare(arrays, dtype, out_kind)?,
        None => None,
    };
    let Some(product) = product else {
        if epilogue.is_some() {
            let text = "epilogue is for products of float16, bfloat16, float32 and float64";
            return Err(PyTypeError::new_err(text));
        }
        let out = out.map(|out| out.object);
        return by_numpy(py, [a, b], out, alpha, beta.zip(c), dtype);
    };
    let epilogue = match epilogue {
        Some(epilogue) => Some(OnHost::read(epilogue, product.kind)?),
        None => None,
    };
    let c = match c {
        Some(c) => Some(Array::of(c, "c")?),
        None => None,
    };
    product.multiply(py, (c, out), epilogue.as_ref(), &settings)
}

/// Whether one of the arrays is on a GPU.
pub(crate) fn on_gpu(arrays: [Option<&Bound<'_, PyAny>>; 4]) -> PyResult<bool> {
    let names = ["a", "b", "out", "c"];
    for (array, name) in arrays.into_iter().zip(names) {
        if let Some(array) = array
            && device::locate(array, name)?.is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What NumPy alone multiplies.
fn by_numpy<'py>(
    py: Python<'py>,
    [a, b]: [&Bound<'py, PyAny>; 2],
    out: Option<Bound<'py, PyAny>>,
    alpha: Option<&Bound<'py, PyAny>>,
    beta_and_c: Option<(&Bound<'py, PyAny>, &Bound<'py, PyAny>)>,
    dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(py);
    if let Some(dtype) = dtype {
        options.set_item("dtype", dtype)?;
    }
    let plain = alpha.is_none() && beta_and_c.is_none();
    if let Some(out) = out.as_ref().filter(|_| plain) {
        options.set_item("out", out)?;
    }
    let numpy = numpy::module(py)?;
    let mut result = numpy.call_method(intern!(py, "matmul"), (a, b), Some(&options))?;
    if let Some(alpha) = alpha {
        result = result.mul(alpha)?;
    }
    if let Some((beta, c)) = beta_and_c {
        result = result.add(beta.mul(c)?)?;
    }
    match out {
        Some(out) if !plain => {
            numpy::copy_to(&out, &result, "same_kind")?;
            Ok(out)
        }
        _ => Ok(result),
    }
}

/// How matmul would compute a product now, as a dictionary.
#[pyfunction]
#[pyo3(signature = (a, b, /, *, accuracy=None, device=None, threads=None, dtype=None))]
pub(crate) fn explain<'py>(
    py: Python<'py>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    accuracy: Option<&str>,
    device: Option<&str>,
    threads: Option<isize>,
    dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (device, accuracy) = (settings::device(device)?, settings::accuracy(accuracy)?);
    let (b, prepared) = device::right(a, b)?;
    if on_gpu([Some(a), Some(b), None, None])? {
        let request = device::Request {
            a,
            b,
            c: None,
            out: None,
            factors: Factors::default(),
            accuracy,
            device,
            stream: None,
            dtype,
            planned: None,
            prepared,
            epilogue: None,
        };
        return device::explain(py, &request);
    }
    let told = PyDict::new(py);
    let threads = settings::threads(threads)?;
    let product = match product::read(a, b)? {
        Some(arrays) => product::prepare(arrays, dtype, None)?,
        None => None,
    };
    let Some(product) = product else {
        told.set_item("device", "cpu")?;
        told.set_item("by", "numpy.matmul")?;
        return Ok(told);
    };
    let settings = Settings { factors: Factors::default(), device, accuracy, threads };
    let explained = product.explain(py, None, &settings)?;
    let copied = product.copied(&explained);
    let [m, n, k] = explained.sizes;
    told.set_item("device", explained.device)?;
    told.set_item("by", explained.by)?;
    told.set_item("threads", explained.threads)?;
    told.set_item("products", explained.products)?;
    told.set_item("m", m)?;
    told.set_item("n", n)?;
    told.set_item("k", k)?;
    told.set_item("types", product.scalars.map(Scalar::name))?;
    told.set_item("copied", copied)?;
    Ok(told)
}
