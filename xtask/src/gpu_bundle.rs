//! `cargo xtask gpu-bundle`: everything that a machine with a GPU and no Rust needs to test this
//! checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use gemm_spec::{KernelSpec, Types};
use serde::Deserialize;

use crate::command;

/// Pack the program, the tests that use a GPU and run.sh into target/gpu-bundle.tar.xz
///
/// Unpack the archive on a machine with a GPU and run `bash run.sh` there; `bash run.sh sanitize` runs
/// compute-sanitizer's tools over every kernel, `bash run.sh start` times processes from their start to
/// a checked product, with no kernel in the driver's cache. It is a dev build, the one that users run and that the
/// tests here are of, without debug lines. Nothing is built for this machine's own processor alone.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// An archive above this size is a mistake: it travels to other machines.
const LARGEST: u64 = 50 << 20;

/// The test targets that use a GPU, and the packages that have them.
const TESTS: [(&str, &str); 6] = [
    ("cuda_lazy", "cust"),
    ("tessera", "device"),
    ("tessera-c", "device"),
    ("tessera-blas", "device"),
    ("tessera", "gpu"),
    ("host", "kernels"),
];

/// The examples that measure on a GPU or need one, and their packages.
const EXAMPLES: [(&str, &str); 2] =
    [("tessera", "device_gemm"), ("tessera-cudarc", "cudarc_product")];

pub(crate) fn run(_: &Args) -> Result<()> {
    let messages = command::output(&mut build())?;
    let program = executables(&messages, false)?;
    let examples = executables(&command::output(&mut build_examples())?, false)?;
    let tests = executables(&messages, true)?;
    let [program] = &program[..] else {
        bail!("the build gave {} programs called tessera, not one", program.len());
    };
    if tests.len() != TESTS.len() {
        bail!("the build gave {} test binaries, not {}", tests.len(), TESTS.len());
    }

    let folder = target_dir(&program.path)?.join("gpu-bundle");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    let test_folder = folder.join("tests");
    fs::create_dir_all(&test_folder)
        .with_context(|| format!("creating {}", test_folder.display()))?;
    stripped(&program.path, &folder.join("tessera"))?;
    for example in &examples {
        stripped(&example.path, &folder.join(&example.target))?;
    }
    let mut names: Vec<String> = Vec::new();
    for test in &tests {
        let name = format!("{}-{}", test.package, test.target);
        stripped(&test.path, &test_folder.join(&name))?;
        names.push(name);
    }
    let kernels: Vec<_> = kernels_gpu::KERNELS.iter().map(|kernel| kernel.spec()).collect();
    let script = script(&names, &kernels);
    let path = folder.join("run.sh");
    fs::write(&path, script).with_context(|| format!("writing {}", path.display()))?;
    let archive = packed(&folder)?;
    let size =
        fs::metadata(&archive).with_context(|| format!("reading {}", archive.display()))?.len();
    let megabytes = size as f64 / f64::from(1 << 20);
    println!("{}: {megabytes:.1} MiB, {} test binaries", archive.display(), names.len());
    if size > LARGEST {
        bail!("the archive has more than {} MiB; see what grew", LARGEST >> 20);
    }
    Ok(())
}

/// Builds the tests for any machine of this kind, and the program with them, which they run; told about
/// in JSON.
fn build() -> Command {
    let mut cargo = command::cargo();
    cargo.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    // The old driver calls of cust, which its own tests compare with.
    cargo.args(["--features", "cuda_lazy/trampolines"]);
    for (package, test) in TESTS {
        cargo.args(["--package", package, "--test", test]);
    }
    // Empty, so that no `target-cpu=native` of the user's configuration gets in.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "");
    cargo
}

/// Builds the examples, likewise.
fn build_examples() -> Command {
    let mut cargo = command::cargo();
    cargo.arg("build").args(command::AS_TESTED);
    cargo.arg("--message-format=json-render-diagnostics");
    for (package, example) in EXAMPLES {
        cargo.args(["--package", package, "--example", example]);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "");
    cargo
}

/// The target folder: programs lie in its `release`.
fn target_dir(program: &Path) -> Result<&Path> {
    program
        .parent()
        .and_then(Path::parent)
        .with_context(|| format!("{} lies in no target folder", program.display()))
}

/// Copies a program or a shared library without its symbols, which are most of it; a panic still names its line.
pub(crate) fn stripped(from: &Path, to: &Path) -> Result<()> {
    command::run(Command::new("strip").arg("--strip-all").arg("-o").arg(to).arg(from))
        .context("`strip` comes with the linker, in the package binutils")
}

/// The folder as an archive beside it. Each program holds the same PTX and the same machine code: what is in all of
/// them takes its room once if the compressor remembers more than the largest.
fn packed(folder: &Path) -> Result<PathBuf> {
    let archive = folder.with_extension("tar.xz");
    let (parent, name) =
        (folder.parent().unwrap_or(folder), folder.file_name().unwrap_or_default());
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(parent).arg("-cJf").arg(&archive).arg(name);
    command::run(tar.env("XZ_OPT", "--lzma2=preset=3,dict=192MiB"))?;
    Ok(archive)
}

