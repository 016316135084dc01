//! What a caller of level 3 says of a matrix: side, triangle, transposition, diagonal.

use cpu_gemm::{Factor, View};

/// On which side of B the symmetric or triangular matrix stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `A * B`.
    Left,
    /// `B * A`.
    Right,
}

/// Which triangle of a matrix there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Uplo {
    /// The diagonal and what is right of it.
    Upper,
    /// The diagonal and what is left of it.
    Lower,
}

impl Uplo {
    /// The other triangle: that of the transposed matrix.
    #[must_use]
    pub const fn flipped(self) -> Self {
        match self {
            Self::Upper => Self::Lower,
            Self::Lower => Self::Upper,
        }
    }
}

/// What a matrix stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Itself.
    NoTrans,
    /// The transposed matrix.
    Trans,
    /// The transposed matrix, each element conjugated.
    ConjTrans,
}

impl Op {
    /// That matrix.
    #[inline]
    pub(crate) fn of<T>(self, view: View<'_, T>) -> Factor<'_, T> {
        let plain = Factor::plain(view);
        match self {
            Self::NoTrans => plain,
            Self::Trans => plain.transposed(),
            Self::ConjTrans => plain.transposed().conjugated(),
        }
    }
}

/// What is on the diagonal of a triangular matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Diag {
    /// What is stored.
    NonUnit,
    /// Ones, whatever is stored.
    Unit,
}
