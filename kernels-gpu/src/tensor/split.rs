//! A tile for each cluster, whose blocks share k and add their sums in shared memory.
//!
//! Where C has fewer tiles than the device has SMs, a cluster of blocks computes each tile. Of a cluster of p
//! blocks, each accumulates every p-th k-block and leaves the accumulators in its own shared memory, where
//! the pipeline was; then each block adds a part of the tile over all blocks, in order, so that a result is
//! the same each time:
//!
//! ```text
//!   block 0: k-blocks 0, 2, ..   [ sums ] --+--> rows  0..64 of the tile = block 0's + block 1's
//!   block 1: k-blocks 1, 3, ..   [ sums ] --+--> rows 64..128            = block 0's + block 1's
//! ```
//!
//! An instruction multiplies 64 lines of its first operand by 16 to 256 of its second. With few rows of C
//! the first is B, and what is computed is the transpose of C's tile: `SWAPPED`. The operand with many
//! lines, *weights* in what follows, is then read once, and few lines of the other are outside it.

use cuda_std::arch::sm90::mbarrier::Barrier;
use cuda_std::arch::sm90::tensor::MapAddress;
use cuda_std::arch::sm90::{cluster, mbarrier, registers, tensor, warpgroup};
use cuda_std::memory::{Shared, SharedAddress};
use cuda_std::{thread, warp};
use gemm_spec::scheduler::{Grouped, TileScheduler, WorkTile};
use gemm_spec::split_k::units_of;
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K, BOX_WIDTH, lines_of_box};
use gemm_spec::warpgroup::{INSTRUCTION_M, ROW_BYTES, THREADS, accumulator_coord};

use super::multiply::{
    CONSUMER_REGISTERS, Launch, PRODUCER_REGISTERS, for_each_box, load_tile, mma_k_block,
};
use super::number::{Accumulators, Number, Wgmma};
use super::store::Rows;
use super::{GROUP_ROWS, SPLIT_PIPELINE_BYTES};
use crate::parts::cta::this_cta;
use crate::parts::pipeline::{self, Pipeline, PipelineState};
use crate::parts::quad::F32Pair;
use crate::parts::unroll::unroll;

/// The pipeline of a kernel with `64 * CONSUMERS` lines of weights, `16 * N16` lines of the other operand
/// and `K_BLOCKS` k-blocks in a stage.
struct Stages<const CONSUMERS: u32, const N16: usize, const K_BLOCKS: u32>;

impl<const CONSUMERS: u32, const N16: usize, const K_BLOCKS: u32> Stages<CONSUMERS, N16, K_BLOCKS> {
    /// Lines of weights of a tile, and of the other operand.
    const WEIGHTS: u32 = CONSUMERS * INSTRUCTION_M;
    const OTHERS: u32 = 16 * N16 as u32;
    /// Bytes of the weights of a k-block; the other operand is behind them. An MN-major one has whole boxes.
    const WEIGHT_BYTES: u32 = Self::WEIGHTS * ROW_BYTES;
    const OTHER_BYTES: u32 = Self::OTHERS.next_multiple_of(BOX_WIDTH) * ROW_BYTES;
    const K_BLOCK_BYTES: u32 = Self::WEIGHT_BYTES + Self::OTHER_BYTES;

    /// Elements of a row of sums in shared memory, and from one to the next: what lets the stores of a
    /// warp reach all banks. A row is one of C's.
    const fn row(swapped: bool) -> (u32, u32) {
        if swapped { (Self::WEIGHTS, Self::WEIGHTS + 4) } else { (Self::OTHERS, Self::OTHERS + 8) }
    }

    /// The sums fit where the pipeline was.
    const FITS: () = {
        let (_, pitch) = Self::row(true);
        assert!(Self::OTHERS * pitch * 4 <= SPLIT_PIPELINE_BYTES);
        let (_, pitch) = Self::row(false);
        assert!(Self::WEIGHTS * pitch * 4 <= SPLIT_PIPELINE_BYTES);
    };
}

impl<const CONSUMERS: u32, const N16: usize, const K_BLOCKS: u32> Pipeline
    for Stages<CONSUMERS, N16, K_BLOCKS>
{
    const STAGES: u32 = SPLIT_PIPELINE_BYTES / Self::STAGE_BYTES;
    const STAGE_BYTES: u32 = K_BLOCKS * Self::K_BLOCK_BYTES;
    const BARRIER_OFFSET: u32 = SPLIT_PIPELINE_BYTES;
}

