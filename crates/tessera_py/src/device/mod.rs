//! Products of arrays that are in the memory of a GPU, where they are.
//!
//! # Shape
//!
//! ```text
//! library.rs    the libraries whose arrays are on a GPU, told by an array's type
//! streams.rs    streams as programs name them, and order between two
//! interface.rs  the CUDA array interface
//! operand.rs    an array on a GPU: address, shape, strides, type, device
//! lender.rs     what is asked of the library: new arrays, copies, workspace
//! own.rs        the array of libraries that are not known here
//! state.rs      contexts, plans, workspaces, and what is kept until the GPU has done with it
//! layout.rs     descriptor and launches of a product of such arrays
//! prepared.rs   a right factor that is split into limbs once
//! product.rs    a product from arguments to result
//! plan.rs       products that are planned once
//! grouped.rs    products of groups of rows
//! ```
//!
//! Nothing here waits for the GPU, but where a factor is split. The lock of the interpreter is released while a kernel
//! is picked, loaded and launched.

mod grouped;
mod interface;
mod layout;
mod lender;
mod library;
mod operand;
mod own;
mod plan;
mod prepared;
mod product;
mod state;
mod streams;

pub(crate) use grouped::grouped_matmul;
pub(crate) use operand::locate;
pub(crate) use own::DeviceArray;
pub(crate) use plan::{ByShapes, DevicePlan, Launch};
pub(crate) use prepared::{PreparedMatrix, limbs_named, right};
pub(crate) use product::{Request, explain, matmul};

use cuda_lazy::DriverError;
use pyo3::prelude::*;

use crate::failure::failure;

/// The exception of a call that the driver refused.
fn refused(during: &'static str) -> impl FnOnce(DriverError) -> PyErr {
    move |error| {
        failure(tessera::Error::Cuda {
            during: during.to_owned(),
            reason: error.to_string(),
            code: Some(error.code),
        })
    }
}
