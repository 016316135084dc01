//! `cargo xtask neon`: the CPU engine's tests as a program for aarch64, run by an emulated CPU.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::command;

/// Build the CPU engine's tests for aarch64 and run them under qemu
///
/// It needs `aarch64-linux-gnu-gcc` to link, `qemu-aarch64` to run, and the target's standard library:
/// that of `rustup target add aarch64-unknown-linux-gnu`, or a nightly toolchain to build it from the
/// sources in RUST_LIBRARY_SRC. It takes minutes: the CPU is emulated.
#[derive(clap::Args)]
pub(crate) struct Args {}

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where Debian's cross compiler keeps the target's C library.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

pub(crate) fn run(_: &Args) -> Result<()> {
    for (program, package) in [(LINKER, "gcc-aarch64-linux-gnu"), (EMULATOR, "qemu-user")] {
        if !starts(Command::new(program).arg("--version")) {
            bail!("{program} is not here; on Debian: apt install {package}");
        }
    }
    let mut cargo = command::cargo();
    let built = has_target();
    if !built {
        cargo.arg("+nightly");
    }
    cargo.args(["test", "-p", "cpu_gemm", "--test", "packed", "--target", TARGET]);
    cargo.args(["--target-dir", "target/neon"]);
    if !built {
        let Some(library) = std::env::var_os("RUST_LIBRARY_SRC") else {
            bail!(
                "there is no standard library for {TARGET}: `rustup target add {TARGET}`, or name \
                 Rust's library sources in RUST_LIBRARY_SRC"
            );
        };
        cargo.arg("-Zbuild-std=std,panic_unwind,test").env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
    }
    let runner = format!("{EMULATOR} -L {SYSROOT}");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    command::run(&mut cargo)
}

/// Whether the toolchain that cargo takes here has the target's standard library.
fn has_target() -> bool {
    let output = Command::new("rustc")
        .current_dir(crate::modules::root())
        .args(["--print", "target-libdir", "--target", TARGET])
        .stderr(Stdio::null())
        .output();
    output.is_ok_and(|output| {
        let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && std::path::Path::new(&folder).is_dir()
    })
}

fn starts(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
