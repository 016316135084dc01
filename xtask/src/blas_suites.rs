//! `cargo xtask blas-suites`: other people's test suites on `libtessera_blas.so`.
//!
//! Each suite runs unchanged, with the library preloaded over the reference BLAS. What passed is counted and held
//! against what the reference BLAS passes; the exit codes of the testers say nothing.

mod broken;
mod lapack;
mod netlib;
mod python;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::command;

/// Run other projects' BLAS and LAPACK test suites on libtessera_blas.so
///
/// The suites are Debian packages; where one is missing it is said which, and `--install` installs it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which: blas3, blas3-long, cblas3, lapack, numpy or scipy; without a name all of them
    names: Vec<String>,
    /// Install the packages that are missing, with apt-get
    #[arg(long)]
    install: bool,
    /// Put a library of wrong products before it, and fail where a suite does not notice
    #[arg(long)]
    broken: bool,
}

/// A suite.
struct Suite {
    name: &'static str,
    /// Debian packages that it is in.
    packages: &'static [&'static str],
    /// Whether it takes some seconds at most, and so is a part of `ci`.
    quick: bool,
    run: fn(&Preload) -> Result<Outcome>,
}

const SUITES: [Suite; 6] = [
    Suite { name: "blas3", packages: netlib::PACKAGES, quick: true, run: netlib::fortran },
    Suite {
        name: "blas3-long",
        packages: netlib::PACKAGES,
        quick: true,
        run: netlib::fortran_long,
    },
    Suite { name: "cblas3", packages: netlib::PACKAGES, quick: true, run: netlib::c },
    Suite { name: "lapack", packages: lapack::PACKAGES, quick: false, run: lapack::run },
    Suite { name: "numpy", packages: python::PACKAGES, quick: false, run: python::numpy },
    Suite { name: "scipy", packages: python::PACKAGES, quick: false, run: python::scipy },
];

/// How much of a suite passed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    passed: usize,
    /// What the reference BLAS passes.
    expected: usize,
    /// Lines that tell of a failure.
    complaints: Vec<String>,
}

impl Outcome {
    fn is_good(&self) -> bool {
        self.passed >= self.expected && self.complaints.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} passed", self.passed, self.expected)?;
        self.complaints.iter().take(10).try_for_each(|line| write!(f, "\n    {}", line.trim()))
    }
}

/// Libraries in the order in which the loader is to take them.
struct Preload {
    libraries: Vec<PathBuf>,
    /// Where the Debian packages have their libraries and testers.
    folder: PathBuf,
}

impl Preload {
    /// A program with the library under test before the reference BLAS and LAPACK.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        let paths: Vec<_> = self.libraries.iter().map(|path| path.display().to_string()).collect();
        let reference = ["blas", "lapack"].map(|of| self.folder.join(of).display().to_string());
        command.env("LD_PRELOAD", paths.join(":")).env("LD_LIBRARY_PATH", reference.join(":"));
        command.stdin(Stdio::null());
        command
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let known = || SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
    if let Some(name) =
        args.names.iter().find(|&name| SUITES.iter().all(|suite| suite.name != name))
    {
        bail!("`{name}` is none of {}", known());
    }
    let named =
        |suite: &&Suite| args.names.is_empty() || args.names.iter().any(|name| name == suite.name);
    let chosen: Vec<_> = SUITES.iter().filter(named).collect();
    if args.install {
        install(&chosen)?;
    }
    if let Some(why) = missing(&chosen) {
        bail!("{why}");
    }
    run_all(&chosen, args.broken)
}

/// The suites of `ci`, or why they cannot run here.
pub(crate) fn quick(require: bool) -> Result<Option<String>> {
    let chosen: Vec<_> = SUITES.iter().filter(|suite| suite.quick).collect();
    if let Some(why) = missing(&chosen) {
        if require {
            bail!("{why}");
        }
        println!("SKIPPED: {why}");
        return Ok(Some(why));
    }
    run_all(&chosen, false)?;
    run_all(&chosen, true)?;
    Ok(None)
}

fn run_all(chosen: &[&Suite], is_broken: bool) -> Result<()> {
    let library = build()?;
    let scratch = tempfile::tempdir()?;
    let mut libraries = vec![library];
    if is_broken {
        libraries.insert(0, broken::build(scratch.path())?);
    }
    let preload = Preload { libraries, folder: folder()? };
    let mut bad = Vec::new();
    for suite in chosen {
        let outcome = (suite.run)(&preload).with_context(|| format!("suite {}", suite.name))?;
        println!("{:12} {outcome}", suite.name);
        if outcome.is_good() == is_broken {
            bad.push(suite.name);
        }
    }
    match (bad.is_empty(), is_broken) {
        (true, false) => Ok(()),
        (true, true) => {
            println!("each of these suites has noticed the library of wrong products");
            Ok(())
        }
        (false, false) => bail!("not everything passed: {}", bad.join(", ")),
        (false, true) => bail!("wrong products went unnoticed: {}", bad.join(", ")),
    }
}

/// Builds the library as a package of its own: in a build of the whole workspace it has more features.
fn build() -> Result<PathBuf> {
    let mut cargo = command::cargo();
    command::run(cargo.args(["build", "-p", "tessera-blas"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::modules::root().join("target"), PathBuf::from);
    let library = target.join("debug/libtessera_blas.so");
    anyhow::ensure!(library.exists(), "there is no {}", library.display());
    Ok(library)
}

/// Debian's folder of libraries for this architecture.
fn folder() -> Result<PathBuf> {
    let library = Path::new("/usr/lib");
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folder = library.join(triple);
    anyhow::ensure!(
        folder.is_dir(),
        "there is no {}: the suites are Debian packages",
        folder.display()
    );
    Ok(folder)
}

/// The packages of some suites, each once.
fn packages(suites: &[&Suite]) -> Vec<&'static str> {
    let mut packages: Vec<_> = suites.iter().flat_map(|suite| suite.packages).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// What is not installed, in one line.
fn missing(suites: &[&Suite]) -> Option<String> {
    let is_installed = |package: &&str| {
        let mut query = Command::new("dpkg-query");
        query.args(["-W", "-f", "${Status}", package]).stderr(Stdio::null());
        let output = query.output().map(|output| output.stdout).unwrap_or_default();
        output.ends_with(b"ok installed")
    };
    let packages: Vec<_> = packages(suites).into_iter().filter(|it| !is_installed(it)).collect();
    (!packages.is_empty()).then(|| {
        let list = packages.join(" ");
        format!("these Debian packages are missing: {list}; `cargo xtask blas-suites --install`")
    })
}

fn install(suites: &[&Suite]) -> Result<()> {
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-y", "--no-install-recommends"]).args(packages(suites));
    command::run(&mut apt)
}

/// The output of a tester that runs in a folder, its own exit code aside.
fn output_of(command: &mut Command, folder: &Path) -> Result<String> {
    let output = command.current_dir(folder).output();
    let output = output
        .with_context(|| format!("{} could not be started", command.get_program().display()))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_expected_or_a_complaint_is_bad() {
        let outcome = |passed, complaints: &[&str]| Outcome {
            passed,
            expected: 3,
            complaints: complaints.iter().map(|&line| line.to_owned()).collect(),
        };
        assert!(outcome(3, &[]).is_good());
        assert!(!outcome(2, &[]).is_good());
        assert!(!outcome(3, &["SUSPECT"]).is_good());
        assert_eq!(outcome(2, &[" SUSPECT "]).to_string(), "2 of 3 passed\n    SUSPECT");
    }
}
