//! Enumerations of C's interface, and its row-major matrices as the transposed column-major ones.
//!
//! A row-major matrix is the transposed of what a column-major reader finds at the same address, so each routine
//! becomes one on transposed operands: factors change places, sides and triangles are the other ones. That is how the
//! reference library does it, and so the numbers of wrong arguments are the same.
//!
//! # Safety
//!
//! All functions here ask for what [`level3`] asks, of matrices in the order that the caller names.

use std::ffi::CStr;

use tessera::blas3::{Diag, Field, Op, Side, Uplo};

use crate::device::Number;
use crate::int::Int;
use crate::level3;
use crate::xerbla::C;

/// A value of an enumeration of C's interface.
pub(crate) trait Enumerated: Sized {
    fn of(value: i32) -> Option<Self>;
}

impl Enumerated for Op {
    fn of(value: i32) -> Option<Self> {
        match value {
            111 => Some(Self::NoTrans),
            112 => Some(Self::Trans),
            113 => Some(Self::ConjTrans),
            _ => None,
        }
    }
}

impl Enumerated for Uplo {
    fn of(value: i32) -> Option<Self> {
        match value {
            121 => Some(Self::Upper),
            122 => Some(Self::Lower),
            _ => None,
        }
    }
}

impl Enumerated for Diag {
    fn of(value: i32) -> Option<Self> {
        match value {
            131 => Some(Self::NonUnit),
            132 => Some(Self::Unit),
            _ => None,
        }
    }
}

impl Enumerated for Side {
    fn of(value: i32) -> Option<Self> {
        match value {
            141 => Some(Self::Left),
            142 => Some(Self::Right),
            _ => None,
        }
    }
}

/// The other side.
fn other(side: Side) -> Side {
    match side {
        Side::Left => Side::Right,
        Side::Right => Side::Left,
    }
}

/// The call of a routine by that name, if the order of storage is one.
#[inline]
pub(crate) fn call(name: &'static CStr, layout: i32) -> Option<C> {
    match layout {
        101 => Some(C { name, row_major: true }),
        102 => Some(C { name, row_major: false }),
        _ => {
            C { name, row_major: false }.no_such_value(1);
            None
        }
    }
}

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
#[inline(always)]
pub(crate) unsafe fn gemm<T: Number, I: Int>(
    name: &'static CStr,
    layout: i32,
    (op_a, op_b): (i32, i32),
    (m, n, k): (I, I, I),
    alpha: T,
    a: (*const T, I),
    b: (*const T, I),
    beta: T,
    c: (*mut T, I),
) {
    let Some(call) = call(name, layout) else { return };
    let Some(op_a) = Op::of(op_a) else { return call.no_such_value(2) };
    let Some(op_b) = Op::of(op_b) else { return call.no_such_value(3) };
    let (ops, sizes, a, b) = match call.row_major {
        false => ((op_a, op_b), (m, n, k), a, b),
        true => ((op_b, op_a), (n, m, k), b, a),
    };
    // SAFETY: the caller's promise.
    unsafe { level3::gemm(call, (Some(ops.0), Some(ops.1)), sizes, alpha, a, b, beta, c) }
}

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn symm<T: Number, I: Int>(
    name: &'static CStr,
    hermitian: bool,
    layout: i32,
    (side, uplo): (i32, i32),
    (m, n): (I, I),
    alpha: T,
    a: (*const T, I),
    b: (*const T, I),
    beta: T,
    c: (*mut T, I),
) {
    let Some(call) = call(name, layout) else { return };
    let Some(side) = Side::of(side) else { return call.no_such_value(2) };
    let Some(uplo) = Uplo::of(uplo) else { return call.no_such_value(3) };
    let ((side, uplo), sizes) = match call.row_major {
        false => ((side, uplo), (m, n)),
        true => ((other(side), uplo.flipped()), (n, m)),
    };
    let which = (Some(side), Some(uplo));
    // SAFETY: the caller's promise.
    unsafe { level3::symm(call, hermitian, which, sizes, alpha, a, b, beta, c) }
}

/// The transposition of a rank-k update of the transposed matrices. Of those that the routine does not know none
/// becomes one that it knows.
fn turned<T: Field>(hermitian: bool, op: Op) -> Op {
    match (op, hermitian) {
        (Op::NoTrans, true) => Op::ConjTrans,
        (Op::NoTrans, false) => Op::Trans,
        (Op::Trans, false) | (Op::ConjTrans, true) => Op::NoTrans,
        (Op::ConjTrans, false) if !T::IS_COMPLEX => Op::NoTrans,
        (Op::Trans | Op::ConjTrans, _) => op,
    }
}