/// One of the operands as the instruction sees it.
#[derive(Clone, Copy)]
struct Side {
    map: MapAddress,
    mn_major: bool,
    /// The tile's first line, and its lines.
    first: u32,
    lines: u32,
    /// Bytes that TMA writes for a k-block.
    bytes: u32,
    /// Whether no other tile needs it.
    once: bool,
}

impl Side {
    /// A tile's part of an operand of `all` lines.
    #[inline(always)]
    fn new(
        map: MapAddress,
        mn_major: bool,
        (tile, lines): (u32, u32),
        all: u32,
        once: bool,
    ) -> Self {
        let written =
            if mn_major { lines.next_multiple_of(BOX_WIDTH) } else { lines_of_box(lines, all) };
        Self { map, mn_major, first: tile * lines, lines, bytes: written * ROW_BYTES, once }
    }
}

impl<N: Number> Launch<N> {
    /// # Safety
    /// The obligations of the entries; the blocks of a tile are a cluster, and the maps have boxes of
    /// [`lines_of_box`] lines.
    #[inline(always)]
    pub(super) unsafe fn run_split<
        const CONSUMERS: u32,
        const N16: usize,
        const K_BLOCKS: u32,
        const SWAPPED: bool,
    >(
        &self,
    ) where
        N: Wgmma<N16>,
    {
        let () = Stages::<CONSUMERS, N16, K_BLOCKS>::FITS;
        let linear = thread::thread_idx_x();
        // Uniform across a warpgroup, and known to be uniform in a warp.
        // SAFETY: all lanes are here.
        let warpgroup_idx = unsafe { warp::shuffle_idx(warp::FULL, linear / THREADS, 0) };
        // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
        let smem = unsafe { pipeline::smem() };
        let mut pipe = PipelineState::<Stages<CONSUMERS, N16, K_BLOCKS>>::new(smem);
        if linear == 0 {
            // SAFETY: obligation 1.
            unsafe { self.prefetch() };
            // SAFETY: one thread; nobody uses the barriers before the barrier below.
            unsafe { pipe.init_barriers(1, CONSUMERS) };
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };

        let weights = Stages::<CONSUMERS, N16, K_BLOCKS>::WEIGHTS;
        let others = Stages::<CONSUMERS, N16, K_BLOCKS>::OTHERS;
        let extent = self.extent(if SWAPPED { (others, weights) } else { (weights, others) });
        let (size, rank) = (cluster::size(), cluster::rank());
        let tile = Grouped::of_cluster(this_cta(), extent, GROUP_ROWS, size).tile();
        let stages = units_of(self.k, K_BLOCKS * BLOCK_K, size, rank);
        if warpgroup_idx == 0 {
            if CONSUMERS > 1 {
                // SAFETY: the whole warpgroup is here and needs no more registers.
                unsafe { registers::reg_dealloc::<PRODUCER_REGISTERS>() };
            }
            if linear == 0 {
                // SAFETY: one thread; the consumers consume as many stages as it loads.
                unsafe { self.load::<CONSUMERS, N16, K_BLOCKS, SWAPPED>(&mut pipe, tile, stages) };
            }
            return;
        }
        if CONSUMERS > 1 {
            // SAFETY: the whole warpgroup is here; the producer's has released what the pool lacks.
            unsafe { registers::reg_alloc::<CONSUMER_REGISTERS>() };
        }
        let consumer_idx = warpgroup_idx - 1;
        let (a_mn_major, b_mn_major) =
            (self.major_flags & A_MN_MAJOR != 0, self.major_flags & B_MN_MAJOR != 0);
        // The majorness of the operands is part of the instruction, so each combination has its own
        // loop.
        //
        // The whole warpgroup is here, and that number of stages is loaded for it.
        let acc = match if SWAPPED { (b_mn_major, a_mn_major) } else { (a_mn_major, b_mn_major) } {
            // SAFETY: as said; both are K-major.
            (false, false) => unsafe {
                mainloop::<N, CONSUMERS, N16, K_BLOCKS, false, false>(
                    &mut pipe,
                    consumer_idx,
                    stages,
                )
            },
            // SAFETY: as said; the weights are MN-major.
            (true, false) => unsafe {
                mainloop::<N, CONSUMERS, N16, K_BLOCKS, true, false>(
                    &mut pipe,
                    consumer_idx,
                    stages,
                )
            },
            // SAFETY: as said; the other operand is MN-major.
            (false, true) => unsafe {
                mainloop::<N, CONSUMERS, N16, K_BLOCKS, false, true>(
                    &mut pipe,
                    consumer_idx,
                    stages,
                )
            },
            // SAFETY: as said; both are MN-major.
            (true, true) => unsafe {
                mainloop::<N, CONSUMERS, N16, K_BLOCKS, true, true>(&mut pipe, consumer_idx, stages)
            },
        };
        let (columns, pitch) = Stages::<CONSUMERS, N16, K_BLOCKS>::row(SWAPPED);
        // The sums take the place of stages that other warpgroups may still be multiplying.
        // SAFETY: all consumers are here.
        unsafe { sync_consumers::<CONSUMERS>() };
        // SAFETY: all loads into the pipeline have completed and been multiplied; each thread has elements of
        // its own.
        unsafe { leave::<N16, SWAPPED>(&acc, smem.cast(), pitch, consumer_idx * INSTRUCTION_M) };
        if size == 1 {
            // SAFETY: all consumers are here.
            unsafe { sync_consumers::<CONSUMERS>() };
        } else {
            // SAFETY: all threads of the cluster but its producers' warpgroups, which exit, are here.
            unsafe { cluster::sync() };
        }
        let sum = Sum {
            partials: SharedAddress::new(smem),
            pitch,
            quads: columns / 4,
            row0: tile.row * extent.tile.0,
            col0: tile.col * extent.tile.1,
            rows: extent.tile.0.min(self.m - tile.row * extent.tile.0),
            size,
        };
        // SAFETY: the sums of all blocks are written and visible; obligation 1, of C: this cluster alone has
        // the tile.
        unsafe { self.add::<CONSUMERS>(&sum) };
        if size > 1 {
            // Others read this block's sums.
            // SAFETY: as above.
            unsafe { cluster::sync_relaxed() };
        }
    }

