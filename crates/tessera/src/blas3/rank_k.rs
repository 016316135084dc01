//! Products of which one triangle is wanted: rank-k updates and their relatives.

use cpu_gemm::{Factor, Field, TriangleOf, View, ViewMut, gemm_triangle};
use gemm_spec::{Layout, Order};

use super::options::{Op, Uplo};
use super::products::Products;
use super::sizes::{SQUARE, check_size, half, with_room};
use crate::error::Error;

/// One triangle of `C = alpha * op(A) * op(B) + beta * C`; the other is neither read nor written.
///
/// # Errors
/// [`Error::Operand`] where C is not square or the sizes do not fit; C is then unchanged.
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn gemmtr<T: Field>(
    uplo: Uplo,
    op_a: Op,
    op_b: Op,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let update = Update { uplo, hermitian: false, alpha, beta };
    let (a, b) = (op_a.of(a), op_b.of(b));
    let k = a.view.cols();
    let n = check_square("gemmtr", &c)?;
    check_size("gemmtr", "op(A)", (a.view.rows(), k), (n, k))?;
    check_size("gemmtr", "op(B)", (b.view.rows(), b.view.cols()), (k, n))?;
    update.compute(a, b, c, context);
    Ok(())
}

/// One triangle of `C = alpha * A * A^T + beta * C` for [`Op::NoTrans`], else of
/// `C = alpha * A^T * A + beta * C`.
///
/// # Errors
/// As [`gemmtr`].
pub fn syrk<T: Field>(
    uplo: Uplo,
    op: Op,
    alpha: T,
    a: View<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let a = if op == Op::NoTrans { Factor::plain(a) } else { Factor::plain(a).transposed() };
    let n = check_square("syrk", &c)?;
    check_size("syrk", "op(A)", (a.view.rows(), a.view.cols()), (n, a.view.cols()))?;
    Update { uplo, hermitian: false, alpha, beta }.compute(a, a.transposed(), c, context);
    Ok(())
}

/// One triangle of `C = alpha * A * A^H + beta * C` for [`Op::NoTrans`], else of
/// `C = alpha * A^H * A + beta * C`. C is Hermitian, so the imaginary parts of its diagonal become zero.
///
/// # Errors
/// As [`gemmtr`].
pub fn herk<T: Field>(
    uplo: Uplo,
    op: Op,
    alpha: T::Real,
    a: View<'_, T>,
    beta: T::Real,
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let a = if op == Op::NoTrans { Factor::plain(a) } else { Op::ConjTrans.of(a) };
    let n = check_square("herk", &c)?;
    check_size("herk", "op(A)", (a.view.rows(), a.view.cols()), (n, a.view.cols()))?;
    let (alpha, beta) = (T::from_re(alpha), T::from_re(beta));
    let update = Update { uplo, hermitian: true, alpha, beta };
    update.compute(a, a.transposed().conjugated(), c, context);
    Ok(())
}

/// One triangle of `C = alpha * (A * B^T + B * A^T) + beta * C` for [`Op::NoTrans`], else of
/// `C = alpha * (A^T * B + B^T * A) + beta * C`.
///
/// # Errors
/// As [`gemmtr`].
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn syr2k<T: Field>(
    uplo: Uplo,
    op: Op,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    beta: T,
    mut c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let op = if op == Op::NoTrans { Op::NoTrans } else { Op::Trans };
    let (a, b) = (op.of(a), op.of(b));
    let n = check_square("syr2k", &c)?;
    check_size("syr2k", "op(A)", (a.view.rows(), a.view.cols()), (n, a.view.cols()))?;
    check_size("syr2k", "op(B)", (b.view.rows(), b.view.cols()), (n, a.view.cols()))?;
    let first = Update { uplo, hermitian: false, alpha, beta };
    first.compute(a, b.transposed(), c.reborrow(), context);
    Update { beta: T::ONE, ..first }.compute(b, a.transposed(), c, context);
    Ok(())
}

/// One triangle of `C = alpha * A * B^H + conj(alpha) * B * A^H + beta * C` for [`Op::NoTrans`], else of
/// `C = alpha * A^H * B + conj(alpha) * B^H * A + beta * C`. The imaginary parts of C's diagonal become zero.
///
/// # Errors
/// As [`gemmtr`].
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn her2k<T: Field>(
    uplo: Uplo,
    op: Op,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    beta: T::Real,
    mut c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let op = if op == Op::NoTrans { Op::NoTrans } else { Op::ConjTrans };
    let (a, b) = (op.of(a), op.of(b));
    let n = check_square("her2k", &c)?;
    check_size("her2k", "op(A)", (a.view.rows(), a.view.cols()), (n, a.view.cols()))?;
    check_size("her2k", "op(B)", (b.view.rows(), b.view.cols()), (n, a.view.cols()))?;
    let first = Update { uplo, hermitian: true, alpha, beta: T::from_re(beta) };
    first.compute(a, b.transposed().conjugated(), c.reborrow(), context);
    let second = Update { alpha: alpha.conj(), beta: T::ONE, ..first };
    second.compute(b, a.transposed().conjugated(), c, context);
    Ok(())
}

