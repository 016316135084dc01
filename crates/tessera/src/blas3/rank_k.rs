//! Products of which one triangle is wanted: rank-k updates and their relatives.

use std::ops::Range;

use cpu_gemm::{Factor, Field, TriangleOf, View, ViewMut, gemm_triangle};
use gemm_spec::{Layout, Order};

use super::options::{Op, Uplo};
use super::products::Products;
use super::sizes::{ROOM_FOR_A_SQUARE, SQUARE, check_size, half, with_room};
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
    let (a, b) = (op_a.of(a), op_b.of(b));
    let k = a.view.cols();
    let n = check_square("gemmtr", &c)?;
    check_size("gemmtr", "op(A)", (a.view.rows(), k), (n, k))?;
    check_size("gemmtr", "op(B)", (b.view.rows(), b.view.cols()), (k, n))?;
    Update { uplo, hermitian: false, beta }.compute([(alpha, a, b)], c, context);
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
    Update { uplo, hermitian: false, beta }.compute([(alpha, a, a.transposed())], c, context);
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
    let product = (alpha, a, a.transposed().conjugated());
    Update { uplo, hermitian: true, beta }.compute([product], c, context);
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
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let op = if op == Op::NoTrans { Op::NoTrans } else { Op::Trans };
    let (a, b) = (op.of(a), op.of(b));
    let n = check_square("syr2k", &c)?;
    check_size("syr2k", "op(A)", (a.view.rows(), a.view.cols()), (n, a.view.cols()))?;
    check_size("syr2k", "op(B)", (b.view.rows(), b.view.cols()), (n, a.view.cols()))?;
    let products = [(alpha, a, b.transposed()), (alpha, b, a.transposed())];
    Update { uplo, hermitian: false, beta }.compute(products, c, context);
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
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let op = if op == Op::NoTrans { Op::NoTrans } else { Op::ConjTrans };
    let (a, b) = (op.of(a), op.of(b));
    let n = check_square("her2k", &c)?;
    check_size("her2k", "op(A)", (a.view.rows(), a.view.cols()), (n, a.view.cols()))?;
    check_size("her2k", "op(B)", (b.view.rows(), b.view.cols()), (n, a.view.cols()))?;
    let first = (alpha, a, b.transposed().conjugated());
    let second = (alpha.conj(), b, a.transposed().conjugated());
    let update = Update { uplo, hermitian: true, beta: T::from_re(beta) };
    update.compute([first, second], c, context);
    Ok(())
}

/// The order of a square C.
fn check_square<T>(routine: &'static str, c: &ViewMut<'_, T>) -> Result<usize, Error> {
    check_size(routine, "C", (c.rows(), c.cols()), (c.rows(), c.rows()))?;
    Ok(c.rows())
}

/// A product that is added: the factor, A and B.
type Product<'a, T> = (T, Factor<'a, T>, Factor<'a, T>);

/// Its parts for the halves of C on the diagonal, and between them that for what is beside it.
fn halved<'a, T: Copy>(
    (alpha, a, b): Product<'a, T>,
    cut: usize,
    uplo: Uplo,
) -> (Product<'a, T>, Product<'a, T>, Product<'a, T>) {
    let (n, k) = (a.view.rows(), a.view.cols());
    let rows = |part: Range<usize>| a.part(part, 0..k);
    let cols = |part: Range<usize>| b.part(0..k, part);
    let (above, below) = (0..cut, cut..n);
    let off = match uplo {
        Uplo::Upper => (rows(above.clone()), cols(below.clone())),
        Uplo::Lower => (rows(below.clone()), cols(above.clone())),
    };
    (
        (alpha, rows(above.clone()), cols(above)),
        (alpha, off.0, off.1),
        (alpha, rows(below.clone()), cols(below)),
    )
}

