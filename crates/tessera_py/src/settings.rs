//! Settings as programs write them.

use std::num::NonZeroUsize;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyString};
use tessera::{Accuracy, Device};
use tessera_raw::Factors;

/// `None`, "auto", "cpu", "cuda" or "cuda:1".
pub(crate) fn device(name: Option<&str>) -> PyResult<Device> {
    let refused = |name: &str| {
        let text =
            format!("device is {name:?}; it may be \"auto\", \"cpu\", \"cuda\" or \"cuda:0\"");
        PyValueError::new_err(text)
    };
    match name {
        None | Some("auto") => Ok(Device::Auto),
        Some("cpu") => Ok(Device::Cpu),
        Some("cuda") => Ok(Device::Cuda(0)),
        Some(name) => {
            let index = name.strip_prefix("cuda:").and_then(|index| index.parse().ok());
            index.map(Device::Cuda).ok_or_else(|| refused(name))
        }
    }
}

/// The name of a contract of docs/accuracy.md.
pub(crate) fn accuracy(name: Option<&str>) -> PyResult<Accuracy> {
    let Some(name) = name else { return Ok(Accuracy::default()) };
    name.parse().map_err(|why: String| PyValueError::new_err(format!("accuracy: {why}")))
}

/// A number of threads.
pub(crate) fn threads(number: Option<isize>) -> PyResult<Option<NonZeroUsize>> {
    let Some(number) = number else { return Ok(None) };
    let number = usize::try_from(number).ok().and_then(NonZeroUsize::new);
    let refused = || PyValueError::new_err("threads must be at least 1, or None for all");
    number.map(Some).ok_or_else(refused)
}

/// Alpha and beta, where they are given.
pub(crate) fn factors(
    alpha: Option<&Bound<'_, PyAny>>,
    beta: Option<&Bound<'_, PyAny>>,
) -> PyResult<Factors> {
    let number = |given: Option<&Bound<'_, PyAny>>, name, usual| {
        let Some(given) = given else { return Ok(usual) };
        if let Ok(real) = given.extract::<f64>() {
            return Ok([real, 0.0]);
        }
        let refused = |()| PyTypeError::new_err(format!("{name} must be a number"));
        if given.is_instance_of::<PyString>() {
            return Err(refused(()));
        }
        let complex = py_complex(given).map_err(|_| refused(()))?;
        Ok::<_, PyErr>([complex.real(), complex.imag()])
    };
    Ok(Factors {
        alpha: number(alpha, "alpha", [1.0, 0.0])?,
        beta: number(beta, "beta", [0.0, 0.0])?,
    })
}

/// The C of a product, which is read with a beta alone and goes with one.
pub(crate) fn addend<T>(
    factors: Factors,
    beta_is_given: bool,
    c: Option<T>,
) -> PyResult<Option<T>> {
    let reads_c = factors.beta != [0.0; 2];
    match c {
        Some(_) if !beta_is_given => Err(PyValueError::new_err("c is given without beta")),
        None if reads_c => Err(PyValueError::new_err("beta is given without c")),
        c => Ok(c.filter(|_| reads_c)),
    }
}

/// What Python's `complex` makes of an object.
fn py_complex<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyComplex>> {
    let complex = given.py().get_type::<PyComplex>();
    Ok(complex.call1((given,))?.cast_into::<PyComplex>()?)
}
