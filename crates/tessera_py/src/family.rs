//! The library that an array is of.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::kind::Kind;

/// A library of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    NumPy,
    Torch,
    Jax,
    /// Another one of the array API standard.
    Standard,
}

impl Family {
    /// The library that an object's type is of.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let module: String = object.get_type().module()?.extract()?;
        Ok(match module.split('.').next() {
            Some("torch") => Self::Torch,
            Some("jax" | "jaxlib") => Self::Jax,
            _ => Self::Standard,
        })
    }

    /// A result, which is an array of NumPy's, as one of this library, without a copy. One of bfloat16, which
    /// NumPy cannot lend, comes as int16.
    pub(crate) fn take<'py>(
        self,
        result: Bound<'py, PyAny>,
        kind: Kind,
        like: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = result.py();
        match self {
            Self::NumPy => Ok(result),
            Self::Torch => {
                let torch = py.import("torch")?;
                let taken = torch.call_method1(intern!(py, "from_dlpack"), (result,))?;
                if kind != Kind::BF16 {
                    return Ok(taken);
                }
                let dtype = torch.getattr("bfloat16")?;
                taken.call_method1(intern!(py, "view"), (dtype,))
            }
            Self::Jax => {
                let jax = py.import("jax.dlpack")?;
                let taken = jax.call_method1(intern!(py, "from_dlpack"), (result,))?;
                if kind != Kind::BF16 {
                    return Ok(taken);
                }
                let dtype = py.import("jax.numpy")?.getattr("bfloat16")?;
                taken.call_method1(intern!(py, "view"), (dtype,))
            }
            Self::Standard if kind == Kind::BF16 => {
                Err(PyTypeError::new_err("a result of bfloat16 has no way to this library"))
            }
            Self::Standard => {
                let namespace = like.call_method0(intern!(py, "__array_namespace__"))?;
                namespace.call_method1(intern!(py, "from_dlpack"), (result,))
            }
        }
    }

    /// Whether its arrays may be written.
    pub(crate) fn may_be_written(self) -> bool {
        self != Self::Jax
    }
}
