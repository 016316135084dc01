//! The implementations that run on the CPU, and the ordered registry of them.

mod cache_blocks;
pub(crate) mod implementation;
mod loop_order;
mod micro_kernel;
mod mutex_queue;
mod packed;
mod packed_bands;
mod packed_panels;
mod rayon;
mod serial;
mod vectorised;

pub use cpu_gemm::{CpuContext, CpuIsa};
pub use implementation::{CpuImpl, context, isa};

/// What an engine runs on the CPU.
pub(crate) const DEFAULT: &CpuImpl = &packed::IMPL;

/// Every CPU implementation, in the order of the ladder. The first is the definition of correct.
pub const CPU: &[&CpuImpl] = &[
    &serial::IMPL,
    &mutex_queue::IMPL,
    &rayon::IMPL,
    &loop_order::IMPL,
    &cache_blocks::IMPL,
    &micro_kernel::IMPL,
    &packed_panels::IMPL,
    &packed_bands::IMPL,
    &packed::IMPL,
];
