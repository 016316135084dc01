//! The entry, and the loops of a block's threads.

use cuda_std::arch::sm90::tensor::MapAddress;
use cuda_std::arch::sm90::{bulk, tensor};
use cuda_std::memory::{SharedAddress, global_mut, null};
use cuda_std::{tensor_map, thread};
use gemm_spec::Accumulator;
use gemm_spec::params::TmaSimtParams;
use gemm_spec::scheduler::{Extent, Grouped, TileScheduler};
use gemm_spec::tensor::F32_BLOCK_K;

use super::{A_BYTES, GROUP_ROWS, STAGE_BYTES, STAGES, THREADS, TILE_M, TILE_N, WARPS_M};
use crate::parts::cta::this_cta;
use crate::parts::entries::entry;
use crate::parts::gemm::Gemm;
use crate::parts::pipeline::{self, Pipeline};
use crate::parts::unroll::unroll;

/// Lanes of a warp along the rows of its tile, and along its columns.
const LANES_Y: u32 = 8;
const LANES_X: u32 = 4;
/// Rows and columns of C of a lane.
const ROWS: usize = 8;
const COLS: usize = 16;
/// Columns from one quad of a lane to its next.
const QUADS_APART: u32 = 4 * LANES_X;
/// Rows, and columns, of C of a warp.
const WARP: u32 = LANES_Y * ROWS as u32;
const _: () = assert!(WARP == LANES_X * COLS as u32);
/// A lane's accumulators.
type Acc = [[f32; COLS]; ROWS];
/// k elements that a lane reads of a row of A by one instruction.
const RUN: u32 = 4;
/// Bytes of a row of A's tile, in which the swizzle moves chunks of 16.
const A_ROW: u32 = F32_BLOCK_K * 4;

/// The kernel's pipeline.
struct Stages;

impl Pipeline for Stages {
    const STAGES: u32 = STAGES;
    const STAGE_BYTES: u32 = STAGE_BYTES;
}

/// A thread's position in it.
type PipelineState = pipeline::PipelineState<Stages>;

/// The producer: loads the tiles of A and B from k index `k0` on, stage after stage.
struct Producer {
    a_map: MapAddress,
    b_map: MapAddress,
    row0: u32,
    col0: u32,
    k0: u32,
    k: u32,
    pipe: PipelineState,
}

impl Producer {
    /// Starts the loads of the next stage, unless k is exhausted.
    ///
    /// # Safety
    /// One thread calls it; every thread of the block releases a stage once it has read it.
    #[inline(always)]
    unsafe fn load_stage(&mut self) {
        if self.k0 >= self.k {
            return;
        }
        let pipe = self.pipe;
        // SAFETY: one thread fills the pipeline. The boxes fill the stage, even where they extend beyond A
        // and B, so that their bytes are those that `full` expects.
        unsafe { pipe.producer_acquire() };
        // Threads have read the stage through the generic proxy, TMA writes it through the async proxy.
        bulk::fence_proxy_async();
        // SAFETY: the stage is empty after the acquire.
        unsafe { tensor::load(pipe.tile(), self.a_map, self.k0, self.row0, pipe.full_barrier()) };
        let b_tile = pipe.tile().wrapping_add(A_BYTES as usize);
        // SAFETY: as above; B's box is behind A's.
        unsafe { tensor::load(b_tile, self.b_map, self.col0, self.k0, pipe.full_barrier()) };
        self.pipe.advance();
        self.k0 += F32_BLOCK_K;
    }
}

/// A lane's addresses in a stage.
#[derive(Clone, Copy)]
struct Lane {
    /// Its first row of A, at the swizzled position of the first k elements.
    a: SharedAddress<f32>,
    /// Its first column of B, at the first k element.
    b: SharedAddress<f32>,
}

impl Lane {
    /// The lane's addresses in the stage at `tile`, for its first row and first column in the tile
    /// of C; the rows of a warp's lanes begin at a multiple of eight.
    #[inline(always)]
    fn of(tile: SharedAddress<u8>, row: u32, col: u32) -> Self {
        let swizzled = row % LANES_Y * 16;
        Self {
            a: tile.wrapping_add((row * A_ROW + swizzled) as usize).cast(),
            b: tile.wrapping_add((A_BYTES + 4 * col) as usize).cast(),
        }
    }

    /// `RUN` k elements of the lane's row number `row`, from `RUN * run` on.
    ///
    /// # Safety
    /// The stage is full and visible to this thread.
    #[inline(always)]
    unsafe fn read_a(self, run: u32, row: usize) -> [f32; 4] {
        // The tile begins at a multiple of 1024 bytes, and the row at one of 128; all rows of a
        // lane have the same swizzle.
        let at = self.a.xor(16 * run).wrapping_add(row * (LANES_Y * A_ROW / 4) as usize);
        // SAFETY: the caller's promise; 16 bytes at a multiple of 16.
        unsafe { at.read_quad() }
    }

