//! A warpgroup that brings a stage, waits for it, multiplies it, waits, and brings the next.

use cuda_std::arch::sm90::mbarrier::{self, Barrier};
use cuda_std::memory::SharedAddress;
use cuda_std::thread;
use gemm_spec::index::{ceil_div, grouped_tile};
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K};
use gemm_spec::warpgroup::INSTRUCTION_M;

use super::multiply::{Launch, bring, products};
use super::number::{Accumulators, Number, Products};
use super::{GROUP_ROWS, PIECE_BYTES, PIECES_EACH, SINGLE_A_BYTES, SINGLE_N, SINGLE_STAGE_BYTES};
use crate::parts::pipeline;

/// Accumulators in eights of registers of a thread.
const EIGHTS: usize = SINGLE_N as usize / 16;

impl<N: Number> Launch<N> {
    /// # Safety
    /// The obligations of the entries.
    #[inline(always)]
    pub(super) unsafe fn stage_by_stage(&self)
    where
        N: Products<EIGHTS>,
    {
        // SAFETY: obligation 2 gives the bytes; the barriers keep writes and reads apart.
        let place = unsafe { pipeline::smem() };
        let stage = SharedAddress::new(place);
        let pieces = SINGLE_STAGE_BYTES as usize;
        let arrived = stage.wrapping_add(pieces + (PIECES_EACH * PIECE_BYTES) as usize).cast();
        let member = thread::thread_idx_x();
        if member == 0 {
            // SAFETY: nobody uses the barrier before the fence and the barrier below.
            unsafe { mbarrier::init(arrived, 1) };
            mbarrier::fence_init();
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };

        let (tiles_m, tiles_n) = (ceil_div(self.m, INSTRUCTION_M), ceil_div(self.n, SINGLE_N));
        let (row, col) = grouped_tile(thread::block_idx_x(), tiles_m, tiles_n, GROUP_ROWS);
        let (row0, col0) = (row * INSTRUCTION_M, col * SINGLE_N);
        // Which way the operands lie is a part of the instruction, so each has a loop of its own.
        // SAFETY: all threads are here; the maps are those of the operands.
        let sums = unsafe {
            match self.major_flags {
                0 => self.sum::<false, false>(stage, arrived, (row0, col0)),
                A_MN_MAJOR => self.sum::<true, false>(stage, arrived, (row0, col0)),
                B_MN_MAJOR => self.sum::<false, true>(stage, arrived, (row0, col0)),
                _ => self.sum::<true, true>(stage, arrived, (row0, col0)),
            }
        };
        let store = self.store((row0, col0), 0, place.wrapping_add(pieces));
        // SAFETY: obligation 1; this block alone has the tile.
        unsafe { store.direct(&sums) };
    }

    /// The sums of the tile of C from `(row0, col0)` on.
    ///
    /// # Safety
    /// All threads of the block call it together; the maps describe A and B, nobody uses the stage, and
    /// the barrier expects one arrival.
    #[inline(always)]
    unsafe fn sum<const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        &self,
        stage: SharedAddress<u8>,
        arrived: SharedAddress<Barrier>,
        (row0, col0): (u32, u32),
    ) -> Accumulators<EIGHTS>
    where
        N: Products<EIGHTS>,
    {
        let b_tile = stage.wrapping_add(SINGLE_A_BYTES as usize);
        let mut sums = [[0.0f32; 8]; EIGHTS];
        let (mut step, mut phase) = (0, 0);
        while step < self.k {
            // SAFETY: the barrier below parts the reads of the stage from the next copies; the barrier
            // expects what the boxes bring: they fill the stage.
            unsafe {
                if thread::thread_idx_x() == 0 {
                    mbarrier::arrive_and_expect_tx(arrived, SINGLE_STAGE_BYTES);
                    bring(self.a_map, A_MN_MAJOR, stage, (row0, INSTRUCTION_M), step, arrived);
                    bring(self.b_map, B_MN_MAJOR, b_tile, (col0, SINGLE_N), step, arrived);
                }
                mbarrier::wait(arrived, phase);
                products::<N, EIGHTS, A_MN_MAJOR, B_MN_MAJOR, true>(stage, b_tile, &mut sums);
                N::wait::<0>(&mut sums);
                thread::sync_threads();
            }
            phase ^= 1;
            step += BLOCK_K;
        }
        sums
    }
}
