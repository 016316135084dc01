//! Running programs: each shows its command line, and a failure names it.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use cuda_builder::command::line as command_line;

/// The cargo on PATH, which heeds rust-toolchain.toml as a user's does.
pub(crate) fn cargo() -> Command {
    Command::new("cargo")
}

/// Arguments that build what is tested as cargo builds tests: what both are made of is compiled once. The folder is
/// that of the profile `dev`. The package has what is built beside it compiled with the features of the tests.
pub(crate) const AS_TESTED: [&str; 4] = ["--profile", "test", "-p", "workspace-hack"];

/// Runs a command in the workspace's root, its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = command_line(command);
    eprintln!("$ {line}");
    let status = command
        .current_dir(crate::modules::root())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("`{line}` could not be started"))?;
    if !status.success() {
        bail!("`{line}` failed with {status}");
    }
    Ok(())
}

/// Runs a command in the workspace's root and returns what it says on stderr.
pub(crate) fn messages(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    eprintln!("$ {line}");
    let output = command
        .current_dir(crate::modules::root())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{line}` could not be started"))?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("`{line}` failed with {}:\n{messages}", output.status);
    }
    Ok(messages)
}

/// Runs a command in the workspace's root and returns its stdout; stderr goes where ours goes.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = command_line(command);
    eprintln!("$ {line}");
    let output = command
        .current_dir(crate::modules::root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("`{line}` could not be started"))?;
    if !output.status.success() {
        bail!("`{line}` failed with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed no text"))
}

/// PATH with a folder in front.
pub(crate) fn first_on_path(folder: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(env::split_paths(&path));
    Ok(env::join_paths(folders)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_line() {
        let mut command = Command::new("/nowhere/cargo");
        command.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "two words"]);
        let error = run(&mut command).unwrap_err().to_string();
        assert!(
            error.contains("`RUSTDOCFLAGS='-D warnings' /nowhere/cargo doc 'two words'`"),
            "{error}"
        );
    }
}
