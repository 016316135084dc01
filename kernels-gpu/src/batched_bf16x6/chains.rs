//! A warp's rows of a tile by chains of multiply-adds, where limbs do not hold what is multiplied.

use cuda_std::memory::{Global, global};
use gemm_spec::batched::{A_COL_MAJOR, B_COL_MAJOR};
use gemm_spec::batched_limbs::TILE;
use gemm_spec::params::BatchedParams;
use gemm_spec::{Accumulator, epilogue};

use crate::limbs::product::Store;

/// Rows of C of a warp.
const WARP_ROWS: u32 = 16;

/// A and B of a product.
pub(super) struct Factors {
    a: Global<f32>,
    b: Global<f32>,
    /// Elements from one row of A to the next, and from one k element.
    of_row: u64,
    a_step: u64,
    /// Elements from one column of B to the next, and from one k element.
    of_col: u64,
    b_step: u64,
    k: u32,
}

impl Factors {
    /// # Safety
    /// Obligation 1 of the entry.
    #[inline(always)]
    pub(super) unsafe fn of(params: &BatchedParams<f32>, product: u32) -> Self {
        let lines = |ld: u64, along_k: bool| if along_k { (ld, 1) } else { (1, ld) };
        let (of_row, a_step) = lines(params.lda, params.orders & A_COL_MAJOR == 0);
        let (of_col, b_step) = lines(params.ldb, params.orders & B_COL_MAJOR != 0);
        let before = |stride: u64| (u64::from(product) * stride) as usize;
        // SAFETY: the caller's promise.
        let a = unsafe { global(params.a) }.cast::<f32>().wrapping_add(before(params.a_stride));
        // SAFETY: the same.
        let b = unsafe { global(params.b) }.cast::<f32>().wrapping_add(before(params.b_stride));
        Self { a, b, of_row, a_step, of_col, b_step, k: params.k }
    }

    /// The chain of an element of C.
    ///
    /// # Safety
    /// The element is in C.
    #[inline(always)]
    unsafe fn chain(&self, row: u32, col: u32) -> f32 {
        let mut a = self.a.wrapping_add((u64::from(row) * self.of_row) as usize);
        let mut b = self.b.wrapping_add((u64::from(col) * self.of_col) as usize);
        let (mut left, mut sum) = (self.k, 0.0);
        while left > 0 {
            // SAFETY: an element of the row of A.
            let x = unsafe { a.read() };
            // SAFETY: one of the column of B.
            let y = unsafe { b.read() };
            sum = Accumulator::mul_add(x, y, sum);
            (a, b) = (a.wrapping_add(self.a_step as usize), b.wrapping_add(self.b_step as usize));
            left -= 1;
        }
        sum
    }
}

/// Stores the elements of the warp of this thread of a warpgroup. Each lane has every 32nd column.
///
/// # Safety
/// Those of [`Store::all`]; the factors are the product's.
#[inline(always)]
pub(super) unsafe fn store(store: &Store, factors: &Factors, thread_in_warpgroup: u32) {
    let (warp, lane) = (thread_in_warpgroup / 32, thread_in_warpgroup % 32);
    let mut at = 0;
    while at < WARP_ROWS * TILE.n {
        let row = store.row0 + warp * WARP_ROWS + at / TILE.n;
        let col = store.col0 + at % TILE.n + lane;
        if row < store.m && col < store.n {
            // SAFETY: the guard.
            let sum = unsafe { factors.chain(row, col) };
            let place = (u64::from(row) * store.ldc) as usize + col as usize;
            let place = store.c.wrapping_add(place);
            // SAFETY: it is in C, and read only where it is this thread's.
            let new = epilogue(store.alpha, sum, store.beta, || unsafe { place.read() });
            // SAFETY: it is in C, and this thread's.
            unsafe { place.write(new) };
        }
        at += 32;
    }
}
