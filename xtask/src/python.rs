//! `cargo xtask python-tests`: the tests of the Python package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{command, modules, venv, wheel};

/// Run the tests of the Python package: NumPy's own of matmul, ours, and the type stubs
///
/// They run on a build of the profile `test`, or on a wheel. NumPy, pytest, mypy and ml_dtypes go into
/// target/python-venv, over the network; PyTorch and JAX are tested where `TESSERA_PYTHON_PACKAGES` names
/// them as well. Without Python or network nothing runs, and a line says so.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Install this wheel into an environment of its own, and test that
    #[arg(long, value_name = "FILE")]
    pub(crate) wheel: Option<PathBuf>,
    /// Fail instead of skipping
    #[arg(long)]
    pub(crate) require: bool,
}

pub(crate) const PACKAGES: [&str; 4] = ["numpy", "pytest", "mypy", "ml_dtypes"];

/// Runs the tests, or answers why not.
pub(crate) fn run(args: &Args) -> Result<Option<String>> {
    let more = std::env::var("TESSERA_PYTHON_PACKAGES").unwrap_or_default();
    let packages: Vec<&str> = PACKAGES.into_iter().chain(more.split_whitespace()).collect();
    let name = if args.wheel.is_some() { "wheel-venv" } else { "python-venv" };
    let venv = match venv::ready(name, &packages) {
        Ok(venv) => venv,
        Err(why) if args.require => bail!("{why}"),
        Err(why) => {
            println!("SKIPPED: {why}");
            return Ok(Some(why));
        }
    };
    let python = venv.join("bin/python");
    let mut environment = Vec::new();
    if let Some(wheel) = &args.wheel {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--force-reinstall", "--no-deps"]).arg(std::path::absolute(wheel)?);
        command::run(&mut pip)?;
    } else {
        environment.push(("PYTHONPATH", package("python", &[])?));
    }
    let python = || {
        let mut command = Command::new(&python);
        command.env_remove("PYTHONPATH").envs(environment.iter().cloned());
        command
    };
    let tests = modules::root().join("crates/tessera_py/tests");
    let pytest = || {
        let mut pytest = python();
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        pytest.arg("-c").arg(tests.join("pytest.ini"));
        pytest
    };
    command::run(pytest().arg(&tests))?;
    if args.wheel.is_none() {
        // Arrays on a GPU, of which the driver is emulated.
        let emulated = package("python-emulated", &["--features", "tessera-py/emulated"])?;
        let files = ["test_gpu_arrays.py", "test_epilogue.py"].map(|file| tests.join(file));
        command::run(pytest().env("PYTHONPATH", emulated).args(files))?;
    }
    let mut stubtest = python();
    command::run(stubtest.args(["-m", "mypy.stubtest", "tessera"]))?;
    let mut mypy = python();
    mypy.args(["-m", "mypy", "--strict", "--cache-dir"]).arg(venv.join("mypy-cache"));
    command::run(mypy.arg(modules_of_package()))?;
    Ok(None)
}

fn modules_of_package() -> PathBuf {
    modules::root().join("crates/tessera_py/python/tessera")
}

/// The package as it is installed, made of a build of this tree with these options, in a folder of that name;
/// the path of the folder.
fn package(name: &str, options: &[&str]) -> Result<PathBuf> {
    let mut cargo = command::cargo();
    cargo.arg("build").args(command::AS_TESTED).args(["-p", "tessera-py", "-p", "tessera-blas"]);
    command::run(cargo.args(options))?;
    let built = venv::target().join("debug");
    let folder = venv::target().join(name);
    let package = folder.join("tessera");
    if package.exists() {
        fs::remove_dir_all(&package)?;
    }
    fs::create_dir_all(package.join("lib"))?;
    for entry in fs::read_dir(modules_of_package())? {
        let path = entry?.path();
        if path.is_file() {
            copy(&path, &package.join(path.file_name().unwrap_or_default()))?;
        }
    }
    let exported = wheel::exports(&built.join("libtessera_py.so"))?;
    if exported.iter().ne(["PyInit__native"]) {
        bail!("libtessera_py.so exports more than its module: {exported:?}");
    }
    copy(&built.join("libtessera_py.so"), &package.join("_native.abi3.so"))?;
    copy(&built.join("libtessera_blas.so"), &package.join("lib/libtessera_blas.so"))?;
    Ok(folder)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    Ok(())
}
