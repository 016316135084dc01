//! What stands in the emulator's place where the feature `emulate` is off.
//!
//! Kernels are then compiled for the host, and nothing there runs them: each function has the
//! emulator's signature and panics.

#![expect(clippy::extra_unused_type_parameters, reason = "the signatures are the emulator's")]

type Dim3 = (u32, u32, u32);

#[cold]
#[track_caller]
fn absent() -> ! {
    panic!("device functions run on a GPU, or on the emulator: the feature `emulate` of `cuda_std`")
}

pub(crate) struct Thread {
    pub(crate) thread_idx: Dim3,
    pub(crate) block_idx: Dim3,
    pub(crate) block_dim: Dim3,
    pub(crate) grid_dim: Dim3,
}

pub(crate) enum AccessKind {
    Read,
    Write,
}

pub(crate) enum WarpOperation {
    Ballot,
    ShuffleIdx,
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
}

#[track_caller]
pub(crate) fn current() -> &'static Thread {
    absent()
}

#[track_caller]
pub(crate) fn barrier() {
    absent()
}

#[track_caller]
pub(crate) fn shared_memory<T>() -> *mut T {
    absent()
}

#[track_caller]
pub(crate) fn window_address(_: *const u8) -> u32 {
    absent()
}

#[track_caller]
pub(crate) fn window_place(_: u32) -> *mut u8 {
    absent()
}

#[track_caller]
pub(crate) fn not_emulated<Operands>(_: &'static str, _: Operands) -> ! {
    absent()
}

#[track_caller]
pub(crate) fn check_global<T>(_: usize, _: AccessKind) {
    absent()
}

#[track_caller]
pub(crate) fn check_shared<T>(_: usize, _: AccessKind) {
    absent()
}

#[track_caller]
pub(crate) fn copy_async(_: usize, _: *const u8, _: usize) {
    absent()
}

#[track_caller]
pub(crate) fn commit_group() {
    absent()
}

#[track_caller]
pub(crate) fn wait_group(_: u32) {
    absent()
}

#[track_caller]
pub(crate) fn lane() -> u32 {
    absent()
}

#[track_caller]
pub(crate) fn warp(_: WarpOperation, _: u32, _: u32, _: u32) -> u32 {
    absent()
}
