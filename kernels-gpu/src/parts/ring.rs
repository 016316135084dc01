//! A ring of stages in shared memory, which the copy engine fills and warps empty.

use core::marker::PhantomData;

use cuda_std::arch::sm90::mbarrier::{self, Barrier};
use cuda_std::memory::{Shared, SharedAddress};
use cuda_std::shared;

/// How a ring is cut. Each stage holds a tile of A and behind it one of B.
pub(crate) trait Ring {
    /// Stages of the ring.
    const STAGES: u32;
    /// Bytes of a stage.
    const STAGE_BYTES: u32;
    /// From the ring's first byte to its barriers: a `full` for each stage, then an `empty` for each.
    const TO_BARRIERS: u32 = Self::STAGES * Self::STAGE_BYTES;
}

/// A block's shared memory begins at a multiple of what the swizzle permutes.
#[repr(C, align(1024))]
struct Aligned(u8);

/// The shared memory of a block, where its ring begins.
///
/// # Safety
/// The launch has the bytes that are used.
#[inline(always)]
pub(crate) unsafe fn memory() -> Shared<u8> {
    // SAFETY: the caller's promise.
    unsafe { shared::launch_sized::<Aligned>() }.cast::<u8>()
}

/// Where in its ring a thread is: the stage, and the parity of its present phase.
pub(crate) struct Turn<R> {
    ring: SharedAddress<u8>,
    stage: u32,
    parity: u32,
    cut: PhantomData<R>,
}

impl<R> Clone for Turn<R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Turn<R> {}

impl<R: Ring> Turn<R> {
    /// The first stage of a ring.
    #[inline(always)]
    pub(crate) fn first(ring: Shared<u8>) -> Self {
        Self { ring: SharedAddress::new(ring), stage: 0, parity: 0, cut: PhantomData }
    }

    /// Sets the barriers of all stages, from the first on: one thread arrives at `full`, so many at
    /// `empty`.
    ///
    /// # Safety
    /// One thread calls it; nobody uses the barriers before a barrier of the block behind it.
    #[inline(always)]
    pub(crate) unsafe fn set_all(&self, consumers: u32) {
        let mut each = *self;
        while each.parity == 0 {
            // SAFETY: the caller's promise.
            unsafe {
                mbarrier::init(each.full(), 1);
                mbarrier::init(each.empty(), consumers);
            }
            each.next();
        }
        mbarrier::fence_init();
    }

    /// Waits until the stage is full.
    ///
    /// # Safety
    /// The barriers are set.
    #[inline(always)]
    pub(crate) unsafe fn wait_full(&self) {
        // SAFETY: the caller's promise.
        unsafe { mbarrier::wait(self.full(), self.parity) };
    }

    /// Waits until the stage may be filled, which in the first round it may be at once, and has `full`
    /// wait for a whole stage of bytes.
    ///
    /// # Safety
    /// The barriers are set, one thread fills the ring, and what it brings next are these bytes.
    #[inline(always)]
    pub(crate) unsafe fn open(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            mbarrier::wait(self.empty(), self.parity ^ 1);
            mbarrier::arrive_and_expect_tx(self.full(), R::STAGE_BYTES);
        }
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) {
        self.stage += 1;
        if self.stage == R::STAGES {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// Where the stage's tile of A lies; B's is behind it.
    #[inline(always)]
    pub(crate) fn tile(&self) -> SharedAddress<u8> {
        self.ring.wrapping_add((self.stage * R::STAGE_BYTES) as usize)
    }

    /// The barrier that the stage's bytes arrive at.
    #[inline(always)]
    pub(crate) fn full(&self) -> SharedAddress<Barrier> {
        let barriers = self.ring.wrapping_add(R::TO_BARRIERS as usize).cast::<Barrier>();
        barriers.wrapping_add(self.stage as usize)
    }

    /// The barrier that those arrive at who have used the stage.
    #[inline(always)]
    pub(crate) fn empty(&self) -> SharedAddress<Barrier> {
        self.full().wrapping_add(R::STAGES as usize)
    }
}
