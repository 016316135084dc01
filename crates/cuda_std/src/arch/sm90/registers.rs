//! Registers that move from one warpgroup to another.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;

/// Gives registers back until each thread has `COUNT` (24 to 240, a multiple of eight):
/// `setmaxnreg.dec.sync.aligned.u32 COUNT;`.
///
/// # Safety
/// All threads of the warpgroup call it together, from uniform control flow, and have `COUNT`
/// registers at least. The entry's registers are bounded (`.maxntid`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn release<const COUNT: u32>() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!("setmaxnreg.dec.sync.aligned.u32 {count};", count = const COUNT, options(nostack))
        };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::not_emulated("setmaxnreg.dec", COUNT)
    }
}

/// Waits until the block has registers to spare and takes them, up to `COUNT` for each thread:
/// `setmaxnreg.inc.sync.aligned.u32 COUNT;`.
///
/// # Safety
/// As for [`release`], except that the threads have `COUNT` registers at most, and that other
/// warpgroups release what is missing.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn take<const COUNT: u32>() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!("setmaxnreg.inc.sync.aligned.u32 {count};", count = const COUNT, options(nostack))
        };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::not_emulated("setmaxnreg.inc", COUNT)
    }
}
