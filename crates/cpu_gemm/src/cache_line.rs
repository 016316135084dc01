//! How operands lie to cache lines.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Bytes after which the sets of a first cache repeat.
pub(crate) const PAGE: usize = 4096;

/// Elements of a cache line.
pub(crate) const fn elements<T>() -> usize {
    LINE / size_of::<T>()
}

/// A distance for columns of that many elements at which each begins with a line if the first does, and neighbours lie in
/// different sets of a cache: an odd number of lines.
pub(crate) const fn spread<T>(elements_of_a_column: usize) -> usize {
    (elements_of_a_column.div_ceil(elements::<T>()) | 1).saturating_mul(elements::<T>())
}

/// How many elements behind the last whole unit of them, of a line or a part of it, a matrix's columns or rows
/// begin, which lie `ld` apart, if that is the same for all.
#[inline(always)]
pub(crate) fn beyond<T>(at: *const T, ld: usize, unit: usize) -> Option<usize> {
    let bytes = size_of::<T>();
    let all_alike = ld.is_multiple_of(unit) && at.addr().is_multiple_of(bytes);
    all_alike.then(|| at.addr() / bytes % unit)
}