/// `syrk` and `herk`.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn syrk<T: Number, I: Int>(
    name: &'static CStr,
    hermitian: bool,
    layout: i32,
    (uplo, op): (i32, i32),
    sizes: (I, I),
    alpha: T,
    a: (*const T, I),
    beta: T,
    c: (*mut T, I),
) {
    let Some(call) = call(name, layout) else { return };
    let Some(uplo) = Uplo::of(uplo) else { return call.no_such_value(2) };
    let Some(op) = Op::of(op) else { return call.no_such_value(3) };
    let (uplo, op) = match call.row_major {
        false => (uplo, op),
        true => (uplo.flipped(), turned::<T>(hermitian, op)),
    };
    let which = (Some(uplo), Some(op));
    // SAFETY: the caller's promise.
    unsafe { level3::syrk(call, hermitian, which, sizes, alpha, a, beta, c) }
}

/// `syr2k` and `her2k`.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn syr2k<T: Number, I: Int>(
    name: &'static CStr,
    hermitian: bool,
    layout: i32,
    (uplo, op): (i32, i32),
    sizes: (I, I),
    alpha: T,
    a: (*const T, I),
    b: (*const T, I),
    beta: T,
    c: (*mut T, I),
) {
    let Some(call) = call(name, layout) else { return };
    let Some(uplo) = Uplo::of(uplo) else { return call.no_such_value(2) };
    let Some(op) = Op::of(op) else { return call.no_such_value(3) };
    let (uplo, op, alpha) = match call.row_major {
        false => (uplo, op, alpha),
        true => {
            let alpha = if hermitian { alpha.conj() } else { alpha };
            (uplo.flipped(), turned::<T>(hermitian, op), alpha)
        }
    };
    let which = (Some(uplo), Some(op));
    // SAFETY: the caller's promise.
    unsafe { level3::syr2k(call, hermitian, which, sizes, alpha, a, b, beta, c) }
}

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn gemmtr<T: Number, I: Int>(
    name: &'static CStr,
    layout: i32,
    uplo: i32,
    (op_a, op_b): (i32, i32),
    sizes: (I, I),
    alpha: T,
    a: (*const T, I),
    b: (*const T, I),
    beta: T,
    c: (*mut T, I),
) {
    let Some(call) = call(name, layout) else { return };
    let Some(uplo) = Uplo::of(uplo) else { return call.no_such_value(2) };
    let Some(op_a) = Op::of(op_a) else { return call.no_such_value(3) };
    let Some(op_b) = Op::of(op_b) else { return call.no_such_value(4) };
    let (uplo, ops, a, b) = match call.row_major {
        false => (uplo, (op_a, op_b), a, b),
        true => (uplo.flipped(), (op_b, op_a), b, a),
    };
    let ops = (Some(ops.0), Some(ops.1));
    // SAFETY: the caller's promise.
    unsafe { level3::gemmtr(call, Some(uplo), ops, sizes, alpha, a, b, beta, c) }
}

/// `trmm` and `trsm`.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub(crate) unsafe fn triangular<T: Number, I: Int>(
    name: &'static CStr,
    solve: bool,
    layout: i32,
    (side, uplo): (i32, i32),
    (op, diag): (i32, i32),
    (m, n): (I, I),
    alpha: T,
    a: (*const T, I),
    b: (*mut T, I),
) {
    let Some(call) = call(name, layout) else { return };
    let Some(side) = Side::of(side) else { return call.no_such_value(2) };
    let Some(uplo) = Uplo::of(uplo) else { return call.no_such_value(3) };
    let Some(op) = Op::of(op) else { return call.no_such_value(4) };
    let Some(diag) = Diag::of(diag) else { return call.no_such_value(5) };
    let ((side, uplo), sizes) = match call.row_major {
        false => ((side, uplo), (m, n)),
        true => ((other(side), uplo.flipped()), (n, m)),
    };
    let (place, kind) = ((Some(side), Some(uplo)), (Some(op), Some(diag)));
    // SAFETY: the caller's promise.
    unsafe { level3::triangular(call, solve, place, kind, sizes, alpha, a, b) }
}
