//! A product from arguments to result.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tessera::DType;
use tessera_raw::{
    Batch, Epilogue as RawEpilogue, Factors, Failure, Operands, Scalar, explain as explain_raw,
    multiply_with_epilogue,
};

use crate::array::Array;
use crate::copies::{Lies, copy, is_same, may_overlap};
use crate::epilogue::{self, OnHost};
use crate::failure::failure;
use crate::family::Family;
use crate::kind::{Kind, Way};
use crate::shapes::{Shapes, broadcast};
use crate::{device, numpy, settings, state};

/// The factors of a product, converted to what they are multiplied as.
struct Product<'py> {
    a: Array<'py>,
    b: Array<'py>,
    shapes: Shapes,
    /// The type of the result.
    kind: Kind,
    /// The types that the library multiplies.
    scalars: [Scalar; 3],
    /// The type of what it writes.
    written: Kind,
    /// Whether A and B were converted.
    converted: [bool; 2],
}

/// What becomes of the arguments: a product, or nothing that is multiplied here.
#[expect(clippy::large_enum_variant, reason = "there is one, for a moment")]
enum Prepared<'py> {
    Product(Product<'py>),
    /// Types that NumPy alone multiplies.
    ByNumPy,
}

/// The types in which a result of some kind is computed from factors of some kinds, and whether those are to
/// be converted to another kind first.
fn types(kind: Kind, a: Kind, b: Kind) -> ([Scalar; 3], Kind, Option<Kind>) {
    let [i8, i32] = [DType::I8, DType::I32].map(Scalar::Real);
    match (kind.way(), a, b) {
        // Sums that are not rounded, or not cut off, on their way.
        (_, Kind::F16, Kind::F16) if kind == Kind::F32 => {
            let [f16, f32] = [DType::F16, DType::F32].map(Scalar::Real);
            ([f16, f16, f32], kind, None)
        }
        (_, Kind::BF16, Kind::BF16) if kind == Kind::F32 => {
            let [bf16, f32] = [DType::BF16, DType::F32].map(Scalar::Real);
            ([bf16, bf16, f32], kind, None)
        }
        (_, Kind::I8, Kind::I8) if kind == Kind::I32 => ([i8, i8, i32], kind, None),
        (Way::Direct(scalar), ..) => ([scalar; 3], kind, Some(kind)),
        (Way::FromBytes, ..) => ([i8, i8, i32], Kind::I32, Some(kind)),
        (Way::AsI32, ..) => ([i32; 3], Kind::I32, Some(Kind::I32)),
    }
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

/// Looks at the factors. `out` is the kind of the array that the result goes to.
fn prepare<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    out: Option<Kind>,
) -> PyResult<Prepared<'py>> {
    for object in [a, b] {
        if numpy::is_array(object)? && !numpy::is_plain(object)? {
            return Ok(Prepared::ByNumPy);
        }
    }
    let (a, b) = (Array::of(a, "a")?, Array::of(b, "b")?);
    let both_numpy = a.family == Family::NumPy && b.family == Family::NumPy;
    if both_numpy && (a.kind.is_none() || b.kind.is_none()) {
        return Ok(Prepared::ByNumPy);
    }
    let (of_a, of_b) = (a.known("a")?, b.known("b")?);
    let narrow = matches!((of_a, of_b), (Kind::F16, Kind::F16) | (Kind::BF16, Kind::BF16));
    let kind = match dtype {
        Some(dtype) => numpy::kind_of(dtype)?,
        None if narrow && out == Some(Kind::F32) => out,
        None if of_a == of_b => Some(of_a),
        None if both_numpy => numpy::promoted(&a.object, &b.object)?,
        None => {
            return Err(PyTypeError::new_err(format!(
                "a is of {} and b of {}: convert one of them, or say dtype=",
                of_a.name(),
                of_b.name()
            )));
        }
    };
    let Some(kind) = kind else {
        return if both_numpy {
            Ok(Prepared::ByNumPy)
        } else {
            Err(PyTypeError::new_err("dtype: there are no products of that type here"))
        };
    };
    let shapes = Shapes::of(a.form(), b.form())?;
    let (scalars, written, factors) = types(kind, of_a, of_b);
    let swapped = [a.swapped, b.swapped];
    let ((a, a_converted), (b, b_converted)) = (converted(a, factors)?, converted(b, factors)?);
    let converted = [a_converted || swapped[0], b_converted || swapped[1]];
    // Addresses may be others now.
    let shapes = if [a_converted, b_converted] == [false; 2] {
        shapes
    } else {
        Shapes::of(a.form(), b.form())?
    };
    Ok(Prepared::Product(Product { a, b, shapes, kind, scalars, written, converted }))
}

