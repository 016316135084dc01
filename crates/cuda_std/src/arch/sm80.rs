//! Copies from global to shared memory that go on while the thread does, conversions to 16-bit floats and their
//! products by a warp, since compute capability 8.0.
//!
//! A thread starts copies, closes them into a group, and later waits until its older groups have
//! landed:
//!
//! ```text
//! copy copy copy  commit_group   copy copy copy  commit_group   wait_group::<1>
//! '--- group 0 -------------'    '--- group 1 -------------'    group 0 has landed, 1 may not have
//! ```
//!
//! Between its start and the wait that covers its group nobody may touch where a copy goes. After the
//! wait the thread itself sees what its own copies wrote; other threads see it after a
//! [`sync_threads`](crate::thread::sync_threads) that comes after the wait.
//!
//! The [emulator](crate::emulate) lands a copy at the wait that covers it and never before.

pub mod convert;
pub mod mma;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::{Global, SharedAddress};

/// Defines a copy: its bytes and its PTX, which takes the destination in shared and the source in
/// global memory.
macro_rules! copy {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $ptx:literal) => {
        $(#[$doc])*
        ///
        /// A generic address of global memory is its address in the global window, so the source
        /// needs no conversion.
        ///
        /// # Safety
        #[doc = concat!("1. A `T` has ", $bytes, " bytes, and both places are multiples of ", $bytes, ".")]
        /// 2. The source is in the view's memory, and nobody writes it before the copy has landed.
        /// 3. The destination is in the block's shared memory, a barrier separates this from every
        ///    earlier access to it by another thread, and nobody accesses it before the copy has
        ///    landed.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<T>(to: SharedAddress<T>, from: Global<T>) {
            const { assert!(size_of::<T>() == $bytes, "the copy has the size of an element") };
            #[cfg(target_arch = "nvptx64")]
            {
                // SAFETY: the caller's promises are the instruction's.
                unsafe {
                    core::arch::asm!(
                        $ptx,
                        to = in(reg32) to.get(),
                        from = in(reg64) from,
                        options(nostack)
                    );
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                emulate::copy_async(to.place().0.addr(), from.0.cast(), $bytes);
            }
        }
    };
}

copy!(/// Starts a copy of four bytes, through all caches: `cp.async.ca.shared.global [to], [from], 4;`.
    copy_async_4, 4, "cp.async.ca.shared.global [{to}], [{from}], 4;");
copy!(/// Starts a copy of eight bytes, through all caches: `cp.async.ca.shared.global [to], [from], 8;`.
    copy_async_8, 8, "cp.async.ca.shared.global [{to}], [{from}], 8;");
copy!(/// Starts a copy of sixteen bytes, past L1:
    /// `cp.async.cg.shared.global [to], [from], 16;`.
    copy_async_16, 16, "cp.async.cg.shared.global [{to}], [{from}], 16;");

/// Closes a group of the copies that this thread has started since its last one, perhaps of none:
/// `cp.async.commit_group;`.
#[inline(always)]
pub fn commit_group() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: closing a group has no precondition.
        unsafe { core::arch::asm!("cp.async.commit_group;", options(nostack)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::commit_group();
    }
}

/// Waits until all groups of this thread but the newest `PENDING` have landed:
/// `cp.async.wait_group PENDING;`.
///
/// Copies after the last [`commit_group`] belong to no group and are not waited for.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_group<const PENDING: u32>() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: waiting has no precondition.
        unsafe {
            core::arch::asm!("cp.async.wait_group {pending};", pending = const PENDING, options(nostack));
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::wait_group(PENDING);
    }
}
