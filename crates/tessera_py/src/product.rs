//! A product of arrays in host memory, from arguments to result.

use std::num::NonZeroUsize;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tessera::DType;
use tessera_raw::{
    Batch, Epilogue as RawEpilogue, Explanation, Factors, Failure, Operands, Scalar,
    explain as explain_raw, multiply_with_epilogue,
};

use crate::array::{Array, converted};
use crate::copies::{Lies, copy, is_same, may_overlap};
use crate::dlpack::contiguous;
use crate::epilogue::OnHost;
use crate::failure::failure;
use crate::family::Family;
use crate::kind::{Kind, Way};
use crate::shapes::{Shapes, broadcast};
use crate::{numpy, settings, state};

/// The factors of a product, converted to what they are multiplied as.
pub(crate) struct Product<'py> {
    a: Array<'py>,
    b: Array<'py>,
    pub(crate) shapes: Shapes,
    /// The type of the result.
    pub(crate) kind: Kind,
    /// The types that the library multiplies.
    pub(crate) scalars: [Scalar; 3],
    /// The type of what it writes.
    pub(crate) written: Kind,
    /// Whether A and B were converted.
    converted: [bool; 2],
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

/// The factors; `None` for those that NumPy alone multiplies.
pub(crate) fn read<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
) -> PyResult<Option<[Array<'py>; 2]>> {
    for object in [a, b] {
        if numpy::is_array(object)? && !numpy::is_plain(object)? {
            return Ok(None);
        }
    }
    let (a, b) = (Array::of(a, "a")?, Array::of(b, "b")?);
    let by_numpy = are_numpys(&a, &b) && (a.kind.is_none() || b.kind.is_none());
    Ok((!by_numpy).then_some([a, b]))
}

fn are_numpys(a: &Array<'_>, b: &Array<'_>) -> bool {
    a.family == Family::NumPy && b.family == Family::NumPy
}

/// The product of factors; `None` where NumPy alone has one of that type. `out` is the kind of the array that the
/// result goes to.
pub(crate) fn prepare<'py>(
    [a, b]: [Array<'py>; 2],
    dtype: Option<&Bound<'py, PyAny>>,
    out: Option<Kind>,
) -> PyResult<Option<Product<'py>>> {
    let both_numpy = are_numpys(&a, &b);
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
            Ok(None)
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
    Ok(Some(Product { a, b, shapes, kind, scalars, written, converted }))
}

/// A product's settings besides its arrays.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) factors: Factors,
    pub(crate) device: tessera::Device,
    pub(crate) accuracy: tessera::Accuracy,
    pub(crate) threads: Option<NonZeroUsize>,
}

impl Settings {
    /// As arguments of the same names say.
    pub(crate) fn given(
        [alpha, beta]: [Option<&Bound<'_, PyAny>>; 2],
        device: Option<&str>,
        accuracy: Option<&str>,
        threads: Option<isize>,
    ) -> PyResult<Self> {
        Ok(Self {
            factors: settings::factors(alpha, beta)?,
            device: settings::device(device)?,
            accuracy: settings::accuracy(accuracy)?,
            threads: settings::threads(threads)?,
        })
    }
}

impl<'py> Product<'py> {
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
    fn finished(&self, written: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.kind.way() {
            Way::Direct(_) => Ok(written),
            Way::FromBytes if self.kind == Kind::Bool => {
                written.rich_compare(0, pyo3::basic::CompareOp::Ne)
            }
            Way::FromBytes | Way::AsI32 => numpy::converted(&written, self.kind),
        }
    }

    /// Computes it into `out` or a new array, with a C that is added.
    pub(crate) fn multiply(
        &self,
        py: Python<'py>,
        (c, out): (Option<Array<'py>>, Option<Array<'py>>),
        epilogue: Option<&OnHost<'_>>,
        settings: &Settings,
    ) -> PyResult<Bound<'py, PyAny>> {
        let shape = self.shapes.result();
        if let Some(out) = &out {
            if out.shape != shape {
                return Err(PyValueError::new_err(format!(
                    "out has the shape {:?}, the product {shape:?}",
                    out.shape
                )));
            }
            let c_is_apart = c.as_ref().is_none_or(|c| is_same(c, out) || !may_overlap(c, out));
            let in_place = out.kind == Some(self.kind)
                && self.written == self.kind
                && !may_overlap(out, &self.a)
                && !may_overlap(out, &self.b)
                && c_is_apart;
            if in_place {
                if let Some(c) = c.filter(|c| !is_same(c, out)) {
                    copy_c(py, &c, out, self, &shape)?;
                }
                self.compute(py, out, settings, epilogue)?;
                return Ok(out.object.clone());
            }
        }

        let written = empty(py, self)?;
        let target = Array::of(&written, "the result")?;
        if let Some(c) = &c {
            copy_c(py, c, &target, self, &shape)?;
        }
        self.compute(py, &target, settings, epilogue)?;
        let result = self.finished(written)?;
        let Some(out) = out else {
            if self.shapes.is_number() && self.a.family == Family::NumPy {
                return result.get_item(PyTuple::empty(py));
            }
            return self.a.family.take(result, self.kind, &self.a.object);
        };
        if out.family == Family::NumPy {
            numpy::copy_to(&out.object, &result, "same_kind")?;
        } else if out.kind == Some(self.kind) {
            let result = Array::of(&result, "the result")?;
            let to = Lies { at: out.at, strides: &out.strides };
            let from = Lies { at: result.at, strides: &result.strides };
            // SAFETY: both have elements of that kind in that shape, and the result is a new array.
            unsafe { copy(to, from, &shape, self.kind.size()) };
        } else {
            let (own, wanted) = (out.known("out")?.name(), self.kind.name());
            return Err(PyTypeError::new_err(format!("out is of {own}, the product of {wanted}")));
        }
        Ok(out.object)
    }

    /// How it would be computed into an array with these strides, or a new one.
    pub(crate) fn explain(
        &self,
        py: Python<'_>,
        strides: Option<&[isize]>,
        settings: &Settings,
    ) -> PyResult<Explanation> {
        let new = contiguous(&self.shapes.result(), self.written.size().cast_signed());
        // Aligned as a new array is.
        let nowhere = std::ptr::without_provenance_mut(64);
        let ([a, b, c], batch) = self.shapes.products(nowhere, strides.unwrap_or(&new));
        let operands = Operands { scalars: self.scalars, a, b, c };
        let Settings { factors, device, accuracy, threads } = *settings;
        let explained = py.detach(|| {
            let place = state::place(device, accuracy, threads)?;
            explain_raw(&place, &factors, &operands, &batch)
        });
        explained.map_err(failure)
    }

    /// The names of the factors that are copied or converted.
    pub(crate) fn copied(&self, explained: &Explanation) -> Vec<&'static str> {
        let each = explained.copied.into_iter().zip(self.converted);
        let each = ["a", "b"].into_iter().zip(each);
        each.filter_map(|(name, (copied, converted))| (copied || converted).then_some(name))
            .collect()
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
