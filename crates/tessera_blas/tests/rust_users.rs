//! A Rust program that calls BLAS by the declarations of `cblas-sys`, as ndarray and others do, and links this crate for
//! the definitions: no C, and no flag for the linker.

use std::ffi::c_int;

use cblas_sys::{
    CBLAS_DIAG, CBLAS_LAYOUT, CBLAS_TRANSPOSE, CBLAS_UPLO, cblas_dgemm, cblas_dgemv, cblas_dtrsv,
};
use tessera_blas as _;

const ROWS: CBLAS_LAYOUT = CBLAS_LAYOUT::CblasRowMajor;
const PLAIN: CBLAS_TRANSPOSE = CBLAS_TRANSPOSE::CblasNoTrans;

#[test]
fn symbols_come_from_this_crate() {
    let (a, x) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, -1.0, 2.0]);
    let mut c = [f64::NAN; 4];
    // SAFETY: row-major matrices of 2 by 3, the second transposed, and of 2 by 2.
    unsafe {
        let turned = CBLAS_TRANSPOSE::CblasTrans;
        cblas_dgemm(
            ROWS,
            PLAIN,
            turned,
            2,
            2,
            3,
            1.0,
            a.as_ptr(),
            3,
            a.as_ptr(),
            3,
            0.0,
            c.as_mut_ptr(),
            2,
        );
    }
    assert_eq!(c, [14.0, 32.0, 32.0, 77.0]);
    let mut y = [1.0, 1.0];
    // SAFETY: a row-major matrix of 2 by 3 and vectors of 3 and 2.
    unsafe {
        cblas_dgemv(ROWS, PLAIN, 2, 3, 2.0, a.as_ptr(), 3, x.as_ptr(), 1, -1.0, y.as_mut_ptr(), 1)
    };
    assert_eq!(y, [9.0, 21.0]);
    let (upper, diag) = (CBLAS_UPLO::CblasUpper, CBLAS_DIAG::CblasNonUnit);
    let mut b = [5.0, 8.0];
    let step: c_int = -1;
    // SAFETY: a row-major matrix of 2 by 2, and a vector of 2, the first element last.
    unsafe {
        cblas_dtrsv(
            ROWS,
            upper,
            PLAIN,
            diag,
            2,
            [2.0, 1.0, 0.0, 5.0].as_ptr(),
            2,
            b.as_mut_ptr(),
            step,
        )
    };
    assert_eq!(b, [1.0, 3.5]);
}
