//! Runs kernels on the CPU: the same source, block by block, with what a device does not check.
//!
//! Clusters of blocks run in parallel on rayon. The threads of one are coroutines on one worker, resumed in
//! turn; a thread gives way only where it waits, so in between each runs undisturbed. The [`Order`] of threads
//! is fixed, which makes a cluster repeatable.
//!
//! Accesses through the views of [`memory`](crate::memory) are checked against the buffers of the
//! [`Launch`] and against shadow state: for each word of shared memory who wrote and read it since
//! the last barrier, for each word of global memory who wrote it. What is wrong becomes an
//! [`EmulationError`] with the threads, the element and the source lines, and ends the launch.
//! Asynchronous copies take effect at the wait that covers them and at no other time. Since
//! a conflict is found from the barriers and not from the order in which threads happen to run, one
//! run finds it.
//!
//! In a launch that is [asynchronous](Launch::asynchronous) copies, products and stores are under way by
//! themselves, and shadow state holds by what each access is known to be over, see `clock`.

mod cells;
mod clock;
mod cluster;
mod copies;
mod error;
mod mbarrier;
mod numbers;
mod observe;
mod parts;
mod products;
mod remote;
mod schedule;
mod shadow;
mod sites;
mod tensor_core;
mod tensor_map;
#[cfg(test)]
mod tests;
mod transfer;
mod warp;
mod warpgroup;

use std::alloc::{Layout, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;

use cells::Act;
use cluster::Cluster;
use copies::Copies;
pub(crate) use copies::{commit_group, copy_async, wait_group};
use corosensei::Yielder;
use corosensei::stack::DefaultStack;
pub use error::{Access, AccessKind, EmulationError, Site, WarpFault};
pub(crate) use mbarrier::{fence_init, mbarrier_arrive, mbarrier_init, mbarrier_wait};
pub(crate) use numbers::{atomic, bf16_pair, check_value, f16_pair, f16_value};
pub use observe::{Action, Event, Instruction, Observer};
pub(crate) use parts::Product;
pub(crate) use products::{commit_products, multiply, wait_products};
use rayon::prelude::*;
pub(crate) use remote::{
    cluster_arrive, cluster_rank, cluster_size, cluster_sync, place_in, read_cluster,
};
use schedule::run_cluster;
use shadow::{Conflict, GlobalShadow, SharedShadow};
pub(crate) use tensor_core::Factor;
pub use tensor_map::{Swizzle, TensorMap};
pub(crate) use transfer::{
    bulk_copy, commit_stores, fence_proxy_async, map_of_parameter, tensor_load, tensor_prefetch,
    tensor_store, wait_stores,
};
use warp::Lane;
pub(crate) use warp::{WarpOperation, lane, warp};
pub(crate) use warpgroup::{named_barrier, set_registers, stmatrix_x4};

/// Bytes of stack for one emulated thread.
const STACK_BYTES: usize = 64 * 1024;
/// Alignment of a block's shared memory: the period of the widest swizzle.
const SHARED_ALIGN: usize = 1024;
/// Address of a block's shared memory in its shared window, of which a device keeps the first bytes.
const WINDOW_BASE: u32 = 1024;

/// Three extents or coordinates: x, y, z.
pub type Dim3 = (u32, u32, u32);

/// Memory that a launch may touch, by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its name in reports.
    pub name: &'static str,
    /// Where it begins.
    pub address: usize,
    /// Bytes that it has.
    pub bytes: usize,
    /// Whether the launch may write it.
    pub writable: bool,
}

impl Buffer {
    /// A buffer that the launch reads.
    #[must_use]
    pub fn input<T>(name: &'static str, elements: &[T]) -> Self {
        let address = elements.as_ptr().addr();
        Self { name, address, bytes: size_of_val(elements), writable: false }
    }

    /// A buffer that the launch reads and writes.
    #[must_use]
    pub fn output<T>(name: &'static str, elements: &mut [T]) -> Self {
        let address = elements.as_ptr().addr();
        Self { name, address, bytes: size_of_val(elements), writable: true }
    }

