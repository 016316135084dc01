//! `griddepcontrol`: launches that overlap with the one before them in the stream.
//!
//! A kernel that the host launches with programmatic stream serialization may start while the kernel ahead
//! of it still runs: when all blocks of that one have said so or have ended. It then waits for the other's end,
//! before it accesses what the other writes or reads.
//!
//! On the host one launch ends before the next begins, and both do nothing.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Says that the next launch of the stream may start, as far as this thread's block is concerned:
/// `griddepcontrol.launch_dependents;`. It says nothing of what this kernel has written.
#[inline(always)]
pub fn launch_dependents() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction accesses no memory, and whoever starts waits for the end of this kernel.
    unsafe {
        asm!("griddepcontrol.launch_dependents;", options(nostack))
    };
}

/// Waits until the launches before this one in the stream have ended and what they wrote is visible:
/// `griddepcontrol.wait;`. It waits for nothing where the host has not asked for an overlap.
#[inline(always)]
pub fn wait() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction accesses no memory; it orders the accesses after it.
    unsafe {
        asm!("griddepcontrol.wait;", options(nostack))
    };
}
