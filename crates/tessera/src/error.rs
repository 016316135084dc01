//! Everything that can go wrong, as values.

use gemm_spec::{ShapeError, Unsupported};

use crate::accuracy::Accuracy;

/// Why a product could not be computed, or an engine not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Buffers and sizes do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A has another number of columns than B has rows.
    #[error(
        "A is {a_rows} x {a_cols} and B is {b_rows} x {b_cols}: \
         A must have as many columns as B has rows"
    )]
    InnerDim {
        /// Rows of A.
        a_rows: usize,
        /// Columns of A.
        a_cols: usize,
        /// Rows of B.
        b_rows: usize,
        /// Columns of B.
        b_cols: usize,
    },
    /// C does not have the size of the product.
    #[error("C is {rows} x {cols}, the product is {m} x {n}")]
    OuterDim {
        /// Rows of C.
        rows: usize,
        /// Columns of C.
        cols: usize,
        /// Rows of the product.
        m: usize,
        /// Columns of the product.
        n: usize,
    },
    /// An operand of a routine of [`blas3`](crate::blas3) has another size than the others ask for.
    #[error("{routine}: {matrix} is {rows} x {cols}, it must be {} x {}", wanted.0, wanted.1)]
    Operand {
        /// The routine.
        routine: &'static str,
        /// The matrix.
        matrix: &'static str,
        /// Its rows.
        rows: usize,
        /// Its columns.
        cols: usize,
        /// Rows and columns that would fit.
        wanted: (usize, usize),
    },
    /// The types of a product have no such epilogue, or it lacks numbers.
    #[error("{reason}")]
    Epilogue {
        /// What is wrong, and what would mend it.
        reason: String,
    },
    /// A matrix was given another number of elements than its size says.
    #[error("a matrix of {rows} x {cols} has {} elements, {len} were given", *.rows as u128 * *.cols as u128)]
    Length {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Elements that were given.
        len: usize,
    },
    /// A kernel cannot run this problem on this device.
    #[error("{kernel} {reason}")]
    Unsupported {
        /// Its name.
        kernel: &'static str,
        /// Why.
        reason: Unsupported,
    },
    /// No kernel multiplies these types on this GPU within the accuracy mode.
    #[error("there is no kernel for {types}{besides} with {accuracy} accuracy on {device}")]
    NoKernel {
        /// The types of the product.
        types: gemm_spec::Types,
        /// What it asks of a kernel besides, as groups of rows: words that follow the types, or none.
        besides: String,
        /// The accuracy mode.
        accuracy: Accuracy,
        /// The GPU.
        device: String,
    },
    /// A kernel does not keep to the accuracy mode.
    #[error("{kernel} does not keep to {accuracy} accuracy")]
    Accuracy {
        /// Its name.
        kernel: &'static str,
        /// The accuracy mode.
        accuracy: Accuracy,
    },
    /// There is no GPU that can be used.
    #[error("no CUDA device: {reason}")]
    NoDevice {
        /// Why not.
        reason: String,
    },
    /// There is no GPU of that number.
    #[error("there is no CUDA device {index}; devices are numbered from 0 and there {}", counted(*.count))]
    NoSuchDevice {
        /// What was asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// Memory is short.
    #[error("{what} needs {needed} bytes{}", free(*.available))]
    OutOfMemory {
        /// What needed it.
        what: String,
        /// Bytes needed.
        needed: u128,
        /// Bytes there are, where that is known.
        available: Option<u128>,
    },
    /// Threads could not be started.
    #[error("cannot start the worker threads: {reason}")]
    Threads {
        /// What the system said.
        reason: rayon::ThreadPoolBuildError,
    },
    /// This CPU lacks an instruction set.
    #[error(transparent)]
    Isa(cpu_gemm::Error),
    /// The PTX that this program holds is not what its launches need.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Ptx(#[from] PtxFault),
    /// The driver refused a call, or a kernel failed.
    #[error("{during} failed: {reason}")]
    Cuda {
        /// What was being done, with the kernel's name where there is one.
        during: String,
        /// The call, the code's name and the driver's words.
        reason: String,
        /// The driver's code, a `CUresult`, where it was the driver that refused.
        code: Option<i32>,
    },
    /// The descriptor of a product on the device does not fit together.
    #[cfg(feature = "cuda")]
    #[error("{plan}: {reason}")]
    Descriptor {
        /// The product.
        plan: String,
        /// What is wrong, and what would mend it.
        reason: String,
    },
    /// A stream is being captured, and its workspace would be the graph's, too.
    #[cfg(feature = "cuda")]
    #[error(
        "{plan} needs a workspace, which a stream that is being captured does not lend: run the plan with one \
             of the graph's own"
    )]
    Capturing {
        /// The plan.
        plan: String,
    },
    /// A matrix has not that many rows and columns.
    #[error("there are no rows {rows:?} and columns {cols:?} in a matrix of {} x {}", of.0, of.1)]
    Part {
        /// The rows that were asked for.
        rows: std::ops::Range<usize>,
        /// The columns that were asked for.
        cols: std::ops::Range<usize>,
        /// Rows and columns that there are.
        of: (usize, usize),
    },
    /// A matrix is copied between host and device in one order alone.
    #[error(
        "a copy between host and device keeps the order of rows and columns; transpose one of the views"
    )]
    CopyOrder,
    /// What a plan was given to run on is not what it was made for; nothing was launched.
    #[cfg(feature = "cuda")]
    #[error("{plan}: {operand} {fault}")]
    DeviceOperand {
        /// The plan.
        plan: String,
        /// `A`, `B`, `C`, `D` or `the workspace`.
        operand: &'static str,
        /// What is wrong.
        fault: OperandFault,
    },
}

