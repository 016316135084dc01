//! `cpu_packed`: the CPU engine, the crate `cpu_gemm`.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008); Van Zee and
//! van de Geijn, "BLIS" (2015).

use cpu_gemm::{CpuContext, CpuTypes, CpuUnits, engine_sum, gemm_by};
use gemm_spec::{Problem, epilogue};

use super::implementation::{CpuImpl, NOTHING, Sums, forms};
use super::vectorised::{Work, vectorised};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "cpu_packed",
    about: "packed blocks for each cache, tiles in vector registers",
    origin: "Goto and van de Geijn 2008; Van Zee and van de Geijn 2015",
    parallel: true,
    blocked: true,
    any_order: true,
    sums: Sums::Engine,
    needs: NOTHING,
    study: false,
    forms: forms!(gemm),
};

/// With the bits of [`engine_definition`], whatever units a context has.
fn gemm<T: CpuTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    gemm_by(CpuUnits::SameBits, problem, a, b, c, context)
}

/// What the engine computes, by its definition: each element the [`engine_sum`] of its products, then [`epilogue`].
///
/// # Panics
/// Where a buffer is too short for the problem, or it is a batch.
pub fn engine_definition<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
) {
    assert!(problem.batch.is_one(), "of a batch each product is one of its own");
    vectorised(Definition { problem, a, b, c });
}

struct Definition<'a, T: ScalarTypes> {
    problem: &'a Problem<T>,
    a: &'a [T::A],
    b: &'a [T::B],
    c: &'a mut [T::C],
}

impl<T: ScalarTypes> Work for Definition<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, c } = self;
        let &Problem { m, n, alpha, beta, .. } = problem;
        for row in 0..m {
            for col in 0..n {
                let sum = engine_sum(
                    problem.effective_k(),
                    #[inline(always)]
                    |p, sum| {
                        T::mul_add(a[problem.a.index(row, p)], b[problem.b.index(p, col)], sum)
                    },
                );
                let c = &mut c[problem.c.index(row, col)];
                *c = epilogue(alpha, sum, beta, || *c);
            }
        }
    }
}
