//! Codes of the driver.

/// `CUDA_SUCCESS` and the codes that are answered here.
pub(crate) const SUCCESS: i32 = 0;
pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const OUT_OF_MEMORY: i32 = 2;
pub(crate) const INVALID_DEVICE: i32 = 101;
pub(crate) const INVALID_CONTEXT: i32 = 201;
pub(crate) const NO_BINARY_FOR_GPU: i32 = 209;
pub(crate) const INVALID_HANDLE: i32 = 400;
pub(crate) const NOT_FOUND: i32 = 500;
pub(crate) const NOT_READY: i32 = 600;
pub(crate) const ILLEGAL_ADDRESS: i32 = 700;
pub(crate) const LAUNCH_FAILED: i32 = 719;
pub(crate) const CAPTURE_UNSUPPORTED: i32 = 900;
pub(crate) const CAPTURE_INVALIDATED: i32 = 901;
