//! One warpgroup a block, small tiles and several blocks an SM: for batches of products of a tile or a few.
//!
//! A block goes from tile to tile, and from product to product. Its first thread keeps two stages loaded, also
//! with those of the tile after: while the warpgroup stores a tile, the next one arrives. What a block waits
//! for, the other blocks of the SM hide.

use cuda_std::arch::sm90::bulk;
use cuda_std::arch::sm90::mbarrier::{self, Barrier};
use cuda_std::memory::SharedAddress;
use cuda_std::thread;
use gemm_spec::index::ceil_div;
use gemm_spec::scheduler::{PersistentBatch, TileScheduler};
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K};
use gemm_spec::warpgroup::{INSTRUCTION_M, ROW_BYTES};

use super::multiply::{Ends, Launch, first_row, load_tile_of, mma_k_block};
use super::number::{Accumulators, Number, Wgmma};
use super::{SMALL_N, SMALL_STAGES, STAGING_BYTES, STAGING_EACH};
use crate::parts::pipeline;

/// N of the instruction, in units of 16.
const N16: usize = SMALL_N as usize / 16;
/// Bytes of a stage: A's tile, followed by B's.
const A_BYTES: u32 = INSTRUCTION_M * ROW_BYTES;
const STAGE_BYTES: u32 = A_BYTES + SMALL_N * ROW_BYTES;
/// Where the staging buffers of C are, and the `full` barriers.
const STAGING_AT: u32 = SMALL_STAGES * STAGE_BYTES;
const BARRIERS_AT: u32 = STAGING_AT + STAGING_EACH * STAGING_BYTES;
/// Bytes of shared memory of a block.
pub(super) const SHARED_BYTES: u32 = BARRIERS_AT + SMALL_STAGES * 8;

/// The stages of a block in the order in which they are loaded, tile after tile.
struct Loads {
    tiles: PersistentBatch<Ends>,
    /// Where the next stage begins along k.
    k0: u32,
}

/// The stages of a block, and what it has of them.
struct Slots {
    stages: SharedAddress<u8>,
    full: SharedAddress<Barrier>,
    loads: Loads,
    /// Of the stage that is multiplied next.
    slot: u32,
    phase: u32,
}

