//! A cluster of two blocks, one below the other, that share their loads of B.
//!
//! Each loads its own tile of A and half of B's, which TMA multicasts to the shared memory of both.
//! So a block reads a third less from L2. Those reads cost power, and power is what bounds these
//! kernels.

use cuda_std::arch::sm90::mbarrier::Barrier;
use cuda_std::arch::sm90::{bulk, cluster, mbarrier, registers, tensor};
use cuda_std::memory::SharedAddress;
use cuda_std::{thread, warp};
use gemm_spec::scheduler::{Persistent, TileScheduler};
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K, BOX_WIDTH};
use gemm_spec::warpgroup::{ROW_BYTES, THREADS};

use super::multiply::{
    A_BYTES, CONSUMER_REGISTERS, Launch, PRODUCER_REGISTERS, PipelineState, Stages, for_each_box,
    load_tile,
};
use super::number::{Number, Wgmma};
use super::{CONSUMERS, GROUP_ROWS, PAIR, TILE_M};
use crate::parts::cta::this_cta;
use crate::parts::pipeline;

/// The multicast mask: a bit for each block of the cluster.
const BOTH: u16 = (1 << PAIR) - 1;

/// The columns of a tile of B of `tile_n` that block `rank` loads, the first and how many: half of them; of
/// an N-major tile whole boxes, of which the first block may have one more.
const fn share(rank: u32, tile_n: u32, mn_major: bool) -> (u32, u32) {
    let each = if mn_major { (tile_n / PAIR).next_multiple_of(BOX_WIDTH) } else { tile_n / PAIR };
    (rank * each, if rank == 0 { each } else { tile_n - each })
}

impl<N: Number> Launch<N> {
    /// # Safety
    /// The obligations of the entries; blocks run in clusters of [`PAIR`], of which the grid has
    /// whole ones, and the map of B has boxes for half of a tile.
    #[inline(always)]
    pub(super) unsafe fn run_pair<const N16: usize>(&self)
    where
        N: Wgmma<N16>,
    {
        let linear = thread::thread_idx_x();
        // Uniform across a warpgroup, and known to be uniform in a warp.
        // SAFETY: all lanes are here.
        let warpgroup_idx = unsafe { warp::shuffle_idx(warp::FULL, linear / THREADS, 0) };
        // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
        let mut pipe = PipelineState::<N16>::new(unsafe { pipeline::smem() });
        if linear == 0 {
            // SAFETY: obligation 1.
            unsafe { self.prefetch() };
            // A stage is empty when the consumers of both blocks have read it: this block writes to both.
            // SAFETY: one thread; nobody uses the barriers before the fence and the barrier below.
            unsafe { pipe.init_barriers(1, PAIR * CONSUMERS) };
        }
        // SAFETY: all threads of the cluster are here.
        unsafe { cluster::sync() };
        if warpgroup_idx == 0 {
            // SAFETY: the whole warpgroup is here and needs no more registers.
            unsafe { registers::reg_dealloc::<PRODUCER_REGISTERS>() };
            if linear == 0 {
                // SAFETY: one thread; the consumers of both blocks consume as many stages as it
                // loads.
                unsafe { self.producer_loop_multicast(&mut pipe) };
            }
        } else {
            let other = cluster::rank() ^ 1;
            let release = |empty: SharedAddress<Barrier>| {
                // SAFETY: this block's barrier is initialised and expects this warpgroup.
                unsafe { mbarrier::arrive(empty) };
                // SAFETY: a cluster is a pair, so there is the other block.
                let its = unsafe { cluster::place_in(empty, other) };
                // SAFETY: its barrier is initialised, too, and expects this warpgroup.
                unsafe { cluster::arrive(its) };
            };
            let tiles = self.pair_tiles(Stages::<N16>::TILE_N);
            // SAFETY: the whole warpgroup is here, and the producer's has released what the pool lacks.
            unsafe { registers::reg_alloc::<CONSUMER_REGISTERS>() };
            // SAFETY: the whole warpgroup is here; the producers of both blocks visit the same tiles.
            unsafe {
                self.unfused().consumer_loop::<N16, false>(
                    &mut pipe,
                    warpgroup_idx - 1,
                    tiles,
                    release,
                );
            };
        }
        // The other block arrives at this one's barriers, and TMA stores under way read this one's
        // memory: neither block may exit before the other is done.
        bulk::wait_group_read::<0>();
        // SAFETY: all threads of the cluster reach it.
        unsafe { cluster::sync() };
    }

    /// The tiles of this block, of width `tile_n`: those of a cluster are pairs, one below the other.
    #[inline(always)]
    fn pair_tiles(&self, tile_n: u32) -> Persistent {
        let extent = self.extent((TILE_M, tile_n));
        Persistent::in_cluster(this_cta(), extent, GROUP_ROWS, (PAIR, cluster::rank()))
    }

    /// The producer loop: loads all tiles of A that the block needs, and its share of those of B for
    /// both blocks, one stage after the other.
    ///
    /// # Safety
    /// One thread calls it, and the consumers of both blocks consume what it loads.
    #[inline(always)]
    unsafe fn producer_loop_multicast<const N16: usize>(&self, pipe: &mut PipelineState<N16>) {
        let a_mn_major = self.major_flags & A_MN_MAJOR != 0;
        let b_mn_major = self.major_flags & B_MN_MAJOR != 0;
        let rank = cluster::rank();
        let tile_n = Stages::<N16>::TILE_N;
        let (share_first, share_count) = share(rank, tile_n, b_mn_major);
        let mut tiles = self.pair_tiles(tile_n);
        while tiles.has_work() {
            let tile = tiles.tile();
            tiles.advance();
            let (row0, col0) = (tile.row * TILE_M, tile.col * tile_n);
            let mut k0 = 0;
            while k0 < self.k {
                let part = A_BYTES + share_first * ROW_BYTES;
                // SAFETY: one thread fills the pipeline. The boxes that both blocks load fill the stage, so
                // that their bytes are those that `full` expects. The other block's may complete before
                // this thread expects them, but in this phase: the previous one has completed in both.
                unsafe { pipe.producer_acquire() };
                let (to, arrive) = (pipe.tile(), pipe.full_barrier());
                // SAFETY: the stage is empty after the acquire, so nobody reads what is overwritten.
                unsafe { load_tile(self.a_map, a_mn_major, to, (row0, TILE_M), k0, arrive) };
                let to = to.wrapping_add(part as usize);
                let first = col0 + share_first;
                for_each_box(b_mn_major, to, (first, share_count), k0, |to, x, y| {
                    // SAFETY: the stage is empty in both blocks after the acquire: its barrier waits for
                    // the consumers of both.
                    unsafe { tensor::load_multicast(to, self.b_map, x, y, arrive, BOTH) };
                });
                pipe.advance();
                k0 += BLOCK_K;
            }
        }
    }
}
