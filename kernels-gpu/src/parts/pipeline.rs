//! A pipeline of stages in shared memory: TMA fills them, warps consume them.

use core::marker::PhantomData;

use cuda_std::arch::sm90::mbarrier::{self, Barrier};
use cuda_std::memory::{Shared, SharedAddress};
use cuda_std::shared;

/// The layout of a pipeline in shared memory. Each stage holds a tile of A followed by one of B.
pub(crate) trait Pipeline {
    /// Stages of the pipeline.
    const STAGES: u32;
    /// Bytes of a stage.
    const STAGE_BYTES: u32;
    /// Offset of the barriers in bytes: a `full` barrier for each stage, then an `empty` one for each.
    const BARRIER_OFFSET: u32 = Self::STAGES * Self::STAGE_BYTES;
}

/// A block's shared memory is aligned to the period of the 128-byte swizzle.
#[repr(C, align(1024))]
struct Aligned(u8);

/// The shared memory of a block, at whose start its pipeline is.
///
/// # Safety
/// The launch has the bytes that are used.
#[inline(always)]
pub(crate) unsafe fn smem() -> Shared<u8> {
    // SAFETY: the caller's promise.
    unsafe { shared::launch_sized::<Aligned>() }.cast::<u8>()
}

/// A thread's position in its pipeline: the stage, and the parity of the stage's current phase.
pub(crate) struct PipelineState<P> {
    smem: SharedAddress<u8>,
    stage: u32,
    phase: u32,
    layout: PhantomData<P>,
}

impl<P> Clone for PipelineState<P> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for PipelineState<P> {}

impl<P: Pipeline> PipelineState<P> {
    /// The first stage of a pipeline, in its first phase.
    #[inline(always)]
    pub(crate) fn new(smem: Shared<u8>) -> Self {
        Self { smem: SharedAddress::new(smem), stage: 0, phase: 0, layout: PhantomData }
    }

    /// Initialises the barriers of all stages: `full` for the arrivals of `producers`, `empty` for those of
    /// `consumers`.
    ///
    /// # Safety
    /// One thread calls it, on the first stage; nobody uses the barriers before a barrier of the block.
    #[inline(always)]
    pub(crate) unsafe fn init_barriers(&self, producers: u32, consumers: u32) {
        let mut each = *self;
        while each.phase == 0 {
            // SAFETY: one thread does this, before anybody uses the barrier.
            unsafe { mbarrier::init(each.full_barrier(), producers) };
            // SAFETY: the same.
            unsafe { mbarrier::init(each.empty_barrier(), consumers) };
            each.advance();
        }
        mbarrier::fence_init();
    }

    /// Waits until the stage is full.
    ///
    /// # Safety
    /// The barriers are initialised.
    #[inline(always)]
    pub(crate) unsafe fn consumer_wait(&self) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier::wait(self.full_barrier(), self.phase) };
    }

    /// Hands the stage back to the producer: one of the arrivals that its `empty` barrier waits for.
    ///
    /// # Safety
    /// The barriers are initialised; the reads of the stage for which this thread arrives have completed.
    #[inline(always)]
    pub(crate) unsafe fn consumer_release(&self) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier::arrive(self.empty_barrier()) };
    }

    /// Waits until the stage is empty, which on the first pass it is at once.
    ///
    /// # Safety
    /// The barriers are initialised.
    #[inline(always)]
    pub(crate) unsafe fn producer_wait(&self) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier::wait(self.empty_barrier(), self.phase ^ 1) };
    }

    /// Hands the stage to the consumers: one of the arrivals that its `full` barrier waits for.
    ///
    /// # Safety
    /// The barriers are initialised; the writes to the stage for which this thread arrives are visible to those who
    /// read it.
    #[inline(always)]
    pub(crate) unsafe fn producer_commit(&self) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier::arrive(self.full_barrier()) };
    }

    /// Waits until the stage is empty and makes `full` expect the bytes of a stage.
    ///
    /// # Safety
    /// The barriers are initialised, one thread fills the pipeline, and the copies that it starts next have
    /// these bytes.
    #[inline(always)]
    pub(crate) unsafe fn producer_acquire(&self) {
        // SAFETY: the caller's promises.
        unsafe { self.producer_acquire_for(P::STAGE_BYTES) };
    }

    /// The same where the copies do not fill the stage.
    ///
    /// # Safety
    /// The barriers are initialised, one thread fills the pipeline, and the copies that it starts next have
    /// `bytes`.
    #[inline(always)]
    pub(crate) unsafe fn producer_acquire_for(&self, bytes: u32) {
        // SAFETY: the barriers are initialised.
        unsafe { self.producer_wait() };
        // SAFETY: as above; this thread is the one that the phase waits for, and starts copies of these bytes.
        unsafe { mbarrier::arrive_and_expect_tx(self.full_barrier(), bytes) };
    }

    /// Moves to the next stage; after the last one to the first, in its next phase.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.stage += 1;
        if self.stage == P::STAGES {
            self.stage = 0;
            self.phase ^= 1;
        }
    }

    /// Moves over that many stages, which another consumer has.
    #[inline(always)]
    pub(crate) fn pass(&mut self, stages: u32) {
        let at = self.stage + stages;
        self.stage = at % P::STAGES;
        self.phase ^= at / P::STAGES % 2;
    }

    /// The address of the stage: its tile of A, followed by that of B.
    #[inline(always)]
    pub(crate) fn tile(&self) -> SharedAddress<u8> {
        self.smem.wrapping_add((self.stage * P::STAGE_BYTES) as usize)
    }

    /// The stage's number.
    #[inline(always)]
    pub(crate) fn stage(&self) -> u32 {
        self.stage
    }

    /// The barrier at which the stage's copies complete.
    #[inline(always)]
    pub(crate) fn full_barrier(&self) -> SharedAddress<Barrier> {
        let barriers = self.smem.wrapping_add(P::BARRIER_OFFSET as usize).cast::<Barrier>();
        barriers.wrapping_add(self.stage as usize)
    }

    /// The barrier at which consumers arrive that have read the stage.
    #[inline(always)]
    pub(crate) fn empty_barrier(&self) -> SharedAddress<Barrier> {
        self.full_barrier().wrapping_add(P::STAGES as usize)
    }
}
