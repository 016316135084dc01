//! The compiler's part: a kernel crate in, the text of its assembly out.

use std::fs;
use std::path::Path;

use crate::manifest::KernelCrate;
use crate::{BuildError, Toolchain, command};

const TARGET: &str = "nvptx64-nvidia-cuda";

/// What the compiler is asked for.
pub(crate) struct Request<'a> {
    pub(crate) toolchain: &'a Toolchain,
    /// The `library` folder of a Rust source; `None` where cargo finds the toolchain's own component.
    pub(crate) library: Option<&'a Path>,
    pub(crate) arch: &'a str,
    pub(crate) ptx_version: Option<(u32, u32)>,
    pub(crate) target_dir: &'a Path,
}

/// Compiles the crate's library and returns its PTX as the compiler wrote it.
pub(crate) fn compile(kernels: &KernelCrate, request: &Request<'_>) -> Result<String, BuildError> {
    // A folder for each arch: what lies in it can be this module's alone.
    let folder = request.target_dir.join(request.arch);
    fs::create_dir_all(&folder).map_err(BuildError::io("creating", &folder))?;
    let folder = folder.canonicalize().map_err(BuildError::io("finding", &folder))?;
    let assembly = folder.join("module.s");
    if !assembly.exists() && folder.join(TARGET).exists() {
        // Cargo would take the crate for finished and not write the file again.
        let stale = folder.join(TARGET);
        fs::remove_dir_all(&stale).map_err(BuildError::io("removing", &stale))?;
    }

    let library = match request.library {
        Some(path) => Some(path.canonicalize().map_err(BuildError::io("finding", path))?),
        None => None,
    };
    let mut cargo = request.toolchain.command("cargo");
    cargo.current_dir(&kernels.workspace_root);
    cargo.args(["rustc", "--release", "--lib", "--package", &kernels.package]);
    cargo.args(["-Zbuild-std=core", "--target", TARGET, "--target-dir"]).arg(&folder);
    cargo.arg("--").arg(emit(&assembly));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(kernels, library.as_deref(), request).join("\x1f"));
    for (knob, value) in PROFILE {
        cargo.env(format!("CARGO_PROFILE_RELEASE_{knob}"), value);
    }
    if let Some(library) = &library {
        cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
    }
    command::run(&mut cargo)?;
    if !assembly.is_file() {
        return Err(BuildError::NoAssembly { path: assembly });
    }
    fs::read_to_string(&assembly).map_err(BuildError::io("reading", &assembly))
}

fn emit(assembly: &Path) -> String {
    format!("--emit=asm={}", assembly.display())
}

/// Whatever the workspace says of its release profile, the device build is this one.
const PROFILE: [(&str, &str); 8] = [
    ("OPT_LEVEL", "3"),
    ("CODEGEN_UNITS", "1"),
    ("DEBUG", "false"),
    ("DEBUG_ASSERTIONS", "false"),
    ("OVERFLOW_CHECKS", "false"),
    ("LTO", "off"),
    ("PANIC", "abort"),
    ("INCREMENTAL", "false"),
];

/// Flags for every crate of the device build, `core` among them.
fn flags(kernels: &KernelCrate, library: Option<&Path>, request: &Request<'_>) -> Vec<String> {
    let mut flags = vec![
        format!("-Ctarget-cpu={}", request.arch),
        "--cfg".to_owned(),
        format!("cuda_arch=\"{}\"", request.arch),
    ];
    if let Some((major, minor)) = request.ptx_version {
        flags.push(format!("-Ctarget-feature=+ptx{major}{minor}"));
    }
    // Places in messages must not depend on where the checkout lies.
    let places: [(Option<&Path>, &str); 2] =
        [(Some(&kernels.workspace_root), "/workspace"), (library, "/rustc/library")];
    for (from, to) in places {
        if let Some(from) = from {
            flags.push(format!("--remap-path-prefix={}={to}", from.display()));
        }
    }
    flags
}