impl<N: Number> Launch<N> {
    /// # Safety
    /// The obligations of the entries.
    #[inline(always)]
    pub(super) unsafe fn run_small_tile(&self)
    where
        N: Wgmma<N16>,
    {
        // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
        let smem = unsafe { pipeline::smem() };
        let full = SharedAddress::new(smem).wrapping_add(BARRIERS_AT as usize).cast();
        if thread::thread_idx_x() == 0 {
            // SAFETY: obligation 1.
            unsafe { self.prefetch() };
            let mut slot = 0;
            while slot < SMALL_STAGES {
                // SAFETY: nobody uses the barrier before the fence and the barrier below.
                unsafe { mbarrier::init(full.wrapping_add(slot as usize), 1) };
                slot += 1;
            }
            mbarrier::fence_init();
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        let mut pipe = Slots {
            stages: SharedAddress::new(smem),
            full,
            loads: Loads { tiles: self.small_tiles(), k0: 0 },
            slot: 0,
            phase: 0,
        };
        if thread::thread_idx_x() == 0 {
            let mut slot = 0;
            while slot < SMALL_STAGES {
                // SAFETY: one thread; nobody has used the stage.
                unsafe { self.load_next(&mut pipe, slot) };
                slot += 1;
            }
        }
        let mut tiles = self.small_tiles();
        while tiles.has_work() {
            let tile = tiles.tile();
            tiles.advance();
            // The majorness of the operands is part of the instruction, so each combination has its own
            // loop.
            //
            // All threads are here, and the stages of this tile are the next ones.
            let acc = match self.major_flags {
                // SAFETY: as said; both are K-major.
                0 => unsafe { self.small_mainloop::<false, false>(&mut pipe) },
                // SAFETY: as said; A is MN-major.
                A_MN_MAJOR => unsafe { self.small_mainloop::<true, false>(&mut pipe) },
                // SAFETY: as said; B is MN-major.
                B_MN_MAJOR => unsafe { self.small_mainloop::<false, true>(&mut pipe) },
                // SAFETY: as said; both are MN-major.
                _ => unsafe { self.small_mainloop::<true, true>(&mut pipe) },
            };
            let place = (first_row::<true>(&tile, INSTRUCTION_M), tile.col * SMALL_N);
            let staging = smem.wrapping_add(STAGING_AT as usize);
            let epilogue = self.epilogue(place, 0, staging);
            let epilogue = epilogue.of_product(tile.batch, self.c_stride, tile.rows.1);
            let tma_store = self.tma_store != 0 && epilogue.ends_with_c(self.m);
            // SAFETY: obligation 1; this block alone has the tile, this warpgroup these rows.
            unsafe { epilogue.store::<N16, true>(tma_store, &acc) };
        }
        // TMA stores under way read this block's shared memory.
        bulk::wait_group_read::<0>();
    }

    /// The tiles of the block.
    #[inline(always)]
    fn small_tiles(&self) -> PersistentBatch<Ends> {
        self.tiles_of_batch((INSTRUCTION_M, SMALL_N), None)
    }

    /// The accumulators of the next tile.
    ///
    /// # Safety
    /// All threads of the block call it together; its stages are loaded, or will be by this.
    #[inline(always)]
    unsafe fn small_mainloop<const A_MN: bool, const B_MN: bool>(
        &self,
        pipe: &mut Slots,
    ) -> Accumulators<N16>
    where
        N: Wgmma<N16>,
    {
        let k_tiles = ceil_div(self.k, BLOCK_K);
        let mut acc = [[0.0f32; 8]; N16];
        let mut done = 0;
        while done < k_tiles {
            let a_at = pipe.stages.wrapping_add((pipe.slot * STAGE_BYTES) as usize);
            let b_at = a_at.wrapping_add(A_BYTES as usize);
            // SAFETY: the barrier is initialised, and this phase's stage is the next one that is loaded.
            unsafe { mbarrier::wait(pipe.full.wrapping_add(pipe.slot as usize), pipe.phase) };
            // SAFETY: all threads are here; the stage is full, and unchanged until it is loaded again.
            unsafe { mma_k_block::<N, N16, A_MN, B_MN, true>(a_at, b_at, &mut acc) };
            // SAFETY: all threads are here.
            unsafe { N::wait::<0>(&mut acc) };
            // SAFETY: all threads of the block are here.
            unsafe { thread::sync_threads() };
            if thread::thread_idx_x() == 0 {
                let slot = pipe.slot;
                // SAFETY: one thread; the products of the stage are done, by the wait and the barrier.
                unsafe { self.load_next(pipe, slot) };
            }
            pipe.slot += 1;
            if pipe.slot == SMALL_STAGES {
                pipe.slot = 0;
                pipe.phase ^= 1;
            }
            done += 1;
        }
        acc
    }

    /// Starts the loads of the block's next stage, if there is one, into a slot.
    ///
    /// # Safety
    /// One thread calls it; nobody uses the slot until its barrier's phase has completed.
    #[inline(always)]
    unsafe fn load_next(&self, pipe: &mut Slots, slot: u32) {
        let loads = &mut pipe.loads;
        if self.k == 0 || !loads.tiles.has_work() {
            return;
        }
        let (a_mn_major, b_mn_major) =
            (self.major_flags & A_MN_MAJOR != 0, self.major_flags & B_MN_MAJOR != 0);
        let (tile, k0) = (loads.tiles.tile(), loads.k0);
        loads.k0 += BLOCK_K;
        if loads.k0 >= self.k {
            loads.k0 = 0;
            loads.tiles.advance();
        }
        let arrive = pipe.full.wrapping_add(slot as usize);
        // SAFETY: these are the bytes of the boxes, and the barrier expects this arrival.
        unsafe { mbarrier::arrive_and_expect_tx(arrive, STAGE_BYTES) };
        let to = pipe.stages.wrapping_add((slot * STAGE_BYTES) as usize);
        let place = (a_mn_major, (first_row::<true>(&tile, INSTRUCTION_M), INSTRUCTION_M), k0);
        let a = (self.a_map, tile.batch * self.a_step);
        // SAFETY: the caller's promise.
        unsafe { load_tile_of::<true>(a, to, place, arrive) };
        let to = to.wrapping_add(A_BYTES as usize);
        let place = (b_mn_major, (tile.col * SMALL_N, SMALL_N), k0);
        let b = (self.b_map, tile.batch * self.b_step);
        // SAFETY: as above; B's tile is behind A's.
        unsafe { load_tile_of::<true>(b, to, place, arrive) };
    }
}
