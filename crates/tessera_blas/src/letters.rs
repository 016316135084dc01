//! The letters that Fortran passes.

use tessera::blas3::{Diag, Op, Side, Uplo};

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
