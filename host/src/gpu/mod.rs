//! The only code that knows `cust`: devices, modules, launches and timing on the GPU.

mod arguments;
mod bands;
mod blas;
mod copies;
mod cublas;
mod cublaslt;
mod device;
mod host_path;
mod launch;
mod listing;
mod peer;
mod pitched;
mod schedule;
mod split;
mod split_k;
mod staging;
mod state;
mod tensor;

pub use arguments::SideBySide;
pub use bands::Pipeline;
pub use copies::HostMemory;
pub use device::Gpu;
pub use host_path::{HostPath, HostTimes};
pub use launch::{Launch, Operands, Output, run_batch};
pub use listing::{Capacity, DeviceInfo, DriverInfo, capacity, devices, driver};
pub use peer::{CudaLibrary, GpuPeer};
pub use state::{GpuState, watch};

/// What an element type must be to lie in device memory.
///
/// It stands for `cust`'s own trait, so that nothing outside this module names `cust`, and types of
/// other crates can have it.
///
/// # Safety
/// Every value is plain bytes without padding or addresses, and any such bytes are a value.
pub unsafe trait DeviceElement: Copy + 'static {}

// SAFETY: plain numbers.
unsafe impl DeviceElement for f32 {}
// SAFETY: as above.
unsafe impl DeviceElement for f64 {}
// SAFETY: as above.
unsafe impl DeviceElement for i32 {}
// SAFETY: as above.
unsafe impl DeviceElement for i8 {}
// SAFETY: as above; the type is transparent over its bits.
unsafe impl DeviceElement for gemm_spec::f16 {}
// SAFETY: as above.
unsafe impl DeviceElement for gemm_spec::bf16 {}
// SAFETY: transparent over one of these.
unsafe impl DeviceElement for gemm_spec::WideF16 {}
// SAFETY: as above.
unsafe impl DeviceElement for gemm_spec::WideBf16 {}

use cust::error::CudaError;

use crate::error::Error;

/// Turns a refusal of the driver into this library's error.
fn refused(during: impl Into<String>) -> impl FnOnce(CudaError) -> Error {
    let during = during.into();
    move |code| Error::Cuda { during, reason: format!("{code} ({})", code as u32) }
}
