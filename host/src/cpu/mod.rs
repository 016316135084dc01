//! The implementations that run on the CPU, and the ordered registry of them.

pub(crate) mod implementation;
mod isa;
mod mutex_queue;
mod packed;
mod rayon;
mod serial;

pub use implementation::{CpuContext, CpuFn, CpuImpl};
pub use packed::CpuIsa;

/// Every CPU implementation, in the order of the ladder. The first is the definition of correct.
pub const CPU: &[&CpuImpl] = &[&serial::IMPL, &mutex_queue::IMPL, &rayon::IMPL, &packed::IMPL];
