//! Device code that two or more kernels use unchanged.

pub(crate) mod entries;
pub(crate) mod gemm;
