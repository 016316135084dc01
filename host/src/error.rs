//! Everything that can go wrong, as values.

use gemm_spec::{ShapeError, Unsupported};
use ptx_text::PtxError;

use crate::gpu::SideBySide;

/// Why a product could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Buffers and sizes do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The inner sizes of two factors differ.
    #[error(
        "A is {a_rows} x {a_cols} and B is {b_rows} x {b_cols}: \
         A must have as many columns as B has rows"
    )]
    Inner {
        /// Rows of A.
        a_rows: usize,
        /// Columns of A.
        a_cols: usize,
        /// Rows of B.
        b_rows: usize,
        /// Columns of B.
        b_cols: usize,
    },
    /// C has not the size of the product.
    #[error("C is {rows} x {cols}, the product is {m} x {n}")]
    Outer {
        /// Rows of C.
        rows: usize,
        /// Columns of C.
        cols: usize,
        /// Rows of the product.
        m: usize,
        /// Columns of the product.
        n: usize,
    },
    /// An implementation cannot do this problem on this device.
    #[error("{kernel} {reason}")]
    Unsupported {
        /// Its name.
        kernel: &'static str,
        /// Why.
        reason: Unsupported,
    },
    /// No implementation has that name.
    #[error("there is no implementation `{name}`; {hint}")]
    UnknownKernel {
        /// What was asked for.
        name: String,
        /// The nearest name, or where to look.
        hint: String,
    },
    /// The table of GPUs has no card of that name.
    #[error("there is no card `{name}`; there are this (the GPU at hand), {names}")]
    UnknownCard {
        /// What was asked for.
        name: String,
        /// The names there are.
        names: String,
    },
    /// The peak of a GPU cannot be computed.
    #[error(
        "{name}: {what} is not known, so its peak cannot be computed; name a card, as in --gpu h200"
    )]
    UnknownPeak {
        /// The GPU.
        name: String,
        /// What is not known.
        what: String,
    },
    /// An implementation does not run on the device that was asked for.
    #[error("{kernel} runs on {runs_on}; ask for --device auto or {takes}")]
    WrongDevice {
        /// Its name.
        kernel: &'static str,
        /// Where it runs.
        runs_on: &'static str,
        /// The device to ask for.
        takes: &'static str,
    },
    /// A kernel does not keep to the contract that was asked for.
    #[error(
        "{kernel} does not keep to {accuracy} accuracy; leave --kernel out to have one that does"
    )]
    Accuracy {
        /// Its name.
        kernel: &'static str,
        /// The contract.
        accuracy: crate::Accuracy,
    },
    /// A GPU was asked for and cannot be used.
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
    #[error("{what} needs {needed} bytes, {available} are free; choose a smaller size")]
    OutOfMemory {
        /// What needed it.
        what: String,
        /// Bytes needed.
        needed: u128,
        /// Bytes there are.
        available: u128,
    },
    /// A recorded measurement cannot be used.
    #[error("the record cannot be used: {reason}")]
    Record {
        /// Why.
        reason: String,
    },
    /// The file of a sweep cannot be used.
    #[error("{}: {reason}", path.display())]
    SweepFile {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        reason: String,
    },
    /// A result cannot be checked.
    #[error("cannot check results: {reason}")]
    Check {
        /// Why.
        reason: String,
    },
    /// Threads could not be started.
    #[error("cannot start the worker threads: {reason}; ask for fewer with --threads")]
    Threads {
        /// What the system said.
        reason: rayon::ThreadPoolBuildError,
    },
    /// The instruction set that was asked for is not there.
    #[error(
        "there is no instruction set `{asked}` on this CPU; set {variable} to one of {available}, or unset it"
    )]
    CpuIsa {
        /// The environment variable that asks.
        variable: &'static str,
        /// What was asked for.
        asked: String,
        /// What there is.
        available: String,
    },
    /// A kernel went wrong on the emulator.
    #[error("{kernel} on the emulator: {fault}")]
    Emulation {
        /// Its name.
        kernel: &'static str,
        /// What the emulator found.
        fault: Box<cuda_std::emulate::EmulationError>,
    },
    /// A module is not PTX.
    #[error("{file} cannot be read: {reason}; run `cargo xtask build-ptx`")]
    PtxUnreadable {
        /// Its file.
        file: String,
        /// What the reader said.
        reason: PtxError,
    },
    /// A module lacks an entry of the registry.
    #[error("{file}: there is no entry {entry}:{entries}\nrun `cargo xtask build-ptx`")]
    EntryMissing {
        /// The module's file.
        file: String,
        /// The entry.
        entry: &'static str,
        /// The entries of the registry and those of the module.
        entries: SideBySide,
    },
    /// An entry's parameters are not what a launch passes.
    #[error(
        "{file}: {entry} does not take the arguments of its launch:{parameters}\n\
         run `cargo xtask build-ptx`"
    )]
    EntryParameters {
        /// The module's file.
        file: String,
        /// The entry.
        entry: &'static str,
        /// The arguments of a launch and the parameters of the entry.
        parameters: SideBySide,
    },
    /// A library beside which this one is measured cannot be used.
    #[error("{reason}")]
    Peer {
        /// Why not.
        reason: String,
    },
    /// The driver refused a call.
    #[error("{during} failed: {reason}")]
    Cuda {
        /// What was being done, with the kernel's name where there is one.
        during: String,
        /// The driver's code and words.
        reason: String,
    },
    /// A limit on this process leaves too little memory.
    #[error(
        "{what} needs {needed} bytes, {available} are left of {limit}; raise that or choose a smaller size"
    )]
    MemoryLimit {
        /// What needed it.
        what: String,
        /// Bytes needed.
        needed: u128,
        /// Bytes that are left.
        available: u128,
        /// The limit, in words.
        limit: String,
    },
    /// As many elements make no matrix of that size.
    #[error("{len} elements make no matrix of {rows} x {cols}, which has {}", *.rows as u128 * *.cols as u128)]
    Elements {
        /// How many there are.
        len: usize,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
    },
}

impl Error {
    /// Whether memory was short.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. } | Self::MemoryLimit { .. })
    }
}

fn counted(devices: u32) -> String {
    if devices == 1 { "is 1".to_owned() } else { format!("are {devices}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_numbers() {
        let error = Error::Inner { a_rows: 2, a_cols: 3, b_rows: 4, b_cols: 5 };
        assert_eq!(
            error.to_string(),
            "A is 2 x 3 and B is 4 x 5: A must have as many columns as B has rows"
        );
        let error = Error::NoSuchDevice { index: 3, count: 1 };
        assert!(error.to_string().ends_with("there is 1"), "{error}");
    }
}
