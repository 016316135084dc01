//! Rust crates that multiply matrices. They are part of the program, behind the feature `peers`.

use std::any::TypeId;
use std::num::NonZeroUsize;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use gemm_spec::{Accumulator, GemmTypes, Layout, Order, Problem};

use super::RustCrate;
use crate::cpu::CpuContext;
use crate::scalar::{Scalar, ScalarTypes};

/// The versions that this program was built with.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// Name and version of a crate.
pub(super) fn describe(name: &str) -> String {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let version = LOCK.split_once(&entry).and_then(|(_, rest)| rest.split('"').next());
    format!("{name} {}", version.unwrap_or("of unknown version"))
}

/// Computes the problem's C.
pub(super) fn multiply<T: ScalarTypes>(
    which: RustCrate,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), String> {
    problem.check_buffers(a.len(), b.len(), c.len()).map_err(|error| error.to_string())?;
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    let types = TypeId::of::<T>();
    if types == TypeId::of::<f32>() {
        let problem = retyped(problem, f32::from_f64);
        // SAFETY: T is f32, and the buffers hold the operands, as checked above; C is exclusive.
        return unsafe { f32::multiply(which, &problem, a.cast(), b.cast(), c.cast(), context) };
    }
    if types == TypeId::of::<f64>() {
        let problem = retyped(problem, |x| x);
        // SAFETY: T is f64, and the buffers hold the operands, as checked above; C is exclusive.
        return unsafe { f64::multiply(which, &problem, a.cast(), b.cast(), c.cast(), context) };
    }
    Err(format!("has no product in {}", T::TYPES))
}

fn retyped<T: ScalarTypes, F: GemmTypes<Acc = F>>(
    problem: &Problem<T>,
    cast: impl Fn(f64) -> F,
) -> Problem<F> {
    let factor = |factor: T::Acc| cast(factor.to_f64());
    Problem::<F>::new(problem.m, problem.n, problem.k)
        .with_layouts(problem.a, problem.b, problem.c)
        .with_scalars(factor(problem.alpha), factor(problem.beta))
}

/// Distance of neighbouring rows and of neighbouring columns. They fit: a buffer's bytes do.
fn strides(layout: Layout) -> (isize, isize) {
    match layout.order {
        Order::RowMajor => (layout.ld as isize, 1),
        Order::ColMajor => (1, layout.ld as isize),
    }
}

/// A type that the crates multiply.
trait Float: Accumulator + GemmTypes {
    /// Computes C.
    ///
    /// # Safety
    /// The three buffers hold the problem's operands, and nothing else uses C.
    unsafe fn multiply(
        which: RustCrate,
        problem: &Problem<Self>,
        a: *const Self,
        b: *const Self,
        c: *mut Self,
        context: &CpuContext,
    ) -> Result<(), String>;
}

macro_rules! float {
    ($float:ident, $matrixmultiply:path) => {
        impl Float for $float {
            unsafe fn multiply(
                which: RustCrate,
                problem: &Problem<Self>,
                a: *const Self,
                b: *const Self,
                c: *mut Self,
                context: &CpuContext,
            ) -> Result<(), String> {
                let Problem { m, n, k, alpha, beta, .. } = *problem;
                let (rsa, csa) = strides(problem.a);
                let (rsb, csb) = strides(problem.b);
                let (rsc, csc) = strides(problem.c);
                match which {
                    RustCrate::Gemm => {
                        let threads = match context.threads() {
                            1 => gemm::Parallelism::None,
                            threads => gemm::Parallelism::Rayon(threads),
                        };
                        // Its alpha is the factor of C.
                        // SAFETY: the caller's promise on the buffers; sizes and strides are theirs.
                        unsafe {
                            gemm::gemm(
                                m,
                                n,
                                k,
                                c,
                                csc,
                                rsc,
                                beta != 0.0,
                                a,
                                csa,
                                rsa,
                                b,
                                csb,
                                rsb,
                                beta,
                                alpha,
                                false,
                                false,
                                false,
                                threads,
                            );
                        }
                    }
                    RustCrate::MatrixMultiply => {
                        // SAFETY: the caller's promise on the buffers; sizes and strides are theirs.
                        unsafe {
                            $matrixmultiply(
                                m, k, n, alpha, a, rsa, csa, b, rsb, csb, beta, c, rsc, csc,
                            );
                        }
                    }
                    RustCrate::Faer => {
                        let accumulate = match beta {
                            0.0 => Accum::Replace,
                            1.0 => Accum::Add,
                            _ => return Err(format!("has no beta of {beta}, only 0 and 1")),
                        };
                        let threads = NonZeroUsize::new(context.threads())
                            .filter(|threads| threads.get() > 1)
                            .map_or(Par::Seq, Par::Rayon);
                        // SAFETY: the caller's promise on the buffers; sizes and strides are theirs.
                        let a = unsafe { MatRef::from_raw_parts(a, m, k, rsa, csa) };
                        // SAFETY: as above.
                        let b = unsafe { MatRef::from_raw_parts(b, k, n, rsb, csb) };
                        // SAFETY: as above; nothing else uses C.
                        let c = unsafe { MatMut::from_raw_parts_mut(c, m, n, rsc, csc) };
                        matmul(c, accumulate, a, b, alpha, threads);
                    }
                }
                Ok(())
            }
        }
    };
}

float!(f32, matrixmultiply::sgemm);
float!(f64, matrixmultiply::dgemm);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column_major::tests::{expected, problems};

    #[test]
    fn every_crate_multiplies_in_every_order() {
        let context = crate::cpu::context(NonZeroUsize::new(2)).unwrap();
        for which in [RustCrate::Gemm, RustCrate::Faer, RustCrate::MatrixMultiply] {
            for (problem, a, b) in problems() {
                let mut c = vec![f64::NAN; 64];
                multiply(which, &problem, &a, &b, &mut c, &context).unwrap();
                for row in 0..problem.m {
                    for col in 0..problem.n {
                        let found = c[problem.c.index(row, col)];
                        assert_eq!(found, expected(&problem, &a, &b, row, col), "{which:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert!(describe("gemm").starts_with("gemm 0."), "{}", describe("gemm"));
        assert_eq!(describe("nothing-of-that-name"), "nothing-of-that-name of unknown version");
    }
}
