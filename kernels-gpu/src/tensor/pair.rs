//! Two blocks, one below the other, that share what they read of B.
//!
//! Each brings its own tile of A and half of B's, which the copy engine writes into the shared memory of
//! both. So a block reads a third less from the second-level cache, which costs power, and power is what
//! bounds these kernels.

use cuda_std::arch::sm90::{bulk, cluster, mbarrier, registers, tensor};
use cuda_std::memory::SharedAddress;
use cuda_std::{shared, thread, warp};
use gemm_spec::index::{ceil_div, grouped_tile};
use gemm_spec::tensor::{A_ACROSS, B_ACROSS, BOX_WIDTH, STEP_K};
use gemm_spec::warpgroup::{ROW_BYTES, ROWS, THREADS};

use super::multiply::{
    A_BYTES, BOX_BYTES, CONSUMER_REGISTERS, Launch, PRODUCER_REGISTERS, Ring, Turn, bring, multiply,
};
use super::number::{Number, Products};
use super::store::Store;
use super::{CONSUMERS, GROUP_ROWS, PAIR, PIECE_BYTES, PIECES_EACH, RING_BYTES, TILE_M};

/// Registers of sums of a thread, in eights.
const EIGHTS: usize = 16;
/// Columns of C of a tile.
const TILE_N: u32 = Turn::<EIGHTS>::TILE_N;
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
        let place = unsafe { shared::launch_sized::<Ring>() };
        let ring = SharedAddress::new(place).cast::<u8>();
        let mut turn = Turn::<EIGHTS>::first(ring);
        if linear == 0 {
            // SAFETY: obligation 1; nobody uses the barriers before the fence and the barrier below. A
            // stage is free when the consumers of both blocks have read it: this block writes to both.
            unsafe {
                self.prefetch();
                turn.set_all(PAIR * CONSUMERS);
            }
        }
        // SAFETY: all threads of the cluster are here.
        unsafe { cluster::sync() };
        if group == 0 {
            // SAFETY: the whole warpgroup is here, and needs no more.
            unsafe { registers::release::<PRODUCER_REGISTERS>() };
            if linear == 0 {
                // SAFETY: one thread; the consumers of both blocks take as many stages as it brings.
                unsafe { self.bring_halves(&mut turn) };
            }
        } else {
            // SAFETY: the whole warpgroup is here; the first has released what is missing.
            unsafe {
                registers::take::<CONSUMER_REGISTERS>();
                self.multiply_in_pairs(&mut turn, group - 1);
            }
        }
        // The other block arrives at this one's barriers, and what is on its way to C reads this one's
        // memory: neither may end before.
        bulk::wait_read::<0>();
        // SAFETY: all threads of the cluster come here once more.
        unsafe { cluster::sync() };
    }

    /// What a warpgroup that multiplies does.
    ///
    /// # Safety
    /// The whole warpgroup calls it; producers bring as many stages as its tiles take.
    #[inline(always)]
    unsafe fn multiply_in_pairs(&self, turn: &mut Turn<EIGHTS>, own: u32) {
        let member = thread::thread_idx_x() % THREADS;
        let pieces = (RING_BYTES + own * PIECES_EACH * PIECE_BYTES) as usize;
        // SAFETY: as in the caller.
        let place = unsafe { shared::launch_sized::<Ring>() }.cast::<u8>().wrapping_add(pieces);
        let pieces = SharedAddress::new(place);
        let k_tiles = ceil_div(self.k, STEP_K);
        let other = cluster::rank() ^ 1;
        let release = |empty: SharedAddress<u64>| {
            // SAFETY: the barriers of both blocks are set, and wait for this warpgroup.
            unsafe {
                mbarrier::arrive(empty);
                cluster::arrive(cluster::place_in(empty, other));
            }
        };
        let mut tiles = Tiles::of(self);
        while let Some((row0, col0)) = tiles.next() {
            // Which way the operands lie is a part of the instruction, so each has a loop of its own.
            // SAFETY: the whole warpgroup is here; the producers bring `k_tiles` stages for this tile.
            let sums = unsafe {
                match self.orders {
                    0 => multiply::<N, EIGHTS, false, false>(turn, own, k_tiles, release),
                    A_ACROSS => multiply::<N, EIGHTS, true, false>(turn, own, k_tiles, release),
                    B_ACROSS => multiply::<N, EIGHTS, false, true>(turn, own, k_tiles, release),
                    _ => multiply::<N, EIGHTS, true, true>(turn, own, k_tiles, release),
                }
            };
            let store = Store::<N> {
                map: self.c_map,
                m: self.m,
                n: self.n,
                alpha: self.alpha,
                beta: self.beta,
                c: self.c,
                ldc: self.ldc,
                row0: row0 + own * ROWS,
                col0,
                member,
                pieces,
                place,
                barrier: 1 + own,
            };
            // SAFETY: obligation 1; this block alone has the tile, this warpgroup these rows.
            unsafe {
                if self.staged != 0 {
                    store.staged(&sums);
                } else {
                    store.direct(&sums);
                }
            }
        }
    }

    /// Copies all tiles of A that the block needs, and half of those of B for both blocks, one stage after
    /// the other.
    ///
    /// # Safety
    /// One thread calls it, and the consumers of both blocks take what it brings.
    #[inline(always)]
    unsafe fn bring_halves(&self, turn: &mut Turn<EIGHTS>) {
        let a_across = self.orders & A_ACROSS != 0;
        let b_across = self.orders & B_ACROSS != 0;
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
                    mbarrier::wait(turn.empty(), turn.left());
                    mbarrier::arrive_expecting(turn.full(), Turn::<EIGHTS>::STAGE_BYTES);
                    let (to, arrive) = (turn.tile(), turn.full());
                    bring(self.a_map, a_across, to, (row0, TILE_M), step, arrive);
                    let to = to.wrapping_add(half as usize);
                    let first = col0 + rank * HALF_N;
                    if b_across {
                        let mut done = 0;
                        while done < HALF_N {
                            let to = to.wrapping_add((done / BOX_WIDTH * BOX_BYTES) as usize);
                            let col = first + done;
                            tensor::load_multicast(to, self.b_map, col, step, arrive, BOTH);
                            done += BOX_WIDTH;
                        }
                    } else {
                        tensor::load_multicast(to, self.b_map, step, first, arrive, BOTH);
                    }
                }
                turn.next();
                step += STEP_K;
            }
        }
    }
}
