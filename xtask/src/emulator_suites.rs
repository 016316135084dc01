//! `cargo xtask emulator-suites`: the tests of kernels on the emulator that plain tests leave out.

use anyhow::Result;

use crate::command;

/// Run the tests of kernels on the emulator that take minutes
///
/// All cases of the entries of which `cargo test -p host` runs a part, every defect planted in the instructions of the
/// kernels for Hopper, and every kernel with all its types in all fixed orders of events and a random one.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests whose names contain this
    filter: Option<String>,
}

/// Cargo's arguments for all of them.
pub(crate) const ALL: &[&str] = &[
    "test",
    "-p",
    "host",
    "--test",
    "kernels",
    "--test",
    "cli",
    "--",
    "--ignored",
    "--skip",
    "cuda::",
];

pub(crate) fn run(args: &Args) -> Result<()> {
    command::run(command::cargo().args(ALL).args(&args.filter))
}
