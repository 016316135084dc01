//! Two consumer warpgroups with a tile of C each: while one finishes its tile, the other multiplies.
//!
//! The tensor cores then never wait for an epilogue, if it takes no longer than a tile's mainloop. A tile is half as
//! large as one that both compute, so that more of A and B is loaded for each product.
//!
//! The producer loads the stages of all tiles of a block one after the other. Each warpgroup has every second tile and
//! passes over the stages of those between them. A barrier of a stage tells phases apart by their parity, so a
//! warpgroup may not wait for a stage that is two phases ahead: the warpgroups hand their turn to each other, when the
//! last stage of a tile is full.
//!
//! ```text
//!  stages      | tile 0    | tile 1    | tile 2    | ...
//!  consumer 0  | mainloop  | epilogue  | mainloop  | ...
//!  consumer 1  |           | mainloop  | epilogue  | ...
//! ```

use cuda_std::arch::sm90::mbarrier::Barrier;
use cuda_std::arch::sm90::{bulk, mbarrier, registers};
use cuda_std::memory::SharedAddress;
use cuda_std::{thread, warp};
use gemm_spec::index::ceil_div;
use gemm_spec::scheduler::{Persistent, TileScheduler};
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K};
use gemm_spec::warpgroup::{INSTRUCTION_M, ROW_BYTES, THREADS};

use super::multiply::{
    A_BYTES, CONSUMER_REGISTERS, Launch, PRODUCER_REGISTERS, PipelineState, Stages, mma_k_block,
};
use super::number::{Accumulators, Number, Wgmma};
use super::{CONSUMERS, GROUP_ROWS, PIPELINE_BYTES, STAGING_BYTES, STAGING_EACH, TURNS_OFFSET};
use crate::parts::cta::this_cta;
use crate::parts::pipeline;
use crate::parts::unroll::unroll;

/// A consumer warpgroup's view of whose turn it is to multiply: a barrier for each warpgroup, at which all threads of the
/// other arrive.
struct Turns {
    own: SharedAddress<Barrier>,
    others: SharedAddress<Barrier>,
    phase: u32,
}

impl Turns {
    /// The barrier of a consumer warpgroup.
    #[inline(always)]
    fn barrier(smem: SharedAddress<u8>, consumer_idx: u32) -> SharedAddress<Barrier> {
        smem.wrapping_add((TURNS_OFFSET + 8 * consumer_idx) as usize).cast()
    }

    /// Those of a warpgroup. The first turn is warpgroup 0's.
    #[inline(always)]
    fn new(smem: SharedAddress<u8>, consumer_idx: u32) -> Self {
        let (own, others) =
            (Self::barrier(smem, consumer_idx), Self::barrier(smem, 1 - consumer_idx));
        Self { own, others, phase: 1 - consumer_idx }
    }

    /// Waits for the warpgroup's turn.
    ///
    /// # Safety
    /// The barriers are initialised; it alternates with [`Turns::hand_over`].
    #[inline(always)]
    unsafe fn wait(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier::wait(self.own, self.phase) };
        self.phase ^= 1;
    }

    /// Makes it the other's turn, when all threads of this warpgroup have called it: one that still waited for its own
    /// turn could miss it, since the next one may follow at once.
    ///
    /// # Safety
    /// Each thread calls it once in this warpgroup's turn.
    #[inline(always)]
    unsafe fn hand_over(&self) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier::arrive(self.others) };
    }
}

