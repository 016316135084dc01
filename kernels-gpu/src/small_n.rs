//! `small_n`: a product with few columns, which reads A once, at full bandwidth.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32
//! Launch    block (256,1,1); along x the tiles of C in groups of 8 rows of tiles, along y the parts of
//!           k; then `sum_parts`, where there are several parts
//! Shared    512 k elements of up to 8 columns of B, or 256 of 16, transposed: 16640 bytes
//! Requires  m, n >= 1; A's rows 16-byte aligned for reads of 16 bytes, else they are of 4; a workspace
//!           of 4*m*n bytes for each part
//! Cost      2mnk flop; each element of A is read n/16 times, of B m/16 times
//! Bound by  memory: with n columns an element of A feeds n FMAs, the units could do 28
//! Source    the matrix-vector product of BLAS with a warp a row, four rows and up to 16 columns at a
//!           time
//!
//! If n is small, a tile of C as large as those of `split_k` is mostly beyond the edge. Here a warp
//! has four rows of A, and its lanes share k: every lane multiplies four neighbours of each row by
//! four of each column, which the block has transposed in shared memory. The lanes' accumulators
//! are reduced at the end, in a tree, then those of the two halves of the chunk:
//!
//! ```text
//!   A   k ->  lane 0    lane 1    ...           B, transposed   column 0   k ->
//!   row 0     [ 4 ]     [ 4 ]                                   column 1
//!   row 1     [ 4 ]     [ 4 ]                                   ...
//! ```
//!
//! The reads of A for a chunk are issued before the block fills B's chunk, so that they are in
//! flight meanwhile. The number of columns of a tile is a constant in each of five loops, 1 to 16.

use cuda_std::memory::{Global, Shared};
use cuda_std::warp::{FULL, Shuffle, shuffle_xor};
use cuda_std::{shared, thread};
use gemm_spec::scheduler::{Grouped, SplitK, TileScheduler};
use gemm_spec::split_k::{KSharing, RANGE_UNIT};
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Numerics, Tile};

use crate::parts::cta::this_cta;
use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;
use crate::sum_parts;

/// Rows of A of a warp.
const ROWS: usize = 4;
/// Warps of a block along m, and along k.
const WARPS_M: usize = 4;
const WARPS_K: usize = 2;
const THREADS: usize = 32 * WARPS_M * WARPS_K;
/// Rows and columns of C of a block.
const TILE_M: usize = ROWS * WARPS_M;
const TILE_N: usize = 16;
/// k elements of a warp at a time, four a lane.
const GROUP: usize = 128;
/// k elements in shared memory, with `groups` groups a warp, all of whose reads are in flight at
/// once: two, or one where accumulators take most of the registers.
const fn chunk_steps(groups: usize) -> usize {
    GROUP * groups * WARPS_K
}
/// Pitch of a chunk, from one column to the next: four more than the k elements, so that the
/// transposing stores use different banks and reads stay 16-byte aligned.
const fn pitch(groups: usize) -> usize {
    chunk_steps(groups) + 4
}
/// Rows of tiles in a group.
const GROUP_ROWS: u32 = 8;

gemm_entries! {
    ENTRIES, EMULATED = small_n;
    f32 => small_n_f32
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "small_n",
    about: "up to 16 columns: a warp has four rows of A, its lanes share k",
    origin: "BLAS, matrix times vector",
    arch: Arch::Sm80,
    entries: ENTRIES,
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS as u32, y: 1 },
        tile: Tile { m: TILE_M as u32, n: TILE_N as u32 },
        rows: GROUP_ROWS,
    },
    shared_elements: (TILE_N * pitch(1)) as u32,
    min_blocks_per_sm: MinBlocks::same(2),
    split_k: KSharing::Workspace { unit: RANGE_UNIT },
    numerics: Numerics::ChainOfRanges,
    helpers: &[sum_parts::ENTRY],
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();
const _: () = assert!(8 * pitch(2) <= TILE_N * pitch(1), "shared memory is that of 16 columns");

/// # Safety
/// Obligations 1 and 2 of the entries, with the meaning of `split_k`'s.
#[inline(always)]
unsafe fn small_n<T: Accumulator + Shuffle>(gemm: Gemm<T>) {
    let cta = this_cta();
    let extent = gemm.extent((TILE_M as u32, TILE_N as u32));
    let tiles = Grouped::new(cta, extent, GROUP_ROWS);
    let tile = SplitK::new(cta, tiles, RANGE_UNIT).tile();
    let gemm = gemm.of_range(&tile);
    let place = (tile.row * TILE_M as u32, tile.col * TILE_N as u32);
    match gemm.n - place.1 {
        // SAFETY: obligations 1 and 2; the tile has one column.
        1 => unsafe { columns::<T, 1, 2>(&gemm, place) },
        // SAFETY: the same with two.
        2 => unsafe { columns::<T, 2, 2>(&gemm, place) },
        // SAFETY: the same with four or fewer.
        3 | 4 => unsafe { columns::<T, 4, 2>(&gemm, place) },
        // SAFETY: the same with eight or fewer.
        5..=8 => unsafe { columns::<T, 8, 2>(&gemm, place) },
        // SAFETY: the same with more, of which the tile takes sixteen.
        _ => unsafe { columns::<T, 16, 1>(&gemm, place) },
    }
}

