//! On how many threads a routine runs, and what a fork does to them.
//!
//! Nothing happens when the library is loaded. Small products run on the caller's thread; the first that pays for
//! more starts a pool, which lives as long as the process. A pool does not survive a fork: the child forgets its
//! parent's, and whatever locks others may have held in it, and starts its own.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use tessera::{CpuContext, CpuUnits};

use crate::device::told;

/// What says how many threads there are to be, the first that is a number before all others.
const VARIABLES: [&str; 6] = [
    "TESSERA_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "OMP_NUM_THREADS",
];

/// Multiply-adds from which on a second thread may pay: below, no pool is started.
const LEAST_SHARED_WORK: usize = 2 << 20;

/// What a process computes with.
struct State {
    alone: CpuContext,
    /// `None` where the system refused the threads.
    pool: OnceLock<Option<CpuContext>>,
    /// Callers that are using the pool.
    callers: AtomicUsize,
}

/// This process' state; null until it is first needed, and again in a child.
static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());
/// How many threads the program asked for; 0 where it did not.
static ASKED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How many threads this thread asked for its own products; 0 where it did not.
    static ASKED_HERE: Cell<usize> = const { Cell::new(0) };
}

fn state() -> &'static State {
    let at = STATE.load(Ordering::Acquire);
    // SAFETY: what is not null is a state that was leaked below.
    match unsafe { at.as_ref() } {
        Some(state) => state,
        None => new_state(),
    }
}

#[cold]
fn new_state() -> &'static State {
    forget_in_children();
    let (alone, pool) = (CpuContext::alone().with_units(units()), OnceLock::new());
    let new = Box::into_raw(Box::new(State { alone, pool, callers: AtomicUsize::new(0) }));
    let there = STATE.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
    let at = match there {
        Ok(_) => new,
        Err(first) => {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
            first
        }
    };
    // SAFETY: either was leaked: the one above, or that of a thread that was faster.
    unsafe { &*at }
}

/// Has children forget the state: its threads are not theirs, and its locks may be held by nobody.
fn forget_in_children() {
    extern "C" fn forget() {
        STATE.store(null_mut(), Ordering::Release);
        crate::device::forget();
    }
    static ONCE: AtomicUsize = AtomicUsize::new(0);
    if ONCE.swap(1, Ordering::Relaxed) == 0 {
        // SAFETY: the handler stores to atomics, which a child may do, and is never unloaded. Where the system has
        // no memory for it, a child hangs that multiplies in parallel; nothing else is lost.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    }
}

/// The number of threads that variables and system suggest, read once.
fn by_environment() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let number = |name: &&str| std::env::var(name).ok().as_deref().and_then(threads_of);
        let available = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        VARIABLES.iter().find_map(number).unwrap_or_else(available)
    })
}

/// The number of threads that a variable's text says: of a list for nested levels, as OpenMP has it, the first.
fn threads_of(text: &str) -> Option<usize> {
    let first = text.split(',').next().unwrap_or_default();
    first.trim().parse().ok().filter(|&threads| threads > 0)
}

/// Says which units products may use; as in the program.
const UNITS: &str = "TESSERA_CPU_UNITS";

/// Which units they may use: all, unless a variable says otherwise.
fn units() -> CpuUnits {
    static NAMED: OnceLock<CpuUnits> = OnceLock::new();
    *NAMED.get_or_init(|| {
        let name = std::env::var(UNITS).unwrap_or_default();
        let said = match name.trim() {
            "" => Ok(CpuUnits::All),
            name => name.parse(),
        };
        told(UNITS, said, CpuUnits::All)
    })
}

/// How many threads this thread's products may use.
fn wanted() -> usize {
    let or = |asked: usize, otherwise: fn() -> usize| if asked > 0 { asked } else { otherwise() };
    let everywhere = || or(ASKED.load(Ordering::Relaxed), by_environment);
    // While a thread ends its values may be gone.
    let here = ASKED_HERE.try_with(Cell::get).unwrap_or(0);
    if here > 0 { here } else { everywhere() }
}

/// Whether the caller is inside a parallel region of OpenMP, whose threads have the cores already.
fn in_parallel_region() -> bool {
    static FOUND: AtomicPtr<libc::c_void> = AtomicPtr::new(null_mut());
    let mut at = FOUND.load(Ordering::Relaxed);
    if at.is_null() {
        // SAFETY: a name that ends with a zero byte.
        at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"omp_in_parallel".as_ptr()) };
        FOUND.store(at, Ordering::Relaxed);
    }
    if at.is_null() {
        return false;
    }
    // SAFETY: the function by this name is that of OpenMP's interface, which takes nothing and gives an int.
    let omp_in_parallel: extern "C" fn() -> libc::c_int = unsafe { std::mem::transmute(at) };
    omp_in_parallel() != 0
}