/// A product's settings besides its arrays.
struct Settings {
    factors: Factors,
    device: tessera::Device,
    accuracy: tessera::Accuracy,
    threads: Option<std::num::NonZeroUsize>,
}

impl Product<'_> {
    /// Computes into an array whose elements are of the written kind.
    fn compute(
        &self,
        py: Python<'_>,
        target: &Array<'_>,
        settings: &Settings,
        epilogue: Option<&OnHost<'_>>,
    ) -> PyResult<()> {
        if target.kind.map(Kind::size) != Some(self.written.size()) {
            return Err(PyRuntimeError::new_err(
                "a fault of this library: a result of another type",
            ));
        }
        let ([a, b, c], batch) = self.shapes.products(target.at, &target.strides);
        let operands = Operands { scalars: self.scalars, a, b, c };
        let Settings { factors, device, accuracy, threads } = *settings;
        let finish = match epilogue {
            Some(epilogue) => epilogue.along(self.shapes.axes())?,
            None => RawEpilogue::NONE,
        };
        let compute = || -> Result<Option<f32>, Failure> {
            let place = state::place(device, accuracy, threads)?;
            // SAFETY: the arrays hold the operands and are kept; the target overlaps neither. That nobody else
            // writes them meanwhile is what every array library asks of its callers. The epilogue's numbers are in arrays
            // that are kept as well.
            unsafe { multiply_with_epilogue(&place, &factors, &operands, &batch, &finish) }
        };
        // Small products take less than to give the lock away and to get it again.
        let small = is_small(&operands, &batch);
        let done = if small { compute() } else { py.detach(compute) };
        let largest = done.map_err(failure)?;
        if let Some(epilogue) = epilogue {
            epilogue.found(largest);
        }
        Ok(())
    }

    /// The result, which is the library's or, where that writes other elements, made of those.
    fn finished<'py>(&self, written: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.kind.way() {
            Way::Direct(_) => Ok(written),
            Way::FromBytes if self.kind == Kind::Bool => {
                written.rich_compare(0, pyo3::basic::CompareOp::Ne)
            }
            Way::FromBytes | Way::AsI32 => numpy::converted(&written, self.kind),
        }
    }
}

/// Multiply-adds up to which a product keeps the lock of the interpreter.
const SMALL: usize = 1 << 14;

fn is_small(operands: &Operands, batch: &Batch) -> bool {
    let sizes =
        [operands.c.rows, operands.c.cols, operands.a.cols, batch.count().unwrap_or(usize::MAX)];
    sizes.into_iter().fold(1, usize::saturating_mul) <= SMALL
}

/// A new array of NumPy's for what is written; of bfloat16 for another library as int16, which
/// every library takes.
fn empty<'py>(py: Python<'py>, product: &Product<'py>) -> PyResult<Bound<'py, PyAny>> {
    let shape = product.shapes.result();
    let (kind, is_numpy) = (product.written, product.a.family == Family::NumPy);
    let dtype = if is_numpy && product.a.kind == Some(kind) {
        product.a.object.getattr(intern!(py, "dtype"))?
    } else if kind == Kind::BF16 && !is_numpy {
        numpy::dtype(py, Kind::I16)?
    } else {
        numpy::dtype(py, kind)?
    };
    if is_numpy {
        numpy::empty(py, &shape, &dtype)
    } else {
        numpy::empty_aligned(py, &shape, &dtype, kind.size())
    }
}

/// Copies C to where the result will be.
fn copy_c(
    py: Python<'_>,
    c: &Array<'_>,
    target: &Array<'_>,
    product: &Product<'_>,
    shape: &[usize],
) -> PyResult<()> {
    let own = c.known("c")?;
    let wider = own != product.written;
    if wider && !(c.family == Family::NumPy && numpy::can_cast(py, own, product.kind)?) {
        return Err(PyTypeError::new_err(format!(
            "c is of {}, which is not cast to the result's {}",
            own.name(),
            product.kind.name()
        )));
    }
    let held;
    let c = if wider {
        held = Array::of(&numpy::converted(&c.object, product.written)?, "c")?;
        &held
    } else {
        c
    };
    let strides = broadcast(c.form(), "c", shape)?;
    let (to, from) =
        (Lies { at: target.at, strides: &target.strides }, Lies { at: c.at, strides: &strides });
    // SAFETY: both have elements of that size in that shape; they are apart or the same array.
    unsafe { copy(to, from, shape, product.written.size()) };
    Ok(())
}

