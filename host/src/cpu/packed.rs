//! `cpu_packed`: the CPU engine, the crate `cpu_gemm`.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008); Van Zee and
//! van de Geijn, "BLIS" (2015).

use super::implementation::{CpuImpl, forms};

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "cpu_packed",
    about: "packed blocks for each cache, tiles in vector registers",
    origin: "Goto and van de Geijn 2008; Van Zee and van de Geijn 2015",
    parallel: true,
    blocked: true,
    any_order: true,
    study: false,
    forms: forms!(cpu_gemm::gemm),
};
