//! The table of names: level 3 of real and complex numbers, each under the spellings of [`crate::export`].

use std::ffi::CStr;

use tessera::blas3::{Complex, Field as _};

use crate::batch::{self, Fixed, Groups};
use crate::export::{Given as _, c_name, export};
use crate::letters::Letter;
use crate::xerbla::Fortran;
use crate::{cblas, level3};

/// The routines that all four types have. `$given` is how C passes factors.
macro_rules! of_any {
    ($t:ty, $given:ty, $letter:literal, $capital:literal) => {
        of_any!(@gemm $t, $given, $letter, $capital, "gemm", "GEMM ");
        of_any!(@symm $t, $given, $letter, $capital, "symm", "SYMM ", false);
        of_any!(@syr2k $t, $given, $letter, $capital, "syr2k", "SYR2K");
        of_any!(@syrk $t, $given, $letter, $capital, "syrk", "SYRK ");
        of_any!(@triangular $t, $given, $letter, $capital, "trmm", "TRMM ", false);
        of_any!(@triangular $t, $given, $letter, $capital, "trsm", "TRSM ", true);
        of_any!(@gemmtr $t, $given, $letter, $capital, "gemmtr", "GEMMTR");
        of_any!(@gemmtr $t, $given, $letter, $capital, "gemmt", "GEMMT");
        of_any!(@batch $t, $given, $letter, $capital);
    };
    (@gemm $t:ty, $given:ty, $letter:literal, $capital:literal, $name:literal, $padded:literal) => {
        export! { fortran ($letter $name) (
            op_a: &u8, op_b: &u8, m: &I, n: &I, k: &I, alpha: &$t, a: *const $t, lda: &I,
            b: *const $t, ldb: &I, beta: &$t, c: *mut $t, ldc: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, $padded));
            let (ops, sizes) = ((Letter::of(*op_a), Letter::of(*op_b)), (*m, *n, *k));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level3::gemm(report, ops, sizes, *alpha, (a, *lda), (b, *ldb), *beta, (c, *ldc)) }
        }}
        export! { c ($letter $name) (
            layout: i32, op_a: i32, op_b: i32, m: I, n: I, k: I, alpha: $given, a: *const $t, lda: I,
            b: *const $t, ldb: I, beta: $given, c: *mut $t, ldc: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, $name, "\0"));
            let (ops, alpha, beta): (_, $t, $t) = ((op_a, op_b), alpha.given(), beta.given());
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { cblas::gemm(NAME, layout, ops, (m, n, k), alpha, (a, lda), (b, ldb), beta, (c, ldc)) }
        }}
    };
    (@symm $t:ty, $given:ty, $letter:literal, $capital:literal, $name:literal, $padded:literal,
        $hermitian:literal) => {
        export! { fortran ($letter $name) (
            side: &u8, uplo: &u8, m: &I, n: &I, alpha: &$t, a: *const $t, lda: &I, b: *const $t,
            ldb: &I, beta: &$t, c: *mut $t, ldc: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, $padded));
            let (which, sizes) = ((Letter::of(*side), Letter::of(*uplo)), (*m, *n));
            let (a, b, c) = ((a, *lda), (b, *ldb), (c, *ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level3::symm(report, $hermitian, which, sizes, *alpha, a, b, *beta, c) }
        }}
        export! { c ($letter $name) (
            layout: i32, side: i32, uplo: i32, m: I, n: I, alpha: $given, a: *const $t, lda: I,
            b: *const $t, ldb: I, beta: $given, c: *mut $t, ldc: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, $name, "\0"));
            let (which, alpha, beta): (_, $t, $t) = ((side, uplo), alpha.given(), beta.given());
            let (a, b, c) = ((a, lda), (b, ldb), (c, ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { cblas::symm(NAME, $hermitian, layout, which, (m, n), alpha, a, b, beta, c) }
        }}
    };
    (@syrk $t:ty, $given:ty, $letter:literal, $capital:literal, $name:literal, $padded:literal) => {
        export! { fortran ($letter $name) (
            uplo: &u8, op: &u8, n: &I, k: &I, alpha: &$t, a: *const $t, lda: &I, beta: &$t,
            c: *mut $t, ldc: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, $padded));
            let (which, sizes) = ((Letter::of(*uplo), Letter::of(*op)), (*n, *k));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level3::syrk(report, false, which, sizes, *alpha, (a, *lda), *beta, (c, *ldc)) }
        }}
        export! { c ($letter $name) (
            layout: i32, uplo: i32, op: i32, n: I, k: I, alpha: $given, a: *const $t, lda: I,
            beta: $given, c: *mut $t, ldc: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, $name, "\0"));
            let (which, alpha, beta): (_, $t, $t) = ((uplo, op), alpha.given(), beta.given());
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { cblas::syrk(NAME, false, layout, which, (n, k), alpha, (a, lda), beta, (c, ldc)) }
        }}
    };
    (@syr2k $t:ty, $given:ty, $letter:literal, $capital:literal, $name:literal, $padded:literal) => {
        export! { fortran ($letter $name) (
            uplo: &u8, op: &u8, n: &I, k: &I, alpha: &$t, a: *const $t, lda: &I, b: *const $t,
            ldb: &I, beta: &$t, c: *mut $t, ldc: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, $padded));
            let (which, sizes) = ((Letter::of(*uplo), Letter::of(*op)), (*n, *k));
            let (a, b, c) = ((a, *lda), (b, *ldb), (c, *ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level3::syr2k(report, false, which, sizes, *alpha, a, b, *beta, c) }
        }}
        export! { c ($letter $name) (
            layout: i32, uplo: i32, op: i32, n: I, k: I, alpha: $given, a: *const $t, lda: I,
            b: *const $t, ldb: I, beta: $given, c: *mut $t, ldc: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, $name, "\0"));
            let (which, alpha, beta): (_, $t, $t) = ((uplo, op), alpha.given(), beta.given());
            let (a, b, c) = ((a, lda), (b, ldb), (c, ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { cblas::syr2k(NAME, false, layout, which, (n, k), alpha, a, b, beta, c) }
        }}
    };
    (@triangular $t:ty, $given:ty, $letter:literal, $capital:literal, $name:literal, $padded:literal,
        $solve:literal) => {
        export! { fortran ($letter $name) (
            side: &u8, uplo: &u8, op: &u8, diag: &u8, m: &I, n: &I, alpha: &$t, a: *const $t,
            lda: &I, b: *mut $t, ldb: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, $padded));
            let place = (Letter::of(*side), Letter::of(*uplo));
            let kind = (Letter::of(*op), Letter::of(*diag));
            let (a, b) = ((a, *lda), (b, *ldb));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level3::triangular(report, $solve, place, kind, (*m, *n), *alpha, a, b) }
        }}
        export! { c ($letter $name) (
            layout: i32, side: i32, uplo: i32, op: i32, diag: i32, m: I, n: I, alpha: $given,
            a: *const $t, lda: I, b: *mut $t, ldb: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, $name, "\0"));
            let (place, kind, alpha): (_, _, $t) = ((side, uplo), (op, diag), alpha.given());
            let (a, b) = ((a, lda), (b, ldb));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { cblas::triangular(NAME, $solve, layout, place, kind, (m, n), alpha, a, b) }
        }}
    };
    (@gemmtr $t:ty, $given:ty, $letter:literal, $capital:literal, $name:literal, $padded:literal) => {
        export! { fortran ($letter $name) (
            uplo: &u8, op_a: &u8, op_b: &u8, n: &I, k: &I, alpha: &$t, a: *const $t, lda: &I,
            b: *const $t, ldb: &I, beta: &$t, c: *mut $t, ldc: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, $padded));
            let (uplo, ops) = (Letter::of(*uplo), (Letter::of(*op_a), Letter::of(*op_b)));
            let (a, b, c) = ((a, *lda), (b, *ldb), (c, *ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level3::gemmtr(report, uplo, ops, (*n, *k), *alpha, a, b, *beta, c) }
        }}
        export! { c ($letter $name) (
            layout: i32, uplo: i32, op_a: i32, op_b: i32, n: I, k: I, alpha: $given, a: *const $t,
            lda: I, b: *const $t, ldb: I, beta: $given, c: *mut $t, ldc: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, $name, "\0"));
            let (ops, alpha, beta): (_, $t, $t) = ((op_a, op_b), alpha.given(), beta.given());
            let (a, b, c) = ((a, lda), (b, ldb), (c, ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { cblas::gemmtr(NAME, layout, uplo, ops, (n, k), alpha, a, b, beta, c) }
        }}
    };
    (@batch $t:ty, $given:ty, $letter:literal, $capital:literal) => {
        export! { fortran ($letter "gemm_batch") (
            op_a: *const u8, op_b: *const u8, m: *const I, n: *const I, k: *const I,
            alpha: *const $t, a: *const *const $t, lda: *const I, b: *const *const $t,
            ldb: *const I, beta: *const $t, c: *const *mut $t, ldc: *const I, groups: &I,
            group_size: *const I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, "GEMM_BATCH"));
            let groups = Groups { op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, group_size, count: *groups };
            // SAFETY: the caller's promises: arrays of that many groups, and of their products.
            unsafe { batch::grouped(report, &groups, Letter::of, false) }
        }}
        export! { c ($letter "gemm_batch") (
            layout: i32, op_a: *const i32, op_b: *const i32, m: *const I, n: *const I, k: *const I,
            alpha: *const $t, a: *const *const $t, lda: *const I, b: *const *const $t,
            ldb: *const I, beta: *const $t, c: *const *mut $t, ldc: *const I, groups: I,
            group_size: *const I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, "gemm_batch", "\0"));
            let Some(call) = cblas::call(NAME, layout) else { return };
            let groups = Groups { op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, group_size, count: groups };
            // SAFETY: the caller's promises: arrays of that many groups, and of their products.
            unsafe { batch::grouped(call, &groups, cblas::Enumerated::of, call.row_major) }
        }}
        export! { fortran ($letter "gemm_batch_strided") (
            op_a: &u8, op_b: &u8, m: &I, n: &I, k: &I, alpha: &$t, a: *const $t, lda: &I,
            stride_a: &I, b: *const $t, ldb: &I, stride_b: &I, beta: &$t, c: *mut $t, ldc: &I,
            stride_c: &I, count: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, "GEMM_BATCH_STRIDED"));
            let ops = (Letter::of(*op_a), Letter::of(*op_b));
            let (a, b, c) = ((a, *lda, *stride_a), (b, *ldb, *stride_b), (c, *ldc, *stride_c));
            let all = Fixed { ops, sizes: (*m, *n, *k), alpha: *alpha, a, b, beta: *beta, c, count: *count };
            // SAFETY: the caller's promises: that many matrices, those strides apart.
            unsafe { batch::strided(report, &all) }
        }}
        export! { c ($letter "gemm_batch_strided") (
            layout: i32, op_a: i32, op_b: i32, m: I, n: I, k: I, alpha: $given, a: *const $t, lda: I,
            stride_a: I, b: *const $t, ldb: I, stride_b: I, beta: $given, c: *mut $t, ldc: I,
            stride_c: I, count: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, "gemm_batch_strided", "\0"));
            let Some(call) = cblas::call(NAME, layout) else { return };
            let ops = (cblas::Enumerated::of(op_a), cblas::Enumerated::of(op_b));
            let (alpha, beta): ($t, $t) = (alpha.given(), beta.given());
            let (a, b, c) = ((a, lda, stride_a), (b, ldb, stride_b), (c, ldc, stride_c));
            let all = Fixed { ops, sizes: (m, n, k), alpha, a, b, beta, c, count };
            let all = if call.row_major { all.turned() } else { all };
            // SAFETY: the caller's promises: that many matrices, those strides apart.
            unsafe { batch::strided(call, &all) }
        }}
    };
}

