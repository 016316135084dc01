//! Upstream's sources, as Debian keeps them beside its packages: for suites that no package has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command;

/// The folder of a package's sources of a release of Debian, of which those files are unpacked whose names fit a pattern.
/// They are fetched once, from where the system takes its packages.
pub(super) fn unpacked(package: &str, release: &str, patterns: &[&str]) -> Result<PathBuf> {
    let folder = crate::modules::root().join("target/blas-sources");
    let of_package = folder.join(format!("{package}-{release}"));
    let unpacked = of_package.join("unpacked");
    if !unpacked.is_dir() {
        fs::create_dir_all(&of_package)?;
        let archive = fetch(&folder, &of_package, package, release)?;
        let partial = of_package.join("partial");
        fs::create_dir_all(&partial)?;
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(&archive).arg("-C").arg(&partial).arg("--wildcards").args(patterns);
        command::run(&mut tar)?;
        fs::rename(&partial, &unpacked)?;
    }
    // All is in one folder, with the release in its name.
    let mut entries = fs::read_dir(&unpacked)?;
    let only = entries.next().context("the sources are empty")??;
    Ok(only.path())
}

/// Fetches the archive of upstream's sources.
fn fetch(folder: &Path, of_package: &Path, package: &str, release: &str) -> Result<PathBuf> {
    let list = folder.join(format!("{release}.list"));
    let lists = folder.join(format!("{release}-lists"));
    fs::create_dir_all(lists.join("partial"))?;
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(&list, format!("deb-src [signed-by={keys}] {} {release} main\n", mirror()?))?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        let settings = [
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", lists.display()),
            "APT::Sandbox::User=root".to_owned(),
        ];
        apt.args(settings.iter().flat_map(|setting| ["-o", setting]));
        apt
    };
    command::run(apt().arg("update"))?;
    let line = "cd \"$0\" && shift && exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).arg(of_package).arg("--");
    let fetch = apt();
    shell.arg(fetch.get_program()).args(fetch.get_args());
    shell.args(["source", "--download-only", "--tar-only", package]);
    command::run(&mut shell)?;
    let is_archive = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains(".orig.tar"))
    };
    let paths = fs::read_dir(of_package)?.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<Result<Vec<_>>>()?;
    paths.into_iter().find(is_archive).context("apt-get has fetched no sources")
}

/// Where the system takes Debian's main packages from.
fn mirror() -> Result<String> {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)"]);
    let text = command::output(&mut apt)?;
    let of_main = |line: &str| {
        let mut words = line.split(' ');
        let (uri, release) = (words.next()?, words.next()?);
        // Updates and security have a hyphen in their names.
        (words.next() == Some("main") && !release.contains('-')).then(|| uri.to_owned())
    };
    text.lines().find_map(of_main).context("apt-get knows no repository with main packages")
}
