//! `cargo xtask candle`: the bridge to candle, which the workspace leaves out.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::{command, gpu_bundle, toolkit, venv};

/// Check the format of the bridge to candle, lint it, document it and run its tests
///
/// candle is compiled into target/candle, which takes minutes the first time.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compile its examples and tests with the feature `cuda` into this folder in place of that
    ///
    /// They run on a machine with a GPU. candle's own kernels are compiled for compute capability 9.0, or
    /// what CUDA_COMPUTE_CAP names, and take a quarter of an hour of two cores the first time. nvcc and the headers of
    /// CUDA come as Python packages into target/candle-venv, over the network. The libraries that candle links are
    /// the GPU machine's own; here stand-ins take their places.
    #[arg(long, value_name = "DIR")]
    cuda: Option<PathBuf>,
}

const MANIFEST: &str = "crates/tessera_candle/Cargo.toml";

/// nvcc with what it runs, and the headers that candle's kernels include.
const PACKAGES: [&str; 5] = [
    "nvidia-cuda-nvcc==13.0.*",
    "nvidia-nvvm==13.0.*",
    "nvidia-cuda-crt==13.0.*",
    "nvidia-cuda-runtime==13.0.*",
    "nvidia-cuda-cccl==13.0.*",
];
/// The runtime, of which the package has no name without its version.
const RUNTIME: &str = "libcudart.so.13";
/// The libraries that cudarc links: their names, those of the files of CUDA 13 that the loader looks for, and
/// cudarc's modules of their functions.
const LINKED: [(&str, &str, &str); 5] = [
    ("cuda", "libcuda.so.1", "driver"),
    ("cublas", "libcublas.so.13", "cublas"),
    ("cublasLt", "libcublasLt.so.13", "cublaslt"),
    ("curand", "libcurand.so.10", "curand"),
    ("nvrtc", "libnvrtc.so.13", "nvrtc"),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(folder) = &args.cuda {
        return for_a_gpu(&std::path::absolute(folder)?);
    }
    let bridge = |step: &str| {
        let mut cargo = command::cargo();
        cargo.args([step, "--manifest-path", MANIFEST]);
        cargo
    };
    command::run(bridge("fmt").arg("--check"))?;
    let built = |step: &str| {
        let mut cargo = bridge(step);
        cargo.args(["--locked", "--target-dir"]).arg(venv::target().join("candle"));
        cargo
    };
    command::run(built("clippy").args(["--all-targets", "--", "-D", "warnings"]))?;
    command::run(&mut built("test"))?;
    let mut doc = built("doc");
    command::run(
        doc.args(["--no-deps", "--document-private-items"]).env("RUSTDOCFLAGS", "-Dwarnings"),
    )
}

/// Compiles examples and tests with the feature `cuda` into a folder.
fn for_a_gpu(folder: &Path) -> Result<()> {
    let packages = match venv::ready("candle-venv", &PACKAGES) {
        Ok(venv) => toolkit::folders(&venv),
        Err(why) => bail!("there is no nvcc: {why}"),
    };
    let Some(cuda) = packages.iter().find(|folder| folder.join("bin/nvcc").is_file()) else {
        bail!("{} holds no nvcc", PACKAGES[0]);
    };
    let links = venv::target().join("candle-links");
    stand_ins(&links.join("lib"), cuda)?;

    let mut programs = Vec::new();
    for (arguments, tests) in [(&["build", "--examples"][..], false), (&["test", "--no-run"], true)]
    {
        let mut cargo = command::cargo();
        cargo.args(arguments).args(["--manifest-path", MANIFEST, "--locked", "--features", "cuda"]);
        cargo.arg("--message-format=json-render-diagnostics");
        cargo.arg("--target-dir").arg(venv::target().join("candle-cuda"));
        cargo
            .env("NVCC", cuda.join("bin/nvcc"))
            .env("PATH", command::first_on_path(&cuda.join("bin"))?);
        // Where candle's packages look for headers, and for libraries.
        cargo.env("CUDA_HOME", cuda).env("CUDA_PATH", &links);
        if env::var_os("CUDA_COMPUTE_CAP").is_none() {
            cargo.env("CUDA_COMPUTE_CAP", "90");
        }
        // Empty, so that no `target-cpu=native` of the user's configuration gets in.
        cargo.env("CARGO_ENCODED_RUSTFLAGS", "");
        programs.extend(gpu_bundle::executables(&command::output(&mut cargo)?, tests)?);
    }
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    for program in &programs {
        gpu_bundle::stripped(&program.path, &folder.join(&program.target))?;
    }
    let names: Vec<&str> = programs.iter().map(|program| program.target.as_str()).collect();
    println!("{}: {}", folder.display(), names.join(", "));
    println!("they need the driver, and libcudart, libcublas and libcurand of CUDA 13");
    Ok(())
}