/// The pool of the process, with as many threads as may ever be asked for by its variables.
fn pool(state: &State, threads: usize) -> Option<&CpuContext> {
    state.pool.get_or_init(|| with_signals_blocked(|| start(threads))).as_ref()
}

/// That many threads, of which the caller's is one; a pool has a thread at least.
fn start(threads: usize) -> Option<CpuContext> {
    let of = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads((of.get() - 1).max(1))
        .thread_name(|index| format!("tessera-blas-{index}"))
        .start_handler(|_| default_rounding())
        .build();
    pool.ok().map(|pool| CpuContext::with_workers(pool).limited_to(of).with_units(units()))
}

/// Threads begin with the rounding and the exceptions of the one that starts them, which may have changed them.
fn default_rounding() {
    #[cfg(target_arch = "x86_64")]
    {
        let default = 0x1f80u32;
        // SAFETY: the register's value at a program's start; no Rust code has run on this thread that relies on another.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const default, options(nostack)) };
    }
}

/// Threads begin with the signals blocked that are blocked in the one that starts them: an interrupt is for the
/// program's own.
pub(crate) fn with_signals_blocked<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: a set of signals is plain bits; it is filled below.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mut before = all;
    // SAFETY: the set is this function's own.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both sets are, and the mask is put back below.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    let started = start();
    // SAFETY: the mask from before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    started
}

/// One caller of the pool; several share its threads.
struct Caller<'a>(&'a AtomicUsize);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the calling thread computes with alone.
#[inline]
pub(crate) fn alone() -> &'static CpuContext {
    &state().alone
}

/// All threads that products may ever use, and one at least beside the caller's; `None` where the system refused them.
pub(crate) fn all() -> Option<CpuContext> {
    match by_environment() {
        1 => with_signals_blocked(|| start(1)),
        threads => pool(state(), threads).cloned(),
    }
}

/// Ends the process where a panic passes, which may not reach the caller: its message has been written.
struct NoPanic;

impl Drop for NoPanic {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Computes with the threads that those multiply-adds are worth. A panic ends the process.
#[inline]
pub(crate) fn compute(multiply_adds: usize, compute: impl FnOnce(&CpuContext)) {
    let guard = NoPanic;
    match multiply_adds < LEAST_SHARED_WORK {
        true => compute(alone()),
        false => shared(compute),
    }
    std::mem::forget(guard);
}

/// [`compute`] where a second thread may pay.
#[inline(never)]
fn shared(compute: impl FnOnce(&CpuContext)) {
    let state = state();
    let Some(of) = NonZeroUsize::new(wanted()).filter(|of| of.get() > 1) else {
        return compute(&state.alone);
    };
    if in_parallel_region() {
        return compute(&state.alone);
    }
    let Some(pool) = pool(state, of.get().max(by_environment())) else {
        return compute(&state.alone);
    };
    let others = state.callers.fetch_add(1, Ordering::Relaxed);
    let _caller = Caller(&state.callers);
    let share = NonZeroUsize::new(of.get() / (others + 1)).unwrap_or(NonZeroUsize::MIN);
    compute(&pool.limited_to(of).share(share));
}

/// Sets how many threads products may use; what is not positive gives the choice back to the environment.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn tessera_set_num_threads(threads: libc::c_int) {
    ASKED.store(usize::try_from(threads).unwrap_or(0), Ordering::Relaxed);
}

/// The same for products of the calling thread alone; gives what was set before, 0 for nothing.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn tessera_set_num_threads_local(threads: libc::c_int) -> libc::c_int {
    let threads = usize::try_from(threads).unwrap_or(0);
    let before = ASKED_HERE.try_with(|asked| asked.replace(threads)).unwrap_or(0);
    libc::c_int::try_from(before).unwrap_or(libc::c_int::MAX)
}

/// How many threads a large product of the calling thread would use.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn tessera_get_num_threads() -> libc::c_int {
    libc::c_int::try_from(wanted()).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_variables() {
        let texts = ["4", " 2 ", "3,2", "0", "-1", "", "many"];
        let expected = [Some(4), Some(2), Some(3), None, None, None, None];
        assert_eq!(texts.map(threads_of), expected);
    }

    #[test]
    fn what_a_thread_asks_for_is_its_own() {
        assert_eq!(tessera_set_num_threads_local(3), 0);
        assert_eq!(tessera_get_num_threads(), 3);
        let other = std::thread::spawn(|| tessera_get_num_threads()).join().expect("it ends well");
        assert_eq!(usize::try_from(other).ok(), Some(by_environment()));
        assert_eq!(tessera_set_num_threads_local(0), 3);
    }
}
