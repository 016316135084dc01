//! `cargo xtask wheel`: the Python package as one file that pip installs on any Linux since 2014.

use std::fs;
use std::path::PathBuf;

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
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [venv.join("bin")].into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders)?;

    let mut zigbuild = std::process::Command::new(venv.join("bin/cargo-zigbuild"));
    zigbuild.env("PATH", &path).args(["zigbuild", "-p", "tessera-blas", "--release"]);
    command::run(zigbuild.args(["--target", &format!("{TARGET}.2.17")]))?;

    let package = modules::root().join("crates/tessera_py");
    let library = venv::target().join(TARGET).join("release/libtessera_blas.so");
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
