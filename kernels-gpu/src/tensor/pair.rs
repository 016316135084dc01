//! Two blocks, one below the other, that share what they read of B.
//!
//! Each brings its own tile of A and half of B's, which the copy engine writes into the shared memory of
//! both. So a block reads a third less from the second-level cache, which costs power, and power is what
//! bounds these kernels.

use cuda_std::arch::sm90::mbarrier::Barrier;
use cuda_std::arch::sm90::{bulk, cluster, mbarrier, registers, tensor};
use cuda_std::memory::SharedAddress;
use cuda_std::{thread, warp};
use gemm_spec::index::{ceil_div, grouped_tile};
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K};
use gemm_spec::warpgroup::{ROW_BYTES, THREADS};

use super::multiply::{
    A_BYTES, CONSUMER_REGISTERS, Launch, PRODUCER_REGISTERS, PipelineState, Stages, boxes, bring,
};
use super::number::{Number, Products};
use super::{CONSUMERS, GROUP_ROWS, PAIR, TILE_M};
use crate::parts::pipeline;

/// Registers of sums of a thread, in eights.
const EIGHTS: usize = 16;
/// Columns of C of a tile.
const TILE_N: u32 = Stages::<EIGHTS>::TILE_N;
/// Columns of B's tile that each block brings.
const HALF_N: u32 = TILE_N / PAIR;
/// A bit for each block of the cluster.
const BOTH: u16 = (1 << PAIR) - 1;

/// The tiles of a block: those of its cluster, one above the other, and so on.
struct Tiles {
    pairs_m: u32,
    tiles_n: u32,
    cluster: u32,
    rank: u32,
}

impl Tiles {
    fn of<N: Number>(launch: &Launch<N>) -> Self {
        Self {
            pairs_m: ceil_div(ceil_div(launch.m, TILE_M), PAIR),
            tiles_n: ceil_div(launch.n, TILE_N),
            cluster: thread::block_idx_x() / PAIR,
            rank: cluster::rank(),
        }
    }

    /// The first row and column of the next tile. The lower one of the last pair may lie below C: it is
    /// multiplied all the same, since the other block waits for its part of B.
    #[inline(always)]
    fn next(&mut self) -> Option<(u32, u32)> {
        if self.cluster >= self.pairs_m * self.tiles_n {
            return None;
        }
        let (pair, col) = grouped_tile(self.cluster, self.pairs_m, self.tiles_n, GROUP_ROWS / PAIR);
        self.cluster += thread::grid_dim_x() / PAIR;
        Some(((PAIR * pair + self.rank) * TILE_M, col * TILE_N))
    }
}

impl<N: Number> Launch<N>
where
    N: Products<EIGHTS>,
{
    /// # Safety
    /// The obligations of the entries; blocks run in clusters of [`PAIR`], of which the grid has whole ones,
    /// and the map of B has boxes for half of a tile.
    #[inline(always)]
    pub(super) unsafe fn in_pairs(&self) {
        let linear = thread::thread_idx_x();
        // The same in all threads of a warpgroup, and known to be the same in a warp.
        // SAFETY: all lanes are here.
        let group = unsafe { warp::shuffle_idx(warp::FULL, linear / THREADS, 0) };
        // SAFETY: obligation 2 gives the bytes; the barriers keep writes and reads apart.
        let mut pipe = PipelineState::<EIGHTS>::new(unsafe { pipeline::smem() });
        if linear == 0 {
            // SAFETY: obligation 1; nobody uses the barriers before the fence and the barrier below. A
            // stage is free when the consumers of both blocks have read it: this block writes to both.
            unsafe {
                self.prefetch();
                pipe.init_barriers(PAIR * CONSUMERS);
            }
        }
        // SAFETY: all threads of the cluster are here.
        unsafe { cluster::sync() };
        if group == 0 {
            // SAFETY: the whole warpgroup is here, and needs no more.
            unsafe { registers::reg_dealloc::<PRODUCER_REGISTERS>() };
            if linear == 0 {
                // SAFETY: one thread; the consumers of both blocks take as many stages as it brings.
                unsafe { self.bring_halves(&mut pipe) };
            }
        } else {
            let other = cluster::rank() ^ 1;
            let release = |empty: SharedAddress<Barrier>| {
                // SAFETY: the barriers of both blocks are set, and wait for this warpgroup.
                unsafe {
                    mbarrier::arrive(empty);
                    cluster::arrive(cluster::place_in(empty, other));
                }
            };
            let mut tiles = Tiles::of(self);
            // SAFETY: the whole warpgroup is here, and the first has released what is missing; the producers
            // of both blocks go through the same tiles.
            unsafe {
                registers::reg_alloc::<CONSUMER_REGISTERS>();
                self.consume(&mut pipe, group - 1, || tiles.next(), release);
            }
        }
        // The other block arrives at this one's barriers, and what is on its way to C reads this one's
        // memory: neither may end before.
        bulk::wait_group_read::<0>();
        // SAFETY: all threads of the cluster come here once more.
        unsafe { cluster::sync() };
    }

    /// Copies all tiles of A that the block needs, and half of those of B for both blocks, one stage after
    /// the other.
    ///
    /// # Safety
    /// One thread calls it, and the consumers of both blocks take what it brings.
    #[inline(always)]
    unsafe fn bring_halves(&self, pipe: &mut PipelineState<EIGHTS>) {
        let a_mn_major = self.major_flags & A_MN_MAJOR != 0;
        let b_mn_major = self.major_flags & B_MN_MAJOR != 0;
        let rank = cluster::rank();
        let mut tiles = Tiles::of(self);
        while let Some((row0, col0)) = tiles.next() {
            let mut step = 0;
            while step < self.k {
                let half = A_BYTES + rank * HALF_N * ROW_BYTES;
                // SAFETY: the consumers of both blocks arrive at `empty` when they have read the stage, and
                // the first round passes, so nobody reads what is overwritten. `full` expects what the
                // boxes of both blocks bring: they fill the stage. The other block's may arrive before
                // this thread says so, in this phase: the one before has ended in both.
                unsafe {
                    pipe.producer_acquire();
                    let (to, arrive) = (pipe.tile(), pipe.full_barrier());
                    bring(self.a_map, a_mn_major, to, (row0, TILE_M), step, arrive);
                    let to = to.wrapping_add(half as usize);
                    let first = col0 + rank * HALF_N;
                    boxes(b_mn_major, to, (first, HALF_N), step, |to, x, y| {
                        tensor::load_multicast(to, self.b_map, x, y, arrive, BOTH);
                    });
                }
                pipe.advance();
                step += BLOCK_K;
            }
        }
    }
}
