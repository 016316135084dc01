//! Instructions of Hopper: `mbarrier` transaction counts, TMA copies, clusters, and `wgmma`.
//!
//! Kernels combine them in one pattern, a pipeline of stages in shared memory:
//!
//! ```text
//!  producer   wait(empty) -> arrive_and_expect_tx(full, bytes) -> copies that complete at `full`
//!  consumers  wait(full)  -> wgmma on the stage -> commit_group, wait_group -> arrive(empty)
//! ```
//!
//! Each function is one instruction (a barrier's wait is a loop of one), with its PTX in its
//! documentation. On the host they run on the emulator, in launches that are
//! [asynchronous](crate::emulate::Launch::asynchronous).

pub mod bulk;
pub mod cluster;
pub mod grid;
pub mod mbarrier;
pub mod mma;
pub mod registers;
pub mod tensor;
pub mod warpgroup;
pub mod wgmma;
