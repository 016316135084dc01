//! `small_m`: a product with few rows, which reads B once, at full bandwidth.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32
//! Launch    block (256,1,1); along x the tiles of C in groups of 8 rows of tiles, along y the parts of
//!           k; then `sum_parts`, where there are several parts
//! Shared    64 k elements of up to 8 rows of A, or 32 of 16, transposed; then the accumulators of a tile:
//!           8192 bytes
//! Requires  m, n >= 1; B's rows 16-byte aligned for reads of 16 bytes, else they are of 4; a workspace
//!           of 4*m*n bytes for each part
//! Cost      2mnk flop; each element of B is read m/16 times, of A n/128 times
//! Bound by  memory: with m rows an element of B feeds m FMAs, the units could do 28
//! Source    the vector-matrix product of BLAS with a lane a column, up to 16 rows at a time
//!
//! The counterpart of `small_n`. A lane has four columns of B, and the warps of a block share k:
//! each takes eight of the 64 k elements of a chunk, or four of 32 where accumulators need most of
//! the registers. The rows of A are transposed in shared memory, where all lanes read the same
//! address:
//!
//! ```text
//!   A, transposed  k = 0 [ rows ]      B  k = 0   lane 0 | lane 1 | ...      warp 0
//!                  k = 1 [ rows ]         ...
//!                  ...                    k = 8   lane 0 | lane 1 | ...      warp 1
//! ```
//!
//! The reads of B for a chunk are issued before the block fills A's chunk. At the end the warps add
//! their accumulators to those in shared memory, one after the other, so that a result is
//! reproducible bit for bit.

use cuda_std::memory::Shared;
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

/// Warps of a block, which share k.
const WARPS: usize = 8;
const THREADS: usize = 32 * WARPS;
/// Rows and columns of C of a block, four columns a lane.
const TILE_M: usize = 16;
const TILE_N: usize = 128;
/// Most k elements of a warp in a chunk, all of whose reads are in flight at once.
const MOST_STEPS: usize = 8;
/// Pitch of a chunk, from one k element to the next: four more than the rows, so that the
/// transposing stores use different banks and reads stay 16-byte aligned.
const PITCH: usize = TILE_M + 4;
/// Rows of tiles in a group.
const GROUP_ROWS: u32 = 8;

gemm_entries! {
    ENTRIES, EMULATED = small_m;
    f32 => small_m_f32
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "small_m",
    about: "up to 16 rows: a lane has four columns of B, the warps share k",
    origin: "BLAS, vector times matrix",
    arch: Arch::Sm80,
    entries: ENTRIES,
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS as u32, y: 1 },
        tile: Tile { m: TILE_M as u32, n: TILE_N as u32 },
        rows: GROUP_ROWS,
    },
    shared_elements: (TILE_M * TILE_N) as u32,
    min_blocks_per_sm: MinBlocks::same(2),
    split_k: KSharing::Workspace { unit: RANGE_UNIT },
    numerics: Numerics::ChainOfRanges,
    helpers: &[sum_parts::ENTRY],
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();
const _: () = assert!(
    MOST_STEPS * WARPS * PITCH <= TILE_M * TILE_N,
    "the chunk fits the memory of the accumulators"
);

/// # Safety
/// Obligations 1 and 2 of the entries, with the meaning of `split_k`'s.
#[inline(always)]
unsafe fn small_m<T: Accumulator>(gemm: Gemm<T>) {
    let cta = this_cta();
    let extent = gemm.extent((TILE_M as u32, TILE_N as u32));
    let tiles = Grouped::new(cta, extent, GROUP_ROWS);
    let tile = SplitK::new(cta, tiles, RANGE_UNIT).tile();
    let gemm = gemm.of_range(&tile);
    let place = (tile.row * TILE_M as u32, tile.col * TILE_N as u32);
    match gemm.m - place.0 {
        // SAFETY: obligations 1 and 2; the tile has one row.
        1 => unsafe { rows::<T, 1, 8>(&gemm, place) },
        // SAFETY: the same with two.
        2 => unsafe { rows::<T, 2, 8>(&gemm, place) },
        // SAFETY: the same with four or fewer.
        3 | 4 => unsafe { rows::<T, 4, 8>(&gemm, place) },
        // SAFETY: the same with eight or fewer.
        5..=8 => unsafe { rows::<T, 8, 8>(&gemm, place) },
        // SAFETY: the same with more, of which the tile takes sixteen.
        _ => unsafe { rows::<T, 16, 4>(&gemm, place) },
    }
}

