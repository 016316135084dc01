//! The table of names that are not BLAS': products of 16-bit floats and of bytes as OpenBLAS and MKL name them, and
//! `isamax`.

use std::ffi::CStr;

use tessera::{bf16, f16};

use crate::bytes::{self, Offsets};
use crate::export::{c_name, export};
use crate::letters::Letter;
use crate::xerbla::Fortran;
use crate::{isamax, narrow};

/// A product of 16-bit floats. `$t` are the types of the product, `$e` its elements of A and B, `$f` alpha and beta
/// as they are passed, `$c` the elements of C.
macro_rules! narrow {
    ($name:literal, $capitals:literal, $t:ty, $e:ty, $f:ty, $c:ty) => {
        export! { fortran ("" $name) (
            op_a: &u8, op_b: &u8, m: &I, n: &I, k: &I, alpha: &$f, a: *const $e, lda: &I,
            b: *const $e, ldb: &I, beta: &$f, c: *mut $c, ldc: &I,
        ) {
            let report = Fortran::<I>::named($capitals);
            let (ops, sizes) = ((Letter::of(*op_a), Letter::of(*op_b)), (*m, *n, *k));
            let (alpha, beta) = (f32::from(*alpha), f32::from(*beta));
            let (a, b, c) = ((a, *lda), (b, *ldb), (c, *ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { narrow::gemm::<$t, I>(report, ops, sizes, alpha, a, b, beta, c) }
        }}
        export! { c ("" $name) (
            layout: i32, op_a: i32, op_b: i32, m: I, n: I, k: I, alpha: $f, a: *const $e, lda: I,
            b: *const $e, ldb: I, beta: $f, c: *mut $c, ldc: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $name, "\0"));
            let (alpha, beta) = (f32::from(alpha), f32::from(beta));
            let (a, b, c) = ((a, lda), (b, ldb), (c, ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { narrow::cblas_gemm::<$t, I>(NAME, layout, (op_a, op_b), (m, n, k), alpha, a, b, beta, c) }
        }}
    };
}

narrow!("sbgemm", "SBGEMM", (bf16, f32), bf16, f32, f32);
narrow!("shgemm", "SHGEMM", (f16, f32), f16, f32, f32);
narrow!("bgemm", "BGEMM ", bf16, bf16, bf16, bf16);
narrow!("gemm_bf16bf16f32", "GEMM_BF16BF16F32", (bf16, f32), bf16, f32, f32);
narrow!("gemm_f16f16f32", "GEMM_F16F16F32", (f16, f32), f16, f32, f32);

export! { fortran ("" "gemm_s8u8s32") (
    op_a: &u8, op_b: &u8, offset: &u8, m: &I, n: &I, k: &I, alpha: &f32, a: *const i8, lda: &I,
    ao: &i8, b: *const u8, ldb: &I, bo: &i8, beta: &f32, c: *mut i32, ldc: &I, co: *const i32,
) {
    let report = Fortran::<I>::named("GEMM_S8U8S32");
    let (ops, sizes) = ((Letter::of(*op_a), Letter::of(*op_b)), (*m, *n, *k));
    let offsets = Offsets { a: *ao, b: *bo, of_c: Letter::of(*offset), c: co };
    let (a, b, c) = ((a, *lda), (b, *ldb), (c, *ldc));
    // SAFETY: the caller's promises, those of MKL.
    unsafe { bytes::gemm(report, ops, offsets, sizes, *alpha, a, b, *beta, c) }
}}
export! { c ("" "gemm_s8u8s32") (
    layout: i32, op_a: i32, op_b: i32, offset: i32, m: I, n: I, k: I, alpha: f32, a: *const u8,
    lda: I, ao: i8, b: *const u8, ldb: I, bo: i8, beta: f32, c: *mut i32, ldc: I, co: *const i32,
) {
    const NAME: &CStr = c_name("cblas_gemm_s8u8s32\0");
    let (a, b, c) = ((a, lda, ao), (b, ldb, bo), (c, ldc, co));
    // SAFETY: the caller's promises, those of MKL.
    unsafe { bytes::cblas_gemm(NAME, layout, (op_a, op_b, offset), (m, n, k), alpha, a, b, beta, c) }
}}

export! { fortran ("" "isamax") (n: &I, x: *const f32, step: &I) -> I {
    // SAFETY: the caller's promises, those of BLAS.
    unsafe { isamax::isamax(*n, x, *step) }
}}
