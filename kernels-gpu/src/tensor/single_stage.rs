//! A warpgroup that loads a stage, waits for it, multiplies it, waits, and loads the next.

use cuda_std::arch::sm90::mbarrier::{self, Barrier};
use cuda_std::memory::SharedAddress;
use cuda_std::thread;
use gemm_spec::scheduler::{Grouped, TileScheduler};
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K};
use gemm_spec::warpgroup::INSTRUCTION_M;

use super::multiply::{Launch, load_tile, mma_k_block};
use super::number::{Accumulators, Number, Wgmma};
use super::{
    GROUP_ROWS, SINGLE_A_BYTES, SINGLE_N, SINGLE_STAGE_BYTES, STAGING_BYTES, STAGING_EACH,
};
use crate::parts::cta::this_cta;
use crate::parts::pipeline;

/// N of the instruction, in units of 16.
const N16: usize = SINGLE_N as usize / 16;

impl<N: Number> Launch<N> {
    /// # Safety
    /// The obligations of the entries.
    #[inline(always)]
    pub(super) unsafe fn run_single_stage(&self)
    where
        N: Wgmma<N16>,
    {
        // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
        let place = unsafe { pipeline::smem() };
        let stage = SharedAddress::new(place);
        let staging = SINGLE_STAGE_BYTES as usize;
        let full = stage.wrapping_add(staging + (STAGING_EACH * STAGING_BYTES) as usize).cast();
        let thread_in_warpgroup = thread::thread_idx_x();
        if thread_in_warpgroup == 0 {
            // SAFETY: nobody uses the barrier before the fence and the barrier below.
            unsafe { mbarrier::init(full, 1) };
            mbarrier::fence_init();
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };

        let extent = self.extent((INSTRUCTION_M, SINGLE_N));
        let tile = Grouped::new(this_cta(), extent, GROUP_ROWS).tile();
        let (row0, col0) = (tile.row * INSTRUCTION_M, tile.col * SINGLE_N);
        // The majorness of the operands is part of the instruction, so each combination has its own
        // loop.
        //
        // All threads are here, and the maps are those of the operands.
        let place_in_c = (row0, col0);
        let acc = match self.major_flags {
            // SAFETY: as said; both are K-major.
            0 => unsafe { self.single_stage_mainloop::<false, false>(stage, full, place_in_c) },
            // SAFETY: as said; A is MN-major.
            A_MN_MAJOR => unsafe {
                self.single_stage_mainloop::<true, false>(stage, full, place_in_c)
            },
            // SAFETY: as said; B is MN-major.
            B_MN_MAJOR => unsafe {
                self.single_stage_mainloop::<false, true>(stage, full, place_in_c)
            },
            // SAFETY: as said; both are MN-major.
            _ => unsafe { self.single_stage_mainloop::<true, true>(stage, full, place_in_c) },
        };
        let epilogue = self.unfused().epilogue((row0, col0), 0, place.wrapping_add(staging));
        // SAFETY: obligation 1; this block alone has the tile.
        unsafe { epilogue.store_direct(&acc) };
    }

    /// The mainloop: the accumulators of the tile of C that begins at `(row0, col0)`.
    ///
    /// # Safety
    /// All threads of the block call it together; the maps describe A and B, nobody uses the stage, and
    /// the barrier expects one arrival.
    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "loads, products and barriers in the order that makes each of them sound"
    )]
    unsafe fn single_stage_mainloop<const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        &self,
        stage: SharedAddress<u8>,
        full: SharedAddress<Barrier>,
        (row0, col0): (u32, u32),
    ) -> Accumulators<N16>
    where
        N: Wgmma<N16>,
    {
        let b_tile = stage.wrapping_add(SINGLE_A_BYTES as usize);
        let mut acc = [[0.0f32; 8]; N16];
        let (mut k0, mut phase) = (0, 0);
        while k0 < self.k {
            // SAFETY: the barrier below separates the reads of the stage from the next loads; the
            // barrier expects the bytes of the boxes: they fill the stage.
            unsafe {
                if thread::thread_idx_x() == 0 {
                    mbarrier::arrive_and_expect_tx(full, SINGLE_STAGE_BYTES);
                    load_tile(self.a_map, A_MN_MAJOR, stage, (row0, INSTRUCTION_M), k0, full);
                    load_tile(self.b_map, B_MN_MAJOR, b_tile, (col0, SINGLE_N), k0, full);
                }
                mbarrier::wait(full, phase);
                mma_k_block::<N, N16, A_MN_MAJOR, B_MN_MAJOR, true>(stage, b_tile, &mut acc);
                N::wait::<0>(&mut acc);
                thread::sync_threads();
            }
            phase ^= 1;
            k0 += BLOCK_K;
        }
        acc
    }
}
