//! Products whose operands are loaded by TMA: what a launch passes, and when an operand has to be
//! copied first.
//!
//! TMA loads boxes of a tensor map: for the tensor cores 64 elements along the contiguous
//! dimension, 128 bytes, in the 128-byte swizzle; for f32 see [`TmaSimtParams`](crate::params::TmaSimtParams). It requires that an
//! operand and each of its lines begin at a multiple of 16 bytes. An operand that does not comply
//! is copied to a workspace with a longer pitch.

use crate::{GemmTypes, Layout, Operand, Order, Problem};

/// Elements of a k-block, the depth of a stage: one row of a K-major tile in the 128-byte swizzle.
pub const BLOCK_K: u32 = 64;

/// Elements of a TMA box along the contiguous dimension.
pub const BOX_WIDTH: u32 = 64;

/// Elements of a k-block of f32 operands: one row of A's tile in the 128-byte swizzle.
pub const F32_BLOCK_K: u32 = 32;

/// Alignment in bytes of the addresses and pitches that TMA reads and writes.
pub const ALIGNMENT: u64 = 16;

/// In `major_flags`: A is column-major, so its tiles are M-major.
pub const A_MN_MAJOR: u32 = 1;

/// In `major_flags`: B is row-major, so its tiles are N-major.
pub const B_MN_MAJOR: u32 = 2;

/// Elements that a thread of the helper copies at a time.
pub const PAD_GROUP: u32 = 8;

/// Threads of the helper that copy a line of `width` elements, of the `threads` of a block: a power of two, as these are.
#[inline(always)]
#[must_use]
pub const fn threads_of_line(width: u32, threads: u32) -> u32 {
    let mut of_line = threads;
    while of_line > 1 && (of_line / 2) * PAD_GROUP >= width {
        of_line /= 2;
    }
    // A grid without threads has no lines either; no division by this can panic.
    if of_line == 0 { 1 } else { of_line }
}

/// Lines of a K-major operand in a box, where a tile has `tile` of them and the operand `lines` in all: TMA
/// takes as long for lines outside the operand as for those in it. Whole groups of eight, one period of the
/// swizzle.
#[inline(always)]
#[must_use]
pub const fn lines_of_box(tile: u32, lines: u32) -> u32 {
    if lines >= tile { tile } else { lines.next_multiple_of(8) }
}

/// The `major_flags` of a product.
#[must_use]
pub fn major_flags<T: GemmTypes>(problem: &Problem<T>) -> u32 {
    let mn_major =
        |layout: Layout, order: Order, bit: u32| if layout.order == order { bit } else { 0 };
    mn_major(problem.a, Order::ColMajor, A_MN_MAJOR)
        | mn_major(problem.b, Order::RowMajor, B_MN_MAJOR)
}

/// The contiguous lines of an operand, and the elements of a line.
#[must_use]
pub fn lines<T: GemmTypes>(problem: &Problem<T>, operand: Operand) -> (usize, usize) {
    let (rows, cols) = problem.dims(operand);
    problem.layout(operand).lines(rows, cols)
}

/// Bytes of which the pitch of a copy is a multiple: a row of a box is then in one line of L2, not in two.
pub const COPY_ALIGNMENT: usize = 128;

/// The pitch of a copy, in elements of `size` bytes.
#[must_use]
pub const fn padded_pitch(width: usize, size: usize) -> usize {
    width.next_multiple_of(COPY_ALIGNMENT / size)
}

/// Whether TMA can address an operand of elements of `size` bytes in place.
#[must_use]
pub const fn tma_addressable(address: u64, layout: Layout, size: usize) -> bool {
    let pitch = layout.ld as u64 * size as u64;
    address.is_multiple_of(ALIGNMENT) && pitch.is_multiple_of(ALIGNMENT)
}

/// Bytes of the copy of an operand at that address, a multiple of 256; none if TMA can address its lines.
#[must_use]
pub fn copy_bytes<T: GemmTypes>(problem: &Problem<T>, operand: Operand, address: u64) -> u64 {
    let size = T::TYPES.of(operand).size();
    if problem.effective_k() == 0 || tma_addressable(address, problem.layout(operand), size) {
        return 0;
    }
    let (count, width) = lines(problem, operand);
    (count as u64 * padded_pitch(width, size) as u64 * size as u64).next_multiple_of(256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bf16;

    #[test]
    fn operands_are_copied_where_lines_are_not_aligned_and_only_there() {
        let aligned = Problem::<bf16>::new(100, 64, 24);
        assert_eq!(copy_bytes(&aligned, Operand::A, 0) + copy_bytes(&aligned, Operand::B, 0), 0);
        let odd = Problem::<bf16>::new(100, 63, 25);
        assert_eq!(copy_bytes(&odd, Operand::A, 0), 100 * 64 * 2);
        assert_eq!(copy_bytes(&odd, Operand::B, 0), (25 * 64 * 2u64).next_multiple_of(256));
        // Column-major: lines are columns.
        let transposed = Problem { a: Layout::col_major(104), ..odd };
        assert_eq!(copy_bytes(&transposed, Operand::A, 0), 0);
        assert_eq!(lines(&transposed, Operand::A), (25, 100));
        let nothing = Problem { alpha: 0.0, ..odd };
        assert_eq!(copy_bytes(&nothing, Operand::A, 0), 0);
        // Aligned lines that begin in the middle of an allocation.
        assert_eq!(copy_bytes(&aligned, Operand::A, 2), 100 * 64 * 2);
        // Four elements of f32 are 16 bytes.
        let wide = Problem::<f32>::new(100, 63, 28);
        assert_eq!(copy_bytes(&wide, Operand::A, 0), 0);
        assert_eq!(copy_bytes(&wide, Operand::B, 0), 28 * 64 * 4);
    }

    #[test]
    fn tma_addresses_lines_at_multiples_of_16_bytes() {
        assert!(
            tma_addressable(32, Layout::row_major(8), 2)
                && !tma_addressable(32, Layout::row_major(12), 2)
        );
        assert!(
            tma_addressable(32, Layout::row_major(12), 4)
                && !tma_addressable(32, Layout::row_major(6), 4)
        );
        assert!(
            !tma_addressable(40, Layout::row_major(8), 2)
                && !tma_addressable(40, Layout::row_major(8), 4)
        );
    }

    #[test]
    fn boxes_are_no_taller_than_the_operand() {
        assert_eq!(
            [1, 8, 9, 15, 16, 4096].map(|lines| lines_of_box(16, lines)),
            [8, 8, 16, 16, 16, 16]
        );
        assert_eq!(lines_of_box(64, 33), 40);
    }

    #[test]
    fn major_flags_name_what_is_not_k_major() {
        let plain = Problem::<f32>::new(8, 8, 8);
        assert_eq!(major_flags(&plain), B_MN_MAJOR);
        let transposed = Problem { a: Layout::col_major(8), ..plain };
        assert_eq!(major_flags(&transposed), A_MN_MAJOR | B_MN_MAJOR);
        assert_eq!(major_flags(&Problem { b: Layout::col_major(8), ..plain }), 0);
    }
}
