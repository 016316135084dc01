//! Runs kernels on the CPU: the same source, block by block, with what a device does not check.
//!
//! Blocks run in parallel on rayon. The threads of a block are coroutines on one worker, resumed in
//! turn; a thread gives way only at a barrier or at an operation of its warp, so in between each runs
//! undisturbed. The order of threads is fixed, which makes a block repeatable.
//!
//! Accesses through the views of [`memory`](crate::memory) are checked against the buffers of the
//! [`Launch`] and against shadow state: for each word of shared memory who wrote and read it since
//! the last barrier, for each word of global memory who wrote it. What is wrong becomes an
//! [`EmulationError`] with the threads, the element and the source lines, and ends the launch.
//! Asynchronous copies take effect at the wait that covers them and at no other time. Since
//! a conflict is found from the barriers and not from the order in which threads happen to run, one
//! run finds it.

mod copies;
mod error;
mod observe;
mod shadow;
#[cfg(test)]
mod tests;
mod warp;

use std::alloc::{Layout, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::ptr;

use copies::Copies;
pub(crate) use copies::{commit_group, copy_async, wait_group};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
pub use error::{Access, AccessKind, EmulationError, Site, WarpFault};
pub use observe::{Action, Event, Observer};
use rayon::prelude::*;
use shadow::{Conflict, GlobalShadow, SharedShadow};
use warp::Lane;
pub(crate) use warp::{WarpOperation, lane, warp};

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
        }
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
    /// Its block has a fault.
    Fault,
}

/// What the threads of one block have in common.
struct Block<'l> {
    index: Dim3,
    /// Its place in the grid, x fastest.
    linear: u64,
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
    if thread.block.launch.skip_barrier != Some(place) {
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

/// Ends the launch at an instruction that the emulator does not model, whatever its operands.
#[cold]
#[track_caller]
pub(crate) fn not_emulated<Operands>(instruction: &'static str, _: Operands) -> ! {
    let thread = current();
    let site = thread.site(Location::caller());
    thread.stop(EmulationError::NotEmulated { site, instruction })
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
    fn suspend(&self, pause: Pause) {
        let yielder = self.yielder.get();
        // SAFETY: a coroutine stores its own yielder before it calls the kernel, and the yielder
        // lives as long as the coroutine; this runs inside that coroutine.
        unsafe { &*yielder }.suspend(pause);
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
        match self.block.global.write((address, size), me, at) {
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
    (0..blocks)
        .into_par_iter()
        .try_for_each(|linear| run_block(launch, observer, linear, &global, kernel))
}

fn run_block(
    launch: &Launch,
    observer: Option<&dyn Observer>,
    linear: u64,
    global: &GlobalShadow,
    kernel: &(dyn Fn() + Sync),
) -> Result<(), EmulationError> {
    // SAFETY: only the lifetime changes. Coroutines ask for 'static closures, but every coroutine
    // that holds this reference has ended or is dropped before this function returns.
    let kernel: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(kernel) };
    let block = Block {
        index: coordinates(linear, launch.grid),
        linear,
        launch,
        observer,
        shared: SharedMemory::new(launch.shared_bytes),
        shadow: RefCell::new(SharedShadow::new(if launch.checked {
            launch.shared_bytes
        } else {
            0
        })),
        global,
        epoch: Cell::new(1),
        fault: RefCell::default(),
        unwritten: RefCell::default(),
    };
    let (bx, by, bz) = launch.block;
    let threads: Vec<Thread<'_>> = (0..bx * by * bz)
        .map(|linear| Thread {
            thread_idx: coordinates(u64::from(linear), launch.block),
            block_idx: block.index,
            block_dim: launch.block,
            grid_dim: launch.grid,
            linear,
            block: &block,
            yielder: Cell::new(ptr::null()),
            barriers: Cell::new(0),
            lane: Lane::default(),
            copies: Copies::default(),
        })
        .collect();
    let mut running = Vec::with_capacity(threads.len());
    for thread in &threads {
        let stack = match STACKS.with_borrow_mut(Vec::pop) {
            Some(stack) => stack,
            None => DefaultStack::new(STACK_BYTES).map_err(|error| EmulationError::Stack {
                threads: threads.len(),
                reason: error.to_string(),
            })?,
        };
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Pause>, ()| {
            current().yielder.set(yielder);
            kernel();
        });
        running.push((thread, coroutine));
    }

    let outer = CURRENT.get();
    let result = run_to_the_end(&block, running);
    CURRENT.set(outer);
    result
}

type Running<'a> = Vec<(&'a Thread<'a>, Coroutine<(), Pause, (), DefaultStack>)>;

/// Resumes every thread up to its next barrier until all have ended.
fn run_to_the_end(block: &Block<'_>, mut running: Running<'_>) -> Result<(), EmulationError> {
    let mut ended = None;
    let mut finished = 0;
    while !running.is_empty() {
        let mut waiting = Vec::with_capacity(running.len());
        // The first thread that waits, and the first that waits somewhere else.
        let mut first: Option<Site> = None;
        let mut other: Option<Site> = None;
        let before = finished;
        let mut in_warps = Running::new();
        while !running.is_empty() {
            for (thread, mut coroutine) in running {
                CURRENT.set(ptr::from_ref(thread).cast());
                match coroutine.resume(()) {
                    CoroutineResult::Yield(Pause::Barrier(at)) => {
                        let site = thread.site(at);
                        if first.get_or_insert(site).at != at {
                            other.get_or_insert(site);
                        }
                        waiting.push((thread, coroutine));
                    }
                    CoroutineResult::Yield(Pause::Warp) => in_warps.push((thread, coroutine)),
                    CoroutineResult::Yield(Pause::Fault) => {
                        let fault = block.fault.take();
                        // Dropped here while the thread is still the current one: its stack unwinds.
                        return Err(
                            fault.expect("invariant: a thread that stops leaves its reason")
                        );
                    }
                    CoroutineResult::Return(()) => {
                        finished += 1;
                        ended.get_or_insert(thread.thread_idx);
                        STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
                    }
                }
            }
            running = warp::meet(&mut in_warps)?;
        }
        // Warps may have let some overtake others.
        waiting.sort_unstable_by_key(|(thread, _)| thread.linear);
        if let Some(unwritten) = block.unwritten.take() {
            return Err(unwritten);
        }
        if let (Some(waits), Some(ended), true) = (first, ended, finished > before) {
            let waiting = waiting.len();
            return Err(EmulationError::BarrierDivergence { waits, ended, waiting, finished });
        }
        if let (Some(first), Some(second), true) = (first, other, block.launch.checked) {
            return Err(EmulationError::DifferentBarriers { first, second });
        }
        block.epoch.set(block.epoch.get() + 1);
        running = waiting;
    }
    Ok(())
}
