//! `mbarrier`: barriers in shared memory that count arrivals of threads and bytes of copies.
//!
//! A barrier's phase completes when all its arrivals have come and all bytes that it was told to expect
//! have been copied. The counts then start again for the next phase. Phases are told apart by their
//! parity: the first has parity 0. On a fresh barrier a wait for parity 1 returns at once, as if a phase
//! of parity 1 had just completed.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::SharedAddress;

/// A barrier: eight bytes of shared memory that only its instructions understand.
#[repr(C)]
pub struct Barrier {
    _state: u64,
}

/// Initialises a barrier for `arrivals` (1 to 2^20 - 1) in each phase:
/// `mbarrier.init.shared::cta.b64 [barrier], arrivals;`.
///
/// # Safety
/// 1. The barrier is in the block's shared memory and not yet in use.
/// 2. Other threads, and copies, use it only after [`fence_init`] and a
///    [`sync_threads`](crate::thread::sync_threads).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn init(barrier: SharedAddress<Barrier>, arrivals: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "mbarrier.init.shared::cta.b64 [{barrier}], {arrivals};",
                barrier = in(reg32) barrier.get(),
                arrivals = in(reg32) arrivals,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::mbarrier_init(barrier.get(), arrivals);
    }
}

/// Makes this thread's [`init`]s visible to copies: `fence.mbarrier_init.release.cluster;`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence_init() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: a fence has no precondition.
        unsafe { asm!("fence.mbarrier_init.release.cluster;", options(nostack)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::fence_init();
    }
}

/// Arrives, and makes the phase expect `bytes` of copies (below 2^20) in addition to the arrivals:
/// `mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier], bytes;`.
///
/// # Safety
/// 1. The barrier is initialised and visible to this thread.
/// 2. The phase has an arrival pending, and copies of exactly that many bytes are started for it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive_and_expect_tx(barrier: SharedAddress<Barrier>, bytes: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], {bytes};",
                barrier = in(reg32) barrier.get(),
                bytes = in(reg32) bytes,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::mbarrier_arrive(barrier.get(), bytes);
    }
}

/// Arrives; what this thread did before is visible to every thread that waits for the phase:
/// `mbarrier.arrive.shared::cta.b64 _, [barrier];`.
///
/// # Safety
/// The barrier is initialised and visible to this thread, and the phase has an arrival pending.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive(barrier: SharedAddress<Barrier>) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "mbarrier.arrive.shared::cta.b64 _, [{barrier}];",
                barrier = in(reg32) barrier.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::mbarrier_arrive(barrier.get(), 0);
    }
}

/// Waits until the phase of parity `phase` has completed: a loop of
/// `mbarrier.try_wait.parity.shared::cta.b64`.
///
/// # Safety
/// The barrier is initialised and visible to this thread, and no two phases can complete while it waits.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn wait(barrier: SharedAddress<Barrier>, phase: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        loop {
            let done: u32;
            // SAFETY: the caller's promises are the instruction's.
            unsafe {
                asm!(
                    "{{ .reg .pred %ended;",
                    "mbarrier.try_wait.parity.shared::cta.b64 %ended, [{barrier}], {phase};",
                    "selp.u32 {done}, 1, 0, %ended; }}",
                    done = out(reg32) done,
                    barrier = in(reg32) barrier.get(),
                    phase = in(reg32) phase,
                    options(nostack)
                );
            }
            if done != 0 {
                return;
            }
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::mbarrier_wait(barrier.get(), phase);
    }
}
