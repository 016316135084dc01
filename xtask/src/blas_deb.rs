//! `cargo xtask blas-deb`: a Debian package whose library is `libblas.so.3` for the programs of a system.
//!
//! The package has the library twice: as it is, to be preloaded, and with the name `libblas.so.3`, which is offered to
//! the alternatives system before OpenBLAS'. What it does not have it needs from `libopenblas.so.0`, as OpenBLAS' own
//! package does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::command;

/// Build a Debian package that provides libblas.so.3
///
/// It is written to target/. With `--check` it is also installed into an empty root of its own, must become the
/// alternative and solve the reference tester's problems, and must go without trace.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install, use and remove it in a root of its own
    #[arg(long)]
    check: bool,
}

const NAME: &str = "libtessera-blas0";
/// OpenBLAS has 100, BLIS 75, the reference BLAS 10.
const PRIORITY: u32 = 120;

/// What the package is for.
struct Target {
    /// As dpkg says it, such as `amd64`.
    architecture: String,
    /// As folders of libraries have it, such as `x86_64-linux-gnu`.
    triple: String,
}

impl Target {
    fn of_this_machine() -> Result<Self> {
        let architecture = command::output(Command::new("dpkg").arg("--print-architecture"))?;
        let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
        Ok(Self { architecture: architecture.trim().to_owned(), triple })
    }

    /// The folder of libraries, from the root on.
    fn libraries(&self) -> PathBuf {
        Path::new("usr/lib").join(&self.triple)
    }

    /// The name of the alternative.
    fn alternative(&self) -> String {
        format!("libblas.so.3-{}", self.triple)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let target = Target::of_this_machine()?;
    let package = build(&target)?;
    println!("{}", package.display());
    if args.check { check(&target, &package) } else { Ok(()) }
}

fn build(target: &Target) -> Result<PathBuf> {
    let mut cargo = command::cargo();
    command::run(cargo.args(["build", "--release", "-p", "tessera-blas"]))?;
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::modules::root().join("target"), PathBuf::from);
    let library = folder.join("release/libtessera_blas.so");
    let scratch = tempfile::tempdir()?;
    // Of the folders a user of the package sees those inside.
    let root = scratch.path().join("root");
    let libraries = root.join(target.libraries()).join("tessera");
    let docs = root.join("usr/share/doc").join(NAME);
    let control = root.join("DEBIAN");
    for folder in [&libraries, &docs, &control] {
        fs::create_dir_all(folder)?;
    }
    let preloaded = libraries.join("libtessera_blas.so.0");
    command::run(
        Command::new("strip").args(["--strip-debug", "-o"]).arg(&preloaded).arg(&library),
    )?;
    let whole = libraries.join("libblas.so.3");
    fs::copy(&preloaded, &whole)?;
    let mut patchelf = Command::new("patchelf");
    patchelf.args(["--set-soname", "libblas.so.3", "--add-needed", "libopenblas.so.0"]).arg(&whole);
    command::run(&mut patchelf).context("patchelf is in the Debian package of that name")?;
    for library in [&preloaded, &whole] {
        fs::set_permissions(library, fs::Permissions::from_mode(0o644))?;
    }
    fs::write(docs.join("copyright"), copyright())?;
    fs::write(control.join("control"), control_file(target, &glibc(&whole)?))?;
    fs::write(control.join("triggers"), "activate-noawait ldconfig\n")?;
    for (name, text) in [("postinst", postinst(target)), ("prerm", prerm(target))] {
        let path = control.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let package = folder.join(format!("{NAME}_{version}_{}.deb", target.architecture));
    let mut deb = Command::new("dpkg-deb");
    deb.args(["--root-owner-group", "--build"]).arg(&root).arg(&package);
    command::run(&mut deb)?;
    Ok(package)
}

fn control_file(target: &Target, glibc: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "Package: {NAME}
Version: {version}
Architecture: {}
Multi-Arch: same
Section: libs
Priority: optional
Maintainer: Tessera
Depends: libc6 (>= {glibc}), libgcc-s1, libopenblas0-pthread
Provides: libblas.so.3
Description: BLAS on Tessera's matrix products
 Level 3 of BLAS, the parts of level 2 that LAPACK spends time in, and the LU,
 Cholesky and QR of LAPACK; the other routines are OpenBLAS'.
 .
 The package is an alternative for libblas.so.3. Beside it is
 libtessera_blas.so.0, to be preloaded.
",
        target.architecture
    )
}

fn postinst(target: &Target) -> String {
    let (link, name) = (target.libraries().join("libblas.so.3"), target.alternative());
    let library = target.libraries().join("tessera/libblas.so.3");
    format!(
        "#!/bin/sh
set -e
case \"$1\" in
configure)
    update-alternatives --install /{} {name} /{} {PRIORITY}
    ;;
esac
",
        link.display(),
        library.display()
    )
}