    /// The producer's loop: loads the block's stages of a tile, one after the other.
    ///
    /// # Safety
    /// One thread calls it, and the consumers consume what it loads.
    #[inline(always)]
    unsafe fn load<
        const CONSUMERS: u32,
        const N16: usize,
        const K_BLOCKS: u32,
        const SWAPPED: bool,
    >(
        &self,
        pipe: &mut PipelineState<Stages<CONSUMERS, N16, K_BLOCKS>>,
        tile: WorkTile,
        stages: u32,
    ) {
        let a_mn_major = self.major_flags & A_MN_MAJOR != 0;
        let b_mn_major = self.major_flags & B_MN_MAJOR != 0;
        let weights = Stages::<CONSUMERS, N16, K_BLOCKS>::WEIGHTS;
        let others = Stages::<CONSUMERS, N16, K_BLOCKS>::OTHERS;
        let (weights, others) = if SWAPPED {
            (
                Side::new(self.b_map, b_mn_major, (tile.col, weights), self.n, self.m <= others),
                Side::new(self.a_map, a_mn_major, (tile.row, others), self.m, false),
            )
        } else {
            (
                Side::new(self.a_map, a_mn_major, (tile.row, weights), self.m, self.n <= others),
                Side::new(self.b_map, b_mn_major, (tile.col, others), self.n, false),
            )
        };
        let bytes = K_BLOCKS * (weights.bytes + others.bytes);
        let mut k0 = cluster::rank() * K_BLOCKS * BLOCK_K;
        let mut stage = 0;
        while stage < stages {
            // SAFETY: one thread fills the pipeline; these are the bytes of the boxes.
            unsafe { pipe.producer_acquire_for(bytes) };
            let arrive = pipe.full_barrier();
            let mut block = 0;
            while block < K_BLOCKS {
                let at = block * Stages::<CONSUMERS, N16, K_BLOCKS>::K_BLOCK_BYTES;
                let to = pipe.tile().wrapping_add(at as usize);
                // SAFETY: the stage is empty after the acquire, so nobody reads what is overwritten.
                unsafe { weights.load(to, k0 + block * BLOCK_K, arrive) };
                let behind = Stages::<CONSUMERS, N16, K_BLOCKS>::WEIGHT_BYTES as usize;
                // SAFETY: as above; the other operand's tile is behind that of the weights.
                unsafe { others.load(to.wrapping_add(behind), k0 + block * BLOCK_K, arrive) };
                block += 1;
            }
            pipe.advance();
            k0 += cluster::size() * K_BLOCKS * BLOCK_K;
            stage += 1;
        }
    }

