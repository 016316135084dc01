//! What is done to a product besides scaling, as programs write it.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tessera::{Activation, Bias};
use tessera_raw::Numbers;

use crate::array::{Array, converted, writable};
use crate::kind::Kind;
use crate::shapes::{Axes, Form};

/// Epilogue(*, bias=None, activation=None, row_scale=None, column_scale=None, amax=None)
/// --
///
/// What is done to a product before it is rounded and stored: activation(row_scale * column_scale * alpha * (a @ b) +
/// beta * c + bias).
///
/// bias has a number for each column, shape (n,) or (1, n), or for each row, shape (m, 1); row_scale has the shape
/// (m,) or (m, 1), column_scale (n,) or (1, n). activation is "relu", "gelu", "gelu_tanh" or "silu".
///
/// amax is an array of one float32, which gets the largest magnitude of the result's elements: 0 where there are none,
/// NaN where one is. Products of float16, bfloat16 and float32 have it.
#[pyclass(frozen, module = "tessera")]
pub(crate) struct Epilogue {
    #[pyo3(get)]
    bias: Option<Py<PyAny>>,
    activation: Activation,
    #[pyo3(get)]
    row_scale: Option<Py<PyAny>>,
    #[pyo3(get)]
    column_scale: Option<Py<PyAny>>,
    #[pyo3(get)]
    amax: Option<Py<PyAny>>,
}

#[pymethods]
impl Epilogue {
    #[new]
    #[pyo3(
        signature = (*, bias=None, activation=None, row_scale=None, column_scale=None, amax=None),
        text_signature = "(*, bias=None, activation=None, row_scale=None, column_scale=None, amax=None)"
    )]
    fn new(
        bias: Option<Py<PyAny>>,
        activation: Option<&str>,
        row_scale: Option<Py<PyAny>>,
        column_scale: Option<Py<PyAny>>,
        amax: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self { bias, activation: activation_named(activation)?, row_scale, column_scale, amax })
    }

    /// The name of the activation.
    #[getter]
    fn activation(&self) -> Option<&'static str> {
        (self.activation != Activation::Identity).then_some(self.activation.name())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut parts = Vec::new();
        let names = ["bias", "row_scale", "column_scale", "amax"];
        for (name, given) in names.into_iter().zip(self.arrays(py)) {
            if let Some(given) = given {
                parts.push(format!("{name}={}", given.repr()?));
            }
        }
        parts.extend(self.activation().map(|name| format!("activation={name:?}")));
        Ok(format!("tessera.Epilogue({})", parts.join(", ")))
    }
}

/// The activation of that name, or none.
fn activation_named(name: Option<&str>) -> PyResult<Activation> {
    let Some(name) = name else { return Ok(Activation::Identity) };
    let mut named = Activation::ALL.into_iter().skip(1);
    named.find(|it| it.name() == name).ok_or_else(|| {
        let names = Activation::ALL[1..].iter().map(|it| format!("{:?}", it.name()));
        let names = names.collect::<Vec<_>>().join(", ");
        PyValueError::new_err(format!("activation is {name:?}; it may be {names} or None"))
    })
}

/// An epilogue whose arrays are not there yet: bias is "row" or "column", for a number for each of them.
pub(crate) fn planned(
    bias: Option<&str>,
    activation: Option<&str>,
    [row_scale, column_scale, amax]: [bool; 3],
) -> PyResult<gemm_spec::Epilogue> {
    let bias = match bias {
        None => None,
        Some("row") => Some(Bias::PerRow),
        Some("column") => Some(Bias::PerColumn),
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "bias is {other:?}; it may be \"row\", \"column\" or None"
            )));
        }
    };
    let mut what = gemm_spec::Epilogue::new(bias, activation_named(activation)?);
    what.row_scales = row_scale;
    what.column_scales = column_scale;
    what.amax = amax;
    Ok(what)
}

/// An argument of that name.
pub(crate) fn given<'a, 'py>(
    epilogue: Option<&'a Bound<'py, PyAny>>,
) -> PyResult<Option<&'a Bound<'py, Epilogue>>> {
    let Some(epilogue) = epilogue else { return Ok(None) };
    match epilogue.cast::<Epilogue>() {
        Ok(epilogue) => Ok(Some(epilogue)),
        Err(_) => Err(PyTypeError::new_err("epilogue must be a tessera.Epilogue")),
    }
}

/// An epilogue's arrays, the last of which is written.
pub(crate) const ARRAYS: usize = 4;

/// Their names in messages, in their order.
pub(crate) const NAMES: [&str; ARRAYS] = [
    "the epilogue's bias",
    "the epilogue's row_scale",
    "the epilogue's column_scale",
    "the epilogue's amax",
];

/// What is said where a plan is called with an epilogue of another kind.
pub(crate) const OTHER_EPILOGUE: &str = "the epilogue is another than the plan's: it has the same activation, and \
                                         arrays for the same of bias, row_scale, column_scale and amax";

/// Fails where the largest magnitude cannot be written to an array.
pub(crate) fn check_amax(kind: Option<Kind>, shape: &[usize], read_only: bool) -> PyResult<()> {
    if kind != Some(Kind::F32) || shape.iter().product::<usize>() != 1 {
        return Err(PyValueError::new_err("the epilogue's amax must be an array of one float32"));
    }
    if read_only {
        return Err(PyValueError::new_err(
            "the epilogue's amax must not be written: it is read-only",
        ));
    }
    Ok(())
}