/// A program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    package: String,
    /// Its name in the manifest.
    pub(crate) target: String,
    pub(crate) path: PathBuf,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The programs, or the test binaries, among cargo's messages.
pub(crate) fn executables(messages: &str, tests: bool) -> Result<Vec<Executable>> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line)
            .with_context(|| format!("cargo printed a message of another form: {line}"))?;
        let (Some(target), Some(profile), Some(path)) =
            (message.target, message.profile, message.executable)
        else {
            continue;
        };
        if message.reason != "compiler-artifact" || profile.test != tests {
            continue;
        }
        let package = message.manifest_path.parent().and_then(Path::file_name);
        let package = package.unwrap_or_default().to_string_lossy().into_owned();
        found.push(Executable { package, target: target.name, path });
    }
    Ok(found)
}

/// Odd sizes, which no tile divides; C of the second has few enough elements for a single block, and
/// the third is larger than every tile, with rows of B and C that loads and copies of 16 bytes take. A
/// run takes every kernel, since the tools need seconds to start and little for each launch.
const SANITIZED_SIZES: [&str; 3] =
    ["-m 65 -n 97 -k 33", "-m 31 -n 33 -k 65", "-m 131 -n 260 -k 76"];

/// Every kernel at every such size, for each element type that some kernel has.
fn sanitized_runs(kernels: &[&KernelSpec]) -> Vec<String> {
    let mut runs = Vec::new();
    for types in Types::ALL {
        if kernels.iter().any(|spec| spec.entry(types).is_ok()) {
            for size in SANITIZED_SIZES {
                runs.push(format!("run --device cuda --check full {size} --dtype {types}"));
            }
        }
    }
    runs
}

fn script(tests: &[String], kernels: &[&KernelSpec]) -> String {
    let lines = |items: Vec<String>| items.join("\n");
    let tests = lines(tests.iter().map(|name| format!("  step ./tests/{name}")).collect());
    let runs = lines(
        sanitized_runs(kernels)
            .iter()
            .map(|run| format!("    sanitized \"$tool\" ./tessera {run}"))
            .collect(),
    );
    RUN_SH.replace("@TESTS@", &tests).replace("@RUNS@", &runs)
}

const RUN_SH: &str = r#"#!/usr/bin/env bash
# generated by `cargo xtask gpu-bundle`, do not edit
#
#   bash run.sh            every test that uses a GPU, the devices and one product of 1024
#   bash run.sh sanitize   compute-sanitizer's four tools over every kernel
#   bash run.sh start      seconds from a process's start to a checked product, the driver's cache empty
#
# Exits with 0 where all passed, 1 where something failed, 2 on wrong usage.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
export GEMM_REQUIRE_GPU=1 RUST_BACKTRACE=1
export CARGO_BIN_EXE_tessera="$PWD/tessera"
passed=0
failed=()

step() {
  echo "\$ $*"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed+=("$* (exit $?)")
  fi
}

sanitized() {
  local tool=$1
  shift
  step compute-sanitizer --tool "$tool" --error-exitcode 1 "$@"
}

everything() {
@TESTS@
  step ./tessera devices
  step ./tessera run -n 1024
}

sanitize() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not on PATH; it comes with the CUDA toolkit" >&2
    exit 1
  fi
  local tool
  for tool in memcheck racecheck initcheck synccheck; do
@RUNS@
  done
}

# Seconds of a command of the program's, the least of three; its output goes to start.log.
timed() {
  local least="" seconds TIMEFORMAT=%R
  for _ in 1 2 3; do
    if ! seconds=$({ time ./tessera "$@" >>start.log 2>&1; } 2>&1); then
      failed+=("tessera $* (see start.log)")
      return
    fi
    if [ -z "$least" ] || awk "BEGIN { exit !($seconds < $least) }"; then least=$seconds; fi
  done
  passed=$((passed + 1))
  printf '%8s  tessera %s\n' "$least" "$*"
}

# The driver finds nothing that it compiled before, so that each process is a machine's first. The first
# line is what the driver itself takes: it starts and makes a context, and no kernel is loaded.
start() {
  : >start.log
  export CUDA_CACHE_DISABLE=1
  local code
  for code in machine ptx; do
    export TESSERA_KERNEL_CODE=$code
    echo "kernels as $code:"
    timed mem
    for kernel in naive vector_loads async_copy_128x256 f16x3; do
      timed run -n 1024 --device cuda --kernel "$kernel"
    done
    timed run -n 1024 --device cuda
  done
}

case "${1-}" in
  "") everything ;;
  sanitize) sanitize ;;
  start) start ;;
  *) echo "usage: bash run.sh [sanitize|start]" >&2; exit 2 ;;
esac

echo "summary: $passed passed, ${#failed[@]} failed"
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
"#;

#[cfg(test)]
mod tests {
    use gemm_spec::{Arch, Entry, LaunchShape};

