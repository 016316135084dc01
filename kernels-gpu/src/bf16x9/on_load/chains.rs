//! A warp's rows of a tile by chains of multiply-adds, where limbs do not hold what is multiplied.

use cuda_std::memory::{Global, global};
use gemm_spec::batched::{A_COL_MAJOR, B_COL_MAJOR};
use gemm_spec::batched_limbs::TILE;
use gemm_spec::params::BatchedParams;
use gemm_spec::{Accumulator, epilogue};

use crate::limbs::product::Store;
use crate::parts::unroll::unroll;

/// Rows of C of a warp.
const ROWS: usize = 16;
/// Columns of a lane, each a warp's lanes behind the one before.
const COLS: usize = (TILE.n / 32) as usize;
const _: () = assert!(COLS == 4, "the columns of a lane are written out");

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
    /// Obligation 1 of [`multiply`](super::multiply).
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

    /// The chains of a lane, from that row on and in these columns. Beyond C they repeat its last rows and columns.
    ///
    /// # Safety
    /// The product's C has the last row and the last column.
    #[inline(always)]
    unsafe fn chains(
        &self,
        row: u32,
        cols: [u32; COLS],
        (m, n): (u32, u32),
    ) -> [[f32; COLS]; ROWS] {
        let line =
            |at: u32, count: u32, apart: u64| (u64::from(at.min(count - 1)) * apart) as usize;
        let (mut sum, mut b) = ([[0.0; COLS]; ROWS], [self.b; COLS]);
        unroll!(for J in 0..4 {
            b[J] = self.b.wrapping_add(line(cols[J], n, self.of_col));
        });
        let (mut a, mut left) = (self.a, self.k);
        while left > 0 {
            let (mut x, mut y) = ([0.0; ROWS], [0.0; COLS]);
            unroll!(for J in 0..4 {
                // SAFETY: an element of a column of B.
                y[J] = unsafe { b[J].read() };
                b[J] = b[J].wrapping_add(self.b_step as usize);
            });
            unroll!(for I in 0..16 {
                // SAFETY: one of a row of A.
                x[I] = unsafe { a.wrapping_add(line(row + I as u32, m, self.of_row)).read() };
            });
            unroll!(for I in 0..16 {
                unroll!(for J in 0..4 {
                    sum[I][J] = Accumulator::mul_add(x[I], y[J], sum[I][J]);
                });
            });
            a = a.wrapping_add(self.a_step as usize);
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
    let row0 = store.row0 + warp * ROWS as u32;
    if row0 >= store.m {
        return;
    }
    let col = |j: usize| store.col0 + lane + 32 * j as u32;
    // SAFETY: m and n are at least one.
    let sum = unsafe { factors.chains(row0, [col(0), col(1), col(2), col(3)], (store.m, store.n)) };
    unroll!(for I in 0..16 {
        let row = row0 + I as u32;
        unroll!(for J in 0..4 {
            if row < store.m && col(J) < store.n {
                let place = (u64::from(row) * store.ldc) as usize + col(J) as usize;
                let place = store.c.wrapping_add(place);
                // SAFETY: it is in C, and read only where it is this thread's.
                let new = epilogue(store.alpha, sum[I][J], store.beta, || unsafe { place.read() });
                // SAFETY: it is in C, and this thread's.
                unsafe { place.write(new) };
            }
        });
    });
}
