//! `setmaxnreg`: registers move from one warpgroup of a block to another.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;

/// Releases registers until each thread has `COUNT` (24 to 256, a multiple of eight):
/// `setmaxnreg.dec.sync.aligned.u32 COUNT;`.
///
/// # Safety
/// All threads of the warpgroup call it together, in uniform control flow, and have at least `COUNT`
/// registers. The entry's register count is bounded (`.maxntid`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn reg_dealloc<const COUNT: u32>() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!("setmaxnreg.dec.sync.aligned.u32 {count};", count = const COUNT, options(nostack))
        };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::set_registers(COUNT, false);
    }
}

/// Waits until the block's pool has enough registers and raises each thread to `COUNT`:
/// `setmaxnreg.inc.sync.aligned.u32 COUNT;`.
///
/// # Safety
/// As for [`reg_dealloc`], except that the threads have at most `COUNT` registers, and that other
/// warpgroups release what the pool lacks.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn reg_alloc<const COUNT: u32>() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!("setmaxnreg.inc.sync.aligned.u32 {count};", count = const COUNT, options(nostack))
        };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::set_registers(COUNT, true);
    }
}
