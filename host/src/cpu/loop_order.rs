//! `loop_order`: the triple loop with its two inner loops exchanged.
//!
//! `serial` walks down a column of B for each element of C. Here the innermost loop runs along a row of
//! B and a row of sums: both are contiguous, so that a cache line that is loaded is used up, and one
//! instruction multiplies and adds a whole vector. Each element is still one chain over k in order.
//!
//! Source: Golub and Van Loan, "Matrix Computations", the six orders of the three loops.

use gemm_spec::{Element, Problem, WideBf16, WideF16, bf16, epilogue, f16};

use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::Scalar;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "loop_order",
    about: "one thread, inner loop along rows of B",
    origin: "Golub and Van Loan, Matrix Computations",
    parallel: false,
    any_order: false,
    study: true,
    f32: gemm::<f32>,
    f64: gemm::<f64>,
    i32: gemm::<i32>,
    i8: gemm::<i8>,
    f16: gemm::<f16>,
    bf16: gemm::<bf16>,
    wide_f16: gemm::<WideF16>,
    wide_bf16: gemm::<WideBf16>,
};

fn gemm<T: Scalar>(
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T::Out],
    _: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    vectorised(Rows { problem, a, b, c });
    Ok(())
}

struct Rows<'a, T: Scalar> {
    problem: &'a Problem<T>,
    a: &'a [T],
    b: &'a [T],
    c: &'a mut [T::Result],
}

impl<T: Scalar> Work for Rows<'_, T> {
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, c } = self;
        let (lda, ldb, ldc) = (problem.a.ld, problem.b.ld, problem.c.ld);
        let mut sums = vec![T::Acc::ZERO; problem.n];
        for row in 0..problem.m {
            sums.fill(T::Acc::ZERO);
            for step in 0..problem.effective_k() {
                add_step(a[row * lda + step], &b[step * ldb..][..problem.n], &mut sums);
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
pub(super) fn add_step<T: Scalar>(factor: T, b: &[T], sums: &mut [T::Acc]) {
    for (sum, &b) in sums.iter_mut().zip(b) {
        *sum = factor.mul_add(b, *sum);
    }
}
