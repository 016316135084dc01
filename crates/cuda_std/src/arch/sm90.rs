//! What Hopper brought: barriers that count bytes, bulk copies, clusters of blocks, and products of warpgroups.
//!
//! The parts work together in one pattern, which all kernels here follow:
//!
//! ```text
//!  producer   wait(empty) -> expect(full, bytes) -> copies that arrive at `full`
//!  consumers  wait(full)  -> products that read the stage -> commit, wait -> arrive(empty)
//! ```
//!
//! Each function is one instruction (a barrier's wait is a loop of one), with its PTX in its
//! documentation. On the host they let kernels be compiled and linted; the emulator does not model them
//! and ends a launch at the first one, with
//! [`NotEmulated`](crate::emulate::EmulationError::NotEmulated).

pub mod bulk;
pub mod cluster;
pub mod convert;
pub mod mbarrier;
pub mod registers;
pub mod tensor;
pub mod warpgroup;
pub mod wgmma;
