//! Virtual environments of Python under the target folder, for tools that come as its packages.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cuda_builder::command::line as command_line;

use crate::modules;

/// The target folder.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| modules::root().join("target"), |dir| modules::root().join(dir))
}

/// The environment of that name with these packages, made if need be, over the network. The error says in a
/// line why there is none.
pub(crate) fn ready(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let venv = target().join(name);
    let stamp = venv.join("packages");
    let wanted = packages.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|has| has == wanted) {
        return Ok(venv);
    }
    install(&venv, packages)?;
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(venv)
}

/// Installs packages into an environment.
pub(crate) fn install(venv: &Path, packages: &[&str]) -> Result<(), String> {
    eprintln!("{} goes into {}, over the network", packages.join(", "), venv.display());
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(venv);
    quietly(&mut make)?;
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    quietly(pip.args(packages))
}

/// Runs a command whose failure is a reason, not an error.
fn quietly(command: &mut Command) -> Result<(), String> {
    let line = command_line(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{line}` could not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map_or(String::new(), |line| format!(": {}", line.trim()));
    Err(format!("`{line}` failed with {}{last}", output.status))
}
