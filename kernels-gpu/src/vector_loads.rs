//! `vector_loads`: `register_tile_2d` with global loads and shared stores of four elements at once.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32, f64 or i32
//! Launch    block (256,1,1); grid (ceil(n/128), ceil(m/128), 1), rows beyond 65535 blocks along z
//! Shared    8*(132+128) elements: 8.1 KiB for f32; A's tile is transposed
//! Requires  m, n >= 1; rows of A and B that begin at multiples of four elements are loaded by fours
//! Cost      2mnk flop; each element of A and B is loaded n/128 and m/128 times, four at a time
//! Bound by  two barriers a tile, and 64 FMAs for every four 16-byte shared reads. A warp tile whose
//!           next fragments are read ahead attacks both.
//! Source    siboehm's SGEMM_CUDA, kernel 6 (vectorised loads, A transposed on its way)
//!
//! A thread loads four k elements of a row of A and four columns of a row of B. It stores those of
//! B to the tile as they are, those of A transposed:
//!
//! ```text
//!   A, a row            A's tile, transposed           B, a row           B's tile
//!   +--+--+--+--+       +--+                           +--+--+--+--+      +--+--+--+--+
//!   | 0| 1| 2| 3|  ->   | 0|  a row for each step      | 0| 1| 2| 3|  ->  | 0| 1| 2| 3|
//!   +--+--+--+--+       +--+                           +--+--+--+--+      +--+--+--+--+
//!                       | 1|
//! ```

use cuda_std::memory::Shared;
use cuda_std::{shared, thread};
use gemm_spec::scheduler::{Plain, TileScheduler};
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Tile};

use crate::parts::cta::this_cta;
use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;
use crate::parts::outer_tile::{
    A_PITCH, OWN, SHARED_ELEMENTS, SIDE, STEPS, THREADS as ACROSS, multiply, multiply_step, store,
};
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

const THREADS: usize = ACROSS * ACROSS;
/// Threads that load a row of A's tile, and one of B's.
const A_THREADS: usize = STEPS / 4;
const B_THREADS: usize = SIDE / 4;
const _: () = assert!(A_THREADS * SIDE == THREADS && B_THREADS * STEPS == THREADS);