    /// Adds this block's part of the cluster's tile over all blocks and stores it: runs of four columns,
    /// several of them a thread at a time, whose reads are in flight together.
    ///
    /// # Safety
    /// All consumer threads call it; the sums of all blocks are written and visible to this block, and the
    /// cluster alone has the tile of C.
    #[inline(always)]
    unsafe fn add<const CONSUMERS: u32>(&self, sum: &Sum) {
        let Self { c, ldc, n, .. } = *self;
        // SAFETY: obligation 1.
        let (alpha, beta) = unsafe { self.finish.scalars((self.alpha, self.beta)) };
        let c_rows = Rows::<N> { c, ldc, n, alpha, beta };
        let all = sum.rows * sum.quads;
        let part = |rank: u32| all * rank / sum.size.max(1);
        let (begin, end) = (part(cluster::rank()), part(cluster::rank() + 1));
        let mut next = begin + thread::thread_idx_x() - THREADS;
        let mut largest = 0;
        while next < end {
            let place = |at: usize| {
                let quad = (next + at as u32 * CONSUMERS * THREADS).min(end - 1);
                (quad / sum.quads, quad % sum.quads * 4)
            };
            let mut quads = [[0.0f32; 4]; 4];
            let mut rank = 0;
            while rank < sum.size {
                // SAFETY: the cluster has a block of that rank.
                let partials = unsafe { cluster::place_in(sum.partials, rank) };
                let mut read = [[0.0f32; 4]; 4];
                unroll!(for I in 0..4 {
                    let (row, col) = place(I);
                    let from = partials.wrapping_add((row * sum.pitch + col) * 4);
                    // SAFETY: written before the barrier of the cluster; rows and runs are multiples of 16
                    // bytes; the other block waits for this one before it exits.
                    read[I] = unsafe { cluster::read_quad(from) };
                });
                unroll!(for I in 0..4 {
                    unroll!(for J in 0..4 {
                        quads[I][J] += read[I][J];
                    });
                });
                rank += 1;
            }
            unroll!(for I in 0..4 {
                if next + I as u32 * CONSUMERS * THREADS < end {
                    let (row, col) = place(I);
                    let (row, col) = (sum.row0 + row, sum.col0 + col);
                    if self.finish.fusion == 0 {
                        // SAFETY: the element belongs to this thread; the row is in C.
                        unsafe { c_rows.store_quad(row, col, quads[I]) };
                    } else {
                        // SAFETY: the row is in C; nobody else writes here.
                        let old = unsafe { self.finish.old(row, col, n, beta) };
                        // SAFETY: what the flags say is valid, by obligation 1.
                        let columns = unsafe { self.finish.columns(col, n, alpha) };
                        let (place, given) = ((row, col), (quads[I], old));
                        // SAFETY: the element belongs to this thread; the row is in C.
                        largest = unsafe {
                            c_rows.finish_quad(&self.finish, place, given, &columns, largest)
                        };
                    }
                }
            });
            next += 4 * CONSUMERS * THREADS;
        }
        // SAFETY: all consumer threads are here.
        unsafe { self.finish.raise(largest) };
    }
}

/// What the epilogue needs to know of a tile.
struct Sum {
    /// The sums of this block, in rows of `quads` runs of four columns.
    partials: SharedAddress<u8>,
    /// From one row to the next.
    pitch: u32,
    quads: u32,
    /// Where the tile begins in C, and its rows there.
    row0: u32,
    col0: u32,
    rows: u32,
    /// Blocks of the cluster.
    size: u32,
}

impl Side {
    /// Starts the loads of a k-block. The weights of a single tile are not to push the other operand out of
    /// L2.
    ///
    /// # Safety
    /// Those of [`load_tile`].
    #[inline(always)]
    unsafe fn load(&self, to: SharedAddress<u8>, k0: u32, arrive: SharedAddress<Barrier>) {
        let lines = (self.first, self.lines);
        if self.once {
            for_each_box(self.mn_major, to, lines, k0, |to, x, y| {
                // SAFETY: the caller's promise: the boxes are contiguous and fill the tile.
                unsafe { tensor::load_once(to, self.map, x, y, arrive) };
            });
        } else {
            // SAFETY: the caller's promises.
            unsafe { load_tile(self.map, self.mn_major, to, lines, k0, arrive) };
        }
    }
}

