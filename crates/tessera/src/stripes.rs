//! The columns of a matrix, some at a time for each thread that asks.

use std::sync::{Mutex, PoisonError};

use cpu_gemm::{CpuContext, ViewMut, run_on};

/// Gives all columns to `work`, `width` at a time, on the threads of the context.
pub(crate) fn each_stripe<T: Send>(
    all: ViewMut<'_, T>,
    width: usize,
    context: &CpuContext,
    work: impl Fn(ViewMut<'_, T>) + Sync,
) {
    let threads = context.threads().min(all.cols().div_ceil(width));
    let rest = Mutex::new(Some(all));
    let next = || {
        let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
        let all = rest.take()?;
        if all.cols() <= width {
            return Some(all);
        }
        let (stripe, others) = all.split_cols(width);
        *rest = Some(others);
        Some(stripe)
    };
    run_on(context.pool(), threads, || {
        while let Some(stripe) = next() {
            work(stripe);
        }
    });
}
