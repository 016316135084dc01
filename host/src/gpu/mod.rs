//! The laboratory's side of the GPU, and the only code that knows `cust`: operands that stay on the
//! device, launches between events, NVIDIA's libraries on the same operands.

mod blas;
mod cublas;
mod cublaslt;
mod device;
mod operands;
mod peer;
mod state;

pub(crate) use blas::FOLDER_VARIABLE as CUBLAS_VARIABLE;
use cust::error::CudaError;
pub(crate) use device::CODE_VARIABLE;
pub use device::{Gpu, kernel_code};
pub use operands::{Launch, Operands, Output, run_batch};
pub use peer::{CudaLibrary, GpuPeer};
pub use state::{GpuState, watch};
pub use tessera::gpu::{
    Capacity, DeviceInfo, DriverInfo, HostMemory, HostPath, HostTimes, Pipeline, capacity, devices,
    driver,
};

use crate::error::Error;

/// Turns a refusal of the driver into the laboratory's error.
fn refused(during: impl Into<String>) -> impl FnOnce(CudaError) -> Error {
    let during = during.into();
    move |code| {
        let reason = format!("{code} ({})", code as u32);
        tessera::Error::Cuda { during, reason, code: None }.into()
    }
}
