//! A warp's part of C: fragments by `ldmatrix`, and their products.

use cuda_std::arch::sm80::mma::{ldmatrix_x4, ldmatrix_x4_transposed};
use cuda_std::memory::{Shared, SharedAddress};
use gemm_spec::batched_mma::{PACKET, STEP};

use super::Factor;
use super::lines::Aligned;
use crate::parts::number::Bits;
use crate::parts::unroll::unroll;

/// A lane's accumulators: for 16 rows each the tiles of 8 columns.
pub(super) type Acc = [[[f32; 4]; 8]; 2];

pub(super) const ZERO: Acc = [[[0.0; 4]; 8]; 2];

/// What a warp multiplies, in shared memory.
pub(super) struct Part {
    pub(super) a: Shared<Bits>,
    pub(super) b: Shared<Bits>,
    pub(super) of_a: Aligned,
    pub(super) of_b: Aligned,
    pub(super) product: u32,
    /// The part's first row and column.
    pub(super) row: u32,
    pub(super) col: u32,
    /// Those of the tile.
    pub(super) rows: u32,
    pub(super) cols: u32,
    /// k elements.
    pub(super) steps: u32,
    pub(super) lane: u32,
}

impl Part {
    /// Adds the products; whether A and B have a line for each k element.
    ///
    /// # Safety
    /// The operands are there, written before a barrier; all lanes of the warp are here.
    #[inline(always)]
    pub(super) unsafe fn add<F: Factor>(&self, acc: &mut Acc, a_by_k: bool, b_by_k: bool) {
        match (a_by_k, b_by_k, self.cols - self.col > 32) {
            // SAFETY: the caller's promise, in each of the eight.
            (false, false, false) => unsafe { self.of::<F, false, false, 2>(acc) },
            // SAFETY: the same.
            (false, false, true) => unsafe { self.of::<F, false, false, 4>(acc) },
            // SAFETY: the same.
            (false, true, false) => unsafe { self.of::<F, false, true, 2>(acc) },
            // SAFETY: the same.
            (false, true, true) => unsafe { self.of::<F, false, true, 4>(acc) },
            // SAFETY: the same.
            (true, false, false) => unsafe { self.of::<F, true, false, 2>(acc) },
            // SAFETY: the same.
            (true, false, true) => unsafe { self.of::<F, true, false, 4>(acc) },
            // SAFETY: the same.
            (true, true, false) => unsafe { self.of::<F, true, true, 2>(acc) },
            // SAFETY: the same.
            (true, true, true) => unsafe { self.of::<F, true, true, 4>(acc) },
        }
    }

    /// The same, of `COLS` times 16 columns at most.
    ///
    /// # Safety
    /// [`Part::add`]'s.
    #[inline(always)]
    unsafe fn of<F: Factor, const A_BY_K: bool, const B_BY_K: bool, const COLS: usize>(
        &self,
        acc: &mut Acc,
    ) {
        let two = self.rows - self.row > 16;
        let step = |by_k: bool, of: &Aligned| if by_k { STEP * of.pitch } else { STEP } as usize;
        let (a_step, b_step) = (step(A_BY_K, &self.of_a), step(B_BY_K, &self.of_b));
        let mut a = [self.row_of_a(A_BY_K, 0), self.row_of_a(A_BY_K, 16)];
        let mut b = [0, 16, 32, 48].map(|col| self.row_of_b(B_BY_K, col));
        let mut left = self.steps;
        while left > 0 {
            let mut of_a = [[0; 4]; 2];
            // SAFETY: the caller's promise.
            of_a[0] = unsafe { matrices::<A_BY_K>(a[0]) };
            if two {
                // SAFETY: the same.
                of_a[1] = unsafe { matrices::<A_BY_K>(a[1]) };
            }
            unroll!(for P in 0..2 {
                if 2 * P < COLS {
                    // SAFETY: the same.
                    let first = unsafe { matrices::<B_BY_K>(b[2 * P]) };
                    // SAFETY: the same.
                    let second = unsafe { matrices::<B_BY_K>(b[2 * P + 1]) };
                    let of_b = [
                        [first[0], first[1]],
                        [first[2], first[3]],
                        [second[0], second[1]],
                        [second[2], second[3]],
                    ];
                    unroll!(for I in 0..2 {
                        if I == 0 || two {
                            unroll!(for J in 0..4 {
                                // SAFETY: the caller's promise; a warp goes one way.
                                unsafe { F::add(&mut acc[I][4 * P + J], of_a[I], of_b[J]) };
                            });
                        }
                    });
                }
            });
            a = a.map(|at| at.wrapping_add(a_step));
            b = b.map(|at| at.wrapping_add(b_step));
            left = left.saturating_sub(STEP);
        }
    }

    /// The row that the lane reads for a fragment of A, whose rows begin that far in the part. Rows outside of the
    /// tile are read as its last.
    #[inline(always)]
    fn row_of_a(&self, by_k: bool, more: u32) -> SharedAddress<Bits> {
        let (first, lane) = (self.row + more, self.lane);
        let at = if by_k {
            let row = (first + lane / 8 % 2 * 8).min(self.of_a.len - PACKET);
            self.of_a.line(self.product, lane % 8 + lane / 16 * 8) + row
        } else {
            self.of_a.line(self.product, (first + lane % 16).min(self.rows - 1)) + lane / 16 * 8
        };
        SharedAddress::new(self.a.wrapping_add(at as usize))
    }

    /// The same for two fragments of B.
    #[inline(always)]
    fn row_of_b(&self, by_k: bool, more: u32) -> SharedAddress<Bits> {
        let (first, lane) = (self.col + more, self.lane);
        let at = if by_k {
            let col = (first + lane / 16 * 8).min(self.of_b.len - PACKET);
            self.of_b.line(self.product, lane % 16) + col
        } else {
            let col = (first + lane % 8 + lane / 16 * 8).min(self.cols - 1);
            self.of_b.line(self.product, col) + lane / 8 % 2 * 8
        };
        SharedAddress::new(self.b.wrapping_add(at as usize))
    }
}

/// Four matrices, transposed where a line is one k element's.
///
/// # Safety
/// [`ldmatrix_x4`]'s.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn matrices<const BY_K: bool>(row: SharedAddress<Bits>) -> [u32; 4] {
    if BY_K {
        // SAFETY: the caller's promise.
        unsafe { ldmatrix_x4_transposed(row) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { ldmatrix_x4(row) }
    }
}
