//! Memory that the threads of one block share.

use crate::memory::Shared;

/// The block's shared memory, as a `T`.
///
/// A kernel names all that it shares in one `#[repr(C)]` struct, and its launch asks for that many
/// bytes. Every call in a launch returns the same address. On the device reads and
/// writes through it become `ld.shared` and `st.shared`.
///
/// # Safety
/// 1. The launch provides at least `size_of::<T>()` bytes of shared memory.
/// 2. Memory is written before it is read: nothing initialises it.
/// 3. A [`sync_threads`](crate::thread::sync_threads) separates a write by one thread from an access by
///    another.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub unsafe fn launch_sized<T>() -> Shared<T> {
    #[cfg(target_arch = "nvptx64")]
    {
        core::intrinsics::gpu::gpu_launch_sized_workgroup_mem::<T>()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        Shared(crate::emulate::shared_memory::<T>())
    }
}

/// `shared_array![T; LEN]`: the block's shared memory as a [`Shared`] of `LEN` elements.
///
/// Unlike Rust-CUDA's macro of this name each use returns the same memory, since rustc has no
/// shared statics: a kernel has one such array, or a struct through [`launch_sized`], whose
/// obligations hold here too.
#[macro_export]
macro_rules! shared_array {
    ($element:ty; $len:expr) => {
        $crate::shared::launch_sized::<[$element; $len]>().cast::<$element>()
    };
}
