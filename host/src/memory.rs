//! Memory for matrices, or an error that says how much is missing, never an abort.

use crate::error::Error;
use crate::machine::short_of_memory;
use crate::scalar::Scalar;

/// Zeroed elements.
///
/// # Errors
/// [`tessera::Error::OutOfMemory`].
pub fn allocate<T: Scalar>(rows: usize, cols: usize, what: &str) -> Result<Vec<T>, Error> {
    let mut data = reserve(rows, cols, what)?;
    data.resize(rows * cols, T::ZERO);
    Ok(data)
}

/// No elements, and room for `rows * cols`.
///
/// # Errors
/// [`tessera::Error::OutOfMemory`].
pub fn reserve<T: Scalar>(rows: usize, cols: usize, what: &str) -> Result<Vec<T>, Error> {
    let refused = || {
        let needed = (rows as u128 * cols as u128).saturating_mul(size_of::<T>() as u128);
        short_of_memory(&format!("{what} of {rows} x {cols}"), needed)
    };
    let len = rows.checked_mul(cols).ok_or_else(refused)?;
    let mut data = Vec::new();
    data.try_reserve_exact(len).map_err(|_| refused())?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_size_is_an_error() {
        for (rows, cols) in [(usize::MAX, 2), (1 << 40, 1 << 10)] {
            assert!(allocate::<f64>(rows, cols, "a matrix").unwrap_err().is_out_of_memory());
        }
        assert_eq!(allocate::<f32>(2, 3, "a matrix").unwrap(), [0.0; 6]);
    }
}