impl From<cpu_gemm::Error> for Error {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the engine's crate may add to its errors")]
    fn from(error: cpu_gemm::Error) -> Self {
        match error {
            cpu_gemm::Error::Shape(reason) => Self::Shape(reason),
            cpu_gemm::Error::OutOfMemory { bytes } => Self::OutOfMemory {
                what: "packing A and B, or their sums,".to_owned(),
                needed: bytes as u128,
                available: None,
            },
            cpu_gemm::Error::Epilogue { reason } => Self::Epilogue { reason },
            cpu_gemm::Error::Threads { reason } => Self::Threads { reason },
            other => Self::Isa(other),
        }
    }
}

fn counted(devices: u32) -> String {
    if devices == 1 { "is 1".to_owned() } else { format!("are {devices}") }
}

fn free(bytes: Option<u128>) -> String {
    bytes.map_or_else(
        || ", which the system refuses".to_owned(),
        |bytes| format!(", {bytes} are free"),
    )
}

/// What is wrong with a module's PTX.
#[cfg(feature = "cuda")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PtxFault {
    /// A module is not PTX.
    #[error("{file} cannot be read: {reason}")]
    Unreadable {
        /// Its file.
        file: String,
        /// What the reader said.
        reason: String,
    },
    /// A module lacks an entry of the registry.
    #[error("{file}: there is no entry {entry}:{entries}")]
    EntryMissing {
        /// The module's file.
        file: String,
        /// The entry.
        entry: &'static str,
        /// The entries of the registry and those of the module.
        entries: EntryMismatch,
    },
    /// An entry's parameters are not what a launch passes.
    #[error("{file}: {entry} does not take the arguments of its launch:{parameters}")]
    EntryParameters {
        /// The module's file.
        file: String,
        /// The entry.
        entry: &'static str,
        /// The arguments of a launch and the parameters of the entry.
        parameters: EntryMismatch,
    },
}

#[cfg(feature = "cuda")]
pub use crate::mismatch::EntryMismatch;
#[cfg(feature = "cuda")]
pub use crate::operand_fault::OperandFault;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_numbers() {
        let error = Error::InnerDim { a_rows: 2, a_cols: 3, b_rows: 4, b_cols: 5 };
        assert_eq!(
            error.to_string(),
            "A is 2 x 3 and B is 4 x 5: A must have as many columns as B has rows"
        );
        let error = Error::NoSuchDevice { index: 3, count: 1 };
        assert!(error.to_string().ends_with("there is 1"), "{error}");
        let error = Error::OutOfMemory { what: "B".to_owned(), needed: 7, available: Some(5) };
        assert_eq!(error.to_string(), "B needs 7 bytes, 5 are free");
    }
}
