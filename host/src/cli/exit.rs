//! How the program ends.

use crate::error::Error;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done, and every checked result is right.
    Success = 0,
    /// A result is wrong, or an implementation failed.
    Wrong = 1,
    /// The arguments or the input cannot be used, or nothing that was asked for can run.
    Usage = 2,
    /// A GPU is needed and is not there.
    NoDevice = 3,
    /// Memory is short.
    OutOfMemory = 4,
    /// A measurement is slower than its baseline allows.
    Slower = 5,
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::Product { error } => Self::from(error),
            Error::MemoryLimit { .. } => Self::OutOfMemory,
            Error::Emulation { .. } => Self::Wrong,
            Error::UnknownKernel { .. }
            | Error::UnknownCard { .. }
            | Error::UnknownPeak { .. }
            | Error::WrongDevice { .. }
            | Error::NotHere { .. }
            | Error::Variable { .. }
            | Error::Record { .. }
            | Error::SweepFile { .. }
            | Error::Check { .. }
            | Error::Peer { .. } => Self::Usage,
        }
    }
}

impl From<&tessera::Error> for Exit {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library may add to its errors")]
    fn from(error: &tessera::Error) -> Self {
        match error {
            tessera::Error::NoDevice { .. } | tessera::Error::NoSuchDevice { .. } => Self::NoDevice,
            tessera::Error::OutOfMemory { .. } => Self::OutOfMemory,
            tessera::Error::Cuda { .. } => Self::Wrong,
            _ => Self::Usage,
        }
    }
}
