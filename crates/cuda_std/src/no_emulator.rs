//! What stands in the emulator's place where the feature `emulate` is off.
//!
//! Kernels are then compiled for the host, and nothing there runs them: each function has the
//! emulator's signature and panics.

use crate::arch::sm90::tensor::Coords;

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
pub(crate) fn check_global<T>(_: *const T, _: AccessKind) -> *const T {
    absent()
}

#[track_caller]
pub(crate) fn check_shared<T>(_: *const T, _: AccessKind) -> *const T {
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

#[track_caller]
pub(crate) fn multiply_in_warp(_: ([f64; 2], f64), _: [f64; 4]) -> [f64; 4] {
    absent()
}

#[track_caller]
pub(crate) fn multiply_halves_in_warp(_: Factor, _: ([u32; 4], [u32; 2]), _: [f32; 4]) -> [f32; 4] {
    absent()
}

pub(crate) enum Factor {
    F16,
    Bf16,
}

#[expect(dead_code, reason = "the emulator reads them")]
pub(crate) struct Product {
    pub(crate) factor: Factor,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) add: bool,
    pub(crate) mn_major: [bool; 2],
    pub(crate) fence: bool,
}

/// Defines functions that panic.
macro_rules! absent {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)+) => {$(
        #[track_caller]
        pub(crate) fn $name($(_: $argument),*) $(-> $result)? {
            absent()
        }
    )+};
}

absent! {
    mbarrier_init(u32, u32);
    fence_init();
    mbarrier_arrive(u32, u32);
    mbarrier_wait(u32, u32);
    bulk_copy(u32, *const u8, u32, u32);
    fence_proxy_async();
    commit_stores();
    wait_stores(u32);
    map_of_parameter(u32) -> u64;
    tensor_prefetch(u64);
    tensor_load(u32, u64, Coords, u32, Option<u16>);
    tensor_store(u64, Coords, u32);
    cluster_rank() -> u32;
    cluster_size() -> u32;
    cluster_sync(bool);
    cluster_arrive(u32);
    read_cluster(u32) -> [u32; 4];
    place_in(u32, u32) -> u32;
    set_registers(u32, bool);
    named_barrier(u32, u32);
    stmatrix_x4(u32, [u32; 4]);
    distribute_in_warp([u32; 4], bool) -> [u32; 4];
    multiply(Product, &mut [[f32; 8]]);
    commit_products();
    wait_products(u32, &mut [[f32; 8]]);
    f16_pair(f32, f32) -> u32;
    bf16_pair(f32, f32) -> u32;
    f16_value(u16) -> f32;
}

#[track_caller]
pub(crate) fn atomic(_: *mut u32, _: impl FnOnce(&core::sync::atomic::AtomicU32) -> u32) -> u32 {
    absent()
}

#[track_caller]
pub(crate) fn check_value<T>(_: &T, _: bool) {
    absent()
}
