//! Barriers in shared memory that wait for threads and for bytes.
//!
//! A barrier counts down the arrivals of its phase, and the bytes of copies that it was told to
//! expect; when both are zero the phase is over, the count begins anew, and the next phase has the
//! other parity. A fresh barrier is in a phase of parity 0; a wait for parity 1 passes at once, as if
//! a phase of parity 1 had just ended.

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

/// Sets a barrier to wait for `arrivals` (1 to 2^20 - 1) in each phase:
/// `mbarrier.init.shared::cta.b64 [barrier], arrivals;`.
///
/// # Safety
/// 1. The barrier lies in the block's shared memory, and nobody uses it yet.
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
        emulate::not_emulated("mbarrier.init", (barrier, arrivals))
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
        emulate::not_emulated("fence.mbarrier_init", ())
    }
}

/// Arrives, and lets the phase expect `bytes` of copies (below 2^20) beside the arrivals:
/// `mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier], bytes;`.
///
/// # Safety
/// 1. The barrier is set and visible to this thread.
/// 2. The phase has an arrival left, and copies of just so many bytes are started for it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive_expecting(barrier: SharedAddress<Barrier>, bytes: u32) {
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
        emulate::not_emulated("mbarrier.arrive.expect_tx", (barrier, bytes))
    }
}

/// Arrives; what this thread did before is visible to whoever waits for the phase:
/// `mbarrier.arrive.shared::cta.b64 _, [barrier];`.
///
/// # Safety
/// The barrier is set and visible to this thread, and the phase has an arrival left.
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
        emulate::not_emulated("mbarrier.arrive", barrier)
    }
}

/// Waits until a phase of that parity has ended: `mbarrier.try_wait.parity.shared::cta.b64`, until it
/// says so.
///
/// # Safety
/// The barrier is set and visible to this thread, and no two phases can end while it waits.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn wait(barrier: SharedAddress<Barrier>, parity: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        loop {
            let done: u32;
            // SAFETY: the caller's promises are the instruction's.
            unsafe {
                asm!(
                    "{{ .reg .pred %ended;",
                    "mbarrier.try_wait.parity.shared::cta.b64 %ended, [{barrier}], {parity};",
                    "selp.u32 {done}, 1, 0, %ended; }}",
                    done = out(reg32) done,
                    barrier = in(reg32) barrier.get(),
                    parity = in(reg32) parity,
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
        emulate::not_emulated("mbarrier.try_wait.parity", (barrier, parity))
    }
}
