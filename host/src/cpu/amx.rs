//! `cpu_amx`: the CPU engine with matrix units, for elements that these multiply.
//!
//! Source: Intel, "Architecture Instruction Set Extensions Programming Reference"; Henry, Tang and Heinecke,
//! "Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision Computations" (2019).

use cpu_gemm::{CpuContext, CpuTypes, CpuUnits, gemm_by, matrix_units};
use gemm_spec::{Problem, Types};

use super::implementation::{CpuImpl, forms};

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "cpu_amx",
    about: "packed blocks, tiles in matrix units: f32 and f16 as sums of bf16 pieces",
    origin: "Intel 2020; Henry, Tang and Heinecke 2019",
    parallel: true,
    blocked: true,
    any_order: true,
    chained: false,
    needs,
    study: false,
    forms: forms!(gemm),
};

fn gemm<T: CpuTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    gemm_by(CpuUnits::All, problem, a, b, c, context)
}

fn needs(types: Types) -> Result<(), String> {
    match types {
        Types::F64 | Types::I32 => Err(format!("matrix units do not multiply {types}")),
        Types::F32 | Types::F16 | Types::BF16 | Types::F16F32 | Types::BF16F32 | Types::I8 => {
            matrix_units().map(drop).map_err(|reason| reason.to_string())
        }
    }
}
