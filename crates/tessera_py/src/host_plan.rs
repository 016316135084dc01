//! A product of arrays in host memory that is planned once.

use std::num::NonZeroUsize;

use gemm_spec::Epilogue as Finishing;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tessera::Error;
use tessera_raw::{Explanation, Scalar};

use crate::array::{Array, single, writable};
use crate::device;
use crate::dlpack::contiguous;
use crate::epilogue::{Epilogue, OTHER_EPILOGUE, OnHost};
use crate::failure::failure;
use crate::family::Family;
use crate::kind::Kind;
use crate::product::{self, Product, Settings};
use crate::shapes::broadcast;
use crate::{numpy, state};

/// A product of arrays in host memory: its settings, which arrays it is of, and by what it is computed.
pub(crate) struct HostPlan {
    settings: Settings,
    dtype: Option<Py<PyAny>>,
    /// The type of the out that it was made with, which may be what the product is computed in.
    out_kind: Option<Kind>,
    a: Planned,
    b: Planned,
    c: Option<Planned>,
    out: Planned,
    kind: Kind,
    epilogue: Finishing,
    scalars: [Scalar; 3],
    explained: Explanation,
    copied: Vec<&'static str>,
}

/// An array that is planned for.
struct Planned {
    kind: Kind,
    shape: Vec<usize>,
    /// In bytes.
    strides: Vec<isize>,
    /// Whether it is in another order of bytes than the machine's.
    swapped: bool,
}

impl Planned {
    fn of(array: &Array<'_>, name: &str) -> PyResult<Self> {
        let (kind, swapped) = (array.known(name)?, array.swapped);
        Ok(Self { kind, shape: array.shape.clone(), strides: array.strides.clone(), swapped })
    }

    /// Fails where another array is given than one that was planned for.
    fn check(&self, given: &Array<'_>, name: &str) -> PyResult<()> {
        let kind = given.known(name)?;
        if kind != self.kind {
            let (given, own) = (kind.name(), self.kind.name());
            return Err(PyTypeError::new_err(format!("{name} is of {given}, the plan of {own}")));
        }
        if given.shape != self.shape {
            return Err(PyValueError::new_err(format!(
                "{name} has the shape {:?}, the plan {:?}",
                given.shape, self.shape
            )));
        }
        // A stride to a second element that is not there means nothing.
        let mut pairs = self.shape.iter().zip(given.strides.iter().zip(&self.strides));
        if !self.shape.contains(&0) && pairs.any(|(&count, (given, own))| count > 1 && given != own)
        {
            return Err(PyValueError::new_err(format!(
                "{name} has strides of {:?} bytes, the plan {:?}",
                given.strides, self.strides
            )));
        }
        if given.swapped != self.swapped {
            let text = format!("{name} is in another order of bytes than the plan's");
            return Err(PyValueError::new_err(text));
        }
        Ok(())
    }
}

/// The product of factors that are multiplied here.
fn product_of<'py>(
    arrays: [Array<'py>; 2],
    dtype: Option<&Bound<'py, PyAny>>,
    out: Option<Kind>,
) -> PyResult<Product<'py>> {
    product::prepare(arrays, dtype, out)?.ok_or_else(by_numpy)
}

/// What is said of arrays that are not.
fn by_numpy() -> PyErr {
    PyTypeError::new_err("NumPy alone multiplies such arrays, which have no Plan: use matmul")
}

/// Fails where a result goes to an array that cannot take it.
fn check_out(out: &Array<'_>, product: &Product<'_>) -> PyResult<()> {
    let shape = product.shapes.result();
    if out.shape != shape {
        return Err(PyValueError::new_err(format!(
            "out has the shape {:?}, the product {shape:?}",
            out.shape
        )));
    }
    let (own, kind) = (out.known("out")?, product.kind);
    let py = out.object.py();
    if own != kind && !(out.family == Family::NumPy && numpy::can_cast(py, kind, own)?) {
        let (own, kind) = (own.name(), kind.name());
        return Err(PyTypeError::new_err(format!("out is of {own}, the product of {kind}")));
    }
    Ok(())
}

