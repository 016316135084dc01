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

/// Blocks of this block's cluster, 1 where blocks run by themselves: `mov.u32 size, %cluster_nctarank;`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn size() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let size: u32;
        // SAFETY: reading a special register has no precondition on the device.
        unsafe {
            asm!(
                "mov.u32 {size}, %cluster_nctarank;",
                size = out(reg32) size,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        size
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::cluster_size()
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
        emulate::cluster_sync(true);
    }
}

/// Waits for all threads of all blocks of the cluster, and makes nothing visible to them: for a block whose
/// shared memory others have read, before it exits:
/// `barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;`.
///
/// # Safety
/// Every thread of the cluster that has not exited reaches it, equally often.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_relaxed() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instructions'.
        unsafe {
            asm!(
                "barrier.cluster.arrive.relaxed;",
                "barrier.cluster.wait.acquire;",
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::cluster_sync(false);
    }
}

/// An address in the cluster's shared window: a place in the shared memory of one of its blocks.
#[derive(Clone, Copy)]
pub struct ClusterAddress(u32);

impl ClusterAddress {
    /// The address `bytes` further on in the same block's memory.
    #[inline(always)]
    #[must_use]
    pub fn wrapping_add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// Reads four f32 in the shared memory of any block of the cluster: `ld.shared::cluster.v4.f32`.
///
/// # Safety
/// 1. The address is a multiple of 16, and its block has not exited.
/// 2. The four have been written, and if by another thread, a [`sync`] separates the two.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub unsafe fn read_quad(from: ClusterAddress) -> [f32; 4] {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut quad = [0.0f32; 4];
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "ld.shared::cluster.v4.f32 {{{0}, {1}, {2}, {3}}}, [{from}];",
                out(reg32) quad[0],
                out(reg32) quad[1],
                out(reg32) quad[2],
                out(reg32) quad[3],
                from = in(reg32) from.0,
                options(readonly, nostack)
            );
        }
        quad
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::read_cluster(from.0).map(f32::from_bits)
    }
}

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

/// Arrives at a barrier of any block of the cluster: `mbarrier.arrive.shared::cluster.b64 _, [barrier];`.
///
/// It tells that this thread has read what the other block may now overwrite, and makes no writes of this
/// thread visible to the other block: a release to the cluster is a full memory barrier of the GPU.
///
/// # Safety
/// The reads have completed, and nobody takes the phase for a sign of this thread's writes. The barrier there is initialised and visible to this thread by a [`sync`], its phase has an arrival
/// pending, and its block has not exited.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrive(barrier: ClusterAddress) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "mbarrier.arrive.shared::cluster.b64 _, [{barrier}];",
                barrier = in(reg32) barrier.0,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::cluster_arrive(barrier.0);
    }
}
