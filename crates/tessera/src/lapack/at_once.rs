//! Two pieces of work at once.

use std::sync::{Mutex, PoisonError};

use cpu_gemm::{CpuContext, run_on};

/// Whether there are threads for two pieces of work, and no more than the context may use: those that one piece asks for
/// are then what the other leaves, and where the pool has more, both together would use too many.
pub(super) fn are_for_two(context: &CpuContext) -> bool {
    context.threads() > 1 && context.pool().current_num_threads() < context.threads()
}

/// Does both at once, the second on another thread if one comes before the first is done. Threads that the first asks for
/// join it when the second is done.
pub(super) fn at_once<A: Send, B: Send>(
    context: &CpuContext,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    let (first, second) = (Work::of(first), Work::of(second));
    run_on(context.pool(), context.threads().min(2), || {
        first.run();
        second.run();
    });
    (first.result(), second.result())
}

/// Work that one thread does, and its result.
struct Work<F, R> {
    work: Mutex<Option<F>>,
    result: Mutex<Option<R>>,
}

impl<R, F: FnOnce() -> R> Work<F, R> {
    fn of(work: F) -> Self {
        Self { work: Mutex::new(Some(work)), result: Mutex::new(None) }
    }

    /// Does it, unless another thread has begun.
    fn run(&self) {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            let result = work();
            *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    }

    fn result(self) -> R {
        let result = self.result.into_inner().unwrap_or_else(PoisonError::into_inner);
        result.expect("invariant: somebody has done it")
    }
}
