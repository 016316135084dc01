//! Integers of both sizes.

/// An integer argument: of 32 bits (LP64) or 64 (ILP64).
pub(crate) trait Int: Copy + 'static {
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
