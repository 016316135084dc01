//! What a warpgroup, four warps, does besides `wgmma`.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::SharedAddress;

/// Waits at a named barrier (1 to 15; 0 is that of the block) for 128 threads: `bar.sync barrier, 128;`.
/// What they wrote to shared memory before it is visible to all of them after it.
///
/// # Safety
/// Exactly 128 threads, in whole warps, reach the barrier, all in the same order.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync(barrier: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instruction's.
        unsafe { asm!("bar.sync {barrier}, 128;", barrier = in(reg32) barrier, options(nostack)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::named_barrier(barrier, 128);
    }
}

/// The same for `THREADS` threads, those of several warpgroups: `bar.sync barrier, THREADS;`.
///
/// # Safety
/// Exactly that many threads, in whole warps, reach the barrier, all in the same order.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_several<const THREADS: u32>(barrier: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instruction's.
        unsafe {
            asm!(
                "bar.sync {barrier}, {threads};",
                barrier = in(reg32) barrier,
                threads = const THREADS,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::named_barrier(barrier, THREADS);
    }
}

/// Stores four 8 x 8 matrices of 16-bit elements: `stmatrix.sync.aligned.m8n8.x4.shared.b16`.
///
/// Lane `l` gives in `row` the address of row `l % 8` of matrix `l / 8`. Its `pairs[i]` holds two elements
/// of row `l / 4` of matrix `i`, in columns `2 * (l % 4)` and `2 * (l % 4) + 1`.
///
/// # Safety
/// All lanes of the warp call it together. Each row is 16 bytes of the block's shared memory, aligned to
/// 16, that no other thread accesses before a barrier.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn stmatrix_x4(row: SharedAddress<u8>, pairs: [u32; 4]) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{row}], {{{p0}, {p1}, {p2}, {p3}}};",
                row = in(reg32) row.get(),
                p0 = in(reg32) pairs[0],
                p1 = in(reg32) pairs[1],
                p2 = in(reg32) pairs[2],
                p3 = in(reg32) pairs[3],
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::stmatrix_x4(row.get(), pairs);
    }
}
