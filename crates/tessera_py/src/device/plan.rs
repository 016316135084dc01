//! Products that are planned once.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tessera::gpu::{Plan as GpuPlan, PlanLimits, Workspace};
use tessera::{Accuracy, Device};

use super::layout::Arranged;
use super::lender::kind_named;
use super::library::Library;
use super::operand::{Operand, locate, pointer};
use super::product::{
    Read, Request, Terms, arranged, check_out, epilogue_of, launch_plan, named, one_device, read,
    real, types,
};
use super::state;
use crate::dlpack::contiguous;
use crate::epilogue;
use crate::failure::failure;
use crate::kind::Kind;
use crate::settings;
use crate::shapes::{Form, Shapes};

/// Plan(a, b, /, *, c=None, out=None, alpha=1, beta=0, accuracy=None, dtype=None, workspace_limit=None, epilogue=None)
/// --
///
/// A product of arrays on a GPU that is planned once and launched often.
///
/// The kernel is picked and loaded here, by shapes, strides, types and device; plan(a, b) launches it for arrays
/// of the same ones, and does nothing else that a CUDA graph could not capture.
#[pyclass(frozen, module = "tessera")]
pub(crate) struct Plan {
    plan: GpuPlan,
    arranged: Arranged,
    terms: Terms,
    device: u32,
    shape: Vec<usize>,
}

/// A matrix that is planned for, by its shape and whether its columns are contiguous rather than its rows.
fn form(shape: &[usize], by_columns: bool, size: usize) -> Vec<isize> {
    let mut strides = contiguous(shape, size.cast_signed());
    if by_columns && let [.., rows, _] = *shape {
        let last = strides.len();
        strides[last - 2] = size.cast_signed();
        strides[last - 1] = size.saturating_mul(rows.max(1)).cast_signed();
    }
    strides
}

/// "C" or "F", as NumPy names orders; the second is the answer.
fn by_columns(order: &str, name: &str) -> PyResult<bool> {
    match order {
        "C" => Ok(false),
        "F" => Ok(true),
        _ => Err(PyValueError::new_err(format!("{name} is {order:?}; it may be \"C\" or \"F\""))),
    }
}

impl Plan {
    fn new(
        py: Python<'_>,
        device: u32,
        terms: Terms,
        arranged: Arranged,
        shape: Vec<usize>,
    ) -> PyResult<Self> {
        let plan =
            py.detach(|| state::plan(device, arranged.desc, arranged.limits)).map_err(failure)?;
        Ok(Self { plan, arranged, terms, device, shape })
    }

    /// Whether it is the plan of such launches.
    fn check(&self, of: &Arranged) -> PyResult<()> {
        if of.desc != self.arranged.desc || of.outer != self.arranged.outer {
            return Err(self.misfit());
        }
        let (own, given) = (self.arranged.limits.alignment, of.limits.alignment);
        if given < own {
            return Err(PyValueError::new_err(format!(
                "the addresses of the arrays are multiples of {given} bytes, those of the plan of {own}"
            )));
        }
        Ok(())
    }

    fn misfit(&self) -> PyErr {
        PyValueError::new_err(format!(
            "the arrays are of other shapes or strides than those that {:?} was made for",
            self.plan
        ))
    }