/// Computes a tile of up to `N` columns from (row0, col0) on.
///
/// # Safety
/// As above; at most `N` or at least 16 columns are left from `col0` on, and all threads of the block
/// are here.
// Out of line on the host, where its copies would only cost time to compile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
unsafe fn columns<T: Accumulator + Shuffle, const N: usize, const GROUPS: usize>(
    gemm: &Gemm<T>,
    (row0, col0): (u32, u32),
) {
    let thread = thread::thread_idx_x() as usize;
    let (lane, warp) = (thread % 32, thread / 32);
    let (warp_m, warp_k) = (warp % WARPS_M, warp / WARPS_M);
    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let chunk = unsafe { shared::launch_sized::<Quad<T>>() }.cast::<T>();
    let own = Rows {
        first: row0 + (warp_m * ROWS) as u32,
        step: (warp_k * GROUPS * GROUP + 4 * lane) as u32,
        in_quads: gemm.a_in_quads(),
    };
    let k = gemm.effective_k();
    let steps = chunk_steps(GROUPS) as u32;
    let mut acc = [[T::ZERO; N]; ROWS];
    let mut done = 0;
    // Reads without a guard: what a guarded one is chosen from would be waited for.
    while own.in_quads && k - done >= steps {
        // SAFETY: the chunk is whole; `k` is the same in all threads of the block, so all are here.
        acc = unsafe { own.add_chunk::<T, N, GROUPS, true>(gemm, chunk, (done, k), col0, acc) };
        done += steps;
    }
    while done < k {
        // SAFETY: the same of a chunk that may end before `k`.
        acc = unsafe { own.add_chunk::<T, N, GROUPS, false>(gemm, chunk, (done, k), col0, acc) };
        done = done.saturating_add(steps);
    }

    // --- reduction over the lanes, then over the warps along k ---
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let partial = chunk.wrapping_add((warp_k * TILE_M + warp_m * ROWS) * N);
    unroll!(for ROW in 0..4 {
        unroll!(for COL in 0..16 {
            if COL < N {
                // SAFETY: all lanes are here.
                let sum = unsafe { of_all_lanes(acc[ROW][COL]) };
                if lane == 0 {
                    // SAFETY: each warp has rows of its own, and nobody reads the chunk any more.
                    unsafe { partial.wrapping_add(ROW * N + COL).write(sum) };
                }
            }
        });
    });
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    if thread < TILE_M * N {
        let (row, col) = (row0 + (thread / N) as u32, col0 + (thread % N) as u32);
        if row < gemm.m && col < gemm.n {
            // SAFETY: written, and visible since the barrier.
            let one = unsafe { chunk.wrapping_add(thread).read() };
            // SAFETY: the same of the other half.
            let other = unsafe { chunk.wrapping_add(TILE_M * N + thread).read() };
            // SAFETY: the guards; each element of C belongs to one thread.
            unsafe { gemm.store(row, col, T::ONE.mul_add(one, other)) };
        }
    }
}

/// One lane's part of A.
struct Rows {
    /// The first of its rows.
    first: u32,
    /// The first of its steps in a chunk.
    step: u32,
    in_quads: bool,
}

impl Rows {
    /// Adds the products of a chunk of k; of one that is `WHOLE`, and rows that are read in quads, without guards.
    ///
    /// # Safety
    /// Obligation 1 of the entries; all threads of the block call it together, with the chunk's memory; where it is
    /// `WHOLE` its k elements are all before `k`, and rows are aligned.
    #[inline(always)]
    unsafe fn add_chunk<
        T: Accumulator + Shuffle,
        const N: usize,
        const GROUPS: usize,
        const WHOLE: bool,
    >(
        &self,
        gemm: &Gemm<T>,
        chunk: Shared<T>,
        (done, k): (u32, u32),
        col0: u32,
        mut acc: [[T; N]; ROWS],
    ) -> [[T; N]; ROWS] {
        let thread = thread::thread_idx_x() as usize;
        // In flight while the chunk is filled.
        let mut a = [[[T::ZERO; 4]; ROWS]; GROUPS];
        unroll!(for G in 0..2 {
            if G < GROUPS {
                let ahead = done.saturating_add((G * GROUP) as u32);
                // SAFETY: obligation 1.
                a[G] = unsafe { self.fetch::<T, WHOLE>(gemm, ahead, k) };
            }
        });
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        // SAFETY: nobody reads the chunk any more.
        unsafe { fill::<T, N, GROUPS, WHOLE>(gemm, chunk, (done, k), col0, thread) };
        // SAFETY: as above.
        unsafe { thread::sync_threads() };
        let from = chunk.wrapping_add(self.step as usize);
        unroll!(for G in 0..2 {
            unroll!(for COL in 0..16 {
                if COL < N && G < GROUPS {
                    let at = from.wrapping_add(COL * pitch(GROUPS) + G * GROUP).cast::<Quad<T>>();
                    // SAFETY: written, aligned, and visible since the barrier.
                    let b = unsafe { at.read() }.0;
                    unroll!(for ROW in 0..4 {
                        unroll!(for I in 0..4 {
                            acc[ROW][COL] = a[G][ROW][I].mul_add(b[I], acc[ROW][COL]);
                        });
                    });
                }
            });
        });
        acc
    }

