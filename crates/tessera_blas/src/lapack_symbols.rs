//! The table of names of LAPACK's routines, each under Fortran's spellings of [`crate::export`].

use tessera::blas3::Complex;

use crate::export::export;
use crate::lapack::{self, Info};
use crate::letters::Letter;
use crate::xerbla::Fortran;

macro_rules! of_any {
    ($t:ty, $letter:literal, $capital:literal) => {
        export! { fortran ($letter "getrf") (
            m: &I, n: &I, a: *mut $t, lda: &I, pivots: *mut I, info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named(concat!($capital, "GETRF")), info);
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::getrf(info, (*m, *n), (a, *lda), pivots) }
        }}
        export! { fortran ($letter "getrs") (
            op: &u8, n: &I, sides: &I, a: *const $t, lda: &I, pivots: *const I, b: *mut $t, ldb: &I,
            info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named(concat!($capital, "GETRS")), info);
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::getrs(info, Letter::of(*op), (*n, *sides), (a, *lda), pivots, (b, *ldb)) }
        }}
        export! { fortran ($letter "gesv") (
            n: &I, sides: &I, a: *mut $t, lda: &I, pivots: *mut I, b: *mut $t, ldb: &I, info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named(concat!($capital, "GESV ")), info);
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::gesv(info, (*n, *sides), (a, *lda), pivots, (b, *ldb)) }
        }}
        export! { fortran ($letter "potrf") (
            uplo: &u8, n: &I, a: *mut $t, lda: &I, info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named(concat!($capital, "POTRF")), info);
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::potrf(info, Letter::of(*uplo), *n, (a, *lda)) }
        }}
        export! { fortran ($letter "potrs") (
            uplo: &u8, n: &I, sides: &I, a: *const $t, lda: &I, b: *mut $t, ldb: &I, info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named(concat!($capital, "POTRS")), info);
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::potrs(info, Letter::of(*uplo), (*n, *sides), (a, *lda), (b, *ldb)) }
        }}
        export! { fortran ($letter "posv") (
            uplo: &u8, n: &I, sides: &I, a: *mut $t, lda: &I, b: *mut $t, ldb: &I, info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named(concat!($capital, "POSV ")), info);
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::posv(info, Letter::of(*uplo), (*n, *sides), (a, *lda), (b, *ldb)) }
        }}
        of_any!(@factor $t, $letter, $capital, "geqrf", "GEQRF", false);
        of_any!(@factor $t, $letter, $capital, "gelqf", "GELQF", true);
        export! { fortran ($letter "gels") (
            op: &u8, m: &I, n: &I, sides: &I, a: *mut $t, lda: &I, b: *mut $t, ldb: &I,
            work: *mut $t, work_len: &I, info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named(concat!($capital, "GELS ")), info);
            let (op, work) = (Letter::of(*op), (work, *work_len));
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::gels(info, op, (*m, *n), *sides, (a, *lda), (b, *ldb), work) }
        }}
    };
    (@factor $t:ty, $letter:literal, $capital:literal, $name:literal, $of_name:literal, $by_rows:literal) => {
        export! { fortran ($letter $name) (
            m: &I, n: &I, a: *mut $t, lda: &I, tau: *mut $t, work: *mut $t, work_len: &I,
            info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named(concat!($capital, $of_name)), info);
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::geqrf(info, $by_rows, (*m, *n), (a, *lda), tau, (work, *work_len)) }
        }}
    };
    (@q $t:ty, $letter:literal, $multiply:literal, $multiply_name:literal, $generate:literal, $generate_name:literal) => {
        export! { fortran ($letter $multiply) (
            side: &u8, op: &u8, m: &I, n: &I, k: &I, a: *const $t, lda: &I, tau: *const $t,
            c: *mut $t, ldc: &I, work: *mut $t, work_len: &I, info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named($multiply_name), info);
            let (side, op, sizes) = (Letter::of(*side), Letter::of(*op), (*m, *n, *k));
            let (a, c, work) = ((a, *lda), (c, *ldc), (work, *work_len));
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::ormqr(info, side, op, sizes, a, tau, c, work) }
        }}
        export! { fortran ($letter $generate) (
            m: &I, n: &I, k: &I, a: *mut $t, lda: &I, tau: *const $t, work: *mut $t, work_len: &I,
            info: *mut I,
        ) {
            let info = Info::new(Fortran::<I>::named($generate_name), info);
            // SAFETY: the caller's promises, those of LAPACK.
            unsafe { lapack::orgqr(info, (*m, *n, *k), (a, *lda), tau, (work, *work_len)) }
        }}
    };
}

of_any!(f32, "s", "S");
of_any!(f64, "d", "D");
of_any!(Complex<f32>, "c", "C");
of_any!(Complex<f64>, "z", "Z");
of_any!(@q f32, "s", "ormqr", "SORMQR", "orgqr", "SORGQR");
of_any!(@q f64, "d", "ormqr", "DORMQR", "orgqr", "DORGQR");
of_any!(@q Complex<f32>, "c", "unmqr", "CUNMQR", "ungqr", "CUNGQR");
of_any!(@q Complex<f64>, "z", "unmqr", "ZUNMQR", "ungqr", "ZUNGQR");
