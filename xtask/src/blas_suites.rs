//! `cargo xtask blas-suites`: other people's test suites on `libtessera_blas.so`.
//!
//! Each suite runs unchanged, with the library preloaded over the reference BLAS. What passed is counted and held
//! against what the reference BLAS passes; the exit codes of the testers say nothing.

mod broken;
mod bundle;
mod hpl;
mod lapack;
mod netlib;
mod numpy_products;
mod octave;
mod openblas;
mod python;
mod r;
mod scalapack;
mod sources;
mod wheels;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use self::broken::Broken;
use crate::command;

/// Run other projects' BLAS and LAPACK test suites on libtessera_blas.so
///
/// The suites are Debian packages, or in Debian's sources, or Python packages; where a Debian package is missing it is
/// said which, and `--install` installs it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which suites; without a name all of them
    #[arg(value_parser = SUITES.map(|suite| suite.name))]
    names: Vec<String>,
    /// Install the packages that are missing, with apt-get
    #[arg(long)]
    install: bool,
    /// Put a library of wrong products before it, and fail where a suite does not notice; then one of factorisations that
    /// do nothing, for the suites that call them
    #[arg(long)]
    broken: bool,
    /// Have products computed where TESSERA_BLAS_DEVICE says: `auto`, or `cuda:0` for all of them. With the latter a
    /// suite fails of which no call was computed there. Without a GPU, TESSERA_LIBCUDA may name an emulated driver
    #[arg(long, conflicts_with = "broken")]
    device: Option<String>,
    /// Have the CPU compute by the units of that name of TESSERA_CPU_UNITS; `tiles` are matrix units for products of every
    /// size, or their model
    #[arg(long)]
    units: Option<String>,
    /// Pack the reference BLAS' testers of level 3, the library and run.sh into target/blas-bundle.tar.gz, for a machine
    /// with a GPU and without Rust or packages
    #[arg(long, conflicts_with_all = ["broken", "device", "names", "units"])]
    bundle: bool,
}

/// A suite.
struct Suite {
    name: &'static str,
    /// Debian packages that it needs.
    packages: &'static [&'static str],
    /// Whether it takes some seconds at most and needs nothing but packages, and so is a part of `ci`.
    quick: bool,
    /// Whether it calls factorisations as well as products.
    factors: bool,
    /// Whether names without a suffix are to take 64-bit integers.
    ilp64: bool,
    run: fn(&Preload) -> Result<Outcome>,
}

impl Suite {
    const fn of(
        name: &'static str,
        packages: &'static [&'static str],
        run: fn(&Preload) -> Result<Outcome>,
    ) -> Self {
        Self { name, packages, quick: false, factors: false, ilp64: false, run }
    }

    const fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    /// Whether level 3 is called.
    fn has_products(&self) -> bool {
        !self.name.ends_with("blas2")
    }

    const fn with_factors(self) -> Self {
        Self { factors: true, ..self }
    }

    const fn with_long_integers(self) -> Self {
        Self { ilp64: true, ..self }
    }
}