impl Epilogue {
    /// The activation itself.
    pub(crate) fn function(&self) -> Activation {
        self.activation
    }

    /// Bias, row scale and column scale, and where the largest magnitude goes.
    pub(crate) fn arrays<'py>(&self, py: Python<'py>) -> [Option<Bound<'py, PyAny>>; ARRAYS] {
        [&self.bias, &self.row_scale, &self.column_scale, &self.amax]
            .map(|given| given.as_ref().map(|given| given.bind(py).clone()))
    }

    /// What is done to a product of the given axes, and where the numbers of its arrays are. `shared` says whether one
    /// number may stand for all rows or columns.
    pub(crate) fn along(
        &self,
        [bias, row_scale, column_scale]: [Option<Form<'_>>; 3],
        axes: Axes,
        shared: bool,
    ) -> PyResult<(gemm_spec::Epilogue, [Numbers; 3])> {
        let line = |form: Option<Form<'_>>, name: &str, rows: bool| match form {
            Some(form) => axes.line(form, name, rows).map(Some),
            None => Ok(None),
        };
        let bias = match bias {
            Some(form) => Some(axes.either(form, NAMES[0])?),
            None => None,
        };
        let row_scale = line(row_scale, NAMES[1], true)?;
        let column_scale = line(column_scale, NAMES[2], false)?;
        let mut what = gemm_spec::Epilogue::new(
            bias.map(|(rows, _)| if rows { Bias::PerRow } else { Bias::PerColumn }),
            self.activation,
        );
        what.row_scales = row_scale.is_some();
        what.column_scales = column_scale.is_some();
        what.amax = self.amax.is_some();
        let all = [bias.map(|(_, numbers)| numbers), row_scale, column_scale];
        for (numbers, name) in all.iter().zip(NAMES) {
            if let Some(numbers) = numbers
                && !shared
                && numbers.count > 1
                && numbers.stride == 0
            {
                return Err(PyValueError::new_err(format!(
                    "{name} has one number for {}: on a GPU there is one for each",
                    numbers.count
                )));
            }
        }
        Ok((what, all.map(|numbers| numbers.unwrap_or(Numbers::NONE))))
    }
}

/// An epilogue whose numbers are in host memory, of the types of a product.
pub(crate) struct OnHost<'py> {
    epilogue: Bound<'py, Epilogue>,
    arrays: [Option<Array<'py>>; 3],
    amax: Option<Array<'py>>,
}

impl<'py> OnHost<'py> {
    /// Reads the arrays, as elements of a product's result and of its sums.
    pub(crate) fn read(epilogue: &Bound<'py, Epilogue>, kind: Kind) -> PyResult<Self> {
        let sums = match kind {
            Kind::F16 | Kind::BF16 | Kind::F32 => Kind::F32,
            Kind::F64 => Kind::F64,
            Kind::Bool
            | Kind::I8
            | Kind::I16
            | Kind::I32
            | Kind::I64
            | Kind::U8
            | Kind::U16
            | Kind::U32
            | Kind::U64
            | Kind::C64
            | Kind::C128 => {
                return Err(PyTypeError::new_err(format!(
                    "epilogue is for products of float16, bfloat16, float32 and float64, not of {}",
                    kind.name()
                )));
            }
        };
        let [bias, rows, columns, amax] = epilogue.get().arrays(epilogue.py());
        let amax = match amax {
            Some(amax) => {
                let array = writable(amax, NAMES[3])?;
                check_amax(array.kind, &array.shape, false)?;
                Some(array)
            }
            None => None,
        };
        let read = |given: Option<Bound<'py, PyAny>>, name: &str, kind: Kind| match given {
            Some(given) => {
                let array = Array::of(&given, name)?;
                array.known(name)?;
                converted(array, Some(kind)).map(|(array, _)| Some(array))
            }
            None => Ok(None),
        };
        let arrays = [
            read(bias, NAMES[0], kind)?,
            read(rows, NAMES[1], sums)?,
            read(columns, NAMES[2], sums)?,
        ];
        Ok(Self { epilogue: epilogue.clone(), arrays, amax })
    }

    /// Writes the largest magnitude, where it is asked for.
    pub(crate) fn found(&self, largest: Option<f32>) {
        if let Some((amax, largest)) = self.amax.as_ref().zip(largest) {
            // SAFETY: an array of one such number that may be written, which is kept here. That nobody else uses it
            // meanwhile is what every array library asks of its callers.
            unsafe { amax.at.cast::<f32>().write_unaligned(largest) };
        }
    }

    /// The same for a product of those axes.
    pub(crate) fn along(&self, axes: Axes) -> PyResult<tessera_raw::Epilogue> {
        let forms = self.arrays.each_ref().map(|array| array.as_ref().map(Array::form));
        let (what, numbers) = self.epilogue.get().along(forms, axes, true)?;
        let [bias, row_scales, column_scales] = numbers;
        Ok(tessera_raw::Epilogue { what, bias, row_scales, column_scales })
    }
}
