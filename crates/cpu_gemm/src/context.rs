//! The threads of the engine, its instruction set, and the memory that it keeps.

use std::num::NonZeroUsize;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::buffer::Spare;
use crate::{CpuIsa, CpuUnits, Error};

/// The threads that products run on, the instruction set of their tiles, and packing buffers kept from
/// one product to the next.
///
/// Any number of threads may multiply through one context at the same time; they share its workers.
pub struct CpuContext {
    pool: ThreadPool,
    isa: CpuIsa,
    units: CpuUnits,
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
        Ok(Self { pool, isa, units: CpuUnits::default(), spare: Spare::default() })
    }

    /// The same with other [units](CpuUnits) than the usual.
    #[must_use]
    pub fn with_units(self, units: CpuUnits) -> Self {
        Self { units, ..self }
    }

    /// The units that its products may use.
    #[must_use]
    pub fn units(&self) -> CpuUnits {
        self.units
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// The instruction set of the tiles.
    #[must_use]
    pub fn isa(&self) -> CpuIsa {
        self.isa
    }

    /// The thread pool itself, for work that belongs to a product.
    #[must_use]
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// Returns the packing buffers that no product is using to the system.
    pub fn release_memory(&self) {
        self.spare.clear();
    }

    /// Packing buffers that no product is using.
    pub(crate) fn spare(&self) -> &Spare {
        &self.spare
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