/// `C = alpha * A * B + beta * C`, of several products their sum.
fn sum_of<T: Field, const N: usize>(
    products: [Product<'_, T>; N],
    beta: T,
    mut c: ViewMut<'_, T>,
    context: &impl Products<T>,
) {
    let mut beta = beta;
    for (alpha, a, b) in products {
        context.product(alpha, a, b, beta, c.reborrow());
        beta = T::ONE;
    }
}

/// Where a square on the diagonal is halved: at a multiple of this many rows.
const HALVED_AT: usize = 16;

/// Rows of a square on the diagonal that is not halved: of more the other triangle takes longer to compute than a call
/// for each part.
fn least_square<T: Field>() -> usize {
    if T::IS_COMPLEX { HALVED_AT } else { HALVED_AT / 2 * 3 }
}

/// What becomes of the triangle of C.
#[derive(Clone, Copy)]
struct Update<T> {
    uplo: Uplo,
    /// Whether the imaginary parts of the diagonal are not read, and written as zeros.
    hermitian: bool,
    beta: T,
}

impl<T: Field> Update<T> {
    /// The triangle of `C = alpha * A * B + beta * C`, of several products their sum, the sizes being right.
    fn compute<const N: usize>(
        self,
        products: [Product<'_, T>; N],
        mut c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        if c.rows() <= SQUARE {
            return self.small(products, c, context);
        }
        let mut update = self;
        for product in products {
            update.add(product, c.reborrow(), context);
            update.beta = T::ONE;
        }
    }

    /// The same where C is small: all products of a part before the next part.
    fn small<const N: usize>(
        self,
        products: [Product<'_, T>; N],
        c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        let n = c.rows();
        if n == 0 {
            return;
        }
        let goes = |(_, a, _): &Product<'_, T>| context.goes_elsewhere([n, n, a.view.cols()]);
        if n <= least_square::<T>() || products.iter().any(goes) {
            return with_room!(n, ROOM => self.square::<ROOM, N>(products, c, context));
        }
        let cut = half(n, HALVED_AT);
        let halves = products.map(|product| halved(product, cut, self.uplo));
        let (first, off, last) = self.parts(c, cut);
        self.small(halves.map(|(first, ..)| first), first, context);
        self.small(halves.map(|(.., last)| last), last, context);
        sum_of(halves.map(|(_, off, _)| off), self.beta, off, context);
    }

    /// The halves of C on the diagonal, and between them what is beside it.
    fn parts<'c>(
        self,
        c: ViewMut<'c, T>,
        cut: usize,
    ) -> (ViewMut<'c, T>, ViewMut<'c, T>, ViewMut<'c, T>) {
        let (top, bottom) = c.split_rows(cut);
        let (first, right) = top.split_cols(cut);
        let (left, last) = bottom.split_cols(cut);
        let off = if self.uplo == Uplo::Upper { right } else { left };
        (first, off, last)
    }

    /// The same of one product where C is not.
    fn add(self, product: Product<'_, T>, mut c: ViewMut<'_, T>, context: &impl Products<T>) {
        let (alpha, a, b) = product;
        let (n, k) = (c.rows(), a.view.cols());
        let nothing_to_add = alpha == T::ZERO || k == 0;
        if nothing_to_add && self.beta == T::ONE {
            return;
        }
        let cut = half(n, SQUARE);
        if !nothing_to_add && !context.goes_elsewhere([cut, n - cut, k]) {
            let of = TriangleOf { upper: self.uplo == Uplo::Upper, real_diagonal: self.hermitian };
            let done = gemm_triangle(of, alpha, a, b, self.beta, c.reborrow(), context.cpu());
            if done.expect("invariant: the sizes fit") {
                return;
            }
        }
        let (of_first, of_off, of_last) = halved(product, cut, self.uplo);
        let (first, off, last) = self.parts(c, cut);
        sum_of([of_off], self.beta, off, context);
        self.compute([of_first], first, context);
        self.compute([of_last], last, context);
    }

    /// A square on the diagonal of `ROOM` elements at most: the products are computed aside, and their triangle added.
    fn square<const ROOM: usize, const N: usize>(
        self,
        products: [Product<'_, T>; N],
        c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        let adds = products.iter().any(|(alpha, a, _)| *alpha != T::ZERO && a.view.cols() > 0);
        if !adds && self.beta == T::ONE {
            return;
        }
        let n = c.rows();
        let mut sum = [T::ZERO; ROOM];
        let layout = Layout { ld: n, ..c.layout() };
        let aside = ViewMut::new(&mut sum, n, n, layout).expect(ROOM_FOR_A_SQUARE);
        sum_of(products, T::ZERO, aside, context);
        self.add_triangle(&sum, c);
    }

    /// The triangle of `C = sum + beta * C`; the elements of the sum lie as those of C, but side by side.
    fn add_triangle(self, sum: &[T], c: ViewMut<'_, T>) {
        // Of the transposed matrices it is the other triangle.
        let (mut c, uplo) = match c.layout().order {
            Order::ColMajor => (c, self.uplo),
            Order::RowMajor => (c.transposed(), self.uplo.flipped()),
        };
        let n = c.rows();
        for (col, sum) in sum.chunks_exact(n).take(n).enumerate() {
            let rows = match uplo {
                Uplo::Upper => 0..col + 1,
                Uplo::Lower => col..n,
            };
            let Some(column) = c.column_mut(col) else { return };
            if self.hermitian {
                column[col] = T::from_re(column[col].re());
            }
            let elements = column[rows.clone()].iter_mut().zip(&sum[rows]);
            if self.beta == T::ONE {
                elements.for_each(|(to, &sum)| *to = *to + sum);
            } else if self.beta == T::ZERO {
                elements.for_each(|(to, &sum)| *to = sum);
            } else {
                elements.for_each(|(to, &sum)| *to = scaled(self.beta, *to) + sum);
            }
            if self.hermitian {
                column[col] = T::from_re(column[col].re());
            }
        }
    }
}

/// `factor * x`; of a real factor no part meets the other.
fn scaled<T: Field>(factor: T, x: T) -> T {
    if factor == T::from_re(factor.re()) {
        T::from_parts(factor.re() * x.re(), factor.re() * x.im())
    } else {
        factor * x
    }
}
