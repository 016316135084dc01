//! What a device allows, and why it cannot run a kernel.

use core::fmt;

use crate::{Operand, Types};

/// Bytes of shared memory that every device gives a block for the asking. For more, up to the
/// device's limit, a kernel is told so before its launch.
pub const SHARED_WITHOUT_OPT_IN: u32 = 48 * 1024;

/// What a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Threads in one block.
    pub max_threads_per_block: u32,
    /// Shared memory of one block, in bytes; above [`SHARED_WITHOUT_OPT_IN`] a launch opts in.
    pub max_shared_bytes: u32,
    /// Streaming SMs (SMs).
    pub multiprocessors: u32,
}

/// Why a kernel cannot run a problem on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The kernel has no entry for the types of the product.
    Types {
        /// The types asked for.
        types: Types,
    },
    /// The kernel reads row-major operands only.
    Order {
        /// The operand that is column-major.
        operand: Operand,
    },
    /// One launch of the kernel is one product.
    Batch {
        /// The products asked for.
        count: usize,
    },
    /// The kernel does nothing besides scaling, and its C is narrower than its sums.
    Epilogue,
    /// The products are groups of rows whose sizes the device knows, and the kernel's launches are of one product.
    RowGroups,
    /// C has more elements than one block has threads.
    SingleBlock {
        /// Rows of C.
        m: usize,
        /// Columns of C.
        n: usize,
        /// Threads in a block.
        limit: u32,
    },
    /// A size does not fit the kernel's 32-bit sizes or the grid.
    TooLarge {
        /// Rows of C.
        m: usize,
        /// Columns of C.
        n: usize,
        /// Columns of A.
        k: usize,
    },
    /// k is so small that the kernel's error exceeds the bound of f32.
    Steps {
        /// Columns of A.
        k: usize,
        /// The least k that the kernel takes.
        least: usize,
    },
    /// The device does not run the kernel's module: it is older, or the module is for one kind alone.
    ComputeCapability {
        /// What the module needs.
        needs: (u32, u32),
        /// What the device has.
        has: (u32, u32),
    },
    /// A block needs more threads than the device allows.
    Threads {
        /// What the kernel needs.
        needs: u32,
        /// What the device has.
        has: u32,
    },
    /// A block needs more shared memory than the device allows.
    SharedMemory {
        /// What the kernel needs, in bytes.
        needs: u32,
        /// What the device has, in bytes.
        has: u32,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Types { types } => write!(f, "has no {types} entry"),
            Self::Order { operand } => write!(f, "reads {operand} in row-major order only"),
            Self::Batch { count } => write!(f, "computes one product at a time, not {count}"),
            Self::RowGroups => f.write_str(
                "takes the rows of products from the host, and those of groups are on the device",
            ),
            Self::Epilogue => f.write_str(
                "does nothing but scaling before it rounds to C; a kernel on the tensor cores does",
            ),
            Self::SingleBlock { m, n, limit } => write!(
                f,
                "runs in one block of {limit} threads at most, one per element of C; \
                 {m} x {n} needs {}",
                m as u128 * n as u128
            ),
            Self::TooLarge { m, n, k } => {
                write!(f, "m = {m}, n = {n}, k = {k} pass the sizes that one launch can cover")
            }
            Self::Steps { k, least } => {
                write!(f, "keeps to the error bound of f32 from k = {least} on, here k is {k}")
            }
            Self::ComputeCapability { needs, has } => write!(
                f,
                "needs compute capability {}.{}, the device has {}.{}",
                needs.0, needs.1, has.0, has.1
            ),
            Self::Threads { needs, has } => {
                write!(f, "needs {needs} threads a block, the device has {has}")
            }
            Self::SharedMemory { needs, has } => {
                write!(f, "needs {needs} bytes of shared memory a block, the device has {has}")
            }
        }
    }
}

impl core::error::Error for Unsupported {}
