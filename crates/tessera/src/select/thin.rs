//! Products of so few rows or columns that they take as long as one operand takes to read.

/// Most rows or columns of a thin product.
pub(super) const THIN: usize = 16;

/// The same of 16-bit floats, whose tensor-core instructions multiply 64 rows.
pub(super) const THIN_HALF: usize = 64;

/// What a thin product has few of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Rows,
    Columns,
}

/// A thin product has no more than it reads the other operand once for. Whatever is multiplied meanwhile,
/// nothing is faster than that.
pub(super) fn thin_side([m, n, _]: [usize; 3]) -> Option<Side> {
    match (m <= n, m.min(n) <= THIN) {
        (true, true) => Some(Side::Rows),
        (false, true) => Some(Side::Columns),
        (_, false) => None,
    }
}