    /// The lane's columns of B at one k index.
    ///
    /// # Safety
    /// As for [`Lane::read_a`].
    #[inline(always)]
    unsafe fn read_b(self, step: u32) -> [f32; COLS] {
        let at = self.b.wrapping_add((step * TILE_N) as usize);
        let mut columns = [0.0f32; COLS];
        unroll!(for Q in 0..4 {
            // SAFETY: the caller's promise; 16 bytes at a multiple of 16.
            let quad = unsafe { at.wrapping_add(Q * QUADS_APART as usize).read_quad() };
            unroll!(for J in 0..4 {
                columns[4 * Q + J] = quad[J];
            });
        });
        columns
    }

    /// `RUN` k elements of all of the lane's rows.
    ///
    /// # Safety
    /// As for [`Lane::read_a`].
    #[inline(always)]
    unsafe fn read_rows(self, run: u32) -> [[f32; RUN as usize]; ROWS] {
        let mut rows = [[0.0f32; RUN as usize]; ROWS];
        unroll!(for I in 0..8 {
            // SAFETY: the caller's promise.
            rows[I] = unsafe { self.read_a(run, I) };
        });
        rows
    }
}

entry! {
    /// # Safety
    /// 1. The maps describe A and B as `gemm_spec::tensor` says for this tile; `c` is valid for m by n
    ///    elements at `ldc`, overlaps nothing else and nobody else uses it.
    /// 2. The launch has the block, the grid and the shared memory of the kernel's spec, with m, n >= 1.
    pub unsafe fn bulk_copy_128x256_f32(params: TmaSimtParams<f32>) {
        // The maps by their addresses: a copy in local memory is none that TMA reads.
        let maps =
            (tensor_map!("bulk_copy_128x256_f32", 0), tensor_map!("bulk_copy_128x256_f32", 1));
        // SAFETY: the obligations are the same.
        unsafe { multiply(params, maps) };
    }
}

