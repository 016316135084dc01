//! What computes the products that a routine consists of.

use cpu_gemm::{CpuContext, Factor, Field, ViewMut, gemm_views};

/// What computes the products that a routine of [`blas3`](super) consists of: the CPU, or something that gives some of
/// them to a GPU.
///
/// All of a routine but its products is computed by the threads of [`Products::cpu`].
pub trait Products<T: Field> {
    /// The threads of the CPU.
    fn cpu(&self) -> &CpuContext;

    /// Whether a product of m, n and k is computed elsewhere than by these threads. A routine then leaves to
    /// products what it could compute by itself.
    fn goes_elsewhere(&self, sizes: [usize; 3]) -> bool;

    /// `C = alpha * A * B + beta * C` of factors whose sizes fit. It does not fail: where something else than the CPU
    /// does, the CPU computes.
    fn product(&self, alpha: T, a: Factor<'_, T>, b: Factor<'_, T>, beta: T, c: ViewMut<'_, T>);
}

impl<T: Field> Products<T> for CpuContext {
    #[inline]
    fn cpu(&self) -> &CpuContext {
        self
    }

    #[inline]
    fn goes_elsewhere(&self, _: [usize; 3]) -> bool {
        false
    }

    fn product(&self, alpha: T, a: Factor<'_, T>, b: Factor<'_, T>, beta: T, c: ViewMut<'_, T>) {
        gemm_views(alpha, a, b, beta, c, self).expect("invariant: the sizes fit");
    }
}