    /// The memory that a program gives for a run.
    fn workspace(&self, given: &Bound<'_, PyAny>) -> PyResult<Workspace> {
        let located = locate(given, "workspace")?;
        if located.is_none_or(|located| located.device != self.device) {
            let text = format!("workspace must be an array on cuda:{}", self.device);
            return Err(PyTypeError::new_err(text));
        }
        let py = given.py();
        let missing =
            || PyTypeError::new_err("workspace must have data_ptr() or __cuda_array_interface__");
        let number = |name: &str| -> PyResult<Option<u64>> {
            match given.getattr_opt(name)? {
                Some(found) if found.is_callable() => Ok(found.call0()?.extract().ok()),
                Some(found) => Ok(found.extract().ok()),
                None => Ok(None),
            }
        };
        let address = match number("data_ptr")? {
            Some(address) => address,
            None => {
                let interface = given.getattr_opt(intern!(py, "__cuda_array_interface__"))?;
                let interface = interface.ok_or_else(missing)?;
                let (address, _): (u64, bool) = interface.get_item("data")?.extract()?;
                address
            }
        };
        let bytes =
            number("nbytes")?.ok_or_else(|| PyTypeError::new_err("workspace must have nbytes"))?;
        Ok(Workspace { address, bytes })
    }
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(
        signature = (a, b, /, *, c=None, out=None, alpha=None, beta=None, accuracy=None, dtype=None, workspace_limit=None, epilogue=None),
        text_signature = "(a, b, /, *, c=None, out=None, alpha=1, beta=0, accuracy=None, dtype=None, workspace_limit=None, epilogue=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "each has a name")]
    fn of_arrays<'py>(
        py: Python<'py>,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        c: Option<&Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
        alpha: Option<&Bound<'py, PyAny>>,
        beta: Option<&Bound<'py, PyAny>>,
        accuracy: Option<&str>,
        dtype: Option<&Bound<'py, PyAny>>,
        workspace_limit: Option<u64>,
        epilogue: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let epilogue = epilogue::given(epilogue)?;
        let factors = settings::factors(alpha, beta)?;
        let c = settings::addend(factors, beta.is_some(), c)?;
        let accuracy = settings::accuracy(accuracy)?;
        let found = one_device(&[("a", Some(a)), ("b", Some(b))], Device::Auto)?;
        if found.iter().any(Option::is_none) {
            return Err(PyTypeError::new_err("a Plan is for arrays on a GPU; a is in host memory"));
        }
        let request = Request {
            a,
            b,
            c,
            out,
            factors,
            accuracy,
            device: Device::Auto,
            stream: None,
            dtype,
            planned: None,
            epilogue,
        };
        let Read { lender, a, b, c, out, types, numbers } = read(&request)?;
        let shapes = Shapes::of(a.form(), b.form())?;
        let (epilogue, _) = epilogue_of(epilogue, &numbers, &shapes)?;
        let shape = shapes.result();
        if let Some(out) = &out {
            check_out(out, &shape, &[("a", &a), ("b", &b)])?;
        }
        let size = Kind::of_dtype(types.c()).size().cast_signed();
        let strides = contiguous(&shape, size);
        let new = Form { at: pointer(0), shape: &shape, strides: &strides };
        let d = out.as_ref().map_or(new, Operand::form);
        let terms = Terms { types, factors: real(factors)?, accuracy, epilogue };
        let of_c = c.as_ref().map(Operand::form);
        let workspace = workspace_limit.unwrap_or(u64::MAX);
        let limits = PlanLimits { workspace, ..PlanLimits::default() };
        let arranged = arranged(&shapes, terms, (d, of_c), limits)?;
        Self::new(py, lender.located.device, terms, arranged, shape)
    }

