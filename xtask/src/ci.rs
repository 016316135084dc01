//! `cargo xtask ci`: exactly what CI runs, in its order.

use std::time::Instant;

use anyhow::Result;

use crate::toolchain::Unavailable;
use crate::{
    assemble, blas_suites, build_ptx, check_ptx, command, docs, emulator_suites, packages, python,
    sanitize,
};

/// Run exactly what CI runs, in its order, up to the first failure
///
/// What a machine lacks the tools for is skipped, and the last lines say what and why.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail instead of skipping: the device toolchain, ptxas and a nightly must be there
    #[arg(long)]
    require: bool,
    /// Run what takes a quarter of an hour more as well: the tests of kernels that plain tests leave out, and what is
    /// compiled with other projects' products
    #[arg(long)]
    long: bool,
}

/// The bridge to faer, whose packages take as long to compile as all others together. It is compiled with the peers,
/// of which faer is one: cargo then chooses the same features of these packages, and compiles them once.
const FAER: &str = "tessera-faer";
const PEERS: &str = "host/peers";

/// The engine of the CPU, with the features that it has in all tests. Its kernels are long to compile, and for its unit
/// tests they are compiled once more: without optimisation, which these do not wait for. Its other tests are of what all
/// else is made of.
const ENGINE: &str = "cpu_gemm";
pub(crate) const ENGINE_TESTS: &[&str] =
    &["test", "-p", ENGINE, "-p", "workspace-hack", "--test", "*"];
const ENGINE_EXAMPLES: &[&str] = &["test", "-p", ENGINE, "-p", "workspace-hack", "--doc"];
const ENGINE_UNIT_TESTS: &[&str] = &[
    "test",
    "-p",
    ENGINE,
    "-p",
    "workspace-hack",
    "--lib",
    "--config",
    "profile.test.package.cpu_gemm.opt-level=0",
];

/// Python's extension module has no tests but Python's own.
const PYTHON: &str = "tessera-py";

/// The tests of all packages but the laboratory and the engine of the CPU.
pub(crate) const OTHER_TESTS: &[&str] = &[
    "test",
    "--workspace",
    "--exclude",
    "host",
    "--exclude",
    ENGINE,
    "--exclude",
    FAER,
    "--exclude",
    PYTHON,
    "-F",
    "cuda_lazy/trampolines",
];

/// The arguments of the steps that are plain cargo.
///
/// `cargo test -p host` and the tests of the other packages agree in the features of all packages that both compile
/// (xtask's tests depend on the laboratory for that, and the laboratory's on `workspace-hack`): they are compiled once.
const CARGO_STEPS: [&[&str]; 10] = [
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--exclude", FAER, "--all-targets", "--", "-D", "warnings"],
    // As the library's users compile it: with the others its packages have more features.
    &["clippy", "-p", "tessera", "--", "-D", "warnings"],
    &["clippy", "-p", "tessera", "--no-default-features", "--", "-D", "warnings"],
    &["doc", "--workspace", "--exclude", FAER, "--no-deps", "--document-private-items"],
    &["test", "-p", "host"],
    OTHER_TESTS,
    ENGINE_TESTS,
    ENGINE_EXAMPLES,
    ENGINE_UNIT_TESTS,
];

/// The same of those that `--long` asks for.
const LONG_STEPS: [&[&str]; 5] = [
    emulator_suites::ALL,
    &["clippy", "-p", "host", "-p", FAER, "-F", PEERS, "--all-targets", "--", "-D", "warnings"],
    &["doc", "-p", "host", "-p", FAER, "-F", PEERS, "--no-deps", "--document-private-items"],
    &["test", "-p", "host", "-p", FAER, "-F", PEERS, "--lib", "--", "peers"],
    &["test", "-p", "host", "-p", FAER, "-F", PEERS, "--test", "faer_products"],
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let (mut steps, require) = (Steps::default(), args.require);
    let long: &[&[&str]] = if args.long { &LONG_STEPS } else { &[] };
    if !args.long {
        steps.skipped.push("what takes minutes: `cargo xtask ci --long` runs it as well".into());
    }
    for arguments in CARGO_STEPS.iter().chain(long) {
        let mut cargo = command::cargo();
        if arguments.first() == Some(&"doc") {
            cargo.env("RUSTDOCFLAGS", "-Dwarnings");
        }
        steps.take(&format!("cargo {}", arguments.join(" ")), || {
            command::run(cargo.args(*arguments))?;
            Ok(None)
        })?;
    }
    steps.take("packages", || packages::check().map(|()| None))?;
    steps.announced("docs --check", || {
        docs::run(&docs::Args { check: true })?;
        Ok(None)
    })?;
    steps.announced("build-ptx --check", || {
        let built = build_ptx::run(&build_ptx::Args { check: true });
        let Err(error) = built else { return Ok(None) };
        let why = lacking(error, require)?;
        println!("SKIPPED: {why}");
        Ok(Some(why))
    })?;
    steps.announced("assemble --check", || assemble::check(require))?;
    let check = check_ptx::Args { write: false, require };
    steps.announced("check-ptx", || check_ptx::run(&check))?;
    steps.announced("sanitize", || sanitize::run(&sanitize::Args { require }))?;
    steps.announced("blas-suites blas3 blas3-long cblas3", || blas_suites::quick(require))?;
    let python = python::Args { wheel: None, require };
    steps.announced("python-tests", || python::run(&python))?;

    if std::env::var_os("GEMM_REQUIRE_GPU").is_none() {
        let why = "kernels on a GPU: `cargo xtask gpu-bundle` gathers what tests them";
        steps.skipped.push(why.into());
    }
    steps.tell();
    Ok(())
}

/// What was done, and what was not.
#[derive(Default)]
struct Steps {
    /// Seconds and names.
    taken: Vec<(f64, String)>,
    skipped: Vec<String>,
}

impl Steps {
    /// Takes a step, which says why it skipped something.
    fn take(&mut self, name: &str, step: impl FnOnce() -> Result<Option<String>>) -> Result<()> {
        let started = Instant::now();
        self.skipped.extend(step()?.map(|why| format!("{name}: {why}")));
        self.taken.push((started.elapsed().as_secs_f64(), name.to_owned()));
        Ok(())
    }

    /// Takes a step of xtask, which is announced as cargo's are.
    fn announced(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<Option<String>>,
    ) -> Result<()> {
        let name = format!("cargo xtask {name}");
        eprintln!("$ {name}");
        self.take(&name, step)
    }

    /// Says what took how long, and what was skipped.
    fn tell(&self) {
        println!();
        for (seconds, name) in &self.taken {
            println!("{seconds:6.0} s  {name}");
        }
        println!("\nci: every step that ran has passed");
        for step in &self.skipped {
            println!("SKIPPED: {step}");
        }
    }
}

/// Why a step is skipped, where all that is wrong is that the machine lacks the device toolchain or the
/// library source and neither is required.
fn lacking(error: anyhow::Error, require: bool) -> Result<String> {
    if require || !Unavailable::is(&error) {
        return Err(error);
    }
    Ok(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_machine_lacks_is_skipped() {
        let lack = || {
            anyhow::Error::from(Unavailable::Library {
                release: "1.97".to_owned(),
                toolchain: "nightly".to_owned(),
                tried: vec!["no network".to_owned()],
            })
        };
        let reason = lacking(lack(), false).unwrap();
        assert!(reason.contains("(no network)") && reason.contains("RUST_LIBRARY_SRC"), "{reason}");
        assert!(lacking(lack(), true).is_err());
        assert!(lacking(anyhow::anyhow!("the PTX differs"), false).is_err());
    }
}
