//! The product of one 128 x 128 tile of C by 256 threads, 8 x 8 elements each, tiles of A and B of
//! eight k elements in shared memory, the next ones in registers.
//!
//! `register_tile_2d` has the picture.

use cuda_std::memory::Shared;
use cuda_std::{shared, thread};
use gemm_spec::Accumulator;

use crate::parts::gemm::Gemm;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

/// Rows and columns of C of a block.
pub(crate) const SIDE: usize = 128;
/// k elements in a tile, written out by `multiply`.
pub(crate) const STEPS: usize = 8;
/// Threads along each side of a block.
pub(crate) const THREADS: usize = 16;
/// Rows, and columns, of C of a thread, in two groups of four.
pub(crate) const OWN: usize = 8;
/// From one group of a thread to the next.
const APART: usize = SIDE / 2;
/// Pitch of A's tile, from one k element to the next: four more than the rows, so that the
/// transposing stores of a warp use different banks and reads stay 16-byte aligned.
pub(crate) const A_PITCH: usize = SIDE + 4;
/// Elements of each tile that a thread loads.
const LOADS: usize = SIDE * STEPS / (THREADS * THREADS);
/// Rows of A's tile that the block loads together.
const A_ROWS: usize = THREADS * THREADS / STEPS;
/// Rows of B's tile that the block loads together.
const B_ROWS: usize = THREADS * THREADS / SIDE;

/// Elements of shared memory of a block.
pub(crate) const SHARED_ELEMENTS: u32 = (STEPS * (A_PITCH + SIDE)) as u32;

/// The stride of an operand along the dimension that is contiguous in row-major order: one there,
/// the leading dimension in column-major order.
#[derive(Clone, Copy)]
pub(crate) struct Neighbours {
    /// From one k element to the next in a row of A.
    pub(crate) a_step: u64,
    /// From one column to the next in a row of B.
    pub(crate) b_col: u64,
}

impl Neighbours {
    /// Both operands in row-major order.
    pub(crate) const ROW_MAJOR: Self = Self { a_step: 1, b_col: 1 };
}

/// What a block shares.
#[repr(C, align(16))]
struct Tiles<T> {
    /// Transposed: a row for each k element, so that a thread's rows of C are adjacent.
    a: [[T; A_PITCH]; STEPS],
    b: [[T; SIDE]; STEPS],
}

/// A thread's addresses in global memory and in the tiles.
struct Loader<T> {
    gemm: Gemm<T>,
    neighbours: Neighbours,
    /// k elements before the next tile.
    done: u32,
    /// The row of A, and the step in a tile, of this thread's first element of A.
    a_row: u32,
    a_step: u32,
    /// The column of B, and the step in a tile, of this thread's first element of B.
    b_col: u32,
    b_step: u32,
    a_slot: Shared<T>,
    b_slot: Shared<T>,
}

impl<T: Accumulator> Loader<T> {
    /// This thread's elements of the next tiles, from global memory.
    ///
    /// # Safety
    /// Obligation 1 of the entries; with `INSIDE` the tiles are in A and B as a whole.
    #[inline(always)]
    unsafe fn fetch<const INSIDE: bool>(&self) -> ([T; LOADS], [T; LOADS]) {
        let Gemm { m, n, k, .. } = self.gemm;
        let mut a = [T::ZERO; LOADS];
        let mut b = [T::ZERO; LOADS];
        let step = self.done + self.a_step;
        let mut i = 0;
        while i < LOADS {
            let row = self.a_row + (i * A_ROWS) as u32;
            if INSIDE || (row < m && step < k) {
                let step = (u64::from(step) * self.neighbours.a_step) as usize;
                // SAFETY: (row, step) is in A.
                a[i] = unsafe { self.gemm.a_row(row).wrapping_add(step).read() };
            }
            let step = self.done + self.b_step + (i * B_ROWS) as u32;
            if INSIDE || (step < k && self.b_col < n) {
                let col = (u64::from(self.b_col) * self.neighbours.b_col) as usize;
                // SAFETY: (step, b_col) is in B.
                b[i] = unsafe { self.gemm.b_at(step, 0).wrapping_add(col).read() };
            }
            i += 1;
        }
        (a, b)
    }

    /// Puts fetched elements into the tiles.
    ///
    /// # Safety
    /// Nobody reads the old tiles any more.
    #[inline(always)]
    unsafe fn put(&self, a: [T; LOADS], b: [T; LOADS]) {
        let mut i = 0;
        while i < LOADS {
            // SAFETY: the slots of all threads and all `i` are the elements of A's tile, once each.
            unsafe { self.a_slot.wrapping_add(i * A_ROWS).write(a[i]) };
            // SAFETY: and those of B's.
            unsafe { self.b_slot.wrapping_add(i * B_ROWS * SIDE).write(b[i]) };
            i += 1;
        }
    }
}

