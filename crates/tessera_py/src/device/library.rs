//! The libraries whose arrays are on a GPU, told by an array's type.

use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::own::DeviceArray;

/// A library of arrays that may be on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    Torch,
    CuPy,
    Jax,
    Numba,
    /// This one.
    Own,
    /// Another one that speaks DLPack or has the CUDA array interface.
    Other,
}

/// Types that were seen, and `None` for those whose arrays are in host memory.
static SEEN: Mutex<Vec<(Py<PyType>, Option<Library>)>> = Mutex::new(Vec::new());
/// How many of them are remembered.
const REMEMBERED: usize = 64;

impl Library {
    /// The library of an object's type; `None` for types whose objects are never on a GPU.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let (py, of) = (object.py(), object.get_type());
        let known = {
            let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
            seen.iter().find(|(other, _)| other.is(&of)).map(|&(_, library)| library)
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let library = Self::of_type(py, &of)?;
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < REMEMBERED {
            seen.push((of.unbind(), library));
        }
        Ok(library)
    }

    /// The library of the nearest base that one is known for.
    fn of_type(py: Python<'_>, of: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        if of.is(py.get_type::<DeviceArray>()) {
            return Ok(Some(Self::Own));
        }
        let bases = of.getattr(intern!(py, "__mro__"))?.cast_into::<PyTuple>()?;
        for base in bases.iter() {
            let module = base.getattr(intern!(py, "__module__"))?;
            let Ok(module) = module.extract::<String>() else { continue };
            match module.split('.').next() {
                Some("torch") => return Ok(Some(Self::Torch)),
                Some("cupy") => return Ok(Some(Self::CuPy)),
                Some("jax" | "jaxlib") => return Ok(Some(Self::Jax)),
                Some("numba" | "numba_cuda") => return Ok(Some(Self::Numba)),
                Some("numpy") => return Ok(None),
                _ => {}
            }
        }
        let speaks = of.hasattr(intern!(py, "__dlpack_device__"))?;
        // It may be an attribute of the object alone.
        let is_plain = of.getattr(intern!(py, "__module__"))?.eq("builtins")?;
        Ok((speaks || !is_plain).then_some(Self::Other))
    }
}
