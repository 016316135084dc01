//! The threads of the engine, its instruction set, and the memory that it keeps.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::buffer::Spare;
use crate::error::Error;
use crate::isa::CpuIsa;
use crate::threads::run_on;
use crate::units::CpuUnits;

/// The threads that products run on, the instruction set of their tiles, and packing buffers kept from
/// one product to the next.
///
/// Any number of threads may multiply through one context at the same time; they share its workers.
#[derive(Clone)]
pub struct CpuContext {
    shared: Arc<Shared>,
    threads: usize,
    /// Threads as for which units are chosen.
    whole: usize,
    isa: CpuIsa,
    units: CpuUnits,
}

/// What a context has in common with those that are made of it.
#[derive(Default)]
struct Shared {
    /// Started with the context, but for one that computes on the caller's thread alone.
    pool: OnceLock<ThreadPool>,
    spare: Spare,
}

impl CpuContext {
    /// A context of that many threads with the best instruction set of this CPU. `None` takes
    /// `RAYON_NUM_THREADS`, else one thread for each core.
    ///
    /// # Errors
    /// [`Error::Threads`] where the system refuses to start them.
    pub fn new(threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        Self::with_isa(threads, CpuIsa::best())
    }

    /// The same with an instruction set of the caller's choice.
    ///
    /// # Errors
    /// [`Error::Threads`], and [`Error::Isa`] where this CPU lacks the instruction set.
    pub fn with_isa(threads: Option<NonZeroUsize>, isa: CpuIsa) -> Result<Self, Error> {
        let isa = isa.checked()?;
        // Rayon itself reads RAYON_NUM_THREADS for zero.
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads.map_or(0, NonZeroUsize::get))
            .build()
            .map_err(|reason| Error::Threads { reason })?;
        Ok(Self { isa, ..Self::with_pool(pool) })
    }

    /// The threads of a pool that the caller has made, with the best instruction set of this CPU.
    #[must_use]
    pub fn with_pool(pool: ThreadPool) -> Self {
        let threads = pool.current_num_threads();
        let shared = Shared { pool: OnceLock::from(pool), ..Shared::default() };
        Self { threads, whole: threads, shared: Arc::new(shared), ..Self::alone() }
    }

    /// The threads of a pool that the caller has made, and the caller's own: of as many threads as there are cores none
    /// then has to share its core with one that looks for work.
    #[must_use]
    pub fn with_workers(pool: ThreadPool) -> Self {
        let threads = pool.current_num_threads() + 1;
        Self { threads, whole: threads, ..Self::with_pool(pool) }
    }

    /// A context that computes on the caller's thread alone and starts no other.
    #[must_use]
    pub fn alone() -> Self {
        let (isa, units) = (CpuIsa::best(), CpuUnits::default());
        Self { shared: Arc::default(), threads: 1, whole: 1, isa, units }
    }

    /// The same context for products on that many of its threads at most: pool and buffers are shared.
    #[must_use]
    pub fn limited_to(&self, threads: NonZeroUsize) -> Self {
        let share = self.share(threads);
        Self { whole: share.threads, ..share }
    }

    /// The same, but units are chosen as for all of its threads: what a product's bits are does not depend on how many
    /// of these others leave to it.
    #[must_use]
    pub fn share(&self, threads: NonZeroUsize) -> Self {
        Self { threads: self.threads.min(threads.get()), ..self.clone() }
    }

    /// The same with other [units](CpuUnits) than the usual.
    #[must_use]
    pub fn with_units(self, units: CpuUnits) -> Self {
        Self { units, ..self }
    }

    /// The units that its products may use.
    #[inline]
    #[must_use]
    pub fn units(&self) -> CpuUnits {
        self.units
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Number of threads of what it is a [share](Self::share) of; its own, if it is none.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.whole
    }

    /// The instruction set of the tiles.
    #[inline]
    #[must_use]
    pub fn isa(&self) -> CpuIsa {
        self.isa
    }

    /// The thread pool itself, for work that belongs to a product.
    ///
    /// # Panics
    /// Where the context [computes alone](Self::alone), has no pool yet, and the system starts no thread.
    #[must_use]
    pub fn pool(&self) -> &ThreadPool {
        self.shared.pool.get_or_init(|| {
            let pool = ThreadPoolBuilder::new().num_threads(1).build();
            pool.expect("the system starts a thread")
        })
    }

    /// Runs `work` on that many threads at once, see [`run_on`]; the pool is not asked for one.
    pub(crate) fn run_on(&self, threads: usize, work: impl Fn() + Sync) {
        if threads <= 1 { work() } else { run_on(self.pool(), threads, work) }
    }

    /// Returns the packing buffers that no product is using to the system.
    pub fn release_memory(&self) {
        self.shared.spare.clear();
    }

    /// Packing buffers that no product is using.
    pub(crate) fn spare(&self) -> &Spare {
        &self.shared.spare
    }
}

impl std::fmt::Debug for CpuContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuContext")
            .field("threads", &self.threads())
            .field("isa", &self.isa)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

/// One engine serves many threads: nothing in a context may lose that.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<CpuContext>();
};