/// Waits for the consumer warpgroups of the block.
///
/// # Safety
/// All their threads reach it.
#[inline(always)]
unsafe fn sync_consumers<const CONSUMERS: u32>() {
    if CONSUMERS == 1 {
        // SAFETY: the caller's promise.
        unsafe { warpgroup::sync_several::<{ THREADS }>(1) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { warpgroup::sync_several::<{ 2 * THREADS }>(1) };
    }
}

/// Leaves a warpgroup's accumulators in shared memory, in rows of C with a pitch; `first` is the first of
/// its lines of weights in the tile.
///
/// # Safety
/// All threads of the warpgroup call it; nobody else uses the place of its part of the tile.
#[inline(always)]
unsafe fn leave<const N16: usize, const SWAPPED: bool>(
    acc: &Accumulators<N16>,
    partials: Shared<f32>,
    pitch: u32,
    first: u32,
) {
    let (line, other) = accumulator_coord(thread::thread_idx_x() % THREADS, 0);
    unroll!(for G in 0..16 {
        if G < N16 {
            let chunk = &acc[G % N16];
            unroll!(for H in 0..2 {
                unroll!(for O in 0..2 {
                    let line = first + line + 8 * H as u32;
                    let other = other + (16 * G + 8 * O) as u32;
                    let pair = [chunk[4 * O + 2 * H], chunk[4 * O + 2 * H + 1]];
                    if SWAPPED {
                        let at = partials.wrapping_add((other * pitch + line) as usize);
                        // SAFETY: the element belongs to this thread.
                        unsafe { at.write(pair[0]) };
                        // SAFETY: so does the one below it.
                        unsafe { at.wrapping_add(pitch as usize).write(pair[1]) };
                    } else {
                        let at = partials.wrapping_add((line * pitch + other) as usize);
                        // SAFETY: both elements belong to this thread; columns and pitch are even.
                        unsafe { at.cast::<F32Pair>().write(F32Pair(pair)) };
                    }
                });
            });
        }
    });
}

/// The products of `stages` stages: as the other kernels' mainloop, with `K_BLOCKS` groups
/// of `wgmma`s in flight.
///
/// # Safety
/// All threads of the warpgroup call it together; the producer loads `stages` stages for it.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "waits, products and releases in the order that makes each of them sound"
)]
unsafe fn mainloop<
    N: Wgmma<N16>,
    const CONSUMERS: u32,
    const N16: usize,
    const K_BLOCKS: u32,
    const WEIGHTS_MN_MAJOR: bool,
    const OTHERS_MN_MAJOR: bool,
>(
    pipe: &mut PipelineState<Stages<CONSUMERS, N16, K_BLOCKS>>,
    consumer_idx: u32,
    stages: u32,
) -> Accumulators<N16> {
    let mut acc = [[0.0f32; 8]; N16];
    if stages == 0 {
        return acc;
    }
    let leader = thread::thread_idx_x().is_multiple_of(THREADS);
    let block = |at: SharedAddress<u8>, block: u32| {
        let at =
            at.wrapping_add((block * Stages::<CONSUMERS, N16, K_BLOCKS>::K_BLOCK_BYTES) as usize);
        let weights = at.wrapping_add((consumer_idx * INSTRUCTION_M * ROW_BYTES) as usize);
        (weights, at.wrapping_add(Stages::<CONSUMERS, N16, K_BLOCKS>::WEIGHT_BYTES as usize))
    };
    const { assert!(K_BLOCKS == 1 || K_BLOCKS == 2, "one or two k-blocks a stage") };
    // SAFETY: a stage is full after the wait, and unchanged until this warpgroup's release, which comes
    // after its products have completed.
    unsafe {
        pipe.consumer_wait();
        let (weights, others) = block(pipe.tile(), 0);
        mma_k_block::<N, N16, WEIGHTS_MN_MAJOR, OTHERS_MN_MAJOR, false>(weights, others, &mut acc);
        if K_BLOCKS == 2 {
            let (weights, others) = block(pipe.tile(), 1);
            mma_k_block::<N, N16, WEIGHTS_MN_MAJOR, OTHERS_MN_MAJOR, true>(
                weights, others, &mut acc,
            );
        }
        let mut before = pipe.empty_barrier();
        pipe.advance();
        let mut stage = 1;
        while stage < stages {
            pipe.consumer_wait();
            let (weights, others) = block(pipe.tile(), 0);
            mma_k_block::<N, N16, WEIGHTS_MN_MAJOR, OTHERS_MN_MAJOR, true>(
                weights, others, &mut acc,
            );
            if K_BLOCKS == 2 {
                let (weights, others) = block(pipe.tile(), 1);
                mma_k_block::<N, N16, WEIGHTS_MN_MAJOR, OTHERS_MN_MAJOR, true>(
                    weights, others, &mut acc,
                );
            }
            N::wait::<K_BLOCKS>(&mut acc);
            if leader {
                mbarrier::arrive(before);
            }
            before = pipe.empty_barrier();
            pipe.advance();
            stage += 1;
        }
        N::wait::<0>(&mut acc);
        if leader {
            mbarrier::arrive(before);
        }
    }
    acc
}
