//! The table of names of level 2, each under the spellings of [`crate::export`].

use std::ffi::CStr;

use tessera::Order;
use tessera::blas3::{Complex, Diag, Op, Uplo};

use crate::cblas::{Enumerated, call};
use crate::export::{Given as _, c_name, export};
use crate::letters::Letter;
use crate::level2::{self, Stored};
use crate::xerbla::Fortran;

/// The order of storage of a call of C.
fn order(row_major: bool) -> Order {
    if row_major { Order::RowMajor } else { Order::ColMajor }
}

/// What all four types have. `$given` is how C passes factors.
macro_rules! of_any {
    ($t:ty, $given:ty, $letter:literal, $capital:literal) => {
        export! { fortran ($letter "gemv") (
            op: &u8, m: &I, n: &I, alpha: &$t, a: *const $t, lda: &I, x: *const $t, step_of_x: &I,
            beta: &$t, y: *mut $t, step_of_y: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, "GEMV "));
            let a = Stored { at: a, ld: *lda, order: Order::ColMajor };
            let (op, x, y) = (Letter::of(*op), (x, *step_of_x), (y, *step_of_y));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level2::gemv(report, op, (*m, *n), *alpha, a, x, *beta, y) }
        }}
        export! { c ($letter "gemv") (
            layout: i32, op: i32, m: I, n: I, alpha: $given, a: *const $t, lda: I, x: *const $t,
            step_of_x: I, beta: $given, y: *mut $t, step_of_y: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, "gemv", "\0"));
            let Some(call) = call(NAME, layout) else { return };
            let Some(op) = <Op as Enumerated>::of(op) else { return call.no_such_value(2) };
            let (alpha, beta): ($t, $t) = (alpha.given(), beta.given());
            let a = Stored { at: a, ld: lda, order: order(call.row_major) };
            let (x, y) = ((x, step_of_x), (y, step_of_y));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level2::gemv(call, Some(op), (m, n), alpha, a, x, beta, y) }
        }}
        export! { fortran ($letter "trsv") (
            uplo: &u8, op: &u8, diag: &u8, n: &I, a: *const $t, lda: &I, x: *mut $t, step: &I,
        ) {
            let report = Fortran::<I>::named(concat!($capital, "TRSV "));
            let a = Stored { at: a, ld: *lda, order: Order::ColMajor };
            let (uplo, op, diag) = (Letter::of(*uplo), Letter::of(*op), Letter::of(*diag));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level2::trsv(report, uplo, op, diag, *n, a, (x, *step)) }
        }}
        export! { c ($letter "trsv") (
            layout: i32, uplo: i32, op: i32, diag: i32, n: I, a: *const $t, lda: I, x: *mut $t,
            step: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, "trsv", "\0"));
            let Some(call) = call(NAME, layout) else { return };
            let Some(uplo) = <Uplo as Enumerated>::of(uplo) else { return call.no_such_value(2) };
            let Some(op) = <Op as Enumerated>::of(op) else { return call.no_such_value(3) };
            let Some(diag) = <Diag as Enumerated>::of(diag) else { return call.no_such_value(4) };
            let a = Stored { at: a, ld: lda, order: order(call.row_major) };
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level2::trsv(call, Some(uplo), Some(op), Some(diag), n, a, (x, step)) }
        }}
    };
}

/// A product with a symmetric or Hermitian matrix.
macro_rules! hemv {
    ($t:ty, $given:ty, $letter:literal, $name:literal, $fortran:literal) => {
        export! { fortran ($letter $name) (
            uplo: &u8, n: &I, alpha: &$t, a: *const $t, lda: &I, x: *const $t, step_of_x: &I,
            beta: &$t, y: *mut $t, step_of_y: &I,
        ) {
            let report = Fortran::<I>::named($fortran);
            let a = Stored { at: a, ld: *lda, order: Order::ColMajor };
            let (uplo, x, y) = (Letter::of(*uplo), (x, *step_of_x), (y, *step_of_y));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level2::hemv(report, uplo, *n, *alpha, a, x, *beta, y) }
        }}
        export! { c ($letter $name) (
            layout: i32, uplo: i32, n: I, alpha: $given, a: *const $t, lda: I, x: *const $t,
            step_of_x: I, beta: $given, y: *mut $t, step_of_y: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, $name, "\0"));
            let Some(call) = call(NAME, layout) else { return };
            let Some(uplo) = <Uplo as Enumerated>::of(uplo) else { return call.no_such_value(2) };
            let (alpha, beta): ($t, $t) = (alpha.given(), beta.given());
            let a = Stored { at: a, ld: lda, order: order(call.row_major) };
            let (x, y) = ((x, step_of_x), (y, step_of_y));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level2::hemv(call, Some(uplo), n, alpha, a, x, beta, y) }
        }}
    };
}

/// An update of rank one.
macro_rules! ger {
    ($t:ty, $given:ty, $letter:literal, $name:literal, $fortran:literal, $conjugates:literal) => {
        export! { fortran ($letter $name) (
            m: &I, n: &I, alpha: &$t, x: *const $t, step_of_x: &I, y: *const $t, step_of_y: &I,
            a: *mut $t, lda: &I,
        ) {
            let report = Fortran::<I>::named($fortran);
            let a = Stored { at: a, ld: *lda, order: Order::ColMajor };
            let (x, y) = ((x, *step_of_x), (y, *step_of_y));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level2::ger(report, $conjugates, (*m, *n), *alpha, x, y, a) }
        }}
        export! { c ($letter $name) (
            layout: i32, m: I, n: I, alpha: $given, x: *const $t, step_of_x: I, y: *const $t,
            step_of_y: I, a: *mut $t, lda: I,
        ) {
            const NAME: &CStr = c_name(concat!("cblas_", $letter, $name, "\0"));
            let Some(call) = call(NAME, layout) else { return };
            let alpha: $t = alpha.given();
            let a = Stored { at: a, ld: lda, order: order(call.row_major) };
            let (x, y) = ((x, step_of_x), (y, step_of_y));
            // SAFETY: the caller's promises, those of BLAS.
            unsafe { level2::ger(call, $conjugates, (m, n), alpha, x, y, a) }
        }}
    };
}

of_any!(f32, f32, "s", "S");
of_any!(f64, f64, "d", "D");
of_any!(Complex<f32>, &Complex<f32>, "c", "C");
of_any!(Complex<f64>, &Complex<f64>, "z", "Z");
hemv!(f32, f32, "s", "symv", "SSYMV ");
hemv!(f64, f64, "d", "symv", "DSYMV ");
hemv!(Complex<f32>, &Complex<f32>, "c", "hemv", "CHEMV ");
hemv!(Complex<f64>, &Complex<f64>, "z", "hemv", "ZHEMV ");
ger!(f32, f32, "s", "ger", "SGER  ", false);
ger!(f64, f64, "d", "ger", "DGER  ", false);
ger!(Complex<f32>, &Complex<f32>, "c", "geru", "CGERU ", false);
ger!(Complex<f32>, &Complex<f32>, "c", "gerc", "CGERC ", true);
ger!(Complex<f64>, &Complex<f64>, "z", "geru", "ZGERU ", false);
ger!(Complex<f64>, &Complex<f64>, "z", "gerc", "ZGERC ", true);