/// The order of a square C.
fn check_square<T>(routine: &'static str, c: &ViewMut<'_, T>) -> Result<usize, Error> {
    check_size(routine, "C", (c.rows(), c.cols()), (c.rows(), c.rows()))?;
    Ok(c.rows())
}

/// Whether walking down a column goes from one element to the next in memory.
fn has_columns<T>(c: &ViewMut<'_, T>) -> bool {
    c.layout().order == Order::ColMajor
}

/// What becomes of the triangle of C.
#[derive(Clone, Copy)]
struct Update<T> {
    uplo: Uplo,
    /// Whether the imaginary parts of the diagonal are not read, and written as zeros.
    hermitian: bool,
    alpha: T,
    beta: T,
}

impl<T: Field> Update<T> {
    /// The triangle of `C = alpha * A * B + beta * C`, the sizes being right.
    fn compute(
        self,
        a: Factor<'_, T>,
        b: Factor<'_, T>,
        c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        let nothing_to_add = self.alpha == T::ZERO || a.view.cols() == 0;
        if c.rows() == 0 || nothing_to_add && self.beta == T::ONE {
            return;
        }
        let (n, k) = (c.rows(), a.view.cols());
        let mut c = c;
        let halves = || [half(n, SQUARE), n - half(n, SQUARE), k];
        if n > SQUARE && !nothing_to_add && !context.goes_elsewhere(halves()) {
            let of = TriangleOf { upper: self.uplo == Uplo::Upper, real_diagonal: self.hermitian };
            let (alpha, beta) = (self.alpha, self.beta);
            let done = gemm_triangle(of, alpha, a, b, beta, c.reborrow(), context.cpu());
            if done.expect("invariant: the sizes fit") {
                return;
            }
        }
        self.halve(a, b, c, context);
    }

    /// By halves of C.
    fn halve(
        self,
        a: Factor<'_, T>,
        b: Factor<'_, T>,
        c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        let (n, k) = (c.rows(), a.view.cols());
        if n <= SQUARE {
            return with_room!(n, ROOM => self.square::<ROOM>(a, b, c, context));
        }
        let cut = half(n, SQUARE);
        let rows = |part: std::ops::Range<usize>| a.part(part, 0..k);
        let cols = |part: std::ops::Range<usize>| b.part(0..k, part);
        let (top, bottom) = c.split_rows(cut);
        let (first, right) = top.split_cols(cut);
        let (left, last) = bottom.split_cols(cut);
        let (off_a, off_b, off) = match self.uplo {
            Uplo::Upper => (rows(0..cut), cols(cut..n), right),
            Uplo::Lower => (rows(cut..n), cols(0..cut), left),
        };
        context.product(self.alpha, off_a, off_b, self.beta, off);
        self.compute(rows(0..cut), cols(0..cut), first, context);
        self.compute(rows(cut..n), cols(cut..n), last, context);
    }

    /// A square on the diagonal of `ROOM` elements at most: computed aside, so that the other triangle stays as it is.
    fn square<const ROOM: usize>(
        self,
        a: Factor<'_, T>,
        b: Factor<'_, T>,
        mut c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        let n = c.rows();
        let mut scratch = [T::ZERO; ROOM];
        let layout = if has_columns(&c) { Layout::col_major(n) } else { Layout::row_major(n) };
        let whole = |scratch| {
            ViewMut::new(scratch, n, n, layout).expect("invariant: there is room for a square")
        };
        let mut aside = whole(&mut scratch);
        let of_column = |col: usize| match self.uplo {
            Uplo::Upper => 0..col + 1,
            Uplo::Lower => col..n,
        };
        let real = |row, col, value: T| match self.hermitian && row == col {
            true => T::from_re(value.re()),
            false => value,
        };
        if self.beta != T::ZERO {
            for col in 0..n {
                for row in of_column(col) {
                    aside.set(row, col, real(row, col, c.get(row, col)));
                }
            }
        }
        context.product(self.alpha, a, b, self.beta, aside.reborrow());
        for col in 0..n {
            for row in of_column(col) {
                c.set(row, col, real(row, col, aside.get(row, col)));
            }
        }
    }
}