/// Fills a folder with what the linker is given for the libraries of CUDA: the packages' runtime, and for the others
/// libraries of the same names whose functions do nothing.
fn stand_ins(folder: &Path, cuda: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let link = folder.join("libcudart.so");
    let _ = fs::remove_file(&link);
    symlink(cuda.join("lib").join(RUNTIME), &link)
        .with_context(|| format!("creating {}", link.display()))?;
    let cudarc = source_of("cudarc")?;
    for (name, file, module) in LINKED {
        let bindings = cudarc.join("src").join(module).join("sys/mod.rs");
        let text = fs::read_to_string(&bindings)
            .with_context(|| format!("reading {}", bindings.display()))?;
        let functions = functions(&text);
        if functions.is_empty() {
            bail!("{} has no functions, or another form", bindings.display());
        }
        let source = folder.join(format!("{name}.c"));
        let lines: Vec<String> =
            functions.iter().map(|function| format!("void {function}(void) {{}}\n")).collect();
        fs::write(&source, lines.concat())
            .with_context(|| format!("writing {}", source.display()))?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-nostdlib", "-w"]).arg(format!("-Wl,-soname,{file}"));
        command::run(cc.arg("-o").arg(folder.join(format!("lib{name}.so"))).arg(&source))?;
    }
    Ok(())
}

/// The functions of a library that a module of cudarc binds.
fn functions(bindings: &str) -> BTreeSet<&str> {
    let names = bindings.lines().filter_map(|line| line.strip_prefix("pub unsafe fn "));
    names.filter_map(|rest| Some(rest.split_once('(')?.0)).collect()
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// The folder of a package that the bridge uses.
fn source_of(package: &str) -> Result<PathBuf> {
    let mut cargo = command::cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked", "--manifest-path", MANIFEST]);
    let metadata = command::output(cargo.args(["--features", "cuda"]))?;
    let metadata: Metadata =
        serde_json::from_str(&metadata).context("cargo printed metadata of another form")?;
    let found = metadata.packages.into_iter().find(|found| found.name == package);
    let folder = found.and_then(|found| found.manifest_path.parent().map(Path::to_owned));
    folder.with_context(|| format!("{MANIFEST} does not depend on {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules;

    #[test]
    fn functions_are_found_and_nothing_else() {
        let bindings = "pub unsafe fn cuInit(Flags: u32) -> CUresult {\n    \
            fn cuInit(Flags: u32) -> CUresult;\n}\npub unsafe fn cuMemFree_v2(at: u64) -> CUresult {\n\
            pub fn helper() {}\npub unsafe fn cuInit() {\n";
        assert_eq!(Vec::from_iter(functions(bindings)), ["cuInit", "cuMemFree_v2"]);
    }

    /// Lines of sections of a manifest, without comments.
    fn settings<'m>(manifest: &'m str, heads: &[&str]) -> Vec<&'m str> {
        let mut inside = false;
        let mut found = Vec::new();
        for line in manifest.lines() {
            if line.starts_with('[') {
                inside = heads.contains(&line);
            } else if inside && !line.is_empty() && !line.starts_with('#') {
                found.push(line);
            }
        }
        found
    }

    #[test]
    fn the_bridge_has_the_lints_of_the_workspace() {
        let read = |path: &str| fs::read_to_string(modules::root().join(path)).unwrap();
        let (workspace, bridge) = (read("Cargo.toml"), read(MANIFEST));
        let mut own = settings(&workspace, &["[workspace.lints.rust]", "[workspace.lints.clippy]"]);
        // It is about modules for the device.
        own.retain(|line| !line.starts_with("unexpected_cfgs"));
        assert!(own.len() > 10, "{own:?}");
        assert_eq!(settings(&bridge, &["[lints.rust]", "[lints.clippy]"]), own);
    }
}
