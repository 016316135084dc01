//! Finding the device toolchain: by its name, or by its commit under any name.

use std::path::PathBuf;
use std::process::Command;

use crate::manifest::Pins;
use crate::{BuildError, command};

/// An installed toolchain whose `rustc` is the pinned one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// What rustup calls it on this machine.
    pub name: String,
    /// The compiler's release, as `1.97.0-nightly`.
    pub release: String,
    /// The compiler's commit, which is what makes two toolchains the same.
    pub commit: String,
    /// Its root folder.
    pub sysroot: PathBuf,
}

impl Toolchain {
    /// The pinned toolchain if rustup has it, under any name; the pinned name is tried first.
    ///
    /// # Errors
    /// [`BuildError::Command`] where the toolchain is found and does not run.
    pub fn find(pins: &Pins) -> Result<Option<Self>, BuildError> {
        let Ok(list) = command::output(command::clean("rustup").args(["toolchain", "list"])) else {
            return Ok(None); // no rustup, hence no toolchain of its making
        };
        for name in candidates(&list, &pins.toolchain) {
            // A toolchain may be half removed; the next one is as good.
            let Ok(version) = command::output(in_toolchain(&name, "rustc").arg("-vV")) else {
                continue;
            };
            let (Some(release), Some(commit)) =
                (field(&version, "release"), field(&version, "commit-hash"))
            else {
                continue;
            };
            if commit == pins.commit {
                let sysroot =
                    command::output(in_toolchain(&name, "rustc").args(["--print", "sysroot"]))?;
                return Ok(Some(Self {
                    release: release.to_owned(),
                    commit: commit.to_owned(),
                    sysroot: PathBuf::from(sysroot.trim_end()),
                    name,
                }));
            }
        }
        Ok(None)
    }

    /// A program of this toolchain.
    pub(crate) fn command(&self, program: &str) -> Command {
        in_toolchain(&self.name, program)
    }
}

fn in_toolchain(name: &str, program: &str) -> Command {
    let mut command = command::clean("rustup");
    command.args(["run", name, program]);
    command
}

/// The names in `rustup toolchain list`, those that spell the pinned one first.
fn candidates(list: &str, pinned: &str) -> Vec<String> {
    let mut names: Vec<String> = list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|&name| name != "no") // "no installed toolchains"
        .map(str::to_owned)
        .collect();
    let of_that_name = |name: &str| {
        name.strip_prefix(pinned).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    names.sort_by_key(|name| !of_that_name(name));
    names
}

fn field<'a>(version: &'a str, name: &str) -> Option<&'a str> {
    version.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_name_goes_first_and_others_follow() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\n\
                    nightly-2026-05-2-x86_64-unknown-linux-gnu\n\
                    nightly-2026-05-20-x86_64-unknown-linux-gnu\n";
        let names = candidates(list, "nightly-2026-05-20");
        assert_eq!(names[0], "nightly-2026-05-20-x86_64-unknown-linux-gnu");
        assert_eq!(names.len(), 3);
        assert!(candidates("no installed toolchains\n", "nightly").is_empty());
    }

    #[test]
    fn fields_of_the_version_are_found() {
        let version = "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)\nbinary: rustc\n\
                       commit-hash: e50aa6fb\nrelease: 1.97.0-nightly\n";
        assert_eq!(field(version, "commit-hash"), Some("e50aa6fb"));
        assert_eq!(field(version, "release"), Some("1.97.0-nightly"));
        assert_eq!(field(version, "host"), None);
    }
}
