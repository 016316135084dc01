//! Running programs: every failure names its command line.

use std::env;
use std::ffi::OsString;
use std::process::{Command, Stdio};

use crate::BuildError;

/// Variables that cargo sets for the programs it runs, or that a user sets for the host build, and
/// that would change the device build. What says how to reach a registry stays.
fn belongs_to_the_host_build(name: &str) -> bool {
    const KEPT: [&str; 6] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "CARGO_SOURCE_",
    ];
    const DROPPED: [&str; 9] = [
        "RUSTUP_TOOLCHAIN",
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_BOOTSTRAP",
        "RUSTDOC",
        "RUST_RECURSION_COUNT",
    ];
    name == "CARGO"
        || DROPPED.contains(&name)
        || name.starts_with("CARGO_") && !KEPT.iter().any(|kept| name.starts_with(kept))
}

/// A command in an environment that the outer cargo left no trace in.
#[must_use]
pub fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    let set: Vec<OsString> = env::vars_os().map(|(name, _)| name).collect();
    for name in set {
        if name.to_str().is_some_and(belongs_to_the_host_build) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// The command as a user would type it, with the variables that were set for it.
#[must_use]
pub fn line(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy())))
    });
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| quoted(&word.to_string_lossy()));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        // Unit separators part the flags in CARGO_ENCODED_RUSTFLAGS.
        let word = word.replace('\u{1f}', "\\x1f").replace('\'', "'\\''");
        format!("'{word}'")
    }
}

/// Runs a command and returns what it printed to stdout.
///
/// # Errors
/// [`BuildError::Spawn`] or [`BuildError::Command`], the latter with what it printed to stderr.
pub fn output(command: &mut Command) -> Result<String, BuildError> {
    let output =
        command.output().map_err(|source| BuildError::Spawn { line: line(command), source })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(BuildError::Command {
            line: line(command),
            status: output.status.to_string(),
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

/// Runs a command whose messages go straight to the user's stderr.
///
/// # Errors
/// [`BuildError::Spawn`] or [`BuildError::Command`].
pub fn run(command: &mut Command) -> Result<(), BuildError> {
    let status = command
        .stdout(std::io::stderr())
        .status()
        .map_err(|source| BuildError::Spawn { line: line(command), source })?;
    if status.success() {
        Ok(())
    } else {
        Err(BuildError::Command {
            line: line(command),
            status: status.to_string(),
            output: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_cargo_is_forgotten_and_the_network_settings_are_not() {
        for dropped in
            ["CARGO", "CARGO_TARGET_DIR", "CARGO_ENCODED_RUSTFLAGS", "CARGO_PKG_NAME", "RUSTFLAGS"]
        {
            assert!(belongs_to_the_host_build(dropped), "{dropped}");
        }
        for kept in ["CARGO_HOME", "CARGO_HTTP_CAINFO", "CARGO_NET_OFFLINE", "RUSTUP_HOME", "PATH"]
        {
            assert!(!belongs_to_the_host_build(kept), "{kept}");
        }
    }

    #[test]
    fn command_lines_can_be_pasted() {
        let mut command = Command::new("cargo");
        command.env("A", "x y").args(["build", "--cfg", "arch=\"sm_70\"", ""]);
        assert_eq!(line(&command), "A='x y' cargo build --cfg 'arch=\"sm_70\"' ''");
    }
}