impl HostPlan {
    pub(crate) fn new<'py>(
        py: Python<'py>,
        [a, b]: [&Bound<'py, PyAny>; 2],
        (c, out): (Option<&Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>),
        dtype: Option<&Bound<'py, PyAny>>,
        (epilogue, settings): (Option<&Bound<'py, Epilogue>>, Settings),
    ) -> PyResult<Self> {
        let out = match out {
            Some(out) => Some(writable(out, "out")?),
            None => None,
        };
        let out_kind = out.as_ref().and_then(|out| out.kind);
        let [a, b] = product::read(a, b)?.ok_or_else(by_numpy)?;
        let (of_a, of_b) = (Planned::of(&a, "a")?, Planned::of(&b, "b")?);
        let product = product_of([a, b], dtype, out_kind)?;
        let (kind, shape) = (product.kind, product.shapes.result());
        let of_out = match &out {
            Some(out) => {
                check_out(out, &product)?;
                Planned::of(out, "out")?
            }
            None => {
                let strides = contiguous(&shape, kind.size().cast_signed());
                Planned { kind, strides, shape, swapped: false }
            }
        };
        let of_c = match c {
            Some(c) => {
                let c = Array::of(c, "c")?;
                broadcast(c.form(), "c", &of_out.shape)?;
                Some(Planned::of(&c, "c")?)
            }
            None => None,
        };
        // As many as there are now, however many the process asks for later.
        let place = py
            .detach(|| state::place(settings.device, settings.accuracy, settings.threads))
            .map_err(failure)?;
        let all = place.engine.cpu_context().threads();
        let threads = place.threads.or_else(|| NonZeroUsize::new(all));
        let settings = Settings { threads, ..settings };
        let written_there = of_out.kind == product.written;
        let strides = written_there.then_some(&of_out.strides[..]);
        let explained = product.explain(py, strides, &settings)?;
        Ok(Self {
            settings,
            dtype: dtype.map(|dtype| dtype.clone().unbind()),
            out_kind,
            a: of_a,
            b: of_b,
            c: of_c,
            out: of_out,
            kind,
            epilogue: finishing(epilogue, &product)?.0,
            scalars: product.scalars,
            copied: product.copied(&explained),
            explained,
        })
    }

    /// Computes the product of arrays that are those that were planned for, but for where they are.
    pub(crate) fn call<'py>(
        &self,
        py: Python<'py>,
        [a, b]: [&Bound<'py, PyAny>; 2],
        (c, out): (Option<&Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>),
        epilogue: Option<&Bound<'py, Epilogue>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let out = out.map(single).transpose()?;
        // With an out alone, as BLAS has it, that is C.
        let c = self.c.as_ref().and_then(|_| c.or(out.as_ref())).cloned();
        let given = [("a", Some(a)), ("b", Some(b)), ("out", out.as_ref()), ("c", c.as_ref())];
        for (name, array) in given {
            if let Some(array) = array
                && device::locate(array, name)?.is_some()
            {
                let text = format!("{name} is on a GPU, and the plan is of arrays in host memory");
                return Err(PyTypeError::new_err(text));
            }
        }
        let [a, b] = product::read(a, b)?.ok_or_else(by_numpy)?;
        self.a.check(&a, "a")?;
        self.b.check(&b, "b")?;
        let dtype = self.dtype.as_ref().map(|dtype| dtype.bind(py));
        let product = product_of([a, b], dtype, self.out_kind)?;
        if product.kind != self.kind {
            let (given, own) = (product.kind.name(), self.kind.name());
            let text = format!("the product of these arrays is of {given}, the plan of {own}");
            return Err(PyTypeError::new_err(text));
        }
        let out = match out {
            Some(out) => {
                let out = writable(out, "out")?;
                self.out.check(&out, "out")?;
                Some(out)
            }
            None => None,
        };
        let c = match (&self.c, c) {
            (Some(planned), Some(c)) => {
                let c = Array::of(&c, "c")?;
                planned.check(&c, "c")?;
                Some(c)
            }
            (Some(_), None) => {
                let text = "the plan's beta is not zero: give c or out";
                return Err(PyValueError::new_err(text));
            }
            (None, _) => None,
        };
        let (what, epilogue) = finishing(epilogue, &product)?;
        if what != self.epilogue {
            return Err(PyValueError::new_err(OTHER_EPILOGUE));
        }
        product.multiply(py, (c, out), epilogue.as_ref(), &self.settings)
    }

    pub(crate) fn kernel(&self) -> &str {
        &self.explained.by
    }

    pub(crate) fn device(&self) -> &str {
        &self.explained.device
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.out.shape
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn explain(&self) -> String {
        let Explanation { device, by, threads, .. } = &self.explained;
        let copied =
            if self.copied.is_empty() { "nothing".to_owned() } else { self.copied.join(" and ") };
        let words = self.sizes();
        format!("product: {words} on {device}\nkernel: {by}\nthreads: {threads}\ncopied: {copied}")
    }

    pub(crate) fn words(&self) -> String {
        format!("{} by {} on {}", self.sizes(), self.explained.by, self.explained.device)
    }

    /// Types, sizes and number of the products.
    fn sizes(&self) -> String {
        let Explanation { sizes: [m, n, k], products, .. } = self.explained;
        let [a, b, c] = self.scalars.map(Scalar::name);
        let types = if a == b && b == c { a.to_owned() } else { format!("{a} by {b} to {c}") };
        let more = if products == 1 { String::new() } else { format!(", {products} products") };
        format!("{types} {m} x {n} x {k}{more}")
    }
}

/// What is done to a product, and the epilogue with its arrays.
fn finishing<'py>(
    epilogue: Option<&Bound<'py, Epilogue>>,
    product: &Product<'py>,
) -> PyResult<(Finishing, Option<OnHost<'py>>)> {
    let Some(epilogue) = epilogue else { return Ok((Finishing::NONE, None)) };
    let epilogue = OnHost::read(epilogue, product.kind)?;
    let what = epilogue.along(product.shapes.axes())?.what;
    let [a, b, c] = product.scalars;
    if let Some(types) = tessera_raw::types(a, b, c) {
        let refused = |reason| failure(Error::Epilogue { reason });
        what.check_in_host_memory(types).map_err(refused)?;
    }
    Ok((what, Some(epilogue)))
}
