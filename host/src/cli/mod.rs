//! The program: arguments in, text and an exit code out.

mod args;
mod output;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::error::Error;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done, and every checked result is right.
    Fine = 0,
    /// A result is wrong, or an implementation failed.
    Wrong = 1,
    /// The arguments or the input cannot be used.
    Usage = 2,
    /// A device was demanded and is not there.
    NoDevice = 3,
    /// Memory is short.
    OutOfMemory = 4,
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::NoDevice { .. } | Error::NoSuchDevice { .. } => Self::NoDevice,
            Error::OutOfMemory { .. } => Self::OutOfMemory,
            Error::Cuda { .. } => Self::Wrong,
            _ => Self::Usage,
        }
    }
}

/// Runs the program on the process's own arguments.
#[must_use]
pub fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let cli = args::Cli::parse();
    let result = match cli.command {
        None => run::main(&cli.run),
        Some(args::Command::Run(run)) => run::main(&run),
    };
    let exit = result.unwrap_or_else(|error| {
        output::complain(&error);
        error.downcast_ref::<Error>().map_or(Exit::Usage, Exit::from)
    });
    ExitCode::from(exit as u8)
}
