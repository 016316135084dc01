//! Tests of NumPy's and SciPy's wheels, whose own calls of BLAS and LAPACK have `scipy_` names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::python::pytest;
use super::{Outcome, Preload};
use crate::command;

pub(super) const PACKAGES: &[&str] = &["python3-venv"];

/// The wheels whose tests are counted below, and what runs them.
const WHEELS: [&str; 4] = ["numpy==2.4.6", "scipy==1.17.1", "pytest", "hypothesis"];

/// A Python with the wheels, made once.
fn python() -> Result<PathBuf> {
    let folder = crate::modules::root().join("target/blas-wheels");
    let (program, done) = (folder.join("bin/python"), folder.join("installed"));
    if !done.exists() {
        let mut venv = Command::new("python3");
        command::run(venv.args(["-m", "venv"]).arg(&folder))?;
        let mut pip = Command::new(&program);
        command::run(pip.args(["-m", "pip", "install", "--quiet"]).args(WHEELS))?;
        std::fs::write(done, "")?;
    }
    Ok(program)
}

/// Where the Python has its packages.
fn packages(python: &Path) -> Result<PathBuf> {
    let mut query = Command::new(python);
    let folder = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
    Ok(command::output(query.args(["-c", folder]))?.trim().into())
}

/// A pencil of two singular matrices with the same null vector, of whose eigenvalues two are nothing but rounding errors.
/// What the test finds left over must be below 5e-13, which is less than the unit roundoff of the products that it is the
/// difference of: norms of 170 and 130 times eigenvalues of up to 39.
const SINGULAR: &str = "test_decomp.py::TestEig::test_singular";

pub(super) fn numpy(preload: &Preload) -> Result<Outcome> {
    let python = python()?;
    let tests = packages(&python)?.join("numpy/_core/tests/test_multiarray.py");
    pytest(preload, python, &["-k", "Matmul or TestDot or Vdot or Vec"], &[tests], 270, &[])
}

pub(super) fn scipy(preload: &Preload) -> Result<Outcome> {
    let python = python()?;
    let packages = packages(&python)?;
    let tests = ["blas", "decomp", "lapack", "basic", "solvers"]
        .map(|name| packages.join(format!("scipy/linalg/tests/test_{name}.py")));
    pytest(preload, python, &[], &tests, 6084, &[SINGULAR])
}
