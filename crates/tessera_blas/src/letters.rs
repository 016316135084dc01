//! Integers of both sizes, and the letters that Fortran passes.

use tessera::blas3::{Diag, Op, Side, Uplo};

use crate::xerbla::Handler;

/// An integer argument: of 32 bits (LP64) or 64 (ILP64).
pub(crate) trait Int: Copy + Handler + 'static {
    /// The number, if it is not negative.
    fn size(self) -> Option<usize>;

    /// The number as an offset.
    fn offset(self) -> isize;

    /// The integer of a small number.
    fn of(number: i32) -> Self;
}

macro_rules! ints {
    ($($int:ty)*) => {$(
        impl Int for $int {
            fn size(self) -> Option<usize> {
                usize::try_from(self).ok()
            }

            fn offset(self) -> isize {
                // On a machine whose addresses have 32 bits no matrix is as large.
                isize::try_from(self).unwrap_or(isize::MAX)
            }

            fn of(number: i32) -> Self {
                number.into()
            }
        }
    )*};
}

ints!(i32 i64);

/// What a letter says, in either case; `None` where it says nothing.
pub(crate) trait Letter: Sized {
    fn of(letter: u8) -> Option<Self>;
}

impl Letter for Op {
    fn of(letter: u8) -> Option<Self> {
        match letter.to_ascii_uppercase() {
            b'N' => Some(Self::NoTrans),
            b'T' => Some(Self::Trans),
            b'C' => Some(Self::ConjTrans),
            _ => None,
        }
    }
}

impl Letter for Side {
    fn of(letter: u8) -> Option<Self> {
        match letter.to_ascii_uppercase() {
            b'L' => Some(Self::Left),
            b'R' => Some(Self::Right),
            _ => None,
        }
    }
}

impl Letter for Uplo {
    fn of(letter: u8) -> Option<Self> {
        match letter.to_ascii_uppercase() {
            b'U' => Some(Self::Upper),
            b'L' => Some(Self::Lower),
            _ => None,
        }
    }
}

impl Letter for Diag {
    fn of(letter: u8) -> Option<Self> {
        match letter.to_ascii_uppercase() {
            b'N' => Some(Self::NonUnit),
            b'U' => Some(Self::Unit),
            _ => None,
        }
    }
}
