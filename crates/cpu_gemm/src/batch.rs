//! The products of a batch: small ones side by side, each on one thread; large ones after each other, each on all.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::context::CpuContext;
use crate::threads::run_on;
use crate::thresholds::{
    BATCH_WORK_PER_THREAD, BATCH_WORK_PER_TICKET, LEAST_WORK_OF_A_PRODUCT, SIDE_BY_SIDE,
};

/// Calls with the numbers of products of a batch, some at a time, and the context to compute them with.
///
/// `work` are the multiply-adds of one product, of the largest where they differ. Products that are worth several
/// threads come one after the other and have the whole context. Others are computed side by side on as many threads as
/// the batch is worth, in no certain order, each with a context of one thread: `some` may be called on several threads
/// at once.
///
/// # Errors
/// The first that a call gives in the order of time: products that had not begun then are left out.
pub fn each_product<E: Send>(
    count: usize,
    work: usize,
    context: &CpuContext,
    some: impl Fn(Range<usize>, &CpuContext) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let work = work.max(LEAST_WORK_OF_A_PRODUCT);
    let worth = work.saturating_mul(count) / BATCH_WORK_PER_THREAD;
    let threads = context.threads().min(worth).min(count);
    if threads <= 1 || work > SIDE_BY_SIDE {
        return some(0..count, context);
    }
    let alone = context.limited_to(NonZeroUsize::MIN);
    let at_once = (BATCH_WORK_PER_TICKET / work).max(1);
    let (next, stop, failed) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None::<E>));
    run_on(context.pool(), threads, || {
        while !stop.load(Ordering::Relaxed) {
            let first = next.fetch_add(at_once, Ordering::Relaxed);
            if first >= count {
                break;
            }
            let numbers = first..count.min(first.saturating_add(at_once));
            if let Err(error) = some(numbers, &alone) {
                stop.store(true, Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn context() -> CpuContext {
        CpuContext::new(NonZeroUsize::new(3)).expect("threads")
    }

    #[test]
    fn each_product_is_computed_once() {
        for (count, work) in [(0, 1), (1, 1 << 22), (7, 1 << 30), (1000, 64), (1000, 1 << 18)] {
            let seen = Mutex::new(HashSet::new());
            let done = each_product(count, work, &context(), |numbers, context| {
                assert_eq!(
                    context.threads(),
                    if work > SIDE_BY_SIDE || count <= 1 { 3 } else { 1 }
                );
                let mut seen = seen.lock().expect("no panic");
                numbers.for_each(|number| assert!(seen.insert(number), "{number} twice"));
                Ok::<_, ()>(())
            });
            assert_eq!(done, Ok(()));
            assert_eq!(seen.into_inner().expect("no panic"), (0..count).collect());
        }
    }

    #[test]
    fn an_error_ends_the_batch() {
        let calls = AtomicUsize::new(0);
        let done = each_product(1 << 16, 1 << 14, &context(), |numbers, _| {
            calls.fetch_add(1, Ordering::Relaxed);
            if numbers.start >= 5 { Err(numbers.start) } else { Ok(()) }
        });
        let first = done.expect_err("it fails");
        assert!(first >= 5 && calls.into_inner() < 1 << 10, "{first}");
    }
}
