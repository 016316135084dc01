//! Tessera for Python: `tessera._native`, which the package in `python/tessera` shows to programs.
//!
//! # Shape
//!
//! ```text
//! kind.rs       types of elements as NumPy and DLPack name them, and in what they are computed
//! dlpack.rs     the C structs of the exchange between array libraries
//! array.rs      an array of whatever library: address, shape, strides, type
//! numpy.rs      what is asked of NumPy
//! failure.rs    exceptions
//! family.rs     the library that an array is of, and results for it
//! shapes.rs     NumPy's rules of shapes: vectors, stacks, broadcasting
//! copies.rs     arrays copied in place
//! settings.rs   device, accuracy and threads as programs write them
//! state.rs      engines, and what a fork does to them
//! epilogue.rs   bias, activation and scales as programs write them
//! product.rs    a product in host memory, from arguments to result
//! matmul.rs     a product wherever its arrays are
//! host_plan.rs  one in host memory that is planned once
//! plan.rs       one that is planned once, wherever its arrays are
//! emulated.rs   a driver for tests on machines without a GPU
//! device/       the same of arrays on a GPU, where they are
//! ```
//!
//! The lock of the interpreter is released while a product is computed. Nothing is printed.

mod array;
mod copies;
mod device;
mod dlpack;
#[cfg(feature = "emulated")]
mod emulated;
mod epilogue;
mod failure;
mod family;
mod host_plan;
mod kind;
mod matmul;
mod numpy;
mod plan;
mod product;
mod settings;
mod shapes;
mod state;

use pyo3::prelude::*;

/// The native part of tessera.
#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::device::{DeviceArray, PreparedMatrix, grouped_matmul};
    #[cfg(feature = "emulated")]
    #[pymodule_export]
    use super::emulated::emulated;
    #[pymodule_export]
    use super::epilogue::Epilogue;
    #[pymodule_export]
    use super::matmul::{explain, matmul};
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::state::{config, get_num_threads, set_num_threads};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