gemm_entries! {
    ENTRIES, EMULATED = vector_loads;
    f32 => vector_loads_f32, f64 => vector_loads_f64, i32 => vector_loads_i32
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "vector_loads",
    about: "8 x 8 elements of C in a thread's registers, loads of four elements at once",
    origin: "siboehm's SGEMM_CUDA, kernel 6",
    arch: Arch::Sm70,
    entries: ENTRIES,
    launch: LaunchShape::Grid {
        block: Block { x: THREADS as u32, y: 1 },
        tile: Tile { m: SIDE as u32, n: SIDE as u32 },
    },
    shared_elements: SHARED_ELEMENTS,
    // Two blocks hide each other's barriers; 8-byte accumulators need the registers of one.
    min_blocks_per_sm: MinBlocks { narrow: 2, wide: 1 },
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// A thread's addresses in global memory and in the tiles.
struct Loader<T> {
    gemm: Gemm<T>,
    /// The row of A, and the step in a tile, of this thread's four steps.
    a_row: u32,
    a_step: u32,
    /// The step in a tile, and the column, of its four columns of B.
    b_step: u32,
    b_col: u32,
    a_slot: Shared<T>,
    b_slot: Shared<T>,
}

impl<T: Accumulator> Loader<T> {
    /// This thread's elements of the tiles from step `done` on, zero for what is outside.
    ///
    /// # Safety
    /// Obligation 1 of the entries; with `WHOLE` the tiles are in A and B, whose rows begin at
    /// multiples of four elements.
    #[inline(always)]
    unsafe fn fetch<const WHOLE: bool>(&self, done: u32) -> ([T; 4], [T; 4]) {
        let Gemm { m, n, k, .. } = self.gemm;
        let (a_step, b_step) = (done + self.a_step, done + self.b_step);
        if WHOLE {
            let a = self.gemm.a_row(self.a_row).wrapping_add(a_step as usize).cast::<Quad<T>>();
            let b = self.gemm.b_at(b_step, self.b_col).cast::<Quad<T>>();
            // SAFETY: four steps of a row of A, from a multiple of four on.
            let Quad([a0, a1, a2, a3]) = unsafe { a.read() };
            // SAFETY: four columns of a row of B, from a multiple of four on.
            let Quad([b0, b1, b2, b3]) = unsafe { b.read() };
            // Element by element, or LLVM keeps the quads in memory.
            return ([a0, a1, a2, a3], [b0, b1, b2, b3]);
        }
        let (mut a, mut b) = ([T::ZERO; 4], [T::ZERO; 4]);
        unroll!(for I in 0..4 {
            let step = a_step + I as u32;
            if self.a_row < m && step < k {
                let from = self.gemm.a_row(self.a_row).wrapping_add(step as usize);
                // SAFETY: the row and the step are in A.
                a[I] = unsafe { from.read() };
            }
            let col = self.b_col + I as u32;
            if b_step < k && col < n {
                // SAFETY: the step and the column are in B.
                b[I] = unsafe { self.gemm.b_at(b_step, col).read() };
            }
        });
        (a, b)
    }

    /// Puts fetched elements into the tiles.
    ///
    /// # Safety
    /// Nobody reads the old tiles any more.
    #[inline(always)]
    unsafe fn put(&self, (a, b): ([T; 4], [T; 4])) {
        unroll!(for I in 0..4 {
            // SAFETY: the slots of all threads are the elements of A's tile, once each.
            unsafe { self.a_slot.wrapping_add(I * A_PITCH).write(a[I]) };
        });
        // SAFETY: the slots of all threads are the quads of B's tile, once each, aligned since the
        // tile, its rows and the column are.
        unsafe { self.b_slot.cast::<Quad<T>>().write(Quad([b[0], b[1], b[2], b[3]])) };
    }
}

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn vector_loads<T: Accumulator>(gemm: Gemm<T>) {
    let side = SIDE as u32;
    let extent = gemm.extent((side, side));
    let scheduler = Plain::new(this_cta(), extent);
    if !scheduler.has_work() {
        // A row of blocks that only rounds the grid up; the whole block leaves.
        return;
    }
    let tile = scheduler.tile();
    let (row0, col0) = (tile.row * side, tile.col * side);
    let thread = thread::thread_idx_x() as usize;
    let (tx, ty) = (thread % ACROSS, thread / ACROSS);

    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let a_tile = unsafe { shared::launch_sized::<Quad<T>>() }.cast::<T>();
    let b_tile = a_tile.wrapping_add(STEPS * A_PITCH);
    let (a_step, a_row) = (thread % A_THREADS * 4, thread / A_THREADS);
    let (b_col, b_step) = (thread % B_THREADS * 4, thread / B_THREADS);
    let loader = Loader {
        gemm,
        a_row: row0 + a_row as u32,
        a_step: a_step as u32,
        b_step: b_step as u32,
        b_col: col0 + b_col as u32,
        a_slot: a_tile.wrapping_add(a_step * A_PITCH + a_row),
        b_slot: b_tile.wrapping_add(b_step * SIDE + b_col),
    };
    let a_frag = a_tile.wrapping_add(4 * ty);
    let b_frag = b_tile.wrapping_add(4 * tx);

    let k = gemm.effective_k();
    let left = k % STEPS as u32;
    let inside = row0 + side <= gemm.m && col0 + side <= gemm.n;
    let whole = if inside && gemm.a_in_quads() && gemm.b_in_quads() { k - left } else { 0 };

    // --- mainloop ---
    let mut acc = [[T::ZERO; OWN]; OWN];
    let mut done = 0;
    if whole > 0 {
        // SAFETY: the block is inside C, the tile before `whole`, and rows are aligned.
        let mut next = unsafe { loader.fetch::<true>(0) };
        while done < whole {
            // SAFETY: the barrier at the end of the last round ended all reads of the tiles.
            unsafe { loader.put(next) };
            // SAFETY: `whole` is the same in all threads of the block, so they are all here.
            unsafe { thread::sync_threads() };
            done += STEPS as u32;
            if done < whole {
                // SAFETY: as for the first; in flight while this tile is multiplied.
                next = unsafe { loader.fetch::<true>(done) };
            }
            // SAFETY: written, and visible since the barrier.
            unsafe { multiply(a_frag, b_frag, &mut acc) };
            // Before overwrite.
            // SAFETY: all threads of the block are here.
            unsafe { thread::sync_threads() };
        }
    }
    while done < k {
        // SAFETY: obligation 1; reads are guarded.
        let next = unsafe { loader.fetch::<false>(done) };
        // SAFETY: the barrier at the end of the last round ended all reads of the tiles.
        unsafe { loader.put(next) };
        // SAFETY: `k` is the same in all threads of the block, so they are all here.
        unsafe { thread::sync_threads() };
        // Only steps that there are: each element stays one chain of them.
        let steps = (k - done).min(STEPS as u32);
        let (mut a, mut b) = (a_frag, b_frag);
        let mut step = 0;
        while step < steps {
            // SAFETY: written, and visible since the barrier.
            unsafe { multiply_step(a, b, &mut acc) };
            a = a.wrapping_add(A_PITCH);
            b = b.wrapping_add(SIDE);
            step += 1;
        }
        done += steps;
        // SAFETY: as above.
        unsafe { thread::sync_threads() };
    }

    // SAFETY: obligation 1 of the entries.
    unsafe { store(&gemm, (row0, col0), (tx, ty), &acc) };
}
