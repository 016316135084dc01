//! Sizes of operands, and of their halves.

use crate::error::Error;

/// Checks the size of an operand.
pub(crate) fn check_size(
    routine: &'static str,
    matrix: &'static str,
    (rows, cols): (usize, usize),
    wanted: (usize, usize),
) -> Result<(), Error> {
    match (rows, cols) == wanted {
        true => Ok(()),
        false => Err(Error::Operand { routine, matrix, rows, cols, wanted }),
    }
}

/// Where a matrix of `n` rows is halved: at a multiple of `unit`.
pub(crate) fn half(n: usize, unit: usize) -> usize {
    (n / 2).next_multiple_of(unit).min(n - 1)
}