    fn contains(&self, address: usize, bytes: usize) -> bool {
        address
            .checked_sub(self.address)
            .and_then(|offset| offset.checked_add(bytes))
            .is_some_and(|end| end <= self.bytes)
    }

    /// Bytes between the buffer and an address.
    fn distance(&self, address: usize) -> usize {
        let end = self.address.saturating_add(self.bytes);
        self.address.saturating_sub(address).max(address.saturating_sub(end))
    }

    /// Which element of that size an address is.
    fn element(&self, address: usize, size: usize) -> i64 {
        (address.wrapping_sub(self.address) as i64).div_euclid(size as i64)
    }
}

/// When threads run, and when copies and products are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Threads by their numbers; copies and products as late as they can be.
    #[default]
    Late,
    /// Threads by their numbers; copies and products at once.
    Early,
    /// As [`Order::Late`], and the warpgroup of that number in the cluster runs only when no other thread can.
    Starve(u32),
    /// Any thread that can go on, and any copy or product, by a seed.
    Random(u64),
}

impl Order {
    fn seed(self) -> u64 {
        match self {
            Self::Late | Self::Early | Self::Starve(_) => 0,
            Self::Random(seed) => seed,
        }
    }
}

/// A launch: its extents, and what its kernel may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y and z.
    pub grid: Dim3,
    /// Threads of a block along x, y and z.
    pub block: Dim3,
    /// Bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// The global memory of the launch; with checks on, nothing else may be touched.
    pub buffers: Vec<Buffer>,
    /// Whether accesses are checked. A kernel that is wrong has undefined behaviour without.
    pub checked: bool,
    /// A barrier that every thread passes without waiting, counted from 0: the fault of a kernel
    /// that lacks it, planted to see that it is found.
    pub skip_barrier: Option<u32>,
    /// An instruction that no thread executes, of those of compute capability 9.0 and the barrier of a block: the
    /// fault of a kernel that lacks it.
    pub dropped: Option<Instruction>,
    /// Blocks of a cluster, along x; the grid has whole ones.
    pub cluster: u32,
    /// Whether the kernel uses the instructions of compute capability 9.0. Accesses to shared memory are then
    /// ordered by whatever threads wait for, otherwise by the block's barriers alone, which takes less time.
    pub asynchronous: bool,
    /// The tensor maps, in the order of the entry's first parameters.
    pub maps: Vec<TensorMap>,
    /// The order of events.
    pub order: Order,
}

impl Launch {
    /// A launch of that many blocks and threads with checks on, no shared memory and no buffers.
    #[must_use]
    pub fn new(grid: Dim3, block: Dim3) -> Self {
        Self {
            grid,
            block,
            shared_bytes: 0,
            buffers: Vec::new(),
            checked: true,
            skip_barrier: None,
            dropped: None,
            cluster: 1,
            asynchronous: false,
            maps: Vec::new(),
            order: Order::Late,
        }
    }

    /// The same for a kernel that uses the instructions of compute capability 9.0.
    #[must_use]
    pub fn asynchronous(self) -> Self {
        Self { asynchronous: true, ..self }
    }

    /// The same with that much shared memory.
    #[must_use]
    pub fn with_shared_bytes(self, shared_bytes: usize) -> Self {
        Self { shared_bytes, ..self }
    }

    /// The same with one more buffer.
    #[must_use]
    pub fn with_buffer(mut self, buffer: Buffer) -> Self {
        self.buffers.push(buffer);
        self
    }
}

/// What a thread can ask about itself.
pub(crate) struct Thread<'b> {
    pub(crate) thread_idx: Dim3,
    pub(crate) block_idx: Dim3,
    pub(crate) block_dim: Dim3,
    pub(crate) grid_dim: Dim3,
    /// Its place in the block, x fastest.
    linear: u32,
    block: &'b Block<'b>,
    /// The blocks of its cluster, by rank.
    blocks: &'b [Block<'b>],
    cluster: &'b Cluster,
    yielder: Cell<*const Yielder<(), Pause>>,
    /// Barriers that it has come to.
    barriers: Cell<u32>,
    lane: Lane,
    copies: Copies,
}