/// Matrix product alpha * (a @ b) + beta * c, by NumPy's rules of shapes.
///
/// Arrays of NumPy, PyTorch, CuPy, JAX, Numba or any library that speaks DLPack or has the CUDA array
/// interface; whatever else NumPy makes arrays of. The result is of a's library, or is written to out. Elements
/// in host memory are promoted as NumPy does it; with dtype=float32 or a float32 out sums of 16-bit floats are
/// not rounded, with dtype=int32 those of int8 not cut off. Arrays on a GPU are multiplied there, in the
/// library's current stream or in stream, without waiting. For arrays in host memory device is "auto", "cpu" or
/// "cuda"; accuracy is "fp32", "componentwise", "tf32" or "bf16". epilogue adds a bias, applies an activation and
/// more before the result is rounded: see Epilogue.
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
    let settings = Settings {
        factors: settings::factors(alpha, beta)?,
        device: settings::device(device)?,
        accuracy: settings::accuracy(accuracy)?,
        threads: settings::threads(threads)?,
    };
    let c = settings::addend(settings.factors, beta.is_some(), c)?;
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
    let Prepared::Product(product) = prepare(a, b, dtype, out_kind)? else {
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
    let shape = product.shapes.result();
    let c = match c {
        Some(c) => Some(Array::of(c, "c")?),
        None => None,
    };

    if let Some(out) = &out {
        if out.shape != shape {
            return Err(PyValueError::new_err(format!(
                "out has the shape {:?}, the product {shape:?}",
                out.shape
            )));
        }
        let c_is_apart = c.as_ref().is_none_or(|c| is_same(c, out) || !may_overlap(c, out));
        let in_place = out.kind == Some(product.kind)
            && product.written == product.kind
            && !may_overlap(out, &product.a)
            && !may_overlap(out, &product.b)
            && c_is_apart;
        if in_place {
            if let Some(c) = c.filter(|c| !is_same(c, out)) {
                copy_c(py, &c, out, &product, &shape)?;
            }
            product.compute(py, out, &settings, epilogue.as_ref())?;
            return Ok(out.object.clone());
        }
    }

    let written = empty(py, &product)?;
    let target = Array::of(&written, "the result")?;
    if let Some(c) = &c {
        copy_c(py, c, &target, &product, &shape)?;
    }
    product.compute(py, &target, &settings, epilogue.as_ref())?;
    let result = product.finished(written)?;
    let Some(out) = out else {
        if product.shapes.is_number() && product.a.family == Family::NumPy {
            return result.get_item(PyTuple::empty(py));
        }
        return product.a.family.take(result, product.kind, &product.a.object);
    };
    if out.family == Family::NumPy {
        numpy::copy_to(&out.object, &result, "same_kind")?;
    } else if out.kind == Some(product.kind) {
        let result = Array::of(&result, "the result")?;
        let to = Lies { at: out.at, strides: &out.strides };
        let from = Lies { at: result.at, strides: &result.strides };
        // SAFETY: both have elements of that kind in that shape, and the result is a new array.
        unsafe { copy(to, from, &shape, product.kind.size()) };
    } else {
        let (own, wanted) = (out.known("out")?.name(), product.kind.name());
        return Err(PyTypeError::new_err(format!("out is of {own}, the product of {wanted}")));
    }
    Ok(out.object)
}

/// Whether one of the arrays is on a GPU.
fn on_gpu(arrays: [Option<&Bound<'_, PyAny>>; 4]) -> PyResult<bool> {
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
            epilogue: None,
        };
        return device::explain(py, &request);
    }
    let told = PyDict::new(py);
    let threads = settings::threads(threads)?;
    let Prepared::Product(product) = prepare(a, b, dtype, None)? else {
        told.set_item("device", "cpu")?;
        told.set_item("by", "numpy.matmul")?;
        return Ok(told);
    };
    let shape = product.shapes.result();
    let size = product.written.size().cast_signed();
    let strides = crate::dlpack::contiguous(&shape, size);
    // Aligned as a new array is.
    let nowhere = std::ptr::without_provenance_mut(64);
    let ([a, b, c], batch) = product.shapes.products(nowhere, &strides);
    let operands = Operands { scalars: product.scalars, a, b, c };
    let factors = Factors::default();
    let explained = py.detach(|| {
        let place = state::place(device, accuracy, threads)?;
        explain_raw(&place, &factors, &operands, &batch)
    });
    let explained = explained.map_err(failure)?;
    let [m, n, k] = explained.sizes;
    let copied: Vec<&str> = ["a", "b"]
        .into_iter()
        .zip(explained.copied.into_iter().zip(product.converted))
        .filter_map(|(name, (copied, converted))| (copied || converted).then_some(name))
        .collect();
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
