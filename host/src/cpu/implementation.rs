//! What a CPU implementation is, and the threads it runs on.

use std::num::NonZeroUsize;

use ::rayon::{ThreadPool, ThreadPoolBuilder};
use gemm_spec::{Problem, WideBf16, WideF16, bf16, f16};

use super::CpuIsa;
use super::packed::buffer::Spare;
use crate::error::Error;
use crate::scalar::Scalar;

/// A matrix product on the CPU: operands whose buffers were checked against the problem, row-major
/// unless the implementation takes any order.
pub type CpuFn<T> = fn(&Problem<T>, &[T], &[T], &mut [<T as Scalar>::Out], &CpuContext);

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
    /// Whether it takes operands of any storage order; else all three are row-major.
    pub any_order: bool,
    /// Whether it is there for one idea of the ladder alone: it runs where it is named, not by default.
    pub study: bool,
    pub(crate) f32: CpuFn<f32>,
    pub(crate) f64: CpuFn<f64>,
    pub(crate) i32: CpuFn<i32>,
    pub(crate) i8: CpuFn<i8>,
    pub(crate) f16: CpuFn<f16>,
    pub(crate) bf16: CpuFn<bf16>,
    pub(crate) wide_f16: CpuFn<WideF16>,
    pub(crate) wide_bf16: CpuFn<WideBf16>,
}

/// The threads that CPU implementations run on, the instruction set that `cpu_packed` uses, and the
/// memory that it keeps.
pub struct CpuContext {
    pool: ThreadPool,
    isa: CpuIsa,
    spare: Spare,
}

impl CpuContext {
    /// A context of that many threads; `None` takes `RAYON_NUM_THREADS`, else one for each core.
    ///
    /// # Errors
    /// [`Error::Threads`] where the system refuses to start them; [`Error::CpuIsa`] where
    /// `TESSERA_CPU_ISA` asks for an instruction set that is not there.
    pub fn new(threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        Self::with_isa(threads, CpuIsa::choose()?)
    }

    /// The same with an instruction set of the caller's choice.
    ///
    /// # Errors
    /// [`Error::Threads`], and [`Error::CpuIsa`] where this CPU has it not.
    pub fn with_isa(threads: Option<NonZeroUsize>, isa: CpuIsa) -> Result<Self, Error> {
        let isa = isa.checked()?;
        // Rayon itself reads RAYON_NUM_THREADS for zero.
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads.map_or(0, NonZeroUsize::get))
            .build()
            .map_err(|reason| Error::Threads { reason })?;
        Ok(Self { pool, isa, spare: Spare::default() })
    }

    /// How many threads there are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// The instruction set that `cpu_packed` uses.
    #[must_use]
    pub fn isa(&self) -> CpuIsa {
        self.isa
    }

    /// Memory that no product is using.
    pub(super) fn spare(&self) -> &Spare {
        &self.spare
    }

    /// The pool itself.
    pub(crate) fn pool(&self) -> &ThreadPool {
        &self.pool
    }
}