/// Multiplies the tile of C in that row and column of tiles. Ends with a barrier, so that another tile may follow.
///
/// # Safety
/// 1. The operands are valid as obligation 1 of the entries of [`super::entries`] says, with
///    `neighbours` beside the leading dimensions; this block alone has the tile, which begins inside C.
/// 2. The block has 16 x 16 threads, all of which call it, and [`SHARED_ELEMENTS`] elements of shared
///    memory.
#[inline(always)]
pub(crate) unsafe fn outer_tile<T: Accumulator>(
    gemm: Gemm<T>,
    neighbours: Neighbours,
    (row, col): (u32, u32),
) {
    let (row0, col0) = (row * SIDE as u32, col * SIDE as u32);
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let linear = ty * THREADS + tx;

    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let tiles = unsafe { shared::launch_sized::<Tiles<T>>() };
    let a_tile = tiles.cast::<T>();
    let b_tile = a_tile.wrapping_add(STEPS * A_PITCH);
    // Neighbouring threads load neighbouring steps of a row of A and columns of a row of B.
    let (a_step, a_row) = (linear % STEPS, linear / STEPS);
    let (b_col, b_step) = (linear % SIDE, linear / SIDE);
    let mut loader = Loader {
        gemm,
        neighbours,
        done: 0,
        a_row: row0 + a_row as u32,
        a_step: a_step as u32,
        b_col: col0 + b_col as u32,
        b_step: b_step as u32,
        a_slot: a_tile.wrapping_add(a_step * A_PITCH + a_row),
        b_slot: b_tile.wrapping_add(b_step * SIDE + b_col),
    };
    let a_frag = a_tile.wrapping_add(4 * ty);
    let b_frag = b_tile.wrapping_add(4 * tx);

    let k = gemm.effective_k();
    let inside = row0 + SIDE as u32 <= gemm.m && col0 + SIDE as u32 <= gemm.n;
    let whole = if inside { k - k % STEPS as u32 } else { 0 };

    // --- mainloop ---
    let mut acc = [[T::ZERO; OWN]; OWN];
    if whole > 0 {
        // SAFETY: the block is inside C and the tile before `whole`.
        let mut next = unsafe { loader.fetch::<true>() };
        while loader.done < whole {
            // SAFETY: the barrier at the end of the last round ended all reads of the tiles.
            unsafe { loader.put(next.0, next.1) };
            // Before use.
            // SAFETY: `done` and `whole` are the same in all threads of the block.
            unsafe { thread::sync_threads() };
            loader.done += STEPS as u32;
            if loader.done < whole {
                // SAFETY: as for the first; the loads are in flight while this tile is multiplied.
                next = unsafe { loader.fetch::<true>() };
            }
            // SAFETY: the tiles are whole and visible since the barrier.
            unsafe { multiply(a_frag, b_frag, &mut acc) };
            // Before overwrite.
            // SAFETY: as above.
            unsafe { thread::sync_threads() };
        }
    }
    while loader.done < k {
        // SAFETY: obligation 1; reads are guarded.
        let (a, b) = unsafe { loader.fetch::<false>() };
        // SAFETY: the barrier at the end of the last round ended all reads of the tiles.
        unsafe { loader.put(a, b) };
        // SAFETY: `done` and `k` are the same in all threads of the block, so they are all here.
        unsafe { thread::sync_threads() };
        // SAFETY: the tiles are whole and visible since the barrier.
        unsafe { multiply(a_frag, b_frag, &mut acc) };
        // SAFETY: as for the barrier above.
        unsafe { thread::sync_threads() };
        loader.done += STEPS as u32;
    }

    // SAFETY: obligation 1.
    unsafe { store(&gemm, (row0, col0), (tx, ty), &acc) };
}

/// Stores a thread's elements of the tile of C that begins at (row0, col0).
///
/// # Safety
/// C is valid, and (tx, ty) is this thread's place among the 16 x 16 of the block.
#[inline(always)]
pub(crate) unsafe fn store<T: Accumulator>(
    gemm: &Gemm<T>,
    (row0, col0): (u32, u32),
    (tx, ty): (usize, usize),
    acc: &[[T; OWN]; OWN],
) {
    unroll!(for I in 0..8 {
        let row = row0 + (I / 4 * APART + 4 * ty + I % 4) as u32;
        unroll!(for J in 0..8 {
            let col = col0 + (J / 4 * APART + 4 * tx + J % 4) as u32;
            if row < gemm.m && col < gemm.n {
                // SAFETY: the guard; each element belongs to one thread.
                unsafe { gemm.store(row, col, acc[I][J]) };
            }
        });
    });
}

/// Adds the products of this thread's rows and columns in the tiles, one k element at a time.
///
/// # Safety
/// The tiles are written and visible to this thread.
#[inline(always)]
pub(crate) unsafe fn multiply<T: Accumulator>(
    a: Shared<T>,
    b: Shared<T>,
    acc: &mut [[T; OWN]; OWN],
) {
    unroll!(for STEP in 0..8 {
        // SAFETY: the caller's promise.
        unsafe {
            multiply_step(a.wrapping_add(STEP * A_PITCH), b.wrapping_add(STEP * SIDE), acc);
        }
    });
}

/// Adds the products of the k element of the tiles that is at `a` and `b`.
///
/// # Safety
/// The step is written and visible to this thread.
#[inline(always)]
pub(crate) unsafe fn multiply_step<T: Accumulator>(
    a: Shared<T>,
    b: Shared<T>,
    acc: &mut [[T; OWN]; OWN],
) {
    // SAFETY: both groups are in the row of A's tile, 16-byte aligned.
    let a = unsafe { fragment(a) };
    // SAFETY: both groups are in the row of B's tile, 16-byte aligned.
    let b = unsafe { fragment(b) };
    unroll!(for I in 0..8 {
        unroll!(for J in 0..8 {
            acc[I][J] = a[I].mul_add(b[J], acc[I][J]);
        });
    });
}

/// Two groups of four, [`APART`] apart.
///
/// # Safety
/// Both are written and visible, and 16-byte aligned.
#[inline(always)]
unsafe fn fragment<T: Accumulator>(at: Shared<T>) -> [T; OWN] {
    // SAFETY: the first group is written, visible and 16-byte aligned.
    let Quad([x0, x1, x2, x3]) = unsafe { at.cast::<Quad<T>>().read() };
    // SAFETY: so is the second.
    let Quad([y0, y1, y2, y3]) = unsafe { at.wrapping_add(APART).cast::<Quad<T>>().read() };
    [x0, x1, x2, x3, y0, y1, y2, y3]
}
