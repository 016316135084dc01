//! `mutex_queue`: a pool of workers that take one element of C at a time from a shared cursor.
//!
//! Kept as a lesson: every element costs a lock, so for small matrices the threads lose to `serial`,
//! and no thread ever works on neighbours. Each element is the same chain as in `serial`.
//!
//! Source: "Matrix Multiplication: the Hello World of parallel programming", the Win32 version. There
//! the cursor is a pair of globals; here it is an iterator over exclusive references to the elements
//! of C, so that the compiler proves what the text says: no element is computed twice.

use std::sync::{Mutex, PoisonError};

use gemm_spec::{Problem, epilogue};

use super::implementation::{NOTHING, Sums, forms};
use super::serial::element;
use super::vectorised::{Work, vectorised};
use super::{CpuContext, CpuImpl};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "mutex_queue",
    about: "worker threads, one shared cursor, one element per lock",
    origin: "Hello World of parallel programming, threaded version",
    parallel: true,
    blocked: false,
    any_order: false,
    sums: Sums::Chain,
    needs: NOTHING,
    study: false,
    forms: forms!(gemm),
};

fn gemm<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    let (n, ldc) = (problem.n, problem.c.ld);
    if n == 0 {
        return Ok(());
    }
    let rows = c.chunks_mut(ldc).take(problem.m).enumerate();
    let elements = rows.flat_map(|(row, line)| {
        line[..n].iter_mut().enumerate().map(move |(col, c)| (row, col, c))
    });
    let cursor = Mutex::new(elements);
    std::thread::scope(|scope| {
        for _ in 0..context.threads() {
            scope.spawn(|| vectorised(Worker { problem, a, b, cursor: &cursor }));
        }
    });
    Ok(())
}

struct Worker<'a, T: ScalarTypes, Cursor> {
    problem: &'a Problem<T>,
    a: &'a [T::A],
    b: &'a [T::B],
    cursor: &'a Mutex<Cursor>,
}

impl<'c, T, Cursor> Work for Worker<'_, T, Cursor>
where
    T: ScalarTypes,
    Cursor: Iterator<Item = (usize, usize, &'c mut T::C)>,
{
    #[inline(always)]
    fn run(self) {
        let Self { problem, a, b, cursor } = self;
        loop {
            // The lock is held for the step of the cursor alone.
            let next = cursor.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((row, col, c)) = next else { break };
            let acc = element(problem, &a[row * problem.a.ld..], b, problem.b.ld, col);
            *c = epilogue(problem.alpha, acc, problem.beta, || *c);
        }
    }
}
