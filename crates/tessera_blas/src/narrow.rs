//! Products of 16-bit floats, of which sums are f32: the products that OpenBLAS and MKL have beside BLAS.
//!
//! # Safety
//!
//! As in [`level3`](crate::level3).

use std::ffi::CStr;

use gemm_spec::GemmTypes;
use tessera::blas3::{self, CpuTypes, Op};

use crate::cblas::{Enumerated, call};
use crate::int::Int;
use crate::level3::{FITS, LDS_OF_GEMM, SIZES_OF_GEMM, Sizes, general, view, view_mut};
use crate::threads::compute;
use crate::xerbla::Report;

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn gemm<T: CpuTypes + GemmTypes<Acc = f32>, I: Int>(
    report: impl Report,
    ops: (Option<Op>, Option<Op>),
    sizes: (I, I, I),
    alpha: f32,
    (a, lda): (*const T::A, I),
    (b, ldb): (*const T::B, I),
    beta: f32,
    (c, ldc): (*mut T::C, I),
) {
    let Some(Sizes { ops: (op_a, op_b), m, n, k, of_a, of_b }) =
        general(report, ops, sizes, (lda, ldb, ldc), SIZES_OF_GEMM, LDS_OF_GEMM)
    else {
        return;
    };
    if m == 0 || n == 0 || (alpha == 0.0 || k == 0) && beta == 1.0 {
        return;
    }
    // SAFETY: the caller's promise.
    let a = unsafe { view(a, of_a.0, of_a.1, lda) };
    // SAFETY: the caller's promise.
    let b = unsafe { view(b, of_b.0, of_b.1, ldb) };
    // SAFETY: the caller's promise.
    let c = unsafe { view_mut(c, m, n, ldc) };
    compute(m.saturating_mul(n).saturating_mul(k), |context| {
        blas3::gemm_typed::<T>(op_a, op_b, alpha, a, b, beta, c, context).expect(FITS);
    });
}

/// The same as C calls it, A and B being of one type.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn cblas_gemm<T, I>(
    name: &'static CStr,
    layout: i32,
    (op_a, op_b): (i32, i32),
    (m, n, k): (I, I, I),
    alpha: f32,
    a: (*const T::A, I),
    b: (*const T::A, I),
    beta: f32,
    c: (*mut T::C, I),
) where
    T: CpuTypes + GemmTypes<B = <T as GemmTypes>::A, Acc = f32>,
    I: Int,
{
    let Some(call) = call(name, layout) else { return };
    let Some(op_a) = Op::of(op_a) else { return call.no_such_value(2) };
    let Some(op_b) = Op::of(op_b) else { return call.no_such_value(3) };
    let (ops, sizes, a, b) = match call.row_major {
        false => ((op_a, op_b), (m, n, k), a, b),
        true => ((op_b, op_a), (n, m, k), b, a),
    };
    // SAFETY: the caller's promise.
    unsafe { gemm::<T, I>(call, (Some(ops.0), Some(ops.1)), sizes, alpha, a, b, beta, c) }
}
