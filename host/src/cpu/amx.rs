//! `cpu_amx`: the CPU engine with matrix units, for elements that these multiply; of f64 by as many residues as
//! `TESSERA_CPU_UNITS=exact-rounded` asks for, or the usual ones; where it is `tiles`, of every size, and by the
//! units' model where there are none.
//!
//! Source: Intel, "Architecture Instruction Set Extensions Programming Reference"; Henry, Tang and Heinecke,
//! "Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision Computations" (2019); Ozaki,
//! Uchino and Imamura, "Ozaki Scheme II: A GEMM-oriented emulation of floating-point matrix multiplication using an
//! integer modular technique" (2025).

use cpu_gemm::{CpuContext, CpuTypes, CpuUnits, gemm_by, has_tiles, matrix_units};
use gemm_spec::{Problem, Types, with_gemm_types};

use super::implementation::{CpuImpl, Sums, forms, units};

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "cpu_amx",
    about: "packed blocks, tiles in matrix units: f32 and f16 as sums of bf16 pieces, f64 by residues",
    origin: "Intel 2020; Henry, Tang and Heinecke 2019; Ozaki, Uchino and Imamura 2025",
    parallel: true,
    blocked: true,
    any_order: true,
    sums: Sums::Own,
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
    let units = match context.units() {
        units @ (CpuUnits::ExactRounded | CpuUnits::Tiles) => units,
        // What may round factors is not for a comparison of products.
        CpuUnits::Vector
        | CpuUnits::SameBits
        | CpuUnits::All
        | CpuUnits::Tf32
        | CpuUnits::Bf16
        | _ => CpuUnits::All,
    };
    gemm_by(units, problem, a, b, c, context)
}

fn needs(types: Types) -> Result<(), String> {
    if !with_gemm_types!(types, T => has_tiles::<T>()) {
        return Err(format!("matrix units do not multiply {types}"));
    }
    // With that setting their model computes where there are none.
    if matches!(units(), Ok(Some(CpuUnits::Tiles))) {
        return Ok(());
    }
    matrix_units().map(drop).map_err(|reason| reason.to_string())
}
