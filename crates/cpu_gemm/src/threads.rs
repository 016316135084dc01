//! One piece of work on several threads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rayon::ThreadPool;

/// Runs `work` on the caller's thread, and meanwhile on others of the pool, that many threads at most; returns when all
/// have ended. What is to be done is drawn by those who take part, so that nothing is left when the caller's has ended:
/// who has not begun by then, since it had to wake or works for somebody else, is not waited for.
///
/// Who is done stays awake for some microseconds: to wake a thread takes as long as a small product, and the next one may
/// follow soon.
pub fn run_on<W: Fn() + Sync>(pool: &ThreadPool, threads: usize, work: W) {
    if threads <= 1 {
        return work();
    }
    let gate = Arc::new(Gate::default());
    CALLS.fetch_add(1, Ordering::Relaxed);
    let guard = CloseOnDrop(&gate);
    for _ in 1..threads {
        let helper = Helper { gate: Arc::clone(&gate), work: Erased::of(&work) };
        pool.spawn(move || helper.take_part());
    }
    work();
    drop(guard);
    let panic = gate.lock().panic.take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Where those who take part in a call are counted.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    /// Of those who have entered, how many have not left: what is waited for without the lock.
    inside: AtomicUsize,
    /// Somebody has left.
    left: Condvar,
}

#[derive(Default)]
struct GateState {
    /// Nobody enters any more.
    is_closed: bool,
    /// What stopped one of them.
    panic: Option<Box<dyn Any + Send>>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> bool {
        let state = self.lock();
        if !state.is_closed {
            self.inside.fetch_add(1, Ordering::Relaxed);
        }
        !state.is_closed
    }

    fn leave(&self, panic: Option<Box<dyn Any + Send>>) {
        let mut state = self.lock();
        if panic.is_some() {
            state.panic = panic;
        }
        // What was done inside is seen by who reads this count.
        self.inside.fetch_sub(1, Ordering::Release);
        self.left.notify_one();
    }

    fn is_empty(&self) -> bool {
        self.inside.load(Ordering::Acquire) == 0
    }

    /// Lets nobody enter any more, and waits until all have left.
    fn close(&self) {
        self.lock().is_closed = true;
        stay_awake_while(|| !self.is_empty());
        let mut state = self.lock();
        while !self.is_empty() {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Closes the gate also where work panics: what the others work on is the caller's.
struct CloseOnDrop<'a>(&'a Gate);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Work of a type that is not named, by its address.
struct Erased {
    work: *const (),
    run: unsafe fn(*const ()),
}

// SAFETY: work that is made of a reference can be run on any thread, since it is `Sync`.
unsafe impl Send for Erased {}

impl Erased {
    fn of<W: Fn() + Sync>(work: &W) -> Self {
        /// # Safety
        /// There is a `W` at the address.
        unsafe fn run<W: Fn()>(work: *const ()) {
            // SAFETY: the caller's promise.
            let work = unsafe { &*work.cast::<W>() };
            work();
        }
        Self { work: std::ptr::from_ref(work).cast(), run: run::<W> }
    }
}

/// Who takes part, on a thread of the pool.
struct Helper {
    gate: Arc<Gate>,
    work: Erased,
}

impl Helper {
    fn take_part(self) {
        let Self { gate, work } = self;
        if !gate.enter() {
            return;
        }
        let calls = CALLS.load(Ordering::Relaxed);
        // SAFETY: the caller's work is there, since it does not return before all who have entered have left.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe { (work.run)(work.work) }));
        gate.leave(outcome.err());
        stay_awake_while(|| CALLS.load(Ordering::Relaxed) == calls);
    }
}

/// How many calls there have been: who stays awake goes to where it may find work when there is one more.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Turns of staying awake, and how many of them pass between two offers of the core to another thread: it
/// may be one that is waited for, where there are more threads than cores.
const AWAKE: usize = 1 << 12;
const TURNS_PER_OFFER: usize = 1 << 7;

fn stay_awake_while(nothing_new: impl Fn() -> bool) {
    for turn in 1..=AWAKE {
        if !nothing_new() {
            break;
        }
        if turn % TURNS_PER_OFFER == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// The numbers below `count` that other threads have not drawn from the counter, one at a time.
pub(crate) fn tickets(next: &AtomicUsize, count: usize) -> impl Iterator<Item = usize> {
    let draw = move || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&ticket| ticket < count);
    std::iter::from_fn(draw)
}

/// Turns of waiting that only spin: what is waited for ends within microseconds, if its thread runs.
const SPINS: u32 = 1 << 12;

/// Waits until a counter has come to a number, and sees what was written before it did.
pub(crate) fn wait(counter: &AtomicUsize, number: usize) {
    let mut turns = 0;
    while counter.load(Ordering::Acquire) < number {
        turns += 1;
        // More threads than cores: let the one that is waited for run.
        if turns < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

#[cfg(test)]
mod tests {
    use rayon::ThreadPoolBuilder;

    use super::*;

    #[test]
    fn who_has_begun_is_waited_for_and_nobody_else() {
        for (in_pool, threads) in [(1, 1), (3, 3), (1, 8), (2, 33)] {
            let pool = ThreadPoolBuilder::new().num_threads(in_pool).build().expect("a pool");
            let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let caller = std::thread::current().id();
            run_on(&pool, threads, || {
                begun.fetch_add(1, Ordering::Relaxed);
                // The others end long after the caller, so that it gives up staying awake.
                let others = u64::from(std::thread::current().id() != caller);
                std::thread::sleep(std::time::Duration::from_millis(1 + 4 * others));
                ended.fetch_add(1, Ordering::Relaxed);
            });
            let counts = (begun.load(Ordering::Relaxed), ended.load(Ordering::Relaxed));
            assert_eq!(counts.0, counts.1, "{threads} threads, {in_pool} in the pool");
            assert!((1..=threads.min(in_pool + 1)).contains(&counts.0), "{counts:?}");
            // Those who come too late find the gate closed.
            drop(pool);
            assert_eq!(begun.into_inner(), counts.0);
        }
    }

    #[test]
    fn all_that_can_be_drawn_is_done_while_the_pool_is_busy() {
        let pool = ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
        let done = AtomicUsize::new(0);
        pool.in_place_scope(|scope| {
            scope.spawn(|_| wait(&done, 100));
            let next = AtomicUsize::new(0);
            run_on(&pool, 2, || {
                for _ in tickets(&next, 100) {
                    done.fetch_add(1, Ordering::Release);
                }
            });
        });
        assert_eq!(done.into_inner(), 100);
    }

    #[test]
    fn a_panic_reaches_the_caller_from_any_thread() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
        let caller = std::thread::current().id();
        for of_caller in [true, false] {
            let others = AtomicUsize::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                run_on(&pool, 3, || {
                    let is_caller = std::thread::current().id() == caller;
                    if !is_caller {
                        others.fetch_add(1, Ordering::Release);
                    }
                    wait(&others, 1);
                    assert!(is_caller != of_caller, "as it should");
                });
            }));
            assert!(outcome.is_err());
        }
    }
}
