//! Everything that can go wrong in the laboratory, as values.

use gemm_spec::ShapeError;

/// Why something could not be computed, measured or checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A product could not be computed. The message holds the library's, which is therefore no source of
    /// it: whoever prints the causes of an error would print it twice.
    #[error("{error}{}", remedy(error))]
    Product {
        /// Why.
        error: tessera::Error,
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
    /// An implementation needs what this machine lacks, or does not multiply these types.
    #[error("{kernel} does not run here: {reason}")]
    NotHere {
        /// Its name.
        kernel: &'static str,
        /// What is missing.
        reason: String,
    },
    /// An environment variable has a value that means nothing.
    #[error("{name} is `{value}`; it takes {takes}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it takes.
        takes: &'static str,
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
    /// A kernel went wrong on the emulator.
    #[error("{kernel} on the emulator: {fault}")]
    Emulation {
        /// Its name.
        kernel: &'static str,
        /// What the emulator found.
        fault: Box<cuda_std::emulate::EmulationError>,
    },
    /// A library beside which this one is measured cannot be used.
    #[error("{reason}")]
    Peer {
        /// Why not.
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
}

impl From<tessera::Error> for Error {
    fn from(error: tessera::Error) -> Self {
        Self::Product { error }
    }
}

impl From<ShapeError> for Error {
    fn from(reason: ShapeError) -> Self {
        tessera::Error::from(reason).into()
    }
}

impl From<cpu_gemm::Error> for Error {
    fn from(reason: cpu_gemm::Error) -> Self {
        tessera::Error::from(reason).into()
    }
}

impl Error {
    /// Whether memory is short: a smaller problem may still fit.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self,
            Self::MemoryLimit { .. } | Self::Product { error: tessera::Error::OutOfMemory { .. } }
        )
    }

    /// That there is no GPU to work on, and why.
    pub(crate) fn no_device(reason: String) -> Self {
        tessera::Error::NoDevice { reason }.into()
    }
}

/// What mends it, for a user of the command line.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library may add to its errors")]
fn remedy(error: &tessera::Error) -> &'static str {
    match error {
        tessera::Error::OutOfMemory { .. } => "; choose a smaller size",
        tessera::Error::Threads { .. } => "; ask for fewer with --threads",
        tessera::Error::Accuracy { .. } => "; leave --kernel out to have one that does",
        tessera::Error::Ptx(_) => "\nrun `cargo xtask build-ptx`",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_library_end_with_what_the_command_line_can_do() {
        let short =
            tessera::Error::OutOfMemory { what: "B".to_owned(), needed: 7, available: Some(5) };
        // As the program prints it, with its causes.
        let message = format!("{:#}", anyhow::Error::from(Error::from(short)));
        assert_eq!(message, "B needs 7 bytes, 5 are free; choose a smaller size");
    }
}
