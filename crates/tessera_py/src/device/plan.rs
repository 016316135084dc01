//! Products of arrays on a GPU that are planned once.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use tessera::gpu::{Limbs, Plan as GpuPlan, PlanLimits, Workspace};
use tessera::{Accuracy, Device, Epilogue as Finishing};
use tessera_raw::Factors;

use super::layout::{Arranged, Beside};
use super::lender::kind_named;
use super::library::Library;
use super::operand::{Operand, locate, pointer};
use super::prepared::{PreparedMatrix, name_of};
use super::product::{
    Read, Request, Terms, arranged, check_out, epilogue_of, launch_plan, named, read, real, types,
};
use super::state;
use crate::dlpack::contiguous;
use crate::epilogue::{Epilogue, OTHER_EPILOGUE};
use crate::failure::failure;
use crate::kind::Kind;
use crate::shapes::{Form, Shapes};

/// A product of arrays on a GPU that is planned once.
pub(crate) struct DevicePlan {
    plan: GpuPlan,
    arranged: Arranged,
    terms: Terms,
    device: u32,
    shape: Vec<usize>,
}

/// What a plan is made by where there are no arrays yet.
pub(crate) struct ByShapes<'a, 'py> {
    /// Of A and B.
    pub(crate) shapes: [&'a [usize]; 2],
    pub(crate) dtype: &'a Bound<'py, PyAny>,
    pub(crate) out_dtype: Option<&'a Bound<'py, PyAny>>,
    /// "C" or "F", of A, B and the result.
    pub(crate) orders: [&'a str; 3],
    pub(crate) factors: Factors,
    pub(crate) accuracy: Accuracy,
    pub(crate) device: u32,
    pub(crate) limits: PlanLimits,
    pub(crate) epilogue: Finishing,
    pub(crate) prepared: Option<Limbs>,
}

/// What a plan is called with.
pub(crate) struct Launch<'a, 'py> {
    pub(crate) a: &'a Bound<'py, PyAny>,
    pub(crate) b: &'a Bound<'py, PyAny>,
    /// What B was prepared to, if it was.
    pub(crate) prepared: Option<&'a PreparedMatrix>,
    pub(crate) c: Option<&'a Bound<'py, PyAny>>,
    pub(crate) out: Option<Bound<'py, PyAny>>,
    pub(crate) stream: Option<&'a Bound<'py, PyAny>>,
    pub(crate) workspace: Option<&'a Bound<'py, PyAny>>,
    pub(crate) epilogue: Option<&'a Bound<'py, Epilogue>>,
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

impl DevicePlan {
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

    /// Whether B is prepared as it was planned for.
    fn check_prepared(&self, given: Option<Limbs>) -> PyResult<()> {
        let text = match (self.terms.prepared, given) {
            (None, None) => return Ok(()),
            (Some(own), Some(given)) if own == given => return Ok(()),
            (Some(own), None) => format!(
                "the plan is of a PreparedMatrix b, and b is an array: pass PreparedMatrix(b, limbs={:?})",
                name_of(own)
            ),
            (None, Some(_)) => "the plan is of an array b, and b is a PreparedMatrix: pass its array, or make the plan \
                                with it"
                .to_owned(),
            (Some(own), Some(given)) => format!(
                "b is prepared with limbs={:?}, the plan is of limbs={:?}: prepare it with those",
                name_of(given),
                name_of(own)
            ),
        };
        Err(PyTypeError::new_err(text))
    }

    /// The plan of a product of such arrays.
    pub(crate) fn of_arrays(
        py: Python<'_>,
        request: &Request<'_, '_>,
        workspace_limit: Option<u64>,
    ) -> PyResult<Self> {
        let factors = real(request.factors)?;
        let Read { lender, a, b, c, out, types, numbers } = read(request)?;
        let shapes = Shapes::of(a.form(), b.form())?;
        let (epilogue, _) = epilogue_of(request.epilogue, &numbers, &shapes)?;
        let shape = shapes.result();
        if let Some(out) = &out {
            check_out(out, &shape, &[("a", &a), ("b", &b)])?;
        }
        let size = Kind::of_dtype(types.c()).size().cast_signed();
        let strides = contiguous(&shape, size);
        let new = Form { at: pointer(0), shape: &shape, strides: &strides };
        let d = out.as_ref().map_or(new, Operand::form);
        let (accuracy, prepared) = (request.accuracy, request.limbs());
        let terms = Terms { types, factors, accuracy, epilogue, prepared };
        let of_c = c.as_ref().map(Operand::form);
        let workspace = workspace_limit.unwrap_or(u64::MAX);
        let limits = PlanLimits { workspace, ..PlanLimits::default() };
        let arranged = arranged(&shapes, terms, (d, of_c), limits)?;
        Self::new(py, lender.located.device, terms, arranged, shape)
    }

    /// The plan of a product of arrays of such shapes.
    pub(crate) fn by_shapes(py: Python<'_>, given: &ByShapes<'_, '_>) -> PyResult<Self> {
        let ByShapes { shapes: [a_shape, b_shape], orders, accuracy, epilogue, prepared, .. } =
            *given;
        if prepared.is_some() && b_shape.len() != 2 {
            return Err(PyValueError::new_err(format!(
                "b_shape is {b_shape:?}, a prepared b has two dimensions"
            )));
        }
        let kind = kind_named(given.dtype)?;
        let wanted = match given.out_dtype {
            Some(wanted) => Some(kind_named(wanted)?),
            None => None,
        };
        let types = types(kind, kind, wanted)?;
        let factors = real(given.factors)?;
        let at = pointer(0);
        let a = form(a_shape, by_columns(orders[0], "a_order")?, kind.size());
        let b = form(b_shape, by_columns(orders[1], "b_order")?, kind.size());
        let shapes = Shapes::of(
            Form { at, shape: a_shape, strides: &a },
            Form { at, shape: b_shape, strides: &b },
        )?;
        let shape = shapes.result();
        let size = Kind::of_dtype(types.c()).size();
        let d = form(&shape, by_columns(orders[2], "out_order")?, size);
        let terms = Terms { types, factors, accuracy, epilogue, prepared };
        let d = Form { at, shape: &shape, strides: &d };
        let arranged = arranged(&shapes, terms, (d, None), given.limits)?;
        Self::new(py, given.device, terms, arranged, shape)
    }

    /// Queues the product of arrays in a stream, into a new array or into `out`.
    pub(crate) fn call<'py>(
        &self,
        py: Python<'py>,
        given: Launch<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        state::release();
        let Launch { a, b, prepared, c, out, stream, workspace, epilogue } = given;
        self.check_prepared(prepared.map(PreparedMatrix::limbs))?;
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
            factors: Factors::default(),
            accuracy: self.terms.accuracy,
            device: Device::Cuda(self.device),
            stream,
            dtype: None,
            planned: Some(self.terms.types),
            prepared,
            epilogue,
        };
        let Read { lender, a, b, c, out, numbers, .. } = read(&request)?;
        let shapes = Shapes::of(a.form(), b.form())?;
        if shapes.result() != self.shape {
            return Err(self.misfit());
        }
        let (what, of_epilogue) = epilogue_of(epilogue, &numbers, &shapes)?;
        if what != self.terms.epilogue {
            return Err(PyValueError::new_err(OTHER_EPILOGUE));
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
        let beside = Beside { numbers: of_epilogue, prepared: request.factor() };
        launch_plan(py, &lender, (&self.plan, beside), &arranged, given, &operands)?;
        if let Some(workspace) = workspace
            && Library::of(workspace)? == Some(Library::Torch)
        {
            lender.uses(workspace)?;
        }
        lender.finished(d, is_new)
    }

    pub(crate) fn workspace_bytes(&self) -> u64 {
        self.plan.workspace_bytes()
    }

    pub(crate) fn kernel(&self) -> &'static str {
        self.plan.kernel().spec().id
    }

    pub(crate) fn device(&self) -> String {
        format!("cuda:{}", self.device)
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::of_dtype(self.terms.types.c())
    }

    pub(crate) fn explain(&self) -> String {
        self.plan.explain()
    }

    pub(crate) fn words(&self) -> String {
        format!("{:?}", self.plan)
    }
}
