//! `serial`: the seeds' triple loop, and the definition of correct.
//!
//! Each element of C is one chain of fused multiply-adds over k, in order. Every implementation that
//! keeps that order must give the same bits. It is slow from n = 512 on, since its inner loop walks
//! down a column of B, one cache line for each element.
//!
//! Source: "Matrix Multiplication: the Hello World of parallel programming"; the lecture notes' host
//! function; the C++ AMP sample's `mxm_single_cpu`.

use gemm_spec::{Element, Problem, epilogue};

use super::implementation::{NOTHING, Sums, forms};
use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "serial",
    about: "triple loop, one thread: the definition of correct",
    origin: "Hello World of parallel programming; lecture notes; C++ AMP sample",
    parallel: false,
    blocked: false,
    any_order: false,
    sums: Sums::Chain,
    needs: NOTHING,
    study: false,
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
        for row in 0..problem.m {
            for col in 0..problem.n {
                let acc = element(problem, &a[row * lda..], b, ldb, col);
                let c = &mut c[row * ldc + col];
                *c = epilogue(problem.alpha, acc, problem.beta, || *c);
            }
        }
    }
}

/// The sum over k of one row of A times one column of B.
#[inline(always)]
pub(super) fn element<T: ScalarTypes>(
    problem: &Problem<T>,
    a_row: &[T::A],
    b: &[T::B],
    ldb: usize,
    col: usize,
) -> T::Acc {
    let mut acc = T::Acc::ZERO;
    // No range: tests compile this with little inlining, and compare everything with it.
    let (mut step, k) = (0, problem.effective_k());
    while step < k {
        acc = T::mul_add(a_row[step], b[step * ldb + col], acc);
        step += 1;
    }
    acc
}
