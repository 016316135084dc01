//! What is said of a failure in Python.

use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use tessera::Error;
use tessera_raw::Failure;

/// The exception of a failure.
pub(crate) fn failure(failure: impl Into<Failure>) -> PyErr {
    let failure = failure.into();
    let text = failure.to_string();
    if matches!(failure, Failure::Types { .. }) {
        PyTypeError::new_err(text)
    } else if matches!(
        failure,
        Failure::Factor { .. }
            | Failure::Library(
                Error::Shape(_)
                    | Error::InnerDim { .. }
                    | Error::OuterDim { .. }
                    | Error::Descriptor { .. }
                    | Error::DeviceOperand { .. }
            )
    ) {
        PyValueError::new_err(text)
    } else if matches!(failure, Failure::Library(Error::OutOfMemory { .. })) {
        PyMemoryError::new_err(text)
    } else {
        PyRuntimeError::new_err(text)
    }
}
