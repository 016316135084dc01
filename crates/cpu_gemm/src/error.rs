//! What can go wrong with a product on the CPU.

use gemm_spec::ShapeError;

/// Why a product could not be computed, or a context not be made. C is then unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A buffer is too short for the problem, or a leading dimension too small.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Views whose sizes do not fit together.
    #[error(
        "A is {} x {}, B {} x {} and C {} x {}: that is no product",
        a.0, a.1, b.0, b.1, c.0, c.1
    )]
    Sizes {
        /// Rows and columns of A.
        a: (usize, usize),
        /// Those of B.
        b: (usize, usize),
        /// Those of C.
        c: (usize, usize),
    },
    /// The types of a product have no such epilogue, or something that it needs has another size.
    #[error("{reason}")]
    Epilogue {
        /// What is wrong, and what would mend it.
        reason: String,
    },
    /// There is no memory for the packed panels.
    #[error("the packed panels need {bytes} bytes, which the system refuses")]
    OutOfMemory {
        /// Bytes of the allocation that was refused.
        bytes: usize,
    },
    /// The worker threads could not be started.
    #[error("cannot start the worker threads: {reason}")]
    Threads {
        /// What the system said.
        reason: rayon::ThreadPoolBuildError,
    },
    /// This CPU lacks the instruction set.
    #[error("there is no instruction set `{asked}` on this CPU; it has {available}")]
    Isa {
        /// The name that was asked for.
        asked: String,
        /// The names of those that it has.
        available: String,
    },
}
