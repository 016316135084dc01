//! Runs kernels on the CPU: the same source, block by block.
//!
//! Blocks run in parallel on rayon. The threads of a block are coroutines on one worker, resumed in
//! turn; a thread gives way only at a barrier, so between two barriers each runs undisturbed. The
//! order of threads is fixed, which makes a run repeatable.

use std::alloc::{Layout, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rayon::prelude::*;

mod observe;

pub use observe::{Action, Event, Observer};

/// Bytes of stack for one emulated thread.
const STACK_BYTES: usize = 64 * 1024;
/// Alignment of a block's shared memory, as wide as any device aligns it.
const SHARED_ALIGN: usize = 128;

/// Three extents or coordinates: x, y, z.
pub type Dim3 = (u32, u32, u32);

/// The extents of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y and z.
    pub grid: Dim3,
    /// Threads of a block along x, y and z.
    pub block: Dim3,
    /// Bytes of shared memory of a block.
    pub shared_bytes: usize,
}

/// Why a launch could not be emulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmulationError {
    /// Some threads of a block wait at a barrier that others never reach.
    #[error(
        "barrier divergence in block {block:?}: {waiting} threads wait at a barrier \
         after {finished} threads have ended"
    )]
    BarrierDivergence {
        /// The block.
        block: Dim3,
        /// Threads at the barrier.
        waiting: usize,
        /// Threads that ended without it.
        finished: usize,
    },
    /// There is no memory for a thread's stack.
    #[error("no memory for the stacks of {threads} emulated threads: {reason}")]
    Stack {
        /// Threads of a block.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

/// What a thread can ask about itself.
pub(crate) struct Thread {
    pub(crate) thread_idx: Dim3,
    pub(crate) block_idx: Dim3,
    pub(crate) block_dim: Dim3,
    pub(crate) grid_dim: Dim3,
    shared: *mut u8,
    shared_bytes: usize,
    yielder: Cell<*const Yielder<(), ()>>,
    observer: Option<&'static dyn Observer>,
}

impl Thread {
    /// Tells the observer, where there is one.
    fn tell(&self, action: Action) {
        if let Some(observer) = self.observer {
            let Self { block_idx: block, thread_idx: thread, .. } = *self;
            observer.observe(Event { block, thread, action });
        }
    }
}

thread_local! {
    /// The emulated thread that runs on this worker now.
    static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
    /// Stacks of ended threads, for the next block.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// The thread that runs on this worker.
///
/// # Panics
/// Outside a kernel: device functions have no meaning there.
pub(crate) fn current<'a>() -> &'a Thread {
    let thread = CURRENT.get();
    assert!(!thread.is_null(), "device functions run inside a kernel: launch it with emulate::run");
    // SAFETY: `run_block` sets the pointer to an element of its `threads`, which outlives every
    // coroutine of the block, and clears it before that vector is dropped. Device functions are
    // called from within such a coroutine only.
    unsafe { &*thread }
}

pub(crate) fn barrier() {
    let thread = current();
    thread.tell(Action::Barrier);
    let yielder = thread.yielder.get();
    // SAFETY: a coroutine stores its own yielder before it calls the kernel, and the yielder lives
    // as long as the coroutine; this runs inside that coroutine.
    unsafe { &*yielder }.suspend(());
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

pub(crate) fn check_global<T>(address: usize, kind: AccessKind) {
    current().tell(Action::Global { kind, address, bytes: size_of::<T>() });
}

pub(crate) fn check_shared<T>(address: usize, kind: AccessKind) {
    let thread = current();
    let offset = address.wrapping_sub(thread.shared.addr());
    thread.tell(Action::Shared { kind, offset, bytes: size_of::<T>() });
}

pub(crate) fn shared_memory<T>() -> *mut T {
    let thread = current();
    assert!(
        size_of::<T>() <= thread.shared_bytes && align_of::<T>() <= SHARED_ALIGN,
        "the kernel uses {} bytes of shared memory, its launch provides {}",
        size_of::<T>(),
        thread.shared_bytes
    );
    thread.shared.cast()
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
    (0..blocks).into_par_iter().try_for_each(|linear| {
        let x = linear % u64::from(gx);
        let y = linear / u64::from(gx) % u64::from(gy);
        let z = linear / u64::from(gx) / u64::from(gy);
        run_block(launch, (x as u32, y as u32, z as u32), observer, kernel)
    })
}

fn run_block(
    launch: &Launch,
    block_idx: Dim3,
    observer: Option<&dyn Observer>,
    kernel: &(dyn Fn() + Sync),
) -> Result<(), EmulationError> {
    // SAFETY: only the lifetime changes. Coroutines ask for 'static closures, but every coroutine
    // that holds this reference has ended or is dropped before this function returns.
    let kernel: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(kernel) };
    // SAFETY: likewise: the threads that hold it are dropped before this function returns.
    let observer: Option<&'static dyn Observer> = unsafe { std::mem::transmute(observer) };
    let shared = SharedMemory::new(launch.shared_bytes);
    let (bx, by, bz) = launch.block;
    let threads: Vec<Thread> = (0..bz)
        .flat_map(|z| (0..by).flat_map(move |y| (0..bx).map(move |x| (x, y, z))))
        .map(|thread_idx| Thread {
            thread_idx,
            block_idx,
            block_dim: launch.block,
            grid_dim: launch.grid,
            shared: shared.base,
            shared_bytes: launch.shared_bytes,
            yielder: Cell::new(ptr::null()),
            observer,
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
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            current().yielder.set(yielder);
            kernel();
        });
        running.push((thread, coroutine));
    }

    let outer = CURRENT.get();
    let result = run_to_the_end(block_idx, running);
    CURRENT.set(outer);
    result
}

type Running<'a> = Vec<(&'a Thread, Coroutine<(), (), (), DefaultStack>)>;