/// A lane's columns in a tile: four neighbours where one instruction can read them, else 32 apart,
/// so that neighbouring lanes read neighbouring columns.
#[derive(Clone, Copy)]
struct Columns {
    lane: usize,
    in_quads: bool,
}

impl Columns {
    /// Column `i` of the four.
    #[inline(always)]
    const fn get(self, i: usize) -> usize {
        if self.in_quads { 4 * self.lane + i } else { self.lane + 32 * i }
    }
}

/// Computes a tile of up to `M` rows from (row0, col0) on.
///
/// # Safety
/// As above; at most `M` or at least 16 rows are left from `row0` on, and all threads of the block are
/// here.
// Out of line on the host, where its copies would only cost time to compile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
unsafe fn rows<T: Accumulator, const M: usize, const STEPS: usize>(
    gemm: &Gemm<T>,
    (row0, col0): (u32, u32),
) {
    let thread = thread::thread_idx_x() as usize;
    let (lane, warp) = (thread % 32, thread / 32);
    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let chunk = unsafe { shared::launch_sized::<Quad<T>>() }.cast::<T>();
    let in_quads = gemm.b_in_quads() && gemm.n - col0 >= TILE_N as u32;
    let columns = Columns { lane, in_quads };
    let k = gemm.effective_k();
    let mut acc = [[T::ZERO; 4]; M];
    let mut done = 0;
    let steps = (STEPS * WARPS) as u32;
    let own = Own { warp, columns, place: (row0, col0) };
    // Reads without a guard: what a guarded one is chosen from would be waited for. With sixteen rows there are no
    // registers for a second loop.
    while M <= 8 && columns.in_quads && k - done >= steps {
        // SAFETY: the chunk is whole; `k` is the same in all threads of the block, so all are here.
        acc = unsafe { own.add_chunk::<T, M, STEPS, true>(gemm, chunk, (done, k), acc) };
        done += steps;
    }
    while done < k {
        // SAFETY: the same of a chunk that may end before `k`.
        acc = unsafe { own.add_chunk::<T, M, STEPS, false>(gemm, chunk, (done, k), acc) };
        done = done.saturating_add(steps);
    }

    // --- reduction over the warps, one after the other ---
    let mut turn = 0;
    while turn < WARPS {
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        if turn == warp {
            unroll!(for ROW in 0..16 {
                if ROW < M {
                    unroll!(for J in 0..4 {
                        let sum = chunk.wrapping_add(ROW * TILE_N + columns.get(J));
                        // SAFETY: nobody reads the chunk any more; the previous warp's accumulators
                        // are visible since the barrier.
                        let before = if turn == 0 { T::ZERO } else { unsafe { sum.read() } };
                        // SAFETY: each lane has columns of its own.
                        unsafe { sum.write(T::ONE.mul_add(before, acc[ROW][J])) };
                    });
                }
            });
        }
        turn += 1;
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let mut at = thread;
    while at < M * TILE_N {
        let (row, col) = (row0 + (at / TILE_N) as u32, col0 + (at % TILE_N) as u32);
        if row < gemm.m && col < gemm.n {
            // SAFETY: written, and visible since the barrier.
            let sum = unsafe { chunk.wrapping_add(at).read() };
            // SAFETY: the guards; each element of C belongs to one thread.
            unsafe { gemm.store(row, col, sum) };
        }
        at += THREADS;
    }
}

/// One lane's part of a tile that begins at a place.
struct Own {
    warp: usize,
    columns: Columns,
    place: (u32, u32),
}

impl Own {
    /// Adds the products of a chunk of k; of one that is `WHOLE`, and columns that are read in quads, without guards.
    ///
    /// # Safety
    /// Obligation 1 of the entries; all threads of the block call it together, with the chunk's memory; where it is
    /// `WHOLE` its k elements are all before `k`, and columns are in quads.
    #[inline(always)]
    unsafe fn add_chunk<T: Accumulator, const M: usize, const STEPS: usize, const WHOLE: bool>(
        &self,
        gemm: &Gemm<T>,
        chunk: Shared<T>,
        (done, k): (u32, u32),
        mut acc: [[T; 4]; M],
    ) -> [[T; 4]; M] {
        let Self { warp, columns, place: (row0, col0) } = *self;
        let thread = thread::thread_idx_x() as usize;
        // In flight while the chunk is filled.
        let mut b = [[T::ZERO; 4]; STEPS];
        unroll!(for S in 0..8 {
            let step = done.saturating_add((warp * STEPS + S) as u32);
            if S < STEPS && (WHOLE || step < k) {
                // SAFETY: the step is in B.
                b[S] = unsafe { fetch::<T, WHOLE>(gemm, step, col0, columns) };
            }
        });
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        // SAFETY: nobody reads the chunk any more.
        unsafe { fill::<T, M, STEPS, WHOLE>(gemm, chunk, (done, k), row0, thread) };
        // SAFETY: as above.
        unsafe { thread::sync_threads() };
        let from = chunk.wrapping_add(warp * STEPS * PITCH);
        unroll!(for S in 0..8 {
            unroll!(for G in 0..4 {
                if 4 * G < M && S < STEPS {
                    let at = from.wrapping_add(S * PITCH + 4 * G).cast::<Quad<T>>();
                    // SAFETY: written, aligned, and visible since the barrier.
                    let a = unsafe { at.read() }.0;
                    unroll!(for I in 0..4 {
                        if 4 * G + I < M {
                            unroll!(for J in 0..4 {
                                acc[4 * G + I][J] = a[I].mul_add(b[S][J], acc[4 * G + I][J]);
                            });
                        }
                    });
                }
            });
        });
        acc
    }
}

/// A lane's four columns of a step of B; columns outside repeat the last one.
///
/// # Safety
/// Obligation 1 of the entries; `step < k`, and `in_quads` or `WHOLE` only where the tile's columns are inside and
/// rows are aligned.
#[inline(always)]
unsafe fn fetch<T: Accumulator, const WHOLE: bool>(
    gemm: &Gemm<T>,
    step: u32,
    col0: u32,
    columns: Columns,
) -> [T; 4] {
    if WHOLE || columns.in_quads {
        let at = gemm.b_at(step, col0 + columns.get(0) as u32).cast::<Quad<T>>();
        // SAFETY: four columns of a row of B, aligned.
        return unsafe { at.read() }.0;
    }
    let mut b = [T::ZERO; 4];
    unroll!(for I in 0..4 {
        let col = (col0 + columns.get(I) as u32).min(gemm.n - 1);
        // SAFETY: the step and the column are in B.
        b[I] = unsafe { gemm.b_at(step, col).read() };
    });
    b
}

/// Loads the k elements of A from `done` on into the chunk, transposed, in whole quads of rows;
/// zero from k index `k` and from row m on.
///
/// # Safety
/// Obligation 1 of the entries; nobody reads the chunk; all threads of the block call it. Where it is `WHOLE` its k
/// elements are all before `k`.
#[inline(always)]
unsafe fn fill<T: Accumulator, const M: usize, const STEPS: usize, const WHOLE: bool>(
    gemm: &Gemm<T>,
    chunk: Shared<T>,
    (done, k): (u32, u32),
    row0: u32,
    thread: usize,
) {
    let steps = STEPS * WARPS;
    let mut at = thread;
    while at < steps * M.next_multiple_of(4) {
        let (step, row) = (done.saturating_add((at % steps) as u32), row0 + (at / steps) as u32);
        let mut value = T::ZERO;
        if (WHOLE || step < k) && row < gemm.m {
            // SAFETY: the row and the step are in A.
            value = unsafe { gemm.a_row(row).wrapping_add(step as usize).read() };
        }
        // SAFETY: each place of the chunk belongs to one thread.
        unsafe { chunk.wrapping_add(at % steps * PITCH + at / steps).write(value) };
        at += THREADS;
    }
}
