//! Memory for matrices, or an error that names the bytes, never an abort.

use crate::element::Element;
use crate::error::Error;

/// Zeroed elements of a matrix; `what` it is for is told where they cannot be had.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn allocate<T: Element>(rows: usize, cols: usize, what: &str) -> Result<Vec<T>, Error> {
    let mut data = reserve(rows, cols, what)?;
    data.resize(rows * cols, T::ZERO);
    Ok(data)
}

/// No elements, and room for `rows * cols`.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn reserve<T: Element>(rows: usize, cols: usize, what: &str) -> Result<Vec<T>, Error> {
    let refused = || Error::OutOfMemory {
        what: format!("{what} of {rows} x {cols}"),
        needed: (rows as u128 * cols as u128).saturating_mul(size_of::<T>() as u128),
        available: None,
    };
    let len = rows.checked_mul(cols).ok_or_else(refused)?;
    let mut data = Vec::new();
    data.try_reserve_exact(len).map_err(|_| refused())?;
    Ok(data)
}
