//! The product of bytes that MKL has beside BLAS, `C = alpha * (op(A) + ao) * (op(B) + bo) + beta * C + co`, A being
//! signed, B unsigned, C of 32 bits.
//!
//! The sums are those of [`blas3::gemm_bytes`], exact modulo 2^32. Alpha and beta are applied in f64, the result is
//! rounded to the nearest, ties to even, and kept within the range of C, by the thread that has computed a part of C.
//!
//! # Safety
//!
//! As in [`level3`](crate::level3); the array of offsets of C has as many elements as its letter says.

use std::ffi::CStr;

use tessera::Layout;
use tessera::blas3::{self, Bytes, Op, ViewMut};

use crate::cblas::{Enumerated, call};
use crate::int::Int;
use crate::letters::Letter;
use crate::level3::{FITS, Sizes, general, view, view_mut};
use crate::threads::compute;
use crate::xerbla::Report;

/// What is added to C.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OffsetOf {
    /// One number.
    All,
    /// One to each row: an array as long as a column.
    Row,
    /// One to each column: an array as long as a row.
    Column,
}

impl OffsetOf {
    /// The same for the transposed C.
    fn turned(self) -> Self {
        match self {
            Self::All => Self::All,
            Self::Row => Self::Column,
            Self::Column => Self::Row,
        }
    }
}

/// A letter says what the array is: `C`, a column.
impl Letter for OffsetOf {
    fn of(letter: u8) -> Option<Self> {
        match letter.to_ascii_uppercase() {
            b'F' => Some(Self::All),
            b'C' => Some(Self::Row),
            b'R' => Some(Self::Column),
            _ => None,
        }
    }
}

impl Enumerated for OffsetOf {
    fn of(value: i32) -> Option<Self> {
        match value {
            171 => Some(Self::Column),
            172 => Some(Self::Row),
            173 => Some(Self::All),
            _ => None,
        }
    }
}

/// The offsets of A, B and C.
#[derive(Clone, Copy)]
pub(crate) struct Offsets {
    pub(crate) a: i8,
    pub(crate) b: i8,
    pub(crate) of_c: Option<OffsetOf>,
    pub(crate) c: *const i32,
}

/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of MKL")]
pub(crate) unsafe fn gemm<I: Int>(
    report: impl Report,
    ops: (Option<Op>, Option<Op>),
    offsets: Offsets,
    sizes: (I, I, I),
    alpha: f32,
    (a, lda): (*const i8, I),
    (b, ldb): (*const u8, I),
    beta: f32,
    (c, ldc): (*mut i32, I),
) {
    let Some(of_c) = offsets.of_c else { return report.wrong(3) };
    let Some(Sizes { ops: (op_a, op_b), m, n, k, of_a, of_b }) =
        general(report, ops, sizes, (lda, ldb, ldc), 4, [9, 12, 16])
    else {
        return;
    };
    if m == 0 || n == 0 {
        return;
    }
    let k = if alpha == 0.0 { 0 } else { k };
    // SAFETY: the caller's promise.
    let a = unsafe { view(a, of_a.0, of_a.1, lda) };
    // SAFETY: the caller's promise.
    let b = unsafe { view(b, of_b.0, of_b.1, ldb) };
    // SAFETY: the caller's promise.
    let c = unsafe { view_mut(c, m, n, ldc) };
    let a = if op_a == Op::NoTrans { a } else { a.transposed() };
    let b = if op_b == Op::NoTrans { b } else { b.transposed() };
    let (a, b) = (a.part(0..m, 0..k), b.part(0..k, 0..n));
    let finish = Finish { alpha: alpha.into(), beta: beta.into(), of_c, added: Shared(offsets.c) };
    // An offset is added, a zero point taken off.
    let a = Bytes::from(a).with_zero_point(-i32::from(offsets.a));
    let b = Bytes::from(b).with_zero_point(-i32::from(offsets.b));
    // SAFETY: the caller's promise: the array of offsets has an element for each that its letter says.
    unsafe { finish.product(a, b, c) };
}

