//! `cargo xtask fit`: the constants of the kernels' cost model, by a package of its own.

use std::ffi::OsString;

use anyhow::{Context as _, Result};

use crate::command;

/// Fit the constants of the kernels' cost model to measured times
///
/// `cargo xtask fit --help` lists what it takes. It is a package of its own, which needs the library: what all other
/// tasks would have to wait for is compiled for this one alone.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // Where it was called: paths of records are relative to that.
    let mut cargo = command::cargo();
    cargo.args(["run", "--quiet", "-p", "fit", "--"]).args(&args.arguments);
    let status = cargo.status().context("cargo could not be started")?;
    if !status.success() {
        // It has said why.
        std::process::exit(status.code().unwrap_or(1));
    }
    Ok(())
}