const SUITES: [Suite; 19] = [
    Suite::of("blas2", netlib::PACKAGES, netlib::fortran_level2).quick(),
    Suite::of("cblas2", netlib::PACKAGES, netlib::c_level2).quick(),
    Suite::of("blas3", netlib::PACKAGES, netlib::fortran).quick(),
    Suite::of("blas3-long", netlib::PACKAGES, netlib::fortran_long).quick(),
    Suite::of("blas3-ilp64", netlib::ILP64_PACKAGES, netlib::fortran_ilp64).with_long_integers(),
    Suite::of("blas3-newer", netlib::NEWER_PACKAGES, netlib::newer),
    Suite::of("cblas3", netlib::PACKAGES, netlib::c).quick(),
    Suite::of("cblas3-ilp64", netlib::ILP64_PACKAGES, netlib::c_ilp64).with_long_integers(),
    Suite::of("lapack", lapack::PACKAGES, lapack::run).with_factors(),
    Suite::of("openblas", openblas::PACKAGES, openblas::run).with_factors(),
    Suite::of("numpy", python::PACKAGES, python::numpy).with_factors(),
    Suite::of("scipy", python::PACKAGES, python::scipy).with_factors(),
    Suite::of("numpy-wheel", wheels::PACKAGES, wheels::numpy),
    Suite::of("scipy-wheel", wheels::PACKAGES, wheels::scipy).with_factors(),
    Suite::of("numpy-products", numpy_products::PACKAGES, numpy_products::run),
    Suite::of("r", r::PACKAGES, r::run).with_factors(),
    Suite::of("octave", octave::PACKAGES, octave::run).with_factors(),
    Suite::of("hpl", hpl::PACKAGES, hpl::run),
    Suite::of("scalapack", scalapack::PACKAGES, scalapack::run),
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

/// Calls of level 3, by the lines that they leave.
#[derive(Debug, PartialEq, Eq)]
struct Calls {
    all: usize,
    on_gpu: usize,
}

impl Calls {
    fn of(log: &str) -> Self {
        let on_gpu = log.lines().filter(|line| line.contains(": cuda:")).count();
        Self { all: log.lines().count(), on_gpu }
    }
}

/// Libraries in the order in which the loader is to take them.
struct Preload {
    /// The last is the library under test.
    libraries: Vec<PathBuf>,
    /// Where the Debian packages have their libraries and testers.
    folder: PathBuf,
    /// Where products are to be computed, and the file in which each call leaves a line.
    device: Option<(String, PathBuf)>,
    /// The units of the CPU, if not those that a user has.
    units: Option<String>,
    /// How long a program may take, see [`Self::limited`].
    limit: Option<&'static str>,
}

/// How long a program may take with a broken library: testers search for numbers that never come.
const BROKEN_LIMIT: &str = "600s";

impl Preload {
    /// A program with the library under test before the reference BLAS and LAPACK.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        self.limited(self.limit, program)
    }

    /// The same, ended with all that it has started after that time, as `timeout` is told.
    fn limited(&self, limit: Option<&str>, program: impl AsRef<Path>) -> Command {
        let mut command = match limit {
            None => Command::new(program.as_ref()),
            Some(limit) => {
                let mut command = Command::new("timeout");
                command.args(["--kill-after=10s", limit]).arg(program.as_ref());
                command
            }
        };
        command.env("LD_PRELOAD", self.joined()).env("LD_LIBRARY_PATH", self.reference());
        command.stdin(Stdio::null());
        if let Some(units) = &self.units {
            command.env("TESSERA_CPU_UNITS", units);
        }
        if let Some((device, log)) = &self.device {
            command.env("TESSERA_BLAS_DEVICE", device).env("TESSERA_BLAS_LOG", log);
        }
        command
    }

    /// The libraries as the loader is told of them.
    fn joined(&self) -> String {
        let paths: Vec<_> = self.libraries.iter().map(|path| path.display().to_string()).collect();
        paths.join(":")
    }

    /// The calls since the last time, where they leave lines.
    fn calls(&self) -> Result<Option<Calls>> {
        let Some((_, log)) = &self.device else { return Ok(None) };
        let calls = Calls::of(&fs::read_to_string(log).unwrap_or_default());
        if log.exists() {
            fs::remove_file(log)?;
        }
        Ok(Some(calls))
    }

    /// The folders of the reference BLAS and LAPACK.
    fn reference(&self) -> String {
        ["blas", "lapack"].map(|of| self.folder.join(of).display().to_string()).join(":")
    }

    /// The library under test.
    fn library(&self) -> Result<&Path> {
        self.libraries.last().map(PathBuf::as_path).context("there is no library to test")
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.bundle {
        return bundle::write();
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
    if args.broken {
        return run_broken(&chosen);
    }
    let elsewhere = Elsewhere { device: args.device.as_deref(), units: args.units.as_deref() };
    run_all(&chosen, None, elsewhere)
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
    run_all(&chosen, None, Elsewhere::default())?;
    run_broken(&chosen)?;
    Ok(None)
}

/// Runs suites on libraries that they must notice.
fn run_broken(chosen: &[&Suite]) -> Result<()> {
    run_all(chosen, Some(Broken::Products), Elsewhere::default())?;
    let of_factors: Vec<_> = chosen.iter().copied().filter(|suite| suite.factors).collect();
    if of_factors.is_empty() {
        return Ok(());
    }
    run_all(&of_factors, Some(Broken::Factors), Elsewhere::default())
}

/// Where products are to be computed, if not where they usually are.
#[derive(Clone, Copy, Default)]
struct Elsewhere<'a> {
    device: Option<&'a str>,
    units: Option<&'a str>,
}

fn run_all(chosen: &[&Suite], broken: Option<Broken>, elsewhere: Elsewhere<'_>) -> Result<()> {
    let Elsewhere { device, units } = elsewhere;
    let scratch = tempfile::tempdir()?;
    let long = match chosen.iter().any(|suite| suite.ilp64) {
        true => Some(build(&["--features", "tessera-blas/ilp64"], &scratch.path().join("ilp64"))?),
        false => None,
    };
    let usual = build(&[], scratch.path())?;
    let broken_library = broken.map(|broken| broken::build(scratch.path(), broken)).transpose()?;
    let folder = folder()?;
    let mut bad = Vec::new();
    for suite in chosen {
        let library = if suite.ilp64 { long.as_ref() } else { Some(&usual) };
        let libraries = broken_library.iter().chain(library).cloned().collect();
        let on = device.map(|device| (device.to_owned(), scratch.path().join("calls.log")));
        let units = units.map(str::to_owned);
        let limit = broken.map(|_| BROKEN_LIMIT);
        let preload = Preload { libraries, folder: folder.clone(), device: on, units, limit };
        let outcome = (suite.run)(&preload).with_context(|| format!("suite {}", suite.name));
        // Whoever does not survive a broken library has noticed it.
        let outcome = match (outcome, broken) {
            (Err(error), Some(_)) => Outcome {
                passed: 0,
                expected: 1,
                complaints: vec![format!("{error:#}").lines().take(3).collect()],
            },
            (outcome, _) => outcome?,
        };
        let (mut outcome, mut where_to) = (outcome, String::new());
        if let Some(calls) = preload.calls()? {
            where_to = format!("{} of {} calls on a GPU, ", calls.on_gpu, calls.all);
            let forced = device.is_some_and(|device| device.starts_with("cuda"));
            if forced && calls.on_gpu == 0 && suite.has_products() {
                outcome.complaints.push("no call was computed on the device".to_owned());
            }
        }
        println!("{:12} {where_to}{outcome}", suite.name);
        if outcome.is_good() == broken.is_some() {
            bad.push(suite.name);
        }
    }
    match (bad.is_empty(), broken) {
        (true, None) => Ok(()),
        (true, Some(broken)) => {
            println!("each of these suites has noticed the library of {broken}");
            Ok(())
        }
        (false, None) => bail!("not everything passed: {}", bad.join(", ")),
        (false, Some(broken)) => bail!("{broken} went unnoticed: {}", bad.join(", ")),
    }
}

/// Builds the library, and copies it to a folder. In a build of the whole workspace its packages have more features; with
/// Python's extension module they have those that `cargo xtask python-tests` compiles.
fn build(features: &[&str], to: &Path) -> Result<PathBuf> {
    let mut cargo = command::cargo();
    cargo.arg("build").args(command::AS_TESTED).args(["-p", "tessera-blas", "-p", "tessera-py"]);
    command::run(cargo.args(features))?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::modules::root().join("target"), PathBuf::from);
    let library = target.join("debug/libtessera_blas.so");
    anyhow::ensure!(library.exists(), "there is no {}", library.display());
    fs::create_dir_all(to)?;
    let copy = to.join("libtessera_blas.so");
    fs::copy(&library, &copy)?;
    Ok(copy)
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
    fn calls_are_counted_by_where_they_were_computed() {
        let log = "tessera-blas[7]: DGEMM 1 x 1 x 1: cuda:0 by naive, 0.1 s\n\
            tessera-blas[7]: ZGEMM 1 x 1 x 1: cpu, 0.1 s; no kernel\n";
        assert_eq!(Calls::of(log), Calls { all: 2, on_gpu: 1 });
        assert_eq!(Calls::of(""), Calls { all: 0, on_gpu: 0 });
    }

    /// With all that it has started.
    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let (libraries, folder) = (Vec::new(), std::env::temp_dir());
        let limit = Some("1s");
        let preload =
            Preload { libraries, folder: folder.clone(), device: None, units: None, limit };
        let started = std::time::Instant::now();
        let mut shell = preload.command("sh");
        let text = output_of(shell.args(["-c", "echo begun; sleep 60"]), &folder).unwrap();
        assert_eq!(text, "begun\n");
        assert!(started.elapsed().as_secs() < 30);
    }

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
