//! The implementations that run on the CPU, and the ordered registry of them.

mod amx;
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

use gemm_spec::Problem;
use tessera::Engine;

pub use cpu_gemm::{CpuContext, CpuIsa, CpuUnits};
pub use implementation::{CpuImpl, Sums, context, isa, units};
pub use packed::engine_definition;

use crate::scalar::ScalarTypes;

/// What an engine runs on the CPU for a problem.
pub(crate) fn of_engine<T: ScalarTypes>(engine: &Engine, problem: &Problem<T>) -> &'static CpuImpl {
    if engine.uses_matrix_units(problem) { &amx::IMPL } else { &packed::IMPL }
}

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
    &amx::IMPL,
];