impl<N: Number> Launch<N> {
    /// A block's tiles of `64 * M64` rows, which the consumer warpgroups compute in turns.
    ///
    /// # Safety
    /// The obligations of the entries.
    #[inline(always)]
    pub(super) unsafe fn run_pingpong<const M64: usize, const N16: usize>(&self)
    where
        N: Wgmma<N16>,
    {
        let linear = thread::thread_idx_x();
        // Uniform across a warpgroup, and known to be uniform in a warp.
        // SAFETY: all lanes are here.
        let warpgroup_idx = unsafe { warp::shuffle_idx(warp::FULL, linear / THREADS, 0) };
        // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
        let smem = unsafe { pipeline::smem() };
        let mut pipe = PipelineState::<N16>::new(smem);
        let address = SharedAddress::new(smem);
        if linear == 0 {
            // SAFETY: obligation 1.
            unsafe { self.prefetch() };
            for consumer_idx in 0..CONSUMERS {
                // SAFETY: one thread; nobody uses the barriers before the barrier below.
                unsafe { mbarrier::init(Turns::barrier(address, consumer_idx), THREADS) };
            }
            // SAFETY: the same.
            unsafe { pipe.init_barriers(1, 1) };
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        let tile_m = INSTRUCTION_M * M64 as u32;
        let extent = self.extent((tile_m, Stages::<N16>::TILE_N));
        let tiles = Persistent::new(this_cta(), extent, GROUP_ROWS);
        if warpgroup_idx == 0 {
            // SAFETY: the whole warpgroup is here and needs no more registers.
            unsafe { registers::reg_dealloc::<PRODUCER_REGISTERS>() };
            if linear == 0 {
                // SAFETY: one thread; the consumers consume as many stages as it loads.
                unsafe { self.producer_loop::<N16, false>(&mut pipe, tile_m, tiles) };
            }
            return;
        }
        // SAFETY: the whole warpgroup is here; the producer's has released what the pool lacks.
        unsafe { registers::reg_alloc::<CONSUMER_REGISTERS>() };
        // SAFETY: the whole warpgroup is here; the producer visits the same tiles.
        unsafe { self.pingpong_loop::<M64, N16>(&mut pipe, warpgroup_idx - 1, tiles) };
        // TMA stores under way read this block's shared memory.
        bulk::wait_group_read::<0>();
    }

    /// The loop of consumer warpgroup `consumer_idx`: mainloop and epilogue of every second tile.
    ///
    /// # Safety
    /// The whole warpgroup calls it; the producer loads the stages of all of these tiles.
    #[inline(always)]
    unsafe fn pingpong_loop<const M64: usize, const N16: usize>(
        &self,
        pipe: &mut PipelineState<N16>,
        consumer_idx: u32,
        mut tiles: Persistent,
    ) where
        N: Wgmma<N16>,
    {
        let offset = PIPELINE_BYTES + consumer_idx * STAGING_EACH * STAGING_BYTES;
        // SAFETY: as in the caller.
        let smem = unsafe { pipeline::smem() };
        let staging = smem.wrapping_add(offset as usize);
        let mut turns = Turns::new(SharedAddress::new(smem), consumer_idx);
        let k_tiles = ceil_div(self.k, BLOCK_K);
        if consumer_idx == 1 {
            pipe.pass(k_tiles);
            tiles.advance();
        }
        while tiles.has_work() {
            let tile = tiles.tile();
            // This one, and the other warpgroup's.
            tiles.advance();
            tiles.advance();
            // SAFETY: the barriers are initialised.
            unsafe { turns.wait() };
            // The whole warpgroup is here, and `k_tiles` stages are loaded for this tile.
            let acc = match self.major_flags {
                // SAFETY: as said; both are K-major.
                0 => unsafe { mainloop::<N, M64, N16, false, false>(pipe, k_tiles, &turns) },
                // SAFETY: as said; A is MN-major.
                A_MN_MAJOR => unsafe {
                    mainloop::<N, M64, N16, true, false>(pipe, k_tiles, &turns)
                },
                // SAFETY: as said; B is MN-major.
                B_MN_MAJOR => unsafe {
                    mainloop::<N, M64, N16, false, true>(pipe, k_tiles, &turns)
                },
                // SAFETY: as said; both are MN-major.
                _ => unsafe { mainloop::<N, M64, N16, true, true>(pipe, k_tiles, &turns) },
            };
            pipe.pass(k_tiles);
            let (row0, col0) =
                (tile.row * INSTRUCTION_M * M64 as u32, tile.col * Stages::<N16>::TILE_N);
            unroll!(for H in 0..2 {
                if H < M64 {
                    let place = (row0 + INSTRUCTION_M * H as u32, col0);
                    let epilogue = self.epilogue(place, consumer_idx, staging);
                    // SAFETY: obligation 1; this warpgroup alone has the tile.
                    unsafe { epilogue.store::<N16, false>(self.tma_store != 0, &acc[H % M64]) };
                }
            });
        }
    }
}

/// The mainloop of one tile: the product of `64 * M64` rows of A's tiles and B's tiles, accumulated over `k_tiles` stages.
///
/// The `wgmma`s of one stage are in flight while those of the next are issued; a stage is released once those of the
/// stage after it have been issued and its own have completed. When those of the last stage have been issued, it is the
/// other warpgroup's turn.
///
/// # Safety
/// All threads of the warpgroup call it together, in its turn; the producer loads `k_tiles` stages for it.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "waits, products and releases in the order that makes each of them sound"
)]
unsafe fn mainloop<
    N: Wgmma<N16>,
    const M64: usize,
    const N16: usize,
    const A_MN_MAJOR: bool,
    const B_MN_MAJOR: bool,
