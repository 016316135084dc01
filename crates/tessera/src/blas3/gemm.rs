//! General products.

use cpu_gemm::{CpuContext, CpuTypes, Field, NearShape, View, ViewMut};

use super::options::Op;
use super::products::Products;
use super::sizes::check_size;
use crate::error::Error;

/// `C = alpha * op(A) * op(B) + beta * C`.
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit together; C is then unchanged.
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn gemm<T: Field>(
    op_a: Op,
    op_b: Op,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let (a, b) = (op_a.of(a), op_b.of(b));
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    check_size("gemm", "op(A)", (a.view.rows(), k), (m, k))?;
    check_size("gemm", "op(B)", (b.view.rows(), b.view.cols()), (k, n))?;
    context.product(alpha, a, b, beta, c);
    Ok(())
}

/// [`gemm`] of operands so few that what a call costs is felt: on the caller's thread, in no memory but theirs. `false`,
/// and nothing is done, where there are more of them, where the sizes do not fit together, or where nothing is added.
#[doc(hidden)]
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
#[inline]
pub fn gemm_near<T: Field>(
    op_a: Op,
    op_b: Op,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    beta: T,
    c: &mut ViewMut<'_, T>,
    context: &CpuContext,
) -> bool {
    cpu_gemm::gemm_near(alpha, op_a.of(a), op_b.of(b), beta, c, context)
}

/// What a product of so few operands has in common with others of other operands; `None` where [`gemm_near`] does
/// nothing.
#[doc(hidden)]
#[inline]
pub fn near_shape<T: Field>(
    (op_a, op_b): (Op, Op),
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    beta: T,
    c: &mut ViewMut<'_, T>,
    context: &CpuContext,
) -> Option<NearShape<T>> {
    NearShape::of(alpha, op_a.of(a), op_b.of(b), beta, c, context)
}

/// The same of elements that may be narrower than the sums, such as `bf16` with sums in `f32`: `T` says which. They are
/// real numbers, so [`Op::ConjTrans`] transposes.
///
/// # Errors
/// As [`gemm`].
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn gemm_typed<T: CpuTypes>(
    op_a: Op,
    op_b: Op,
    alpha: T::Acc,
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    beta: T::Acc,
    c: ViewMut<'_, T::C>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (a, b) = (op_a.of(a).view, op_b.of(b).view);
    check_size("gemm", "op(A)", (a.rows(), a.cols()), (c.rows(), a.cols()))?;
    check_size("gemm", "op(B)", (b.rows(), b.cols()), (a.cols(), c.cols()))?;
    cpu_gemm::gemm_typed::<T>(alpha, a, b, beta, c, context).expect("invariant: the sizes fit");
    Ok(())
}
