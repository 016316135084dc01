//! What a CPU implementation is, and the threads it runs on.

use std::num::NonZeroUsize;

use ::rayon::{ThreadPool, ThreadPoolBuilder};
use gemm_spec::Problem;

use crate::error::Error;

/// A matrix product on the CPU: row-major operands whose buffers were checked against the problem.
pub type CpuFn<T> = fn(&Problem<T>, &[T], &[T], &mut [T], &CpuContext);

/// One CPU implementation, for every element type.
pub struct CpuImpl {
    /// Name on the command line, in reports and in the docs.
    pub id: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The document that the scheme comes from.
    pub origin: &'static str,
    /// Whether it uses more than one thread.
    pub parallel: bool,
    pub(crate) f32: CpuFn<f32>,
    pub(crate) f64: CpuFn<f64>,
    pub(crate) i32: CpuFn<i32>,
}

/// The threads that CPU implementations run on.
pub struct CpuContext {
    pool: ThreadPool,
}

impl CpuContext {
    /// A context of that many threads; `None` takes `RAYON_NUM_THREADS`, else one for each core.
    ///
    /// # Errors
    /// [`Error::Threads`] where the system refuses to start them.
    pub fn new(threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        // Rayon itself reads RAYON_NUM_THREADS for zero.
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads.map_or(0, NonZeroUsize::get))
            .build()
            .map_err(|reason| Error::Threads { reason })?;
        Ok(Self { pool })
    }

    /// How many threads there are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// The pool itself.
    pub(crate) fn pool(&self) -> &ThreadPool {
        &self.pool
    }
}