>(
    pipe: &mut PipelineState<N16>,
    k_tiles: u32,
    turns: &Turns,
) -> [Accumulators<N16>; M64] {
    let mut acc = [[[0.0f32; 8]; N16]; M64];
    if k_tiles == 0 {
        // SAFETY: it is this warpgroup's turn.
        unsafe { turns.hand_over() };
        return acc;
    }
    let leader = thread::thread_idx_x().is_multiple_of(THREADS);
    // SAFETY: a stage is full after the wait, and unchanged until this warpgroup's release, which
    // comes after its products have completed.
    unsafe {
        pipe.consumer_wait();
        mma_stage::<N, M64, N16, A_MN_MAJOR, B_MN_MAJOR, false>(pipe, &mut acc);
        let mut before = pipe.empty_barrier();
        pipe.advance();
        let mut tile = 1;
        while tile < k_tiles {
            pipe.consumer_wait();
            mma_stage::<N, M64, N16, A_MN_MAJOR, B_MN_MAJOR, true>(pipe, &mut acc);
            wait_but_newest::<N, M64, N16>(&mut acc);
            if leader {
                mbarrier::arrive(before);
            }
            before = pipe.empty_barrier();
            pipe.advance();
            tile += 1;
        }
        turns.hand_over();
        unroll!(for H in 0..2 {
            if H < M64 {
                N::wait::<0>(&mut acc[H % M64]);
            }
        });
        if leader {
            mbarrier::arrive(before);
        }
    }
    acc
}

/// Waits until all groups have completed but those of the newest stage, of which each 64 rows have one.
///
/// # Safety
/// All threads of the warpgroup call it together.
#[inline(always)]
unsafe fn wait_but_newest<N: Wgmma<N16>, const M64: usize, const N16: usize>(
    acc: &mut [Accumulators<N16>; M64],
) {
    unroll!(for H in 0..2 {
        if H < M64 && M64 == 1 {
            // SAFETY: the caller's promise.
            unsafe { N::wait::<1>(&mut acc[H % M64]) };
        } else if H < M64 {
            // SAFETY: the caller's promise.
            unsafe { N::wait::<2>(&mut acc[H % M64]) };
        }
    });
}

/// Issues the `wgmma`s of one stage, a group for each 64 rows of A's tile. With `ADD` false the
/// accumulators start from zero.
///
/// # Safety
/// All threads of the warpgroup call it together; the stage is full, and unchanged until a wait.
#[inline(always)]
unsafe fn mma_stage<
    N: Wgmma<N16>,
    const M64: usize,
    const N16: usize,
    const A_MN_MAJOR: bool,
    const B_MN_MAJOR: bool,
    const ADD: bool,
>(
    pipe: &PipelineState<N16>,
    acc: &mut [Accumulators<N16>; M64],
) {
    const { assert!(M64 == 1 || M64 == 2) };
    let b_at = pipe.tile().wrapping_add(A_BYTES as usize);
    unroll!(for H in 0..2 {
        if H < M64 {
            // 64 rows of a K-major tile have as many bytes as a box of 64 along m.
            let a_at = pipe.tile().wrapping_add(H * (INSTRUCTION_M * ROW_BYTES) as usize);
            let acc = &mut acc[H % M64];
            // SAFETY: the caller's promises.
            unsafe { mma_k_block::<N, N16, A_MN_MAJOR, B_MN_MAJOR, ADD>(a_at, b_at, acc) };
        }
    });
}
