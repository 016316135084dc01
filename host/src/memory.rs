//! The library's memory for matrices, with what this machine has left where there is too little.

use crate::error::Error;
use crate::machine::short_of_memory;
use crate::scalar::Scalar;

/// Zeroed elements.
///
/// # Errors
/// [`tessera::Error::OutOfMemory`] and [`Error::MemoryLimit`].
pub fn allocate<T: Scalar>(rows: usize, cols: usize, what: &str) -> Result<Vec<T>, Error> {
    tessera::memory::allocate(rows, cols, what).map_err(with_what_is_left)
}

/// No elements, and room for `rows * cols`.
///
/// # Errors
/// [`tessera::Error::OutOfMemory`] and [`Error::MemoryLimit`].
pub fn reserve<T: Scalar>(rows: usize, cols: usize, what: &str) -> Result<Vec<T>, Error> {
    tessera::memory::reserve(rows, cols, what).map_err(with_what_is_left)
}

/// The library does not ask the system how much there is: it reads no files.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library may add to its errors")]
fn with_what_is_left(error: tessera::Error) -> Error {
    match error {
        tessera::Error::OutOfMemory { what, needed, .. } => short_of_memory(&what, needed),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_size_is_an_error() {
        for (rows, cols) in [(usize::MAX, 2), (1 << 40, 1 << 10)] {
            let error = allocate::<f64>(rows, cols, "a matrix").unwrap_err();
            assert!(error.is_out_of_memory());
            // With how much there is, which the library alone does not say.
            let said = error.to_string();
            assert!(said.contains("a matrix of ") && said.contains(" are "), "{said}");
        }
        assert_eq!(allocate::<f32>(2, 3, "a matrix").unwrap(), [0.0; 6]);
    }
}
