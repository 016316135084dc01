//! `cargo xtask sanitize`: the tests of the CPU engine under AddressSanitizer.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::command;

/// Run the CPU engine's tests under AddressSanitizer, with all of Rust's own checks on
///
/// It needs a nightly toolchain for x86_64-unknown-linux-gnu with its sanitizer runtime, of any date;
/// without one it says so and runs nothing.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail instead of skipping
    #[arg(long)]
    pub(crate) require: bool,
}

/// Those that reach the engine's unsafe code.
const TESTS: [&str; 5] = ["packed", "batch", "epilogue", "near", "tiles"];

/// The profile of the tests, with the checks and little optimisation: with the sanitizer's code the compiler takes
/// longer than the tests.
const PROFILE: [&str; 3] = [
    "profile.dev.opt-level=1",
    "profile.dev.package.cpu_gemm.debug-assertions=true",
    "profile.dev.package.cpu_gemm.opt-level=1",
];

/// The sanitizer's target: it must be named, so that build scripts are compiled without it.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests, or answers why not.
pub(crate) fn run(args: &Args) -> Result<Option<String>> {
    if let Some(why) = missing() {
        if args.require {
            anyhow::bail!("{why}");
        }
        println!("SKIPPED: {why}");
        return Ok(Some(why));
    }
    let mut cargo = command::cargo();
    cargo.args(["+nightly", "test", "-p", "cpu_gemm"]);
    cargo.args(TESTS.iter().flat_map(|test| ["--test", test]));
    cargo.args(["--target", TARGET, "--target-dir", "target/sanitize"]);
    cargo.args(PROFILE.iter().flat_map(|setting| ["--config", setting]));
    cargo.env("RUSTFLAGS", "-Zsanitizer=address");
    command::run(&mut cargo)?;
    Ok(None)
}

/// What the machine lacks, in one line.
fn missing() -> Option<String> {
    let sysroot = Command::new("rustc")
        .args(["+nightly", "--print", "sysroot"])
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok());
    let Some(sysroot) = sysroot else {
        return Some("there is no nightly toolchain: `rustup toolchain install nightly`".into());
    };
    let runtime = format!("{}/lib/rustlib/{TARGET}/lib/librustc-nightly_rt.asan.a", sysroot.trim());
    (!std::path::Path::new(&runtime).exists())
        .then(|| format!("the nightly toolchain has no AddressSanitizer for {TARGET}"))
}