/// Why a thread gives way.
#[derive(Clone, Copy)]
enum Pause {
    /// It waits at this barrier.
    Barrier(&'static Location<'static>),
    /// It waits for other lanes of its warp.
    Warp,
    /// It waits for something that the cluster's state names.
    Wait,
    /// Its block has a fault.
    Fault,
}

/// What the threads of one block have in common.
struct Block<'l> {
    index: Dim3,
    /// Its place in the grid, x fastest.
    linear: u64,
    /// Its place in its cluster.
    rank: usize,
    launch: &'l Launch,
    observer: Option<&'l dyn Observer>,
    shared: SharedMemory,
    shadow: RefCell<SharedShadow>,
    global: &'l GlobalShadow,
    /// Barriers that the block has passed, and one.
    epoch: Cell<u32>,
    fault: RefCell<Option<EmulationError>>,
    /// The first read of a word that nobody had written. A write to it by another thread before the
    /// next barrier makes it a race, which is what gets reported then.
    unwritten: RefCell<Option<EmulationError>>,
}

thread_local! {
    /// The emulated thread that runs on this worker now.
    static CURRENT: Cell<*const Thread<'static>> = const { Cell::new(ptr::null()) };
    /// Stacks of ended threads, for the next block.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// The thread that runs on this worker.
///
/// # Panics
/// Outside a kernel: device functions have no meaning there.
#[inline]
pub(crate) fn current<'a>() -> &'a Thread<'a> {
    let thread = CURRENT.get();
    assert!(!thread.is_null(), "device functions run inside a kernel: launch it with emulate::run");
    // SAFETY: `run_block` sets the pointer to an element of its `threads`, which outlives every
    // coroutine of the block, and clears it before that vector is dropped. Device functions are
    // called from within such a coroutine only.
    unsafe { &*thread }
}

/// The barrier of a block.
#[track_caller]
pub(crate) fn barrier() {
    let thread = current();
    let place = thread.barriers.get();
    thread.barriers.set(place.wrapping_add(1));
    let launch = thread.block.launch;
    if launch.asynchronous && thread.drops("barrier.sync", Location::caller()) {
        return;
    }
    if launch.skip_barrier != Some(place) {
        thread.tell(|| Action::Barrier);
        thread.suspend(Pause::Barrier(Location::caller()));
    }
}

/// The block's shared memory, if a `T` fits it.
#[track_caller]
pub(crate) fn shared_memory<T>() -> *mut T {
    const { assert!(align_of::<T>() <= SHARED_ALIGN, "no device aligns shared memory so widely") };
    let thread = current();
    let bytes = thread.block.launch.shared_bytes;
    if size_of::<T>() > bytes {
        let site = thread.site(Location::caller());
        thread.stop(EmulationError::SharedTooSmall { site, needed: size_of::<T>(), bytes });
    }
    thread.block.shared.base.cast()
}

/// The address in the shared window of a place in the block's shared memory, or outside of it.
#[inline]
pub(crate) fn window_address(place: *const u8) -> u32 {
    let offset = place.addr().wrapping_sub(current().block.shared.base.addr());
    #[expect(clippy::cast_possible_truncation, reason = "the window is addressed modulo 2^32")]
    let offset = offset as u32;
    WINDOW_BASE.wrapping_add(offset)
}

/// The place at an address of the shared window, in the block's shared memory or outside of it.
#[inline]
pub(crate) fn window_place(address: u32) -> *mut u8 {
    let offset = address.wrapping_sub(WINDOW_BASE).cast_signed();
    current().block.shared.base.wrapping_offset(offset as isize)
}

/// Ends the launch where an access to global memory is wrong.
#[inline]
#[track_caller]
pub(crate) fn check_global<T>(address: usize, kind: AccessKind) {
    let thread = current();
    thread.tell(|| Action::Global { kind, address, bytes: size_of::<T>() });
    if thread.block.launch.checked && size_of::<T>() > 0 {
        let at = Location::caller();
        if let Err(error) = thread.global_access((address, size_of::<T>()), kind, at) {
            thread.stop(error);
        }
        thread.check_alignment::<T>(address, kind, at);
    }
}

