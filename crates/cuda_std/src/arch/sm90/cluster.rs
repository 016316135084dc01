//! Clusters: blocks that are scheduled together and can access each other's shared memory.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::SharedAddress;

/// The rank of this block in its cluster: `mov.u32 rank, %cluster_ctarank;`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn rank() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let rank: u32;
        // SAFETY: reading a special register has no precondition on the device.
        unsafe {
            asm!(
                "mov.u32 {rank}, %cluster_ctarank;",
                rank = out(reg32) rank,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        rank
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::cluster_rank()
    }
}

/// Waits for all threads of all blocks of the cluster; what they did before is visible to all of them
/// after: `barrier.cluster.arrive.release; barrier.cluster.wait.acquire;`.
///
/// # Safety
/// Every thread of the cluster that has not exited reaches it, equally often.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instructions'.
        unsafe {
            asm!(
                "barrier.cluster.arrive.release;",
                "barrier.cluster.wait.acquire;",
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::cluster_sync();
    }
}

/// An address in the cluster's shared window: a place in the shared memory of one of its blocks.
#[derive(Clone, Copy)]
pub struct ClusterAddress(u32);

/// The address, in block `rank` of the cluster, that corresponds to `place` in this block's shared memory:
/// `mapa.shared::cluster.u32 there, place, rank;`.
///
/// # Safety
/// The cluster has a block of that rank.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub unsafe fn place_in<T>(place: SharedAddress<T>, rank: u32) -> ClusterAddress {
    #[cfg(target_arch = "nvptx64")]
    {
        let there: u32;
        // SAFETY: the caller's promise is the instruction's.
        unsafe {
            asm!(
                "mapa.shared::cluster.u32 {there}, {place}, {rank};",
                there = out(reg32) there,
                place = in(reg32) place.get(),
                rank = in(reg32) rank,
                options(pure, nomem, nostack)
            );
        }
        ClusterAddress(there)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        ClusterAddress(emulate::place_in(place.get(), rank))
    }
}

/// Arrives at a barrier of any block of the cluster; what this thread did before is visible to every
/// thread that waits for the phase: `mbarrier.arrive.release.cluster.shared::cluster.b64 _, [barrier];`.
///
/// # Safety
/// The barrier there is initialised and visible to this thread by a [`sync`], its phase has an arrival
/// pending, and its block has not exited.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive(barrier: ClusterAddress) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{barrier}];",
                barrier = in(reg32) barrier.0,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::mbarrier_arrive(barrier.0, 0);
    }
}
