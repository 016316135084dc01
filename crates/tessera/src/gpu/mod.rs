//! Products on an NVIDIA GPU.
//!
//! Operands that are on the device already: a [`Plan`] is a product in a [`Context`] that was picked and
//! loaded once and is launched often, in any stream; [`DeviceMatrix`] and [`Stream`] are the convenience over
//! it, which keeps memory, workspace and plans. Operands in host memory: [`Gpu`] is a device with what its
//! products share, and [`HostPath`] the way through it. [`KERNELS`] lists the kernels there are.

mod allocate;
mod arguments;
mod bands;
mod choice;
mod context;
mod copies;
mod desc;
mod device;
mod eager;
mod finish;
mod grouped;
mod host_bytes;
mod host_path;
mod kept_limbs;
mod launch;
mod listing;
mod matrix;
mod modules;
mod operands;
mod pitched;
mod plan;
mod prepared;
mod queue;
mod schedule;
mod staging;
mod stream;
mod workspace;

pub use crate::device_info::DeviceInfo;
pub use crate::mismatch::EntryMismatch;
pub use crate::operand_fault::OperandFault;
pub use crate::pipeline::Pipeline;
pub use context::Context;
pub use copies::HostMemory;
pub use cuda_lazy::{DevicePtr, DriverError, RawContext, RawStream};
pub use desc::{GemmBatch, GemmDesc, Preparation};
pub use device::{Gpu, KernelCode};
pub use gemm_spec::plan::Addresses;
pub use gemm_spec::split::Limbs;
pub use gemm_spec::{Activation, Bias, Epilogue, Operand};
pub use grouped::GroupedPlan;
pub use host_path::{HostPath, HostTimes, Unfinished};
pub use kept_limbs::Declared;
pub use kernels_gpu::{KERNELS, Kernel};
pub use listing::{Capacity, DriverInfo, capacity, devices, driver};
pub use matrix::{DeviceMatMut, DeviceMatRef, DeviceMatrix};
pub use operands::{EpilogueOperands, Operands, PlanLimits, PreparedFactor, Workspace};
pub use plan::{Plan, Promises};
pub use prepared::PreparedMatrix;
pub use stream::Stream;

use crate::error::Error;

/// Turns a refusal of the driver into this library's error.
fn refused(during: impl Into<String>) -> impl FnOnce(DriverError) -> Error {
    let during = during.into();
    move |error| Error::Cuda { during, reason: error.to_string(), code: Some(error.code) }
}
