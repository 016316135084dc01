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

mod buffer;
mod cells;
mod clock;
mod cluster;
mod copies;
mod defect;
mod error;
mod global;
mod mbarrier;
mod numbers;
mod observe;
mod parts;
mod products;
mod remote;
mod schedule;
mod shadow;
mod sites;
mod stack;
mod tags;
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

pub use buffer::Buffer;
use cells::Act;
use cluster::Cluster;
use copies::Copies;
pub(crate) use copies::{commit_group, copy_async, wait_group};
use corosensei::Yielder;
pub use defect::{Change, Defect};
pub use error::{Access, AccessKind, EmulationError, Site, WarpFault};
use global::{GlobalShadow, Who};
pub(crate) use mbarrier::{fence_init, mbarrier_arrive, mbarrier_init, mbarrier_wait};
pub(crate) use numbers::{atomic, bf16_pair, check_value, f16_pair, f16_value};
pub use observe::{Action, BarrierState, Event, Instruction, Observer, Scene, Waiting};
pub(crate) use parts::Product;
pub(crate) use products::{commit_products, multiply, wait_products};
use rayon::prelude::*;
pub(crate) use remote::{
    cluster_arrive, cluster_rank, cluster_size, cluster_sync, place_in, read_cluster,
};
use schedule::run_cluster;
use shadow::{Conflict, SharedShadow};
pub(crate) use tensor_core::Factor;
pub use tensor_map::{Matrices, Swizzle, TensorMap};
pub(crate) use transfer::{
    bulk_copy, commit_stores, fence_proxy_async, map_of_parameter, tensor_load, tensor_prefetch,
    tensor_store, wait_stores,
};
use warp::Lane;
pub(crate) use warp::{
    WarpOperation, distribute_in_warp, lane, multiply_halves_in_warp, multiply_in_warp, warp,
};
pub(crate) use warpgroup::{named_barrier, set_registers, stmatrix_x4};

/// Alignment of a block's shared memory: the period of the widest swizzle.
const SHARED_ALIGN: usize = 1024;
/// Address of a block's shared memory in its shared window, of which a device keeps the first bytes.
const WINDOW_BASE: u32 = 1024;

/// Three extents or coordinates: x, y, z.
pub type Dim3 = (u32, u32, u32);

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

/// Rules of the memory model's text that libraries in wide use do not keep, and devices do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strict {
    /// Waits are at the scope of the block: an arrival by another block of the cluster, or a copy that it has started,
    /// tells them nothing.
    pub scopes: bool,
    /// The threads of a block use an `mbarrier` that another has initialised only behind its `fence.mbarrier_init`.
    pub init: bool,
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
    /// A defect of an instruction of compute capability 9.0, or of the barrier of a block in an asynchronous launch.
    pub defect: Option<Defect>,
    /// Blocks of a cluster, along x; the grid has whole ones.
    pub cluster: u32,
    /// Whether the kernel uses the instructions of compute capability 9.0. Accesses to shared memory are then
    /// ordered by whatever threads wait for, otherwise by the block's barriers alone, which takes less time.
    pub asynchronous: bool,
    /// The tensor maps, in the order of the entry's first parameters.
    pub maps: Vec<TensorMap>,
    /// The order of events.
    pub order: Order,
    /// What is checked beyond the usual.
    pub strict: Strict,
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
            defect: None,
            cluster: 1,
            asynchronous: false,
            maps: Vec::new(),
            order: Order::Late,
            strict: Strict::default(),
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

/// Where in memory an access to global memory goes; ends the launch where it is wrong.
#[inline]
#[track_caller]
pub(crate) fn check_global<T>(place: *const T, kind: AccessKind) -> *const T {
    let thread = current();
    let at = Location::caller();
    let address = place.addr();
    let launch = thread.block.launch;
    let found = buffer::find(&launch.buffers, address);
    let target = found.map_or(address, |number| launch.buffers[number].in_memory(address));
    thread.tell(|| Action::Global { kind, address: target, bytes: size_of::<T>() });
    if launch.checked && size_of::<T>() > 0 {
        let access = (found, address, size_of::<T>());
        if let Err(error) = thread.global_access(access, kind, at) {
            thread.stop(error);
        }
        thread.check_alignment::<T>(address, kind, at);
    }
    if target == address { place } else { std::ptr::with_exposed_provenance(target) }
}