/// The same as C calls it. Row-major matrices are the transposed ones, so that of these A is unsigned and B signed,
/// as in MKL.
///
/// # Safety
/// See the [module](self).
#[expect(clippy::too_many_arguments, reason = "those of MKL")]
pub(crate) unsafe fn cblas_gemm<I: Int>(
    name: &'static CStr,
    layout: i32,
    (op_a, op_b, of_c): (i32, i32, i32),
    (m, n, k): (I, I, I),
    alpha: f32,
    (a, lda, ao): (*const u8, I, i8),
    (b, ldb, bo): (*const u8, I, i8),
    beta: f32,
    (c, ldc, co): (*mut i32, I, *const i32),
) {
    let Some(call) = call(name, layout) else { return };
    let Some(op_a) = <Op as Enumerated>::of(op_a) else { return call.no_such_value(2) };
    let Some(op_b) = <Op as Enumerated>::of(op_b) else { return call.no_such_value(3) };
    let Some(of_c) = <OffsetOf as Enumerated>::of(of_c) else { return call.no_such_value(4) };
    let (ops, of_c, sizes, a, b, (ao, bo)) = match call.row_major {
        false => ((op_a, op_b), of_c, (m, n, k), (a, lda), (b, ldb), (ao, bo)),
        true => ((op_b, op_a), of_c.turned(), (n, m, k), (b, ldb), (a, lda), (bo, ao)),
    };
    let offsets = Offsets { a: ao, b: bo, of_c: Some(of_c), c: co };
    let (ops, a) = ((Some(ops.0), Some(ops.1)), (a.0.cast::<i8>(), a.1));
    // SAFETY: the caller's promise.
    unsafe { gemm(call, ops, offsets, sizes, alpha, a, b, beta, (c, ldc)) }
}

/// What becomes of a sum.
struct Finish {
    alpha: f64,
    beta: f64,
    of_c: OffsetOf,
    added: Shared<*const i32>,
}

/// An address that the threads of a product share.
#[derive(Clone, Copy)]
struct Shared<T>(T);

// SAFETY: what it leads to is read by all, or written by one thread each: whoever makes one promises it.
unsafe impl<T> Sync for Shared<T> {}

impl Finish {
    /// Computes the product and finishes it.
    ///
    /// # Safety
    /// The array of offsets has as many elements as its letter says.
    unsafe fn product(&self, a: Bytes<'_>, b: Bytes<'_>, mut c: ViewMut<'_, i32>) {
        let (m, n) = (c.rows(), c.cols());
        let multiply_adds = m.saturating_mul(n).saturating_mul(a.cols().max(1));
        if self.beta == 0.0 {
            // SAFETY: the caller's promise.
            let then = |col, first, run: &mut [i32]| unsafe { self.finish(col, first, run, None) };
            return compute(multiply_adds, |context| {
                let done = blas3::gemm_bytes_then(1, a, b, 0, c.reborrow(), context, then);
                done.expect(FITS);
            });
        }
        let mut sums = Vec::<i32>::new();
        let len = m.saturating_mul(n);
        if sums.try_reserve_exact(len).is_err() {
            // SAFETY: the caller's promise.
            return unsafe { self.plain(a, b, c) };
        }
        sums.resize(len, 0);
        let (at, ld) = (Shared(c.as_mut_ptr()), c.layout().ld);
        let then = |col: usize, first: usize, run: &mut [i32]| {
            let to = at.get().wrapping_add(first + col * ld);
            // SAFETY: as many elements of a column of C, which is column-major and nobody else's; no element is in two
            // runs, so no other thread has these.
            let to = unsafe { std::slice::from_raw_parts_mut(to, run.len()) };
            // SAFETY: the caller's promise.
            unsafe { self.finish(col, first, run, Some(to)) };
            to.copy_from_slice(run);
        };
        compute(multiply_adds, |context| {
            let sums = ViewMut::new(&mut sums, m, n, Layout::col_major(m)).expect(FITS);
            blas3::gemm_bytes_then(1, a, b, 0, sums, context, then).expect(FITS);
        });
    }

    /// Makes sums elements of C, `old` being what is there before; without it nothing is.
    ///
    /// # Safety
    /// As [`Self::product`]; these are sums of a column from a row on.
    unsafe fn finish(&self, col: usize, first: usize, sums: &mut [i32], old: Option<&[i32]>) {
        let offsets = self.added.get();
        let at = |index: usize| {
            // SAFETY: the caller's promise.
            unsafe { offsets.wrapping_add(index).read() }
        };
        let of_all = match self.of_c {
            OffsetOf::All => Some(at(0)),
            OffsetOf::Column => Some(at(col)),
            OffsetOf::Row => None,
        };
        match (of_all, old) {
            (Some(0), None) if self.alpha == 1.0 => {}
            (Some(added), None) if self.alpha == 1.0 => {
                sums.iter_mut().for_each(|sum| *sum = sum.saturating_add(added));
            }
            (Some(added), None) => {
                for sum in sums {
                    *sum = nearest(self.alpha * f64::from(*sum) + f64::from(added));
                }
            }
            (_, old) => {
                for (index, sum) in sums.iter_mut().enumerate() {
                    let before = match old {
                        Some(old) => self.beta * f64::from(old[index]),
                        None => 0.0,
                    };
                    let added = of_all.unwrap_or_else(|| at(first + index));
                    *sum = nearest(self.alpha * f64::from(*sum) + before + f64::from(added));
                }
            }
        }
    }

