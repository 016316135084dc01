//! Products with a triangular matrix, and solves with one.

use std::num::NonZeroUsize;

use cpu_gemm::{
    BLOCK, CpuContext, Factor, Field, Task, View, ViewMut, largest_triangle, scale, triangle,
};

use super::options::{Diag, Op, Side, Uplo};
use super::products::Products;
use super::sizes::{check_size, half};
use crate::error::Error;
use crate::stripes::each_stripe;

/// `B = alpha * op(A) * B`, or `B = alpha * B * op(A)`, with a triangular A.
///
/// # Errors
/// [`Error::Operand`] where A is not square or does not fit B, which is then unchanged.
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn trmm<T: Field>(
    side: Side,
    uplo: Uplo,
    op: Op,
    diag: Diag,
    alpha: T,
    a: View<'_, T>,
    b: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    compute("trmm", false, (side, uplo, op, diag), alpha, a, b, context)
}

/// Solves `op(A) * X = alpha * B`, or `X * op(A) = alpha * B`, with a triangular A; X takes the place of B.
///
/// Rows are multiplied by the reciprocals of the diagonal's elements, and divided by those whose reciprocals overflow or
/// are subnormal. A zero on the diagonal is not looked for: what is divided by it becomes infinite or NaN.
///
/// # Errors
/// As [`trmm`].
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn trsm<T: Field>(
    side: Side,
    uplo: Uplo,
    op: Op,
    diag: Diag,
    alpha: T,
    a: View<'_, T>,
    b: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    compute("trsm", true, (side, uplo, op, diag), alpha, a, b, context)
}

fn compute<T: Field>(
    routine: &'static str,
    solve: bool,
    (side, uplo, op, diag): (Side, Uplo, Op, Diag),
    mut alpha: T,
    a: View<'_, T>,
    b: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let order = if side == Side::Left { b.rows() } else { b.cols() };
    check_size(routine, "A", (a.rows(), a.cols()), (order, order))?;
    let a = op.of(a);
    let is_transposed = op != Op::NoTrans;
    // B * A is the transposed matrix of A^T * B^T.
    let (a, mut b, flips) = match side {
        Side::Left => (a, b, is_transposed),
        Side::Right => (a.transposed(), b.transposed(), !is_transposed),
    };
    if alpha == T::ZERO {
        scale(T::ZERO, &mut b);
        return Ok(());
    }
    if alpha != T::from_re(alpha.re()) {
        // Products by factors that are not real cost more.
        scale(alpha, &mut b);
        alpha = T::ONE;
    }
    let upper = (uplo == Uplo::Upper) != flips;
    let task = Task { solve, upper, unit: diag == Diag::Unit };
    triangular(task, alpha, a, b, context);
    Ok(())
}

const FITS: &str = "invariant: A is square and fits B";

/// The task for A on the left, by halves of A; A is square and fits B.
pub(crate) fn triangular<T: Field>(
    task: Task,
    alpha: T,
    a: Factor<'_, T>,
    b: ViewMut<'_, T>,
    context: &impl Products<T>,
) {
    let n = b.rows();
    if b.cols() == 0 {
        return;
    }
    if n <= BLOCK {
        triangle(task, alpha, a, b, context.cpu()).expect(FITS);
        return;
    }
    if n <= STRIPED && !context.goes_elsewhere([n, b.cols(), n]) {
        let width = stripe(b.cols(), context.cpu().whole());
        if width < b.cols() {
            return in_stripes(task, alpha, a, b, width, context.cpu());
        }
    }
    let largest = largest_triangle::<T>();
    // Smaller ones are halved: their products are near, which do not pack.
    let by_blocks = n > largest / 4 * 3 && n <= largest;
    if by_blocks && !context.goes_elsewhere([n, b.cols(), n]) {
        triangle(task, alpha, a, b, context.cpu()).expect(FITS);
        return;
    }
    let cut = half(n, BLOCK);
    let (first, last) = (a.part(0..cut, 0..cut), a.part(cut..n, cut..n));
    let (top, bottom) = b.split_rows(cut);
    // Each half of B meets its own triangle; one of them meets the other half as well.
    let (near, mut of_near, far, of_far, beside) = match task.upper {
        true => (first, top, last, bottom, a.part(0..cut, cut..n)),
        false => (last, bottom, first, top, a.part(cut..n, 0..cut)),
    };
    let mut of_far = of_far;
    if task.solve {
        triangular(task, alpha, far, of_far.reborrow(), context);
        let known = Factor::plain(of_far.as_view());
        context.product(-T::ONE, beside, known, alpha, of_near.reborrow());
        triangular(task, T::ONE, near, of_near, context);
    } else {
        triangular(task, alpha, near, of_near.reborrow(), context);
        context.product(alpha, beside, Factor::plain(of_far.as_view()), T::ONE, of_near);
        triangular(task, alpha, far, of_far, context);
    }
}

/// Rows of the triangles whose right-hand sides are divided among the threads: below, the threads would wait for each
/// other at each of its parts for longer than these take.
const STRIPED: usize = 512;
/// Right-hand sides of a thread at least: each of them packs all of the triangle.
const LEAST_STRIPE: usize = 48;
/// Right-hand sides of a thread are a multiple of this, but for the last.
const STRIPE_OF: usize = 16;

/// How many right-hand sides each thread takes; all of them where they are too few for several.
fn stripe(cols: usize, threads: usize) -> usize {
    cols.div_ceil(threads).next_multiple_of(STRIPE_OF).max(LEAST_STRIPE).min(cols)
}

/// [`triangular`] of that many right-hand sides on each thread.
fn in_stripes<T: Field>(
    task: Task,
    alpha: T,
    a: Factor<'_, T>,
    b: ViewMut<'_, T>,
    width: usize,
    context: &CpuContext,
) {
    let alone = context.limited_to(NonZeroUsize::MIN);
    each_stripe(b, width, context, |stripe| triangular(task, alpha, a, stripe, &alone));
}
