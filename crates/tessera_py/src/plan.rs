//! A product that is planned once, wherever its arrays are.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tessera::Device;
use tessera::gpu::PlanLimits;

use crate::array::single;
use crate::device::{self, ByShapes, DevicePlan, Launch};
use crate::epilogue;
use crate::host_plan::HostPlan;
use crate::matmul::on_gpu;
use crate::product::Settings;
use crate::settings;

/// Plan(a, b, /, *, c=None, out=None, alpha=1, beta=0, accuracy=None, dtype=None, workspace_limit=None, epilogue=None, device=None, threads=None)
/// --
///
/// A product that is planned once and computed often, of arrays of the same shapes, strides and types.
///
/// On a GPU the kernel is picked and loaded here; plan(a, b) launches it, and does nothing else that a CUDA graph could
/// not capture. b may be a PreparedMatrix. In host memory plan(a, b) does what matmul does with the plan's settings, of
/// which device and threads are for such arrays alone.
#[pyclass(frozen, module = "tessera")]
pub(crate) struct Plan(Planned);

enum Planned {
    OnDevice(Box<DevicePlan>),
    OnHost(Box<HostPlan>),
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(
        signature = (a, b, /, *, c=None, out=None, alpha=None, beta=None, accuracy=None, dtype=None, workspace_limit=None, epilogue=None, device=None, threads=None),
        text_signature = "(a, b, /, *, c=None, out=None, alpha=1, beta=0, accuracy=None, dtype=None, workspace_limit=None, epilogue=None, device=None, threads=None)"
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
        device: Option<&str>,
        threads: Option<isize>,
    ) -> PyResult<Self> {
        let epilogue = epilogue::given(epilogue)?;
        let settings = Settings::given([alpha, beta], device, accuracy, threads)?;
        let c = settings::addend(settings.factors, beta.is_some(), c)?;
        let (b, prepared) = device::right(a, b)?;
        let out = out.map(single).transpose()?;
        if !on_gpu([Some(a), Some(b), out.as_ref(), c])? {
            if workspace_limit.is_some() {
                return Err(only_on_gpu("workspace_limit"));
            }
            let plan = HostPlan::new(py, [a, b], (c, out), dtype, (epilogue, settings))?;
            return Ok(Self(Planned::OnHost(Box::new(plan))));
        }
        let Settings { factors, device, accuracy, .. } = settings;
        let (stream, planned) = (None, None);
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
        let plan = DevicePlan::of_arrays(py, &request, workspace_limit)?;
        Ok(Self(Planned::OnDevice(Box::new(plan))))
    }

    /// A plan by shapes, for matrices on a GPU that are contiguous by rows ("C") or by columns ("F").
    ///
    /// dtype is the type of a and b, out_dtype that of the result, alignment what the addresses of the
    /// arrays will be multiples of.
    ///
    /// bias, activation, row_scale, column_scale and amax are the epilogue's, whose arrays each call gives: bias is
    /// "row" or "column", for a number for each of them.
    ///
    /// prepared is "two_f16" or "three_bf16" where each call gives a PreparedMatrix with such limbs as b.
    #[staticmethod]
    #[pyo3(
        signature = (a_shape, b_shape, /, dtype, *, out_dtype=None, a_order="C", b_order="C", out_order="C", alpha=None, beta=None, accuracy=None, device="cuda:0", workspace_limit=None, alignment=16, bias=None, activation=None, row_scale=false, column_scale=false, amax=false, prepared=None),
        text_signature = "(a_shape, b_shape, /, dtype, *, out_dtype=None, a_order=\"C\", b_order=\"C\", out_order=\"C\", alpha=1, beta=0, accuracy=None, device=\"cuda:0\", workspace_limit=None, alignment=16, bias=None, activation=None, row_scale=False, column_scale=False, amax=False, prepared=None)"
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
        prepared: Option<&str>,
    ) -> PyResult<Self> {
        let Device::Cuda(device) = settings::device(Some(device))? else {
            return Err(PyValueError::new_err(
                "device of a Plan by shapes is \"cuda\" or \"cuda:0\"; one in host memory is made of arrays",
            ));
        };
        let given = ByShapes {
            shapes: [&a_shape, &b_shape],
            dtype,
            out_dtype,
            orders: [a_order, b_order, out_order],
            factors: settings::factors(alpha, beta)?,
            accuracy: settings::accuracy(accuracy)?,
            device,
            limits: PlanLimits { workspace: workspace_limit.unwrap_or(u64::MAX), alignment },
            epilogue: epilogue::planned(bias, activation, [row_scale, column_scale, amax])?,
            prepared: match prepared {
                Some(name) => Some(device::limbs_named(name, "prepared")?),
                None => None,
            },
        };
        let plan = DevicePlan::by_shapes(py, &given)?;
        Ok(Self(Planned::OnDevice(Box::new(plan))))
    }

    /// The product of two arrays, as a new array or written to out; on a GPU it is queued in a stream. epilogue has the
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
        let epilogue = epilogue::given(epilogue)?;
        let (b, prepared) = device::right(a, b)?;
        match &self.0 {
            Planned::OnDevice(plan) => {
                let given = Launch { a, b, prepared, c, out, stream, workspace, epilogue };
                plan.call(py, given)
            }
            Planned::OnHost(_) if stream.is_some() => Err(only_on_gpu("stream")),
            Planned::OnHost(_) if workspace.is_some() => Err(only_on_gpu("workspace")),
            Planned::OnHost(plan) => plan.call(py, [a, b], (c, out), epilogue),
        }
    }

    /// Bytes of device memory that a launch needs besides its arrays.
    #[getter]
    fn workspace_bytes(&self) -> u64 {
        match &self.0 {
            Planned::OnDevice(plan) => plan.workspace_bytes(),
            Planned::OnHost(_) => 0,
        }
    }

    /// The kernel that computes it, or the CPU's units, as explain names them.
    #[getter]
    fn kernel(&self) -> &str {
        match &self.0 {
            Planned::OnDevice(plan) => plan.kernel(),
            Planned::OnHost(plan) => plan.kernel(),
        }
    }

    /// Where it is computed, as device= names it.
    #[getter]
    #[pyo3(name = "device")]
    fn device_name(&self) -> String {
        match &self.0 {
            Planned::OnDevice(plan) => plan.device(),
            Planned::OnHost(plan) => plan.device().to_owned(),
        }
    }

    /// The shape of the result.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let shape = match &self.0 {
            Planned::OnDevice(plan) => plan.shape(),
            Planned::OnHost(plan) => plan.shape(),
        };
        PyTuple::new(py, shape)
    }

    /// The name of the type of the result.
    #[getter]
    fn dtype(&self) -> &'static str {
        let kind = match &self.0 {
            Planned::OnDevice(plan) => plan.kind(),
            Planned::OnHost(plan) => plan.kind(),
        };
        kind.name()
    }

    /// The plan in words, one line for each thing that can be said of it.
    fn explain(&self) -> String {
        match &self.0 {
            Planned::OnDevice(plan) => plan.explain(),
            Planned::OnHost(plan) => plan.explain(),
        }
    }

    fn __repr__(&self) -> String {
        let words = match &self.0 {
            Planned::OnDevice(plan) => plan.words(),
            Planned::OnHost(plan) => plan.words(),
        };
        format!("<tessera.Plan {words}>")
    }
}

/// What is said of an argument that arrays in host memory have no use for.
fn only_on_gpu(argument: &str) -> PyErr {
    PyValueError::new_err(format!(
        "{argument} is for arrays on a GPU; the plan is of arrays in host memory"
    ))
}