    /// A plan by shapes, for matrices that are contiguous by rows ("C") or by columns ("F").
    ///
    /// dtype is the type of a and b, out_dtype that of the result, alignment what the addresses of the
    /// arrays will be multiples of.
    ///
    /// bias, activation, row_scale, column_scale and amax are the epilogue's, whose arrays each call gives: bias is
    /// "row" or "column", for a number for each of them.
    #[staticmethod]
    #[pyo3(
        signature = (a_shape, b_shape, /, dtype, *, out_dtype=None, a_order="C", b_order="C", out_order="C", alpha=None, beta=None, accuracy=None, device="cuda:0", workspace_limit=None, alignment=16, bias=None, activation=None, row_scale=false, column_scale=false, amax=false),
        text_signature = "(a_shape, b_shape, /, dtype, *, out_dtype=None, a_order=\"C\", b_order=\"C\", out_order=\"C\", alpha=1, beta=0, accuracy=None, device=\"cuda:0\", workspace_limit=None, alignment=16, bias=None, activation=None, row_scale=False, column_scale=False, amax=False)"
    )]
    #[expect(clippy::too_many_arguments, reason = "each has a name")]
    fn from_shapes(
        py: Python<'_>,
        a_shape: Vec<usize>,
        b_shape: Vec<usize>,
        dtype: &Bound<'_, PyAny>,
        out_dtype: Option<&Bound<'_, PyAny>>,
        a_order: &str,
        b_order: &str,
        out_order: &str,
        alpha: Option<&Bound<'_, PyAny>>,
        beta: Option<&Bound<'_, PyAny>>,
        accuracy: Option<&str>,
        device: &str,
        workspace_limit: Option<u64>,
        alignment: u64,
        bias: Option<&str>,
        activation: Option<&str>,
        row_scale: bool,
        column_scale: bool,
        amax: bool,
    ) -> PyResult<Self> {
        let Device::Cuda(device) = settings::device(Some(device))? else {
            return Err(PyValueError::new_err("device of a Plan is \"cuda\" or \"cuda:0\""));
        };
        let kind = kind_named(dtype)?;
        let wanted = match out_dtype {
            Some(wanted) => Some(kind_named(wanted)?),
            None => None,
        };
        let types = types(kind, kind, wanted)?;
        let accuracy: Accuracy = settings::accuracy(accuracy)?;
        let factors = real(settings::factors(alpha, beta)?)?;
        let at = pointer(0);
        let a = form(&a_shape, by_columns(a_order, "a_order")?, kind.size());
        let b = form(&b_shape, by_columns(b_order, "b_order")?, kind.size());
        let shapes = Shapes::of(
            Form { at, shape: &a_shape, strides: &a },
            Form { at, shape: &b_shape, strides: &b },
        )?;
        let shape = shapes.result();
        let size = Kind::of_dtype(types.c()).size();
        let d = form(&shape, by_columns(out_order, "out_order")?, size);
        let epilogue = epilogue::planned(bias, activation, [row_scale, column_scale, amax])?;
        let terms = Terms { types, factors, accuracy, epilogue };
        let limits = PlanLimits { workspace: workspace_limit.unwrap_or(u64::MAX), alignment };
        let d = Form { at, shape: &shape, strides: &d };
        let arranged = arranged(&shapes, terms, (d, None), limits)?;
        Self::new(py, device, terms, arranged, shape)
    }

    /// Queues the product of two arrays in a stream; the result is a new array, or is written to out. epilogue has the
    /// arrays of the epilogue that was planned for.
    #[pyo3(signature = (a, b, /, out=None, *, c=None, stream=None, workspace=None, epilogue=None))]
    #[expect(clippy::too_many_arguments, reason = "each has a name")]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
        c: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
        workspace: Option<&Bound<'py, PyAny>>,
        epilogue: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        state::release();
        let epilogue = epilogue::given(epilogue)?;
        let result = Kind::of_dtype(self.terms.types.c());
        let reads_c = self.terms.factors[1] != 0.0;
        // With an out alone, as BLAS has it, that is C.
        let c = if reads_c { c.or(out.as_ref()) } else { None };
        if reads_c && c.is_none() {
            return Err(PyValueError::new_err("the plan's beta is not zero: give c or out"));
        }
        let c = c.cloned();
        let request = Request {
            a,
            b,
            c: c.as_ref(),
            out,
            factors: tessera_raw::Factors::default(),
            accuracy: self.terms.accuracy,
            device: Device::Cuda(self.device),
            stream,
            dtype: None,
            planned: Some(self.terms.types),
            epilogue,
        };
        let Read { lender, a, b, c, out, numbers, .. } = read(&request)?;
        let shapes = Shapes::of(a.form(), b.form())?;
        if shapes.result() != self.shape {
            return Err(self.misfit());
        }
        let (what, of_epilogue) = epilogue_of(epilogue, &numbers, &shapes)?;
        if what != self.terms.epilogue {
            return Err(PyValueError::new_err(
                "the epilogue is another than the plan's: it has the same activation, and arrays for the same of bias, \
                 row_scale, column_scale and amax",
            ));
        }
        let is_new = out.is_none();
        let d = match out {
            Some(out) => {
                let mut others = vec![("a", &a), ("b", &b)];
                others.extend(c.as_ref().map(|c| ("c", c)));
                others.extend(named(&numbers));
                check_out(&out, &shapes.result(), &others)?;
                out
            }
            None => lender.empty(&self.shape, result)?,
        };
        let limits = PlanLimits { alignment: u64::MAX, ..self.arranged.limits };
        let of_c = c.as_ref().map(Operand::form);
        let arranged = arranged(&shapes, self.terms, (d.form(), of_c), limits)?;
        self.check(&arranged)?;
        let given = match workspace {
            Some(given) => Some(self.workspace(given)?),
            None => None,
        };
        let mut operands = vec![&a, &b, &d];
        operands.extend(&c);
        operands.extend(numbers.iter().flatten());
        launch_plan(py, &lender, (&self.plan, of_epilogue), &arranged, given, &operands)?;
        if let Some(workspace) = workspace
            && Library::of(workspace)? == Some(Library::Torch)
        {
            lender.uses(workspace)?;
        }
        lender.finished(d, is_new)
    }

    /// Bytes of device memory that a launch needs besides its arrays.
    #[getter]
    fn workspace_bytes(&self) -> u64 {
        self.plan.workspace_bytes()
    }

    /// The kernel that computes it.
    #[getter]
    fn kernel(&self) -> &'static str {
        self.plan.kernel().spec().id
    }

    /// The GPU, as device= names it.
    #[getter]
    #[pyo3(name = "device")]
    fn device_name(&self) -> String {
        format!("cuda:{}", self.device)
    }

    /// The shape of the result.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The name of the type of the result.
    #[getter]
    fn dtype(&self) -> &'static str {
        Kind::of_dtype(self.terms.types.c()).name()
    }

    /// The plan in words, one line for each thing that can be said of it.
    fn explain(&self) -> String {
        self.plan.explain()
    }

    fn __repr__(&self) -> String {
        format!("<tessera.Plan {:?}>", self.plan)
    }
}