fn prerm(target: &Target) -> String {
    let library = target.libraries().join("tessera/libblas.so.3");
    format!(
        "#!/bin/sh
set -e
case \"$1\" in
remove|deconfigure)
    update-alternatives --remove {} /{}
    ;;
esac
",
        target.alternative(),
        library.display()
    )
}

fn copyright() -> String {
    "Tessera is under the Apache License, version 2.0, which Debian has in
/usr/share/common-licenses/Apache-2.0, or under the MIT license, as its user likes.
"
    .to_owned()
}

/// The newest release of the C library that a library asks for.
fn glibc(library: &Path) -> Result<String> {
    let text = command::output(Command::new("readelf").arg("--version-info").arg(library))?;
    newest_glibc(&text).context("the library asks for no release of the C library")
}

fn newest_glibc(text: &str) -> Option<String> {
    let number = |word: &str| -> Option<(u32, u32)> {
        let (major, minor) = word.strip_prefix("GLIBC_")?.split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    };
    let newest = text.split_whitespace().filter_map(number).max()?;
    Some(format!("{}.{}", newest.0, newest.1))
}

/// Installs the package into an empty root, uses it, and removes it.
fn check(target: &Target, package: &Path) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let root = scratch.path();
    let admin = root.join("var/lib/dpkg");
    let links = root.join(target.libraries());
    for folder in ["info", "updates", "alternatives", "triggers"] {
        fs::create_dir_all(admin.join(folder))?;
    }
    for folder in ["etc/alternatives", "var/log"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::create_dir_all(&links)?;
    fs::write(admin.join("status"), "")?;
    fs::write(admin.join("available"), "")?;
    // Another library is the alternative before.
    let other = Path::new("/").join(target.libraries()).join("other/libblas.so.3");
    fs::create_dir_all(links.join("other"))?;
    fs::write(links.join("other/libblas.so.3"), "")?;
    let link = Path::new("/").join(target.libraries()).join("libblas.so.3");
    let mut alternatives = Command::new("update-alternatives");
    alternatives.env("DPKG_ROOT", root).arg("--install").arg(&link).arg(target.alternative());
    command::run(alternatives.arg(&other).arg("100"))?;
    let before = entries(root)?;

    let dpkg = |arguments: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()));
        dpkg.args(["--force-script-chrootless", "--force-not-root", "--force-depends"]);
        dpkg.args(arguments);
        dpkg
    };
    command::run(dpkg(&["--install"]).arg(package))?;
    let chosen = root.join("etc/alternatives").join(target.alternative());
    let expected = Path::new("/").join(target.libraries()).join("tessera/libblas.so.3");
    let found = fs::read_link(&chosen)?;
    ensure!(found == expected, "the alternative is {}", found.display());
    use_it(&links.join("tessera"), target)?;

    command::run(&mut dpkg(&["--purge", NAME]))?;
    let found = fs::read_link(&chosen)?;
    ensure!(found == other, "after the removal the alternative is {}", found.display());
    let left: Vec<_> = entries(root)?.into_iter().filter(|path| !before.contains(path)).collect();
    if !left.is_empty() {
        bail!("the removal has left {left:?}");
    }
    println!("it was installed, became the alternative, was used, and has left no trace");
    Ok(())
}

/// A tester of the reference BLAS must pass with the library in place of the system's, and get its products from it.
fn use_it(folder: &Path, target: &Target) -> Result<()> {
    let testers = Path::new("/").join(target.libraries()).join("blas");
    let scratch = tempfile::tempdir()?;
    let tester = testers.join("xblat3d");
    ensure!(
        tester.exists(),
        "there is no {}: it is in the Debian package libblas-test",
        tester.display()
    );
    let line = "\"$0\" < \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).arg(&tester).arg(testers.join("dblat3.in"));
    shell.env("LD_LIBRARY_PATH", folder).env("LD_DEBUG", "bindings").current_dir(scratch.path());
    let output = shell.output().context("sh could not be started")?;
    let bindings = String::from_utf8_lossy(&output.stderr);
    let is_ours = |line: &str| line.contains("libblas.so.3 [0]: normal symbol `dgemm_'");
    ensure!(
        bindings.lines().any(|line| is_ours(line) && line.contains(&*folder.to_string_lossy())),
        "dgemm_ does not come from {}",
        folder.display()
    );
    let report = fs::read_to_string(scratch.path().join("dblat3.out"))?;
    let passed = report.lines().filter(|line| line.contains("PASSED THE")).count();
    ensure!(passed == 12 && !report.contains("FAIL"), "{passed} of 12 tests passed:\n{report}");
    Ok(())
}

/// All files and links of a folder but dpkg's own records.
fn entries(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let is_record = path.starts_with(root.join("var"));
            match entry.file_type()?.is_dir() {
                true => folders.push(path),
                false if !is_record => found.push(path),
                false => {}
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_release_counts() {
        let text =
            "0x0010:   Name: GLIBC_2.9  Flags: none\n  Name: GLIBC_2.34\n GLIBC_2.2.5 GCC_3.0";
        assert_eq!(newest_glibc(text).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc("nothing"), None);
    }
}
