//! Integers of both sizes.

/// The integers of names without a suffix.
#[cfg(not(feature = "ilp64"))]
pub(crate) type Plain = i32;
/// The integers of names without a suffix.
#[cfg(feature = "ilp64")]
pub(crate) type Plain = i64;

/// An integer argument: of 32 bits (LP64) or 64 (ILP64).
pub(crate) trait Int: Copy + PartialEq + Send + Sync + 'static {
    /// The number, if it is not negative.
    fn size(self) -> Option<usize>;

    /// The number as an offset.
    fn offset(self) -> isize;

    /// The integer of a small number.
    fn of(number: i32) -> Self;

    /// The integer of a size that was one before; the largest of one that is too large.
    fn of_size(size: usize) -> Self;
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

            fn of_size(size: usize) -> Self {
                Self::try_from(size).unwrap_or(Self::MAX)
            }
        }
    )*};
}

ints!(i32 i64);
