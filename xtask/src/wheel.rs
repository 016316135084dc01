//! `cargo xtask wheel`: the Python package as one file that pip installs on any Linux since 2014.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{command, modules, venv};

/// Build the wheel of the Python package, with libtessera_blas.so in it
///
/// It is for every Python since 3.10 and every Linux on x86-64 since glibc 2.17 (manylinux2014). maturin,
/// cargo-zigbuild and zig, which links for that glibc, go into target/maturin-venv, over the network.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder that the wheel goes to
    #[arg(long, default_value = "target/wheels")]
    out: PathBuf,
}

const PACKAGES: [&str; 3] = ["maturin>=1.9,<2", "cargo-zigbuild", "ziglang"];
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(args: &Args) -> Result<()> {
    let venv = venv::ready("maturin-venv", &PACKAGES).map_err(anyhow::Error::msg)?;
    let path = command::first_on_path(&venv.join("bin"))?;

    let library = blas_library(&venv, &path)?;
    let package = modules::root().join("crates/tessera_py");
    let inside = package.join("python/tessera/lib");
    fs::create_dir_all(&inside)?;
    fs::copy(&library, inside.join("libtessera_blas.so"))
        .with_context(|| format!("{}", library.display()))?;

    let out = std::path::absolute(&args.out)?;
    let mut maturin = std::process::Command::new(venv.join("bin/maturin"));
    maturin.env("PATH", &path).args(["build", "--release", "--zig", "--target", TARGET]);
    maturin.args(["--compatibility", "manylinux2014", "--manifest-path"]);
    maturin.arg(package.join("Cargo.toml")).arg("--out").arg(&out);
    let built = command::run(&mut maturin);
    // What lies in the source folder is found by whoever puts it on the path.
    fs::remove_dir_all(&inside)?;
    built?;

    let version = env!("CARGO_PKG_VERSION");
    let wheels = fs::read_dir(&out)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let begins = format!("tessera_gemm-{version}-cp310-abi3-manylinux");
    let Some(wheel) = wheels.into_iter().find(|name| name.starts_with(&begins)) else {
        bail!("maturin built no wheel {begins}*.whl in {}", out.display());
    };
    println!("{}", out.join(wheel).display());
    Ok(())
}

/// libtessera_blas.so for that glibc.
fn blas_library(venv: &Path, path: &OsStr) -> Result<PathBuf> {
    // zig knows no --exclude-libs, which keeps inside what other crates give names that are seen outside. None
    // of them does so today, which is looked at below.
    let linker = venv.join("zig-linker");
    let script = format!(
        "#!/bin/sh\n\
         for argument do\n  \
           shift\n  \
           [ \"$argument\" = -Wl,--exclude-libs,ALL ] || set -- \"$@\" \"$argument\"\n\
         done\n\
         exec {} zig cc -- -g -target x86_64-linux-gnu.2.17 \"$@\"\n",
        venv.join("bin/cargo-zigbuild").display(),
    );
    fs::write(&linker, script)?;
    fs::set_permissions(&linker, Permissions::from_mode(0o755))?;
    let mut cargo = command::cargo();
    cargo.env("PATH", path).env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", &linker);
    cargo.env("CARGO_ZIGBUILD_ZIG_COMMAND", venv.join("bin/python3"));
    cargo.env("CARGO_ZIGBUILD_ZIG_COMMAND_ARGS", "-m ziglang");
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    command::run(cargo.args(["build", "-p", "tessera-blas", "--release", "--target", TARGET]))?;
    let library = venv::target().join(TARGET).join("release/libtessera_blas.so");

    let mut cargo = command::cargo();
    command::run(cargo.arg("build").args(command::AS_TESTED).args(["-p", "tessera-blas"]))?;
    let usual = exports(&venv::target().join("debug/libtessera_blas.so"))?;
    let own = exports(&library)?;
    if usual.is_empty() || own != usual {
        let other: Vec<_> = own.symmetric_difference(&usual).cloned().collect();
        bail!("linked by zig the library exports other names: {}", other.join(", "));
    }
    Ok(library)
}

/// The names that a shared library exports.
pub(crate) fn exports(library: &Path) -> Result<BTreeSet<String>> {
    let mut nm = std::process::Command::new("nm");
    let text = command::output(nm.args(["-D", "--defined-only"]).arg(library))?;
    Ok(text.lines().filter_map(|line| line.split(' ').next_back()).map(str::to_owned).collect())
}
