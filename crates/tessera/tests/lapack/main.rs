//! LU, Cholesky and QR against what they promise.
//!
//! Factors of small integers are compared with what they were multiplied from, bit for bit; others by the size of what
//! is left over, in f64. What a routine may not read holds NaN, and so does the padding.

mod cholesky;
mod least_squares;
mod lu;
mod matrix;
mod qr;

use rayon::ThreadPoolBuilder;
use tessera::CpuContext;

fn context() -> CpuContext {
    context_of(2)
}

/// That many threads, the caller's among them, as those of a program that calls the BLAS.
fn context_of(threads: usize) -> CpuContext {
    let pool = ThreadPoolBuilder::new().num_threads(threads - 1).build();
    CpuContext::with_workers(pool.expect("threads start"))
}

/// All small sizes, and some beyond the blocks of each level.
fn sizes() -> impl Iterator<Item = usize> {
    (0..=40).chain([63, 64, 65, 70, 129, 257])
}

/// Shapes about as large, wide, square and tall.
fn shapes() -> impl Iterator<Item = (usize, usize)> {
    sizes().flat_map(|n| [(n, n), (n, n * 3 / 5), (n * 2 / 3, n + 1)])
}

/// A test for each type of elements.
macro_rules! of_all_types {
    ($($test:ident)*) => {$(
        mod $test {
            use tessera::lapack::Complex;

            #[test]
            fn of_f32() {
                super::$test::<f32>();
            }

            #[test]
            fn of_f64() {
                super::$test::<f64>();
            }

            #[test]
            fn of_complex_f32() {
                super::$test::<Complex<f32>>();
            }

            #[test]
            fn of_complex_f64() {
                super::$test::<Complex<f64>>();
            }
        }
    )*};
}
use of_all_types;
