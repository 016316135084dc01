//! `C = alpha * A * B + beta * C` with a symmetric or Hermitian A of which one triangle is stored.

use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Factor, Field};
use crate::gemm_typed::check_sizes;
use crate::gemm_views::{plain_elements, scale};
use crate::region::TriangleOf;
use crate::view::ViewMut;

/// What [`gemm_views`](crate::gemm_views()) computes with the whole of A, with the same bits, the triangle that is not
/// stored being packed from the other one. A is Hermitian where the imaginary parts of its diagonal are not read, else
/// symmetric.
///
/// `false` where it does not pay, and nothing was written: matrix units compute its halves.
///
/// # Errors
/// [`Error::Sizes`] where A is not square or the sizes do not fit together; C is then unchanged.
pub fn gemm_symmetric<T: Field>(
    of: TriangleOf,
    alpha: T,
    a: Factor<'_, T>,
    b: Factor<'_, T>,
    beta: T,
    mut c: ViewMut<'_, T>,
    context: &CpuContext,
) -> Result<bool, Error> {
    check_sizes(&a.view, &b.view, &c)?;
    let n = c.rows();
    if a.view.cols() != n {
        let (a, b) = ((n, a.view.cols()), (b.view.rows(), c.cols()));
        return Err(Error::Sizes { a, b, c: (n, c.cols()) });
    }
    if n == 0 || c.cols() == 0 {
        return Ok(true);
    }
    if alpha == T::ZERO {
        scale(beta, &mut c);
        return Ok(true);
    }
    if T::is_in_tiles((n.div_ceil(2), c.cols(), n.div_ceil(2)), context) {
        return Ok(false);
    }
    T::multiply_symmetric(alpha, Symmetric { a, of }, b, beta, c, context);
    Ok(true)
}

/// A symmetric or Hermitian matrix of which one triangle is stored.
#[derive(Clone, Copy)]
pub struct Symmetric<'a, T> {
    /// All of it, of which the other triangle is not read.
    pub(crate) a: Factor<'a, T>,
    /// Which triangle is stored.
    pub(crate) of: TriangleOf,
}

impl<T: Field> Symmetric<'_, T> {
    /// An element, whichever triangle it is in.
    pub(crate) fn get(&self, row: usize, col: usize) -> T {
        let TriangleOf { upper, real_diagonal } = self.of;
        match (row == col, (row < col) == upper) {
            (true, _) if real_diagonal => T::from_re(self.a.get(row, col).re()),
            (true, _) | (_, true) => self.a.get(row, col),
            _ if real_diagonal => self.a.get(col, row).conj(),
            _ => self.a.get(col, row),
        }
    }

    /// The product by the definition, in no memory but that of the operands.
    pub(crate) fn plain(self, alpha: T, b: Factor<'_, T>, beta: T, c: ViewMut<'_, T>) {
        let (a, b) = (|row, p| self.get(row, p), |p, col| b.get(p, col));
        plain_elements(alpha, c.rows(), a, b, beta, c);
    }
}