    /// Four steps of each row, in the group of this lane that begins `done` steps after its first;
    /// zero from step `k` on. Rows outside repeat the last one.
    ///
    /// # Safety
    /// Obligation 1 of the entries; where they are `WHOLE`, all steps are before `k`, and rows are aligned.
    #[inline(always)]
    unsafe fn fetch<T: Accumulator, const WHOLE: bool>(
        &self,
        gemm: &Gemm<T>,
        done: u32,
        k: u32,
    ) -> [[T; 4]; ROWS] {
        let step = done.saturating_add(self.step);
        let mut a = [[T::ZERO; 4]; ROWS];
        unroll!(for ROW in 0..4 {
            let row = gemm.a_row((self.first + ROW as u32).min(gemm.m - 1));
            let from: Global<T> = row.wrapping_add(step as usize);
            if WHOLE || self.in_quads && step.saturating_add(4) <= k {
                // SAFETY: four steps of a row of A, aligned like all of them.
                a[ROW] = unsafe { from.cast::<Quad<T>>().read() }.0;
            } else {
                unroll!(for I in 0..4 {
                    if step.saturating_add(I as u32) < k {
                        // SAFETY: the row and the step are in A.
                        a[ROW][I] = unsafe { from.wrapping_add(I).read() };
                    }
                });
            }
        });
        a
    }
}

/// Loads the k elements of B from `done` on into the chunk, column by column; zero from k index `k` on. What columns from n
/// on are, nobody stores.
///
/// # Safety
/// Obligation 1 of the entries; `done < k`; nobody reads the chunk; all threads of the block call it. Where it is
/// `WHOLE` its k elements are all before `k`.
#[inline(always)]
unsafe fn fill<T: Accumulator, const N: usize, const GROUPS: usize, const WHOLE: bool>(
    gemm: &Gemm<T>,
    chunk: Shared<T>,
    (done, k): (u32, u32),
    col0: u32,
    thread: usize,
) {
    // All elements of a thread are in flight together where there are registers for them: eight with four columns.
    if N <= 4 {
        let each = chunk_steps(GROUPS) * N / THREADS;
        let mut values = [T::ZERO; 8];
        unroll!(for I in 0..8 {
            if I < each {
                let at = thread + I * THREADS;
                let step = done.saturating_add((at / N) as u32);
                let col = (col0 + (at % N) as u32).min(gemm.n - 1);
                let inside = if WHOLE { step } else { step.min(k - 1) };
                // SAFETY: the step and the column are in B.
                let value = unsafe { gemm.b_at(inside, col).read() };
                values[I] = if WHOLE || step < k { value } else { T::ZERO };
            }
        });
        unroll!(for I in 0..8 {
            if I < each {
                let at = thread + I * THREADS;
                // SAFETY: each place of the chunk belongs to one thread.
                unsafe { chunk.wrapping_add(at % N * pitch(GROUPS) + at / N).write(values[I]) };
            }
        });
        return;
    }
    let mut at = thread;
    while at < chunk_steps(GROUPS) * N {
        let (step, col) = (done.saturating_add((at / N) as u32), col0 + (at % N) as u32);
        let mut value = T::ZERO;
        if (WHOLE || step < k) && col < gemm.n {
            // SAFETY: the step and the column are in B.
            value = unsafe { gemm.b_at(step, col).read() };
        }
        // SAFETY: as above.
        unsafe { chunk.wrapping_add(at % N * pitch(GROUPS) + at / N).write(value) };
        at += THREADS;
    }
}

/// The sum of a number over all lanes, in a tree.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
unsafe fn of_all_lanes<T: Accumulator + Shuffle>(mut sum: T) -> T {
    let mut bits = 16;
    while bits > 0 {
        // SAFETY: the caller's promise.
        sum = T::ONE.mul_add(unsafe { shuffle_xor(FULL, sum, bits) }, sum);
        bits /= 2;
    }
    sum
}
