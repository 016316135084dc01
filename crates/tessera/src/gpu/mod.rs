//! Products on an NVIDIA GPU.
//!
//! [`Gpu`] is a device with its modules and memory; [`HostPath`] multiplies operands in host memory,
//! [`Gpu::enqueue`] those that are on the device already. [`KERNELS`] lists the kernels there are.

mod arguments;
mod bands;
mod copies;
mod device;
mod host_path;
mod launch;
mod listing;
mod modules;
mod pitched;
mod schedule;
mod staging;
mod workspace;

pub use crate::mismatch::EntryMismatch;
pub use bands::Pipeline;
pub use copies::HostMemory;
pub use cuda_lazy::{Context, DevicePtr, RawStream};
pub use device::{Gpu, KernelCode};
pub use gemm_spec::plan::Addresses;
pub use host_path::{HostPath, HostTimes};
pub use kernels_gpu::{KERNELS, Kernel};
pub use listing::{Capacity, DeviceInfo, DriverInfo, capacity, devices, driver};

use cuda_lazy::DriverError;

use crate::error::Error;

/// Turns a refusal of the driver into this library's error.
fn refused(during: impl Into<String>) -> impl FnOnce(DriverError) -> Error {
    let during = during.into();
    move |error| Error::Cuda { during, reason: error.to_string() }
}
