//! Products with a symmetric or Hermitian matrix, of which one triangle is stored.

use cpu_gemm::{Factor, Field, TriangleOf, View, ViewMut, gemm_symmetric};
use gemm_spec::{Layout, Order};

use super::options::{Side, Uplo};
use super::products::Products;
use super::sizes::{ROOM_FOR_A_SQUARE, SQUARE, check_size, half, with_room};
use crate::error::Error;

/// `C = alpha * A * B + beta * C`, or `C = alpha * B * A + beta * C`, with a symmetric A.
///
/// # Errors
/// [`Error::Operand`] where A is not square or the sizes do not fit; C is then unchanged.
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn symm<T: Field>(
    side: Side,
    uplo: Uplo,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    compute("symm", false, (side, uplo), (alpha, beta), a, b, c, context)
}

/// The same with a Hermitian A, of whose diagonal the imaginary parts are not read.
///
/// # Errors
/// As [`symm`].
#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
pub fn hemm<T: Field>(
    side: Side,
    uplo: Uplo,
    alpha: T,
    a: View<'_, T>,
    b: View<'_, T>,
    beta: T,
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    compute("hemm", true, (side, uplo), (alpha, beta), a, b, c, context)
}

#[expect(clippy::too_many_arguments, reason = "those of BLAS")]
fn compute<T: Field>(
    routine: &'static str,
    hermitian: bool,
    (side, uplo): (Side, Uplo),
    (alpha, beta): (T, T),
    a: View<'_, T>,
    b: View<'_, T>,
    c: ViewMut<'_, T>,
    context: &impl Products<T>,
) -> Result<(), Error> {
    let order = if side == Side::Left { c.rows() } else { c.cols() };
    check_size(routine, "A", (a.rows(), a.cols()), (order, order))?;
    check_size(routine, "B", (b.rows(), b.cols()), (c.rows(), c.cols()))?;
    // B * A is the transposed matrix of A^T * B^T.
    let (a, uplo, b, c) = match side {
        Side::Left => (a, uplo, b, c),
        Side::Right => (a.transposed(), uplo.flipped(), b.transposed(), c.transposed()),
    };
    if c.rows() > 0 && c.cols() > 0 {
        let (a, b) = (Factor::plain(a), Factor::plain(b));
        Symmetric { a, uplo, hermitian }.multiply(alpha, b, beta, c, context);
    }
    Ok(())
}

/// A matrix of which one triangle is there.
#[derive(Clone, Copy)]
struct Symmetric<'a, T> {
    a: Factor<'a, T>,
    uplo: Uplo,
    hermitian: bool,
}

/// Rows and columns of C beyond which A is packed as it is multiplied: else its parts are multiplied in place.
const IN_PLACE: (usize, usize) = (96, 32);

impl<T: Field> Symmetric<'_, T> {
    /// `C = alpha * A * B + beta * C`, C not being empty: as one product where the CPU does it by vector units and A is
    /// packed, else by halves.
    fn multiply(
        self,
        alpha: T,
        b: Factor<'_, T>,
        beta: T,
        mut c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        let (n, cols) = (c.rows(), c.cols());
        let of = TriangleOf { upper: self.uplo == Uplo::Upper, real_diagonal: self.hermitian };
        let is_large = n > IN_PLACE.0 && cols > IN_PLACE.1;
        let packs = is_large && !context.goes_elsewhere([n, cols, n]);
        let done = packs
            && gemm_symmetric(of, alpha, self.a, b, beta, c.reborrow(), context.cpu())
                .expect("invariant: the sizes fit");
        if !done {
            self.halve(alpha, b, beta, c, context);
        }
    }

    /// `C = alpha * A * B + beta * C` by halves of A: the rectangle beside the halves is used twice, as it is
    /// and transposed.
    fn halve(
        self,
        alpha: T,
        b: Factor<'_, T>,
        beta: T,
        c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        let (n, cols) = (c.rows(), c.cols());
        if n <= SQUARE {
            return with_room!(n, ROOM => self.square::<ROOM>(alpha, b, beta, c, context));
        }
        let cut = half(n, SQUARE);
        let of = |part: std::ops::Range<usize>| Self { a: self.a.part(part.clone(), part), ..self };
        let (above, below) = (b.part(0..cut, 0..cols), b.part(cut..n, 0..cols));
        let (mut top, mut bottom) = c.split_rows(cut);
        of(0..cut).multiply(alpha, above, beta, top.reborrow(), context);
        of(cut..n).multiply(alpha, below, beta, bottom.reborrow(), context);
        let stored = match self.uplo {
            Uplo::Upper => self.a.part(0..cut, cut..n),
            Uplo::Lower => self.a.part(cut..n, 0..cut),
        };
        let turned = stored.transposed();
        let mirrored = if self.hermitian { turned.conjugated() } else { turned };
        let (right, left) = match self.uplo {
            Uplo::Upper => (stored, mirrored),
            Uplo::Lower => (mirrored, stored),
        };
        context.product(alpha, right, below, T::ONE, top);
        context.product(alpha, left, above, T::ONE, bottom);
    }

    /// The same of a square on the diagonal of `ROOM` elements at most, which is written out first.
    fn square<const ROOM: usize>(
        self,
        alpha: T,
        b: Factor<'_, T>,
        beta: T,
        c: ViewMut<'_, T>,
        context: &impl Products<T>,
    ) {
        let n = c.rows();
        let mut scratch = [T::ZERO; ROOM];
        // The columns of A, or of the transposed matrix of which A is the other triangle; of a Hermitian matrix that is the
        // one of conjugates.
        let (stored, uplo, is_turned) = match self.a.view.layout().order {
            Order::ColMajor => (self.a.view, self.uplo, false),
            Order::RowMajor => (self.a.view.transposed(), self.uplo.flipped(), true),
        };
        for col in 0..if alpha == T::ZERO { 0 } else { n } {
            let rows = match uplo {
                Uplo::Upper => 0..col + 1,
                Uplo::Lower => col..n,
            };
            let column = stored.column(col).unwrap_or_default();
            for (row, &element) in rows.clone().zip(&column[rows]) {
                let conjugate = if self.hermitian { element.conj() } else { element };
                let (here, there) =
                    if is_turned { (conjugate, element) } else { (element, conjugate) };
                scratch[row + col * n] = here;
                scratch[col + row * n] = there;
            }
            if self.hermitian {
                let of_diagonal = &mut scratch[col + col * n];
                *of_diagonal = T::from_re(of_diagonal.re());
            }
        }
        let whole = View::new(&scratch, n, n, Layout::col_major(n));
        let whole = Factor::plain(whole.expect(ROOM_FOR_A_SQUARE));
        context.product(alpha, whole, b, beta, c);
    }
}