    /// The same by the definition, in no memory but that of the operands.
    ///
    /// # Safety
    /// As [`Self::product`].
    unsafe fn plain(&self, a: Bytes<'_>, b: Bytes<'_>, mut c: ViewMut<'_, i32>) {
        for col in 0..c.cols() {
            for row in 0..c.rows() {
                let sum = (0..a.cols()).fold(0i32, |sum, p| {
                    sum.wrapping_add(a.get(row, p).wrapping_mul(b.get(p, col)))
                });
                let (mut sum, old) = ([sum], [c.get(row, col)]);
                let old = (self.beta != 0.0).then_some(&old[..]);
                // SAFETY: the caller's promise.
                unsafe { self.finish(col, row, &mut sum, old) };
                c.set(row, col, sum[0]);
            }
        }
    }
}

impl<T: Copy> Shared<T> {
    fn get(&self) -> T {
        self.0
    }
}

/// The nearest number of 32 bits, ties to even; 0 for a NaN.
#[inline]
fn nearest(value: f64) -> i32 {
    /// Beside it neighbours are 1 apart, so that adding it rounds, and the low bits are those of the integer.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    let within = value.clamp(i32::MIN.into(), i32::MAX.into());
    #[expect(clippy::cast_possible_truncation, reason = "the low bits of the sum are the integer")]
    let rounded = (within + ROUNDER).to_bits() as i32;
    if value.is_nan() { 0 } else { rounded }
}

#[cfg(test)]
mod tests {
    use tessera::blas3::View;

    use super::*;

    #[test]
    fn without_memory_a_product_is_the_same() {
        let (m, n, k) = (7, 9, 70);
        let bytes = || (0..=255u8).cycle();
        let a: Vec<i8> =
            bytes().step_by(37).map(|byte| i8::from_ne_bytes([byte])).take(m * k).collect();
        let b: Vec<u8> = bytes().step_by(91).take(k * n).collect();
        let a = Bytes::from(View::new(&a, m, k, Layout::row_major(k)).unwrap()).with_zero_point(3);
        let b =
            Bytes::from(View::new(&b, k, n, Layout::col_major(k)).unwrap()).with_zero_point(-77);
        let added: Vec<i32> = (0..9).map(|at| at * 10 - 30).collect();
        for of_c in [OffsetOf::All, OffsetOf::Row, OffsetOf::Column] {
            for (alpha, beta) in [(1.0, 0.0), (1.5, 0.0), (1.5, -0.5)] {
                let finish = Finish { alpha, beta, of_c, added: Shared(added.as_ptr()) };
                let [mut c, mut expected] = [vec![11i32; m * n], vec![11; m * n]];
                let layout = Layout::col_major(m);
                let view = ViewMut::new(&mut c, m, n, layout).unwrap();
                // SAFETY: there are as many offsets as rows or columns.
                unsafe { finish.product(a, b, view) };
                let view = ViewMut::new(&mut expected, m, n, layout).unwrap();
                // SAFETY: as above.
                unsafe { finish.plain(a, b, view) };
                assert_eq!(c, expected);
            }
        }
    }

    #[test]
    fn rounding_is_to_the_nearest_within_the_range() {
        for value in [0.0f64, 0.5, 1.5, -0.5, -1.5, 2.5, 1e9 + 0.49, -2.2e9, 3e9, 1e300, -1e300] {
            #[expect(clippy::cast_possible_truncation, reason = "kept within the range")]
            let expected = value.round_ties_even() as i32;
            assert_eq!(nearest(value), expected, "{value}");
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            #[expect(clippy::cast_possible_truncation, reason = "kept within the range")]
            let expected = value as i32;
            assert_eq!(nearest(value), expected, "{value}");
        }
    }
}
