//! General products.

use cpu_gemm::{Bytes, CpuContext, CpuTypes, Field, NearShape, View, ViewMut};

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

/// `C = alpha * (A - a0) * (B - b0) + beta * C` of bytes with or without a sign, less their zero points, in 32 bits:
/// exact modulo 2^32, with the same bits on every machine. As in the other routines, with `beta == 0` C is not read.
///
/// A factor without a sign takes a copy of its size.
///
/// ```
/// use tessera::blas3::{self, Bytes, View, ViewMut};
/// use tessera::{CpuContext, Layout};
///
/// // Activations from 0 to 255 of which 128 stands for zero, and weights from -128 to 127.
/// let (activations, weights) = ([128u8, 255], [-128i8, 2]);
/// let a = Bytes::from(View::new(&activations, 1, 2, Layout::row_major(2))?).with_zero_point(128);
/// let b = Bytes::from(View::new(&weights, 2, 1, Layout::row_major(1))?);
/// let mut c = [0i32];
/// let sums = ViewMut::new(&mut c, 1, 1, Layout::row_major(1))?;
/// blas3::gemm_bytes(1, a, b, 0, sums, &CpuContext::new(None)?)?;
/// assert_eq!(c, [127 * 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Operand`] where the sizes do not fit together; C is then unchanged.
pub fn gemm_bytes(
    alpha: i32,
    a: Bytes<'_>,
    b: Bytes<'_>,
    beta: i32,
    c: ViewMut<'_, i32>,
    context: &CpuContext,
) -> Result<(), Error> {
    gemm_bytes_then(alpha, a, b, beta, c, context, |_, _, _| ())
}

/// [`gemm_bytes`], and `then` of all elements of C, run by run, on the thread that has just stored them: it is told the
/// line of C (a column where C is column-major, else a row), the place of the run's first element in it, and the run,
/// which it may change, as where sums become bytes again. No element is in two runs.
///
/// # Errors
/// As [`gemm_bytes`].
pub fn gemm_bytes_then(
    alpha: i32,
    a: Bytes<'_>,
    b: Bytes<'_>,
    beta: i32,
    c: ViewMut<'_, i32>,
    context: &CpuContext,
    then: impl Fn(usize, usize, &mut [i32]) + Sync,
) -> Result<(), Error> {
    check_size("gemm", "A", (a.rows(), a.cols()), (c.rows(), a.cols()))?;
    check_size("gemm", "B", (b.rows(), b.cols()), (a.cols(), c.cols()))?;
    cpu_gemm::gemm_bytes_then(alpha, a, b, beta, c, context, then)
        .expect("invariant: the sizes fit");
    Ok(())
}
