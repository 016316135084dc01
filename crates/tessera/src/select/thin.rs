//! Products of so few rows or columns that they take as long as one operand takes to read.

use gemm_spec::{DType, Types};

/// Most rows or columns of a thin product.
pub(super) const THIN: usize = 16;

/// The same of 16-bit floats, whose tensor-core instructions multiply 64 rows.
const THIN_HALF: usize = 64;

/// What a thin product has few of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Rows,
    Columns,
}

/// A thin product has no more than it reads the other operand once for. Whatever is multiplied meanwhile,
/// nothing is faster than that.
pub(super) fn thin_side(types: Types, [m, n, _]: [usize; 3]) -> Option<Side> {
    match (m <= n, m.min(n) <= most(types)) {
        (true, true) => Some(Side::Rows),
        (false, true) => Some(Side::Columns),
        (_, false) => None,
    }
}

/// Most rows or columns of a thin product of these types.
fn most(types: Types) -> usize {
    match types.a() {
        DType::F16 | DType::BF16 => THIN_HALF,
        DType::F32 | DType::F64 | DType::I32 | DType::I8 => THIN,
    }
}
