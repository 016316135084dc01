//! `loop_order`: the triple loop with its two inner loops exchanged.
//!
//! `serial` walks down a column of B for each element of C. Here the innermost loop runs along a row of
//! B and a row of sums: both are contiguous, so that a cache line that is loaded is used up, and one
//! instruction multiplies and adds a whole vector. Each element is still one chain over k in order.
//!
//! Source: Golub and Van Loan, "Matrix Computations", the six orders of the three loops.

use gemm_spec::{Element, Problem, epilogue};

use super::implementation::{NOTHING, Sums, forms};
use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "loop_order",
    about: "one thread, inner loop along rows of B",
    origin: "Golub and Van Loan, Matrix Computations",
    parallel: false,
    blocked: false,
    any_order: false,
    sums: Sums::Chain,
    needs: NOTHING,
    study: true,
    forms: forms!(gemm),
};

fn gemm<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    _: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    vectorised(Rows { problem, a, b, c });
    Ok(())
}

struct Rows<'a, T: ScalarTypes> {
    problem: &'a Problem<T>,
    a: &'a [T::A],
    b: &'a [T::B],
    c: &'a mut [T::C],
}

impl<T: ScalarTypes> Work for Rows<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, c } = self;
        let (lda, ldb, ldc) = (problem.a.ld, problem.b.ld, problem.c.ld);
        let mut sums = vec![T::Acc::ZERO; problem.n];
        for row in 0..problem.m {
            sums.fill(T::Acc::ZERO);
            for step in 0..problem.effective_k() {
                add_step::<T>(a[row * lda + step], &b[step * ldb..][..problem.n], &mut sums);
            }
            for (col, &acc) in sums.iter().enumerate() {
                let c = &mut c[row * ldc + col];
                *c = epilogue(problem.alpha, acc, problem.beta, || *c);
            }
        }
    }
}

/// `sums += factor * b`.
#[inline(always)]
pub(super) fn add_step<T: ScalarTypes>(factor: T::A, b: &[T::B], sums: &mut [T::Acc]) {
    for (sum, &b) in sums.iter_mut().zip(b) {
        *sum = T::mul_add(factor, b, *sum);
    }
}