/// Ends the launch where an access to shared memory is wrong.
#[inline]
#[track_caller]
pub(crate) fn check_shared<T>(address: usize, kind: AccessKind) {
    let thread = current();
    thread.tell(|| {
        let offset = address.wrapping_sub(thread.block.shared.base.addr());
        Action::Shared { kind, offset, bytes: size_of::<T>() }
    });
    if thread.block.launch.checked && size_of::<T>() > 0 {
        let at = Location::caller();
        if let Err(error) = thread.shared_access((address, size_of::<T>()), kind, at) {
            thread.stop(error);
        }
        thread.check_alignment::<T>(address, kind, at);
    }
}

impl Thread<'_> {
    /// Its number in the cluster.
    fn slot(&self) -> usize {
        let (x, y, z) = self.block_dim;
        self.block.rank * (x * y * z) as usize + self.linear as usize
    }

    fn suspend(&self, pause: Pause) {
        let yielder = self.yielder.get();
        // SAFETY: a coroutine stores its own yielder before it calls the kernel, and the yielder
        // lives as long as the coroutine; this runs inside that coroutine.
        unsafe { &*yielder }.suspend(pause);
    }

    /// Whether the launch lacks an instruction; the observer is told of it.
    fn drops(&self, name: &'static str, at: &'static Location<'static>) -> bool {
        let instruction = Instruction { name, at };
        self.tell(|| Action::Instruction(instruction));
        self.block.launch.dropped == Some(instruction)
    }

    /// Tells the observer, where there is one.
    #[inline]
    fn tell(&self, action: impl FnOnce() -> Action) {
        if let Some(observer) = self.block.observer {
            let Self { block_idx: block, thread_idx: thread, .. } = *self;
            observer.observe(Event { block, thread, action: action() });
        }
    }

    /// Ends the launch: this thread does not go on.
    #[cold]
    fn stop(&self, error: EmulationError) -> ! {
        // A read of what nobody wrote comes before whatever its value has led to.
        let race = matches!(error, EmulationError::Race { .. });
        let unwritten = if race { None } else { self.block.unwritten.take() };
        self.block.fault.replace(Some(unwritten.unwrap_or(error)));
        loop {
            // The block is dropped and never resumed.
            self.suspend(Pause::Fault);
        }
    }

    fn site(&self, at: &'static Location<'static>) -> Site {
        Site { block: self.block_idx, thread: self.thread_idx, at }
    }

    fn access(&self, kind: AccessKind, at: &'static Location<'static>) -> Access {
        Access { kind, site: self.site(at) }
    }

    #[inline]
    fn check_alignment<T>(&self, address: usize, kind: AccessKind, at: &'static Location<'static>) {
        if !address.is_multiple_of(align_of::<T>()) {
            let access = self.access(kind, at);
            self.stop(EmulationError::Misaligned { access, align: align_of::<T>() });
        }
    }

    fn global_access(
        &self,
        (address, size): (usize, usize),
        kind: AccessKind,
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let access = self.access(kind, at);
        let Launch { buffers, block: block_dim, grid, .. } = self.block.launch;
        let Some(buffer) = buffers.iter().find(|buffer| buffer.contains(address, size)) else {
            let nearest = buffers.iter().min_by_key(|buffer| buffer.distance(address));
            let none = Buffer { name: "no buffer", address: 0, bytes: 0, writable: false };
            let nearest = nearest.unwrap_or(&none);
            return Err(EmulationError::GlobalOutOfBounds {
                access,
                buffer: nearest.name,
                element: nearest.element(address, size),
                elements: nearest.bytes / size,
            });
        };
        if kind == AccessKind::Read {
            return Ok(());
        }
        let (buffer, element, writable) =
            (buffer.name, buffer.element(address, size), buffer.writable);
        if !writable {
            return Err(EmulationError::ReadOnly { access, buffer, element });
        }
        let me = (self.block.linear, self.linear);
        match self.block.global.write((address, size), me, at, kind == AccessKind::Atomic) {
            None => Ok(()),
            Some(first) => {
                let site = Site {
                    block: coordinates(first.block, *grid),
                    thread: coordinates(u64::from(first.thread), *block_dim),
                    at: first.at,
                };
                let first = Access { kind: AccessKind::Write, site };
                Err(EmulationError::OverlappingWrites { first, second: access, buffer, element })
            }
        }
    }

    fn shared_access(
        &self,
        (address, size): (usize, usize),
        kind: AccessKind,
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let block = self.block;
        let bytes = block.launch.shared_bytes;
        let offset = address.wrapping_sub(block.shared.base.addr());
        if offset.checked_add(size).is_none_or(|end| end > bytes) {
            let (access, offset) = (self.access(kind, at), offset as i64);
            return Err(EmulationError::SharedOutOfBounds { access, offset, bytes });
        }
        if block.launch.asynchronous {
            let act = match kind {
                AccessKind::Read => Act::Read,
                AccessKind::Write | AccessKind::Atomic => Act::Write,
            };
            let access = self.cluster.with(|state| {
                let (slot, stamp) = (self.slot(), state.stamp(self.slot(), at));
                state.access(self.blocks, act, (block.rank, offset, size), (slot, 1), stamp)
            });
            return access.unwrap_or(Ok(()));
        }
        let when = (self.linear, block.epoch.get());
        match block.shadow.borrow_mut().access(kind, (offset, size), when, at) {
            None => Ok(()),
            Some(Conflict::Uninitialised { byte: offset }) => {
                block.unwritten.borrow_mut().get_or_insert_with(|| EmulationError::Uninitialised {
                    access: self.access(kind, at),
                    offset,
                });
                Ok(())
            }
            Some(Conflict::Pending { byte, thread, at: started }) => {
                Err(self.too_early(kind, at, byte, (thread, started)))
            }
            Some(Conflict::Race { byte, kind: other_kind, other }) => {
                let thread = coordinates(u64::from(other.thread), block.launch.block);
                let site = Site { block: block.index, thread, at: other.at };
                let first = Access { kind: other_kind, site };
                let second = self.access(kind, at);
                Err(EmulationError::Race { first, second, offset: byte })
            }
        }
    }
}

