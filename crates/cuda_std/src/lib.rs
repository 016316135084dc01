//! The device library: what a kernel written in Rust needs beyond `core`.
//!
//! The names are those of Rust-CUDA's `cuda_std`, over rustc's own `nvptx64-nvidia-cuda` target:
//!
//! * [`kernel`] makes a function an entry point;
//! * [`thread`] says which thread this is and holds the barrier of a block;
//! * [`warp`] holds the votes and shuffles of 32 threads;
//! * [`memory`] holds the pointers through which a kernel reads and writes;
//! * [`shared`] gives the memory that the threads of a block share;
//! * [`atomic`] holds updates of words that several threads write;
//! * [`approximate`] holds functions of the special-function units;
//! * [`arch`] holds the instructions that only newer GPUs have.
//!
//! On the device each call is one instruction. On the host the same names run on [`emulate`], so
//! that a kernel's own source can be tested where there is no GPU. That is the feature `emulate`:
//! without it kernels compile for the host, and a device function that is called there panics.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        asm_experimental_arch,
        core_intrinsics,
        gpu_intrinsics,
        gpu_launch_sized_workgroup_mem,
        stdarch_nvptx
    )
)]
#![cfg_attr(
    target_arch = "nvptx64",
    expect(internal_features, reason = "shared memory has no stable name in the language yet")
)]

pub mod approximate;
pub mod arch;
pub mod atomic;
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub mod emulate;
#[cfg(all(not(target_arch = "nvptx64"), not(feature = "emulate")))]
#[path = "no_emulator.rs"]
mod emulate;
pub mod memory;
pub mod opaque;
pub mod shared;
pub mod thread;
pub mod warp;

pub use cuda_std_macros::kernel;