    use super::*;

    const MESSAGES: &str = r#"{"reason":"compiler-artifact","manifest_path":"/w/host/Cargo.toml","target":{"name":"kernels","kind":["test"]},"profile":{"test":true},"executable":"/w/target/debug/deps/kernels-1"}
{"reason":"compiler-artifact","manifest_path":"/w/host/Cargo.toml","target":{"name":"tessera","kind":["bin"]},"profile":{"test":false},"executable":"/w/target/debug/tessera"}
{"reason":"compiler-artifact","manifest_path":"/w/host/Cargo.toml","target":{"name":"tessera","kind":["lib"]},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/crates/cuda_lazy/Cargo.toml","target":{"name":"cust","kind":["test"]},"profile":{"test":true},"executable":"/w/target/debug/deps/cust-1"}
{"reason":"build-script-executed","package_id":"x"}
{"reason":"build-finished","success":true}
"#;

    #[test]
    fn executables_are_found_among_the_messages() {
        let program = executables(MESSAGES, false).unwrap();
        assert_eq!(program.len(), 1);
        assert_eq!(target_dir(&program[0].path).unwrap(), Path::new("/w/target"));
        let tests = executables(MESSAGES, true).unwrap();
        let names: Vec<(&str, &str)> =
            tests.iter().map(|test| (&test.package[..], &test.target[..])).collect();
        assert_eq!(names, [("host", "kernels"), ("cuda_lazy", "cust")]);
        assert!(executables("{broken", true).is_err());
    }

    /// A test that can require a GPU is of use where one is, but for one that compiles programs of the checkout, and
    /// one that `cargo xtask candle` compiles for such a machine.
    #[test]
    fn every_test_that_uses_a_gpu_is_in_the_bundle() {
        const OTHERS: [&str; 2] = ["candle_products", "languages"];
        let root = crate::modules::root();
        let mut folders = vec![root.join("tests")];
        for entry in fs::read_dir(root.join("crates")).unwrap() {
            folders.push(entry.unwrap().path().join("tests"));
        }
        let mut found = Vec::new();
        for path in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
            let path = path.unwrap().path();
            let rust = path.extension().is_some_and(|extension| extension == "rs");
            if rust && fs::read_to_string(&path).unwrap().contains("GEMM_REQUIRE_GPU") {
                found.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
            }
        }
        found.sort();
        assert!(OTHERS.iter().all(|other| found.iter().any(|test| test == other)));
        found.retain(|test| !OTHERS.contains(&test.as_str()));
        assert_eq!(found, TESTS.map(|(_, test)| test));
    }

    #[test]
    fn every_type_is_sanitized_at_every_size() {
        let spec = KernelSpec {
            id: "k",
            about: "",
            origin: "",
            arch: Arch::Sm70,
            entries: &[
                Entry { types: Types::F32, symbol: "k_f32" },
                Entry { types: Types::F64, symbol: "k_f64" },
            ],
            launch: LaunchShape::SingleBlock,
            shared_elements: 0,
            min_blocks_per_sm: gemm_spec::MinBlocks::same(1),
            ..KernelSpec::PLAIN
        };
        let text = script(&["host-gpu".to_owned()], &[&spec]);
        assert!(text.contains("\n  step ./tests/host-gpu\n"), "{text}");
        assert!(text.contains("-m 31 -n 33 -k 65 --dtype f64\n"), "{text}");
        assert!(!text.contains("i32"), "{text}");
        assert!(!text.contains("@TESTS@") && !text.contains("@RUNS@"), "{text}");
    }

    /// The script's own logic, with the true programs replaced by ones that pass or fail.
    #[test]
    fn the_script_sums_up_and_exits_accordingly() {
        let run = |tests: &[&str], mode: &str| {
            let lines: Vec<String> = tests.iter().map(|test| format!("  step {test}")).collect();
            let text = RUN_SH
                .replace("@TESTS@", &lines.join("\n"))
                .replace("@RUNS@", "    :")
                .replace("./tessera", "true");
            let folder = tempfile::tempdir().unwrap();
            let text = text.replace("start.log", &folder.path().join("log").display().to_string());
            let arguments: &[&str] = if mode.is_empty() { &[] } else { &["run.sh", mode] };
            let bash = Command::new("bash").args(["-c", &text]).args(arguments).output();
            let output = bash.unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        let (code, text) = run(&["true"], "");
        assert_eq!(code, Some(0), "{text}");
        assert!(text.ends_with("summary: 3 passed, 0 failed\n"), "{text}");
        let (code, text) = run(&["true", "false"], "");
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("3 passed, 1 failed\nfailed: false (exit 1)\n"), "{text}");
        let (code, text) = run(&[], "start");
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("kernels as ptx:\n") && text.contains("  tessera mem\n"), "{text}");
        assert!(text.ends_with("summary: 12 passed, 0 failed\n"), "{text}");
        assert_eq!(run(&[], "stop").0, Some(2));
    }
}