/// Resumes every thread up to its next barrier until all have ended.
fn run_to_the_end(block: Dim3, mut running: Running<'_>) -> Result<(), EmulationError> {
    let mut finished = 0;
    while !running.is_empty() {
        let mut waiting = Vec::with_capacity(running.len());
        let before = finished;
        for (thread, mut coroutine) in running {
            CURRENT.set(thread);
            match coroutine.resume(()) {
                CoroutineResult::Yield(()) => waiting.push((thread, coroutine)),
                CoroutineResult::Return(()) => {
                    finished += 1;
                    STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
                }
            }
        }
        if !waiting.is_empty() && finished > before {
            return Err(EmulationError::BarrierDivergence {
                block,
                waiting: waiting.len(),
                finished,
            });
        }
        running = waiting;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{shared_array, thread};

    #[test]
    fn every_thread_of_every_block_runs_once() {
        let launch = Launch { grid: (3, 2, 2), block: (4, 5, 1), shared_bytes: 0 };
        let counts: Vec<AtomicU32> = (0..3 * 2 * 2 * 20).map(|_| AtomicU32::new(0)).collect();
        run(&launch, || {
            let (x, y) = thread::index_2d();
            let z = thread::block_idx_z();
            assert_eq!((thread::grid_dim_x(), thread::block_dim_y()), (3, 5));
            counts[((z * 10 + y) * 12 + x) as usize].fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    /// Each thread reads what its neighbour wrote before the barrier, twice over.
    #[test]
    fn a_barrier_makes_shared_writes_visible() {
        let launch = Launch { grid: (4, 1, 1), block: (64, 1, 1), shared_bytes: 64 * 4 };
        let wrong = AtomicU32::new(0);
        run(&launch, || {
            let me = thread::thread_idx_x() as usize;
            // SAFETY: the launch provides 64 words; each is written before the barrier that
            // precedes its reads, and indices stay below 64.
            unsafe {
                let words = shared_array![u32; 64];
                for round in 0..2 {
                    words.wrapping_add(me).write(round * 100 + me as u32);
                    thread::sync_threads();
                    let neighbour = (me + 1) % 64;
                    if words.wrapping_add(neighbour).read() != round * 100 + neighbour as u32 {
                        wrong.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sync_threads();
                }
            }
        })
        .unwrap();
        assert_eq!(wrong.into_inner(), 0);
    }

    /// Accesses and barriers of a thread come in its order, and each says where.
    #[test]
    fn an_observer_sees_every_access_and_barrier() {
        #[derive(Default)]
        struct Log(std::sync::Mutex<Vec<Event>>);
        impl Observer for Log {
            fn observe(&self, event: Event) {
                self.0.lock().unwrap().push(event);
            }
        }
        let launch = Launch { grid: (2, 1, 1), block: (2, 1, 1), shared_bytes: 8 };
        let (input, log) = ([3u32, 4], Log::default());
        run_observed(&launch, &log, || {
            let me = thread::thread_idx_x() as usize;
            // SAFETY: two threads, two words in each memory, written before the barrier.
            unsafe {
                let words = shared_array![u32; 2];
                let mine = crate::memory::global(input.as_ptr()).wrapping_add(me);
                words.wrapping_add(me).write(mine.read());
                thread::sync_threads();
                assert_eq!(words.wrapping_add(1 - me).read(), input[1 - me]);
            }
        })
        .unwrap();
        let events = log.0.into_inner().unwrap();
        assert_eq!(events.len(), 2 * 2 * 4);
        let of = |block: u32, thread: u32| -> Vec<Action> {
            let mine = |event: &&Event| event.block.0 == block && event.thread.0 == thread;
            events.iter().filter(mine).map(|event| event.action).collect()
        };
        for block in 0..2 {
            for me in 0..2usize {
                let address = input.as_ptr().addr() + 4 * me;
                assert_eq!(
                    of(block, me as u32),
                    [
                        Action::Global { kind: AccessKind::Read, address, bytes: 4 },
                        Action::Shared { kind: AccessKind::Write, offset: 4 * me, bytes: 4 },
                        Action::Barrier,
                        Action::Shared { kind: AccessKind::Read, offset: 4 * (1 - me), bytes: 4 },
                    ]
                );
            }
        }
    }

    #[test]
    fn a_barrier_that_some_threads_miss_is_an_error() {
        let launch = Launch { grid: (1, 1, 1), block: (8, 1, 1), shared_bytes: 0 };
        let result = run(&launch, || {
            if thread::thread_idx_x() < 5 {
                // SAFETY: none: this is the mistake under test.
                unsafe { thread::sync_threads() };
            }
        });
        assert_eq!(
            result,
            Err(EmulationError::BarrierDivergence { block: (0, 0, 0), waiting: 5, finished: 3 })
        );
    }
}