/// The coordinates of a linear index, x fastest.
#[expect(
    clippy::cast_possible_truncation,
    reason = "each is below its own size, which has 32 bits"
)]
fn coordinates(linear: u64, (dx, dy, _): Dim3) -> Dim3 {
    let (dx, dy) = (u64::from(dx), u64::from(dy));
    ((linear % dx) as u32, (linear / dx % dy) as u32, (linear / dx / dy) as u32)
}

/// Shared memory of one block.
struct SharedMemory {
    base: *mut u8,
    layout: Layout,
}

impl SharedMemory {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(1), SHARED_ALIGN)
            .expect("invariant: launches are bounded by a device's shared memory");
        // SAFETY: the layout has a size of at least one byte.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Self { base, layout }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed once.
        unsafe { std::alloc::dealloc(self.base, self.layout) };
    }
}

/// Runs `kernel` once for each thread of the launch.
///
/// The kernel's own obligations (valid pointers, its launch extents) are the caller's: a kernel is
/// an `unsafe fn`, and the closure that calls it is where they are argued.
///
/// # Errors
/// [`EmulationError`]; blocks that were done by then have written their results.
pub fn run(launch: &Launch, kernel: impl Fn() + Sync) -> Result<(), EmulationError> {
    run_blocks(launch, None, &kernel)
}

/// The same, and tells an observer of every access to memory and every barrier.
///
/// # Errors
/// Those of [`run`].
pub fn run_observed(
    launch: &Launch,
    observer: &dyn Observer,
    kernel: impl Fn() + Sync,
) -> Result<(), EmulationError> {
    run_blocks(launch, Some(observer), &kernel)
}

fn run_blocks(
    launch: &Launch,
    observer: Option<&dyn Observer>,
    kernel: &(dyn Fn() + Sync),
) -> Result<(), EmulationError> {
    let (gx, gy, gz) = launch.grid;
    let blocks = u64::from(gx) * u64::from(gy) * u64::from(gz);
    let global = GlobalShadow::new();
    let clusters = blocks / u64::from(launch.cluster.max(1));
    (0..clusters)
        .into_par_iter()
        .try_for_each(|number| run_cluster(launch, observer, number, &global, kernel))
}
