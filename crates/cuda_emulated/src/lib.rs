//! A CUDA driver for tests on machines without a GPU.
//!
//! [`install`] puts it in the place of libcuda for the whole process. It shows two devices of
//! compute capability 8.0, whose memory is host memory and whose kernels run on the emulator of `cuda_std`: the
//! sources of the sm_70 and sm_80 modules, with their accesses checked against what is allocated.
//!
//! # What it is strict about
//!
//! - Work in a stream is kept back until something waits for it, and then only as far as it must go. A
//!   copy, a kernel or a use of staging memory that lacks an event to wait for therefore meets data that
//!   is not there yet, or no longer, and gives a wrong result each time.
//! - Addresses outside of allocations are refused, as is a call without a current context.
//! - A stream, a module's function and a launch must be of the current context, and a context that nobody
//!   retains or that was destroyed cannot be entered.
//! - A call that may not be made while a stream is captured is refused and voids the capture, unless the
//!   thread's mode allows it.
//! - Freeing pinned memory that queued work still uses is a [fault](faults).
//!
//! A module is PTX or one of the fat binaries made from it; [`refuse_images`] makes it a driver that is too
//! old for those. `count("PTX")` and `count("fat binary")` tell how many were loaded.
//!
//! Times between events are those of this machine and mean nothing.

mod calls;
mod capture;
mod contexts;
mod operation;
mod status;
mod world;

pub use calls::install;
pub use world::{MEMORY_BYTES, calls, count, faults, refuse_images};