/// The routines that complex numbers alone have. `$r` is the type of their parts.
macro_rules! of_complex {
    ($t:ty, $r:ty, $letter:literal, $capital:literal) => {
        // The bound of a product by three real ones holds for norms alone; this one's holds for elements.
        of_any!(@gemm $t, &$t, $letter, $capital, "gemm3m", "GEMM3M");
        of_any!(@symm $t, &$t, $letter, $capital, "hemm", "HEMM ", true);
        export! { fortran ($letter "herk") (
            uplo: &u8, op: &u8, n: &I, k: &I, alpha: &$r, a: *const $t, lda: &I, beta: &$r,
            c: *mut $t, ldc: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, "HERK "));
            let (which, sizes) = ((Letter::of(*uplo), Letter::of(*op)), (*n, *k));
            let (alpha, beta) = (<$t>::from_re(*alpha), <$t>::from_re(*beta));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level3::syrk(report, true, which, sizes, alpha, (a, *lda), beta, (c, *ldc)) }
        }}
        export! { c ($letter "herk") (
            layout: i32, uplo: i32, op: i32, n: I, k: I, alpha: $r, a: *const $t, lda: I, beta: $r,
            c: *mut $t, ldc: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, "herk", "\0"));
            let (which, alpha, beta) = ((uplo, op), <$t>::from_re(alpha), <$t>::from_re(beta));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { cblas::syrk(NAME, true, layout, which, (n, k), alpha, (a, lda), beta, (c, ldc)) }
        }}
        export! { fortran ($letter "her2k") (
            uplo: &u8, op: &u8, n: &I, k: &I, alpha: &$t, a: *const $t, lda: &I, b: *const $t,
            ldb: &I, beta: &$r, c: *mut $t, ldc: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, "HER2K"));
            let (which, sizes) = ((Letter::of(*uplo), Letter::of(*op)), (*n, *k));
            let (a, b, beta, c) = ((a, *lda), (b, *ldb), <$t>::from_re(*beta), (c, *ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level3::syr2k(report, true, which, sizes, *alpha, a, b, beta, c) }
        }}
        export! { c ($letter "her2k") (
            layout: i32, uplo: i32, op: i32, n: I, k: I, alpha: &$t, a: *const $t, lda: I,
            b: *const $t, ldb: I, beta: $r, c: *mut $t, ldc: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, "her2k", "\0"));
            let (which, beta) = ((uplo, op), <$t>::from_re(beta));
            let (a, b, c) = ((a, lda), (b, ldb), (c, ldc));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { cblas::syr2k(NAME, true, layout, which, (n, k), *alpha, a, b, beta, c) }
        }}
    };
}

of_any!(f32, f32, "s", "S");
of_any!(f64, f64, "d", "D");
of_any!(Complex<f32>, &Complex<f32>, "c", "C");
of_any!(Complex<f64>, &Complex<f64>, "z", "Z");
of_complex!(Complex<f32>, f32, "c", "C");
of_complex!(Complex<f64>, f64, "z", "Z");
