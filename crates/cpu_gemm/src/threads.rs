//! One piece of work on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::ThreadPool;

/// Runs `work` on that many threads at once, the caller's and others of the pool, and returns when all
/// have ended. The caller begins at once, not when a thread of the pool has woken.
///
/// Who is done stays awake for the others, for some microseconds: to wake a thread takes as long as a small
/// product, and the next one may follow at once.
pub fn run_on(pool: &ThreadPool, threads: usize, work: impl Fn() + Sync) {
    if threads <= 1 {
        return work();
    }
    let at_work = AtomicUsize::new(threads);
    let take_part = || {
        work();
        at_work.fetch_sub(1, Ordering::Relaxed);
        stay_awake_while(|| at_work.load(Ordering::Relaxed) > 0);
    };
    pool.in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| take_part());
        }
        take_part();
    });
}

/// Turns of staying awake, and how many of them pass between two offers of the core to another thread: it
/// may be one that is waited for, where there are more threads than cores.
const AWAKE: usize = 1 << 12;
const TURNS_PER_OFFER: usize = 1 << 7;

fn stay_awake_while(others_work: impl Fn() -> bool) {
    for turn in 1..=AWAKE {
        if !others_work() {
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
    fn each_thread_works_once_even_where_the_pool_has_fewer() {
        for (in_pool, threads) in [(1, 1), (3, 3), (1, 8), (2, 33)] {
            let pool = ThreadPoolBuilder::new().num_threads(in_pool).build().expect("a pool");
            let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            run_on(&pool, threads, || {
                begun.fetch_add(1, Ordering::Relaxed);
                // The others end long after the first, so that it gives up staying awake.
                std::thread::sleep(std::time::Duration::from_millis(1));
                ended.fetch_add(1, Ordering::Relaxed);
            });
            let counts = (begun.into_inner(), ended.into_inner());
            assert_eq!(counts, (threads, threads), "{threads} threads, {in_pool} in the pool");
        }
    }
}
