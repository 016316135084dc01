//! The pinned Debian package, downloaded and unpacked under the target folder.
//!
//! apt gets a configuration of its own: lists, cache and package state lie in a temporary folder,
//! and hooks that would touch the system are taken out. No root is needed and nothing of the system
//! changes. What the machine says of proxies and certificates stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use cuda_builder::{DebianPin, command, digest};

use super::Unavailable;
use super::apt::Mirror;

const DEFAULT_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Whether the programs that the download needs are there.
pub(crate) fn tools_present() -> bool {
    ["apt-get", "dpkg-deb"]
        .iter()
        .all(|program| command::output(command::clean(program).arg("--version")).is_ok())
}

/// Leaves the package's `rustc-…` folder under `downloads`.
pub(crate) fn download(pin: &DebianPin, mirrors: &[Mirror], downloads: &Path) -> Result<()> {
    fs::create_dir_all(downloads).with_context(|| format!("creating {}", downloads.display()))?;
    // Beside the goal, so that the last step is a rename.
    let scratch = tempfile::Builder::new()
        .prefix(".apt-")
        .tempdir_in(downloads)
        .with_context(|| format!("creating a folder in {}", downloads.display()))?;
    let scratch = scratch.path();
    let scratch =
        &scratch.canonicalize().with_context(|| format!("finding {}", scratch.display()))?;
    let write = |name: &str, text: &str| {
        let path = scratch.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    for folder in ["lists/partial", "cache/archives/partial", "unpacked"] {
        let path = scratch.join(folder);
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
    }
    let keyring = Path::new(DEFAULT_KEYRING).is_file().then_some(DEFAULT_KEYRING);
    write("sources.list", &sources_list(pin, mirrors, keyring))?;
    write("apt.conf", &configuration(scratch))?;
    write("status", "")?;

    command::run(apt(scratch).arg("update"))?;
    let package = format!("{}={}", pin.package, pin.version);
    command::run(apt(scratch).args(["download", &package]))?;

    let file = find_package(scratch)?;
    let expected = pin.sha256.clone();
    let size = fs::metadata(&file).with_context(|| format!("reading {}", file.display()))?.len();
    let found = digest::of_file(&file)?;
    if size != pin.size || found != expected {
        bail!(Unavailable::Checksum { path: file, expected, found });
    }
    let unpacked = scratch.join("unpacked");
    command::run(command::clean("dpkg-deb").arg("-x").arg(&file).arg(&unpacked))?;
    let sources = unpacked.join("usr/src");
    for entry in fs::read_dir(&sources).with_context(|| format!("listing {}", sources.display()))? {
        let entry = entry.with_context(|| format!("listing {}", sources.display()))?;
        let goal = downloads.join(entry.file_name());
        // The package also brings links to its folder under other names.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !goal.exists() {
            fs::rename(entry.path(), &goal)
                .with_context(|| format!("moving to {}", goal.display()))?;
        }
    }
    Ok(())
}

fn apt(scratch: &Path) -> Command {
    let mut apt = command::clean("apt-get");
    apt.current_dir(scratch).arg("-q").arg("-c").arg(scratch.join("apt.conf"));
    apt
}

/// The machine's own mirrors, with the suites that carry the package.
fn sources_list(pin: &DebianPin, mirrors: &[Mirror], keyring: Option<&str>) -> String {
    let mut text = String::new();
    for Mirror { uri, signed_by } in mirrors {
        let keyring = signed_by.as_deref().or(keyring.map(Path::new));
        let options =
            keyring.map_or(String::new(), |path| format!("[signed-by={}] ", path.display()));
        for suite in &pin.suites {
            text.push_str(&format!("deb {options}{uri} {suite} main\n"));
        }
    }
    text
}

fn configuration(scratch: &Path) -> String {
    let scratch = scratch.display();
    format!(
        "#clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear Acquire::IndexTargets::deb::DEP-11;\n\
         #clear Acquire::IndexTargets::deb::DEP-11-icons;\n\
         #clear Acquire::IndexTargets::deb::DEP-11-icons-small;\n\
         #clear Acquire::IndexTargets::deb::DEP-11-icons-hidpi;\n\
         #clear Acquire::IndexTargets::deb::DEP-11-icons-large;\n\
         #clear Acquire::IndexTargets::deb::DEP-11-icons-large-hidpi;\n\
         Acquire::Languages \"none\";\n\
         APT::Sandbox::User \"\";\n\
         Dir::Etc::SourceList \"{scratch}/sources.list\";\n\
         Dir::Etc::SourceParts \"/dev/null\";\n\
         Dir::State \"{scratch}\";\n\
         Dir::State::Lists \"{scratch}/lists\";\n\
         Dir::State::status \"{scratch}/status\";\n\
         Dir::Cache \"{scratch}/cache\";\n"
    )
}

fn find_package(folder: &Path) -> Result<PathBuf> {
    let mut entries =
        fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    entries
        .find_map(|entry| {
            let path = entry.ok()?.path();
            path.extension().is_some_and(|extension| extension == "deb").then_some(path)
        })
        .context("`apt-get download` succeeded and left no package")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mirror_is_asked_for_every_suite() {
        let pin = DebianPin {
            package: "rust-src".into(),
            version: "1.97.1".into(),
            suites: vec!["forky".into(), "sid".into()],
            size: 1,
            sha256: String::new(),
        };
        let mirrors = [
            Mirror { uri: "http://a.example/debian".into(), signed_by: None },
            Mirror { uri: "http://b.example/debian".into(), signed_by: Some("/b.gpg".into()) },
        ];
        assert_eq!(
            sources_list(&pin, &mirrors, Some("/k.gpg")),
            "deb [signed-by=/k.gpg] http://a.example/debian forky main\n\
             deb [signed-by=/k.gpg] http://a.example/debian sid main\n\
             deb [signed-by=/b.gpg] http://b.example/debian forky main\n\
             deb [signed-by=/b.gpg] http://b.example/debian sid main\n"
        );
        assert!(sources_list(&pin, &mirrors[..1], None).starts_with("deb http://a.example"));
    }

    #[test]
    fn every_folder_that_apt_writes_is_private() {
        let text = configuration(Path::new("/t/apt"));
        for setting in ["Dir::State ", "Dir::State::Lists ", "Dir::State::status ", "Dir::Cache "] {
            let line = text.lines().find(|line| line.starts_with(setting)).unwrap();
            assert!(line.contains("\"/t/apt"), "{line}");
        }
    }
}