/// # Safety
/// The obligations of the entry, of which these are the maps of A and B.
#[inline(always)]
unsafe fn multiply(params: TmaSimtParams<f32>, (a_map, b_map): (MapAddress, MapAddress)) {
    let TmaSimtParams { m, n, k, alpha, beta, c, ldc, .. } = params;
    // SAFETY: obligation 1.
    let c = unsafe { global_mut(c) };
    let thread = thread::thread_idx_x();
    let extent = Extent { m, n, k, tile: (TILE_M, TILE_N) };
    let tile = Grouped::new(this_cta(), extent, GROUP_ROWS).tile();
    let (row0, col0) = (tile.row * TILE_M, tile.col * TILE_N);

    // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
    let mut pipe = PipelineState::new(unsafe { pipeline::smem() });
    let mut producer = Producer { a_map, b_map, row0, col0, k0: 0, k, pipe };
    if thread == 0 {
        // SAFETY: one thread; nobody uses the barriers before the barrier below.
        unsafe { pipe.init_barriers(1, THREADS) };
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    if thread == 0 {
        let mut stage = 1;
        while stage < STAGES {
            // SAFETY: the only thread that loads stages; obligation 1.
            unsafe { producer.load_stage() };
            stage += 1;
        }
    }

    let (warp, lane) = (thread / 32, thread % 32);
    // Each eight lanes that shared memory serves together read eight rows of A and one address of
    // B.
    let row = warp % WARPS_M * WARP + lane % LANES_Y;
    let col = warp / WARPS_M * WARP + 4 * (lane / LANES_Y);

    // --- mainloop ---
    let mut acc = [[0.0f32; COLS]; ROWS];
    let rounds = k / F32_BLOCK_K;
    if rounds > 0 {
        // SAFETY: the first thread loads all stages of k; all threads consume them together.
        unsafe { mainloop(&mut producer, &mut pipe, (row, col), rounds, thread == 0, &mut acc) };
    }
    let left = k % F32_BLOCK_K;
    if left > 0 {
        // SAFETY: the barriers are initialised. The load of the last stage was started as soon as its
        // predecessor was released.
        unsafe { pipe.consumer_wait() };
        // SAFETY: the stage is full after the wait, and no load follows it.
        unsafe { rest(Lane::of(pipe.tile(), row, col), left, &mut acc) };
    }

    // --- epilogue ---
    // Its operands are not read any more.
    let gemm = Gemm { m, n, k, alpha, a: null(), lda: 0, b: null(), ldb: 0, beta, c, ldc };
    // SAFETY: obligation 1; the tiles are a partition of C, the lanes' elements one of each tile.
    unsafe { store(&gemm, (row0 + row, col0 + col), &acc) };
}

/// Stores a lane's accumulators, the first at (row, col), four at a time where C's rows are
/// aligned.
///
/// # Safety
/// `gemm.c` is valid for C; nobody else has these elements.
#[inline(always)]
unsafe fn store(gemm: &Gemm<f32>, (row, col): (u32, u32), acc: &Acc) {
    let in_quads = gemm.c_in_quads();
    unroll!(for I in 0..8 {
        let row = row + I as u32 * LANES_Y;
        if row < gemm.m {
            unroll!(for Q in 0..4 {
                let col = col + Q as u32 * QUADS_APART;
                if in_quads && col + 4 <= gemm.n {
                    let quad =
                        [acc[I][4 * Q], acc[I][4 * Q + 1], acc[I][4 * Q + 2], acc[I][4 * Q + 3]];
                    // SAFETY: the guards; each element belongs to one lane.
                    unsafe { gemm.store_quad(row, col, quad) };
                } else {
                    unroll!(for J in 0..4 {
                        if col + (J as u32) < gemm.n {
                            // SAFETY: the guards; each element belongs to one lane.
                            unsafe { gemm.store(row, col + J as u32, acc[I][4 * Q + J]) };
                        }
                    });
                }
            });
        }
    });
}

/// Adds the products of one k index, the columns back and forth from row to row, so that
/// neighbouring instructions share an operand.
macro_rules! multiply_step {
    ($acc:ident, $a:ident[$step:expr], $b:ident) => {
        unroll!(for I in 0..8 {
            unroll!(for J in 0..16 {
                let col = if I.is_multiple_of(2) { J } else { COLS - 1 - J };
                $acc[I][col] = Accumulator::mul_add($a[I][$step], $b[col], $acc[I][col]);
            });
        });
    };
}

/// Adds the products of `rounds` whole stages.
///
/// # Safety
/// All threads of the block call it with the same `rounds >= 1`; as many stages are loaded, by the
/// thread for which `is_producer` is true.
#[inline(always)]
unsafe fn mainloop(
    producer: &mut Producer,
    pipe: &mut PipelineState,
    (row, col): (u32, u32),
    rounds: u32,
    is_producer: bool,
    acc: &mut Acc,
) {
    /// Runs of a stage.
    const RUNS: u32 = F32_BLOCK_K / RUN;
    let mut lane = Lane::of(pipe.tile(), row, col);
    // SAFETY: the barriers are initialised.
    unsafe { pipe.consumer_wait() };
    // SAFETY: the stage is full after the wait.
    let mut a = unsafe { lane.read_rows(0) };
    // SAFETY: as above.
    let mut b = unsafe { lane.read_b(0) };
    let mut left = rounds;
    // The first of the two runs that are multiplied; `lane.b` moves with it.
    let mut run = 0;
    while left > 0 {
        unroll!(for STEP in 0..8 {
            let (mut next_step, mut next_run) = (STEP as u32 + 1, run + 1);
            if STEP == 7 {
                run += 2;
                (next_step, next_run) = (0, run);
                lane.b = lane.b.wrapping_add((2 * RUN * TILE_N) as usize);
                if run == RUNS {
                    (run, next_run) = (0, 0);
                    left -= 1;
                    // SAFETY: nothing of this stage is read any more.
                    unsafe { pipe.consumer_release() };
                    if is_producer {
                        // SAFETY: one thread; each releases the stages that it has read.
                        unsafe { producer.load_stage() };
                    }
                    let before = *pipe;
                    pipe.advance();
                    if left > 0 {
                        // SAFETY: the barriers are initialised.
                        unsafe { pipe.consumer_wait() };
                    }
                    // After the last stage there is none, and some elements of it are read again and
                    // ignored.
                    let there = if left > 0 { pipe.tile() } else { before.tile() };
                    lane = Lane::of(there, row, col);
                }
            }
            // SAFETY: the stage is full.
            let next_b = unsafe { lane.read_b(next_step) };
            // SAFETY: the stage is full.
            let next_a = if STEP % 4 == 3 { unsafe { lane.read_rows(next_run) } } else { a };
            multiply_step!(acc, a[STEP % 4], b);
            (a, b) = (next_a, next_b);
        });
    }
}

/// Adds the products of the first `left` k elements of a stage.
///
/// # Safety
/// The stage is full and visible.
#[inline(always)]
unsafe fn rest(mut lane: Lane, left: u32, acc: &mut Acc) {
    let mut step = 0;
    while step < left {
        // SAFETY: the stage is full and visible, and the last run is a whole one of it.
        let a = unsafe { lane.read_rows(step / RUN) };
        unroll!(for STEP in 0..4 {
            if step + (STEP as u32) < left {
                // SAFETY: a step of the same run.
                let b = unsafe { lane.read_b(STEP as u32) };
                multiply_step!(acc, a[STEP], b);
            }
        });
        lane.b = lane.b.wrapping_add((RUN * TILE_N) as usize);
        step += RUN;
    }
}

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(TmaSimt(TmaSimtParams): bulk_copy_128x256_f32);
