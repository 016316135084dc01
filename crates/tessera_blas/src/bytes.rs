//! The product of bytes that MKL has beside BLAS, `C = alpha * (op(A) + ao) * (op(B) + bo) + beta * C + co`, A being
//! signed, B unsigned, C of 32 bits.
//!
//! The engine multiplies signed bytes, so B is copied with 128 taken off, some columns at a time, and what that and
//! the offsets add to a sum is the same for a row of A or a column of B:
//!
//! ```text
//!   sum of (a + ao) * (b' + bo')  =  sum of a * b'  +  bo' * sum of a  +  ao * sum of b'  +  k * ao * bo'
//! ```
//!
//! with `b' = b - 128` and `bo' = bo + 128`. Sums are exact modulo 2^32. Alpha and beta are applied in f64, the result
//! is rounded to the nearest, ties to even, and kept within the range of C.
//!
//! # Safety
//!
//! As in [`level3`](crate::level3); the array of offsets of C has as many elements as its letter says.

use std::ffi::CStr;

use tessera::Layout;
use tessera::blas3::{self, Op, View, ViewMut};

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

/// Elements of C that are computed at once.
const SCRATCH: usize = 1 << 18;
/// Columns of such a part at least.
const SCRATCH_COLUMNS: usize = 64;

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
    let a = a.part(0..m, 0..k);
    let at = offsets.c;
    let added = |row: usize, col: usize| {
        let index = match of_c {
            OffsetOf::All => 0,
            OffsetOf::Row => row,
            OffsetOf::Column => col,
        };
        // SAFETY: the caller's promise: the array has an element for each.
        unsafe { at.wrapping_add(index).read() }
    };
    let product = Product { alpha, beta, ao: offsets.a.into(), bo: offsets.b.into(), k };
    product.compute(a, b, c, added);
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

/// A product without its matrices.
#[derive(Clone, Copy)]
struct Product {
    alpha: f32,
    beta: f32,
    ao: i32,
    bo: i32,
    /// Steps to sum; none where alpha is zero.
    k: usize,
}

/// Memory for a part of C and what it is computed from.
struct Room {
    /// Columns of the part.
    cols: usize,
    sums: Vec<i32>,
    /// Columns of B, less 128.
    shifted: Vec<i8>,
    /// The sum of each row of A.
    of_rows: Vec<i32>,
}

impl Room {
    /// `None` where the system refuses it.
    fn new((m, n, k): (usize, usize, usize)) -> Option<Self> {
        let cols = (SCRATCH / m).max(SCRATCH_COLUMNS).min(n);
        let (sums, shifted) = (zeros(m.checked_mul(cols)?)?, zeros(k.checked_mul(cols)?)?);
        Some(Self { cols, sums, shifted, of_rows: zeros(m)? })
    }
}

fn zeros<T: Clone + Default>(len: usize) -> Option<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).ok()?;
    values.resize(len, T::default());
    Some(values)
}

impl Product {
    /// Computes C some columns at a time.
    fn compute(
        self,
        a: View<'_, i8>,
        b: View<'_, u8>,
        mut c: ViewMut<'_, i32>,
        added: impl Fn(usize, usize) -> i32,
    ) {
        let (m, n, k) = (c.rows(), c.cols(), self.k);
        let Some(Room { cols, mut sums, mut shifted, mut of_rows }) = Room::new((m, n, k)) else {
            return self.plain(a, b, c, added);
        };
        let bo = self.bo.wrapping_add(128);
        for p in 0..k {
            for (row, sum) in of_rows.iter_mut().enumerate() {
                *sum = sum.wrapping_add(a.get(row, p).into());
            }
        }
        for first in (0..n).step_by(cols) {
            let end = n.min(first.saturating_add(cols));
            let width = end.saturating_sub(first);
            for col in 0..width {
                for (p, to) in shifted[col * k..][..k].iter_mut().enumerate() {
                    // 128 less: the same bits but for the first.
                    *to = i8::from_ne_bytes([b.get(p, first + col) ^ 0x80]);
                }
            }
            if k > 0 {
                let shifted = View::new(&shifted, k, width, Layout::col_major(k)).expect(FITS);
                let sums = ViewMut::new(&mut sums, m, width, Layout::col_major(m)).expect(FITS);
                let op = Op::NoTrans;
                compute(m.saturating_mul(width).saturating_mul(k), |context| {
                    blas3::gemm_typed::<i8>(op, op, 1, a, shifted, 0, sums, context).expect(FITS);
                });
            }
            for col in 0..width {
                // The sum of `b' + bo'`.
                let column = &shifted[col * k..][..k];
                let of_column = column
                    .iter()
                    .fold(0i32, |sum, &b| sum.wrapping_add(i32::from(b)).wrapping_add(bo));
                let of_column = of_column.wrapping_mul(self.ao);
                for row in 0..m {
                    let of_row = of_rows[row].wrapping_mul(bo);
                    let sum = sums[row + col * m].wrapping_add(of_row).wrapping_add(of_column);
                    self.finish(&mut c, (row, first + col), sum, &added);
                }
            }
        }
    }

    /// The same by the definition, in no memory but that of the operands.
    fn plain(
        self,
        a: View<'_, i8>,
        b: View<'_, u8>,
        mut c: ViewMut<'_, i32>,
        added: impl Fn(usize, usize) -> i32,
    ) {
        for col in 0..c.cols() {
            for row in 0..c.rows() {
                let sum = (0..self.k).fold(0i32, |sum, p| {
                    let (a, b) = (i32::from(a.get(row, p)), i32::from(b.get(p, col)));
                    sum.wrapping_add((a + self.ao) * (b + self.bo))
                });
                self.finish(&mut c, (row, col), sum, &added);
            }
        }
    }

    /// Stores an element of C. With `beta == 0` C is not read.
    fn finish(
        self,
        c: &mut ViewMut<'_, i32>,
        (row, col): (usize, usize),
        sum: i32,
        added: impl Fn(usize, usize) -> i32,
    ) {
        let old =
            if self.beta == 0.0 { 0.0 } else { f64::from(self.beta) * f64::from(c.get(row, col)) };
        let value = f64::from(self.alpha) * f64::from(sum) + old + f64::from(added(row, col));
        #[expect(clippy::cast_possible_truncation, reason = "kept within the range, as MKL does")]
        c.set(row, col, value.round_ties_even() as i32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_memory_a_product_is_the_same() {
        let (m, n, k) = (7, 9, 70);
        let bytes = || (0..=255u8).cycle();
        let a: Vec<i8> =
            bytes().step_by(37).map(|byte| i8::from_ne_bytes([byte])).take(m * k).collect();
        let b: Vec<u8> = bytes().step_by(91).take(k * n).collect();
        let a = View::new(&a, m, k, Layout::row_major(k)).unwrap();
        let b = View::new(&b, k, n, Layout::col_major(k)).unwrap();
        let product = Product { alpha: 1.5, beta: -0.5, ao: -3, bo: 77, k };
        let [mut c, mut expected] = [vec![11i32; m * n], vec![11; m * n]];
        let layout = Layout::col_major(m);
        product.compute(a, b, ViewMut::new(&mut c, m, n, layout).unwrap(), |row, col| {
            i32::try_from(row * 10 + col).unwrap()
        });
        product.plain(a, b, ViewMut::new(&mut expected, m, n, layout).unwrap(), |row, col| {
            i32::try_from(row * 10 + col).unwrap()
        });
        assert_eq!(c, expected);
    }
}