/// Ends the launch where an access to shared memory is wrong.
#[inline]
#[track_caller]
pub(crate) fn check_shared<T>(place: *const T, kind: AccessKind) -> *const T {
    let thread = current();
    let address = place.addr();
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
    place
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
        self.block.launch.defect == Some(Defect { instruction, change: Change::Missing })
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

    /// What is wrong with an access to global memory by this thread. `found` is the buffer of the address.
    fn global_access(
        &self,
        (found, address, size): (Option<usize>, usize, usize),
        kind: AccessKind,
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let launch = self.block.launch;
        let site = || self.site(at);
        let number = check_place(launch, (found, address, size), kind, site)?;
        let buffer = &launch.buffers[number];
        if !buffer.is_watched() {
            return Ok(());
        }
        // Of several numbers that are read at once some may be used by nobody: where rows end.
        if kind != AccessKind::Write && buffer.is_unwritten(address, size) {
            let (access, element) = (self.access(kind, at), buffer.element(address, size));
            let buffer = buffer.name;
            return Err(EmulationError::UninitialisedGlobal { access, buffer, element });
        }
        if !launch.asynchronous {
            let epoch = self.block.epoch.get();
            let who = Who { cluster: self.block.linear, thread: self.linear as usize, epoch, at };
            let ordered = |_: usize, other: u32| other != epoch;
            return watch(self.block, (number, address, size), kind, (&who, site), ordered);
        }
        let watched = self.cluster.with(|state| {
            let place = (number, address, size);
            state.watch_global(self.blocks, self.slot(), place, kind, at)
        });
        watched.unwrap_or(Ok(()))
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

/// The buffer in which an access to global memory is, in a line of it where it has lines, and which takes writes if it
/// is one.
fn check_place(
    launch: &Launch,
    (found, address, size): (Option<usize>, usize, usize),
    kind: AccessKind,
    site: impl Fn() -> Site,
) -> Result<usize, EmulationError> {
    let buffers = &launch.buffers;
    let inside = found.filter(|&number| buffers[number].contains(address, size));
    let Some(number) = inside else {
        let nearest = found.map(|number| &buffers[number]);
        let nearest =
            nearest.or_else(|| buffers.iter().min_by_key(|buffer| buffer.distance(address)));
        let (buffer, element, elements) = nearest.map_or(("no buffer", 0, 0), |buffer| {
            (buffer.name, buffer.element(address, size), buffer.bytes / size)
        });
        let access = Access { kind, site: site() };
        return Err(EmulationError::GlobalOutOfBounds { access, buffer, element, elements });
    };
    let buffer = &buffers[number];
    let access = || Access { kind, site: site() };
    if kind != AccessKind::Read && !buffer.writable {
        let element = buffer.element(address, size);
        return Err(EmulationError::ReadOnly { access: access(), buffer: buffer.name, element });
    }
    if let Some([line, byte]) = buffer.between_lines(address, size) {
        return Err(EmulationError::Padding { access: access(), buffer: buffer.name, line, byte });
    }
    Ok(number)
}

/// Records an access to global memory and says what is wrong with it; `ordered` whether one by another thread comes
/// before it.
fn watch(
    block: &Block<'_>,
    (number, address, size): (usize, usize, usize),
    kind: AccessKind,
    (who, site): (&Who, impl Fn() -> Site),
    ordered: impl Fn(usize, u32) -> bool,
) -> Result<(), EmulationError> {
    let launch = block.launch;
    let of = &launch.buffers[number];
    let access = || Access { kind, site: site() };
    let place = (number, address - of.address, size);
    if let Some(before) = block.global.access(place, kind, who, ordered) {
        let ((cluster, slot), (x, y, z)) = (before.who, launch.block);
        let each = u64::from(x) * u64::from(y) * u64::from(z);
        let first = Site {
            block: coordinates(
                cluster * u64::from(launch.cluster.max(1)) + slot as u64 / each,
                launch.grid,
            ),
            thread: coordinates(slot as u64 % each, launch.block),
            at: before.at,
        };
        let (first, second) = (Access { kind: before.kind, site: first }, access());
        let (buffer, element) = (of.name, of.element(address, size));
        return Err(if before.overlap {
            EmulationError::OverlappingWrites { first, second, buffer, element }
        } else {
            EmulationError::GlobalRace { first, second, buffer, element }
        });
    }
    if kind == AccessKind::Write {
        of.note_written(address, size);
    }
    Ok(())
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
    let watched = if launch.checked { &launch.buffers[..] } else { &[] };
    let global = GlobalShadow::new(watched);
    let clusters = blocks / u64::from(launch.cluster.max(1));
    (0..clusters)
        .into_par_iter()
        .try_for_each(|number| run_cluster(launch, observer, number, &global, kernel))
}
