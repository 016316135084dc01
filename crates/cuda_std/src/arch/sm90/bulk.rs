//! `cp.async.bulk`: copies of contiguous bytes, issued by one thread and executed by TMA.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

use super::mbarrier::Barrier;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::{Global, SharedAddress};

/// Starts a copy of `bytes` from global to shared memory, which completes as many bytes of the phase of
/// `barrier`:
/// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [from], bytes, [barrier];`.
///
/// # Safety
/// 1. `to`, `from` and `bytes` are multiples of 16. The source is global memory that nobody writes
///    before the copy has completed.
/// 2. The destination is in the block's shared memory, and nobody accesses it before the barrier's phase
///    has completed. Earlier accesses to it are ordered before the copy by a barrier.
/// 3. The barrier is initialised, visible to copies, and its phase expects these bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy(
    to: SharedAddress<u8>,
    from: Global<u8>,
    bytes: u32,
    barrier: SharedAddress<Barrier>,
) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's. A generic address of global memory is its
        // address in the global window.
        unsafe {
            asm!(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
                "[{to}], [{from}], {bytes}, [{barrier}];",
                to = in(reg32) to.get(),
                from = in(reg64) from,
                bytes = in(reg32) bytes,
                barrier = in(reg32) barrier.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::bulk_copy(to.get(), from.0, bytes, barrier.get());
    }
}

/// Makes this thread's writes to shared memory visible to the async proxy, that is to copies that start
/// after a barrier:
/// `fence.proxy.async.shared::cta;`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence_proxy_async() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: a fence has no precondition.
        unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::fence_proxy_async();
    }
}

/// Closes this thread's group of copies from shared memory: `cp.async.bulk.commit_group;`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit_group() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: closing a group has no precondition.
        unsafe { asm!("cp.async.bulk.commit_group;", options(nostack)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::commit_stores();
    }
}

/// Waits until all of this thread's groups but the newest `PENDING` have read their shared memory:
/// `cp.async.bulk.wait_group.read PENDING;`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_group_read<const PENDING: u32>() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: waiting has no precondition.
        unsafe {
            asm!("cp.async.bulk.wait_group.read {count};", count = const PENDING, options(nostack))
        };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::wait_stores(PENDING);
    }
}
