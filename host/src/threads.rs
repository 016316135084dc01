//! One piece of work on several threads.

use rayon::ThreadPool;

/// Runs `work` on that many threads at once, the caller's and others of the pool, and returns when all
/// have ended. The caller begins at once, not when a thread of the pool has woken.
pub(crate) fn run_on(pool: &ThreadPool, threads: usize, work: impl Fn() + Sync) {
    if threads <= 1 {
        return work();
    }
    pool.in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| work());
        }
        work();
    });
}
