//! `cpu_packed`: the CPU engine, the crate `cpu_gemm`.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008); Van Zee and
//! van de Geijn, "BLIS" (2015).

use cpu_gemm::{CpuContext, CpuTypes, CpuUnits, gemm_by};
use gemm_spec::Problem;

use super::implementation::{CpuImpl, NOTHING, forms};

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "cpu_packed",
    about: "packed blocks for each cache, tiles in vector registers",
    origin: "Goto and van de Geijn 2008; Van Zee and van de Geijn 2015",
    parallel: true,
    blocked: true,
    any_order: true,
    chained: true,
    needs: NOTHING,
    study: false,
    forms: forms!(gemm),
};

/// With the bits of `serial`, whatever units a context has.
fn gemm<T: CpuTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    gemm_by(CpuUnits::SameBits, problem, a, b, c, context)
}
