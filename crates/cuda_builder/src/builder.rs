//! What to build, one setter for each knob, and what a build gives.

use std::fs;
use std::path::{Path, PathBuf};

use ptx_text::{PtxEntry, PtxModule};

use crate::compile::{self, Request};
use crate::directives::{self, EntryDirectives};
use crate::header::Header;
use crate::manifest::KernelCrate;
use crate::{BuildError, Toolchain, digest};

/// Builds a kernel crate into one PTX module.
///
/// The same sources give the same bytes wherever the checkout and the library source lie, as long as
/// every function of `core` that a kernel uses is inlined: the names of those that are not depend on
/// the library's place. A module that calls none, as a check of its shape can prove, has none.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    kernels: PathBuf,
    arch: String,
    ptx_version: Option<(u32, u32)>,
    target_dir: Option<PathBuf>,
    toolchain: Option<Toolchain>,
    library: Option<PathBuf>,
    directives: Vec<EntryDirectives>,
    sources: Option<(PathBuf, Vec<String>)>,
    generator: String,
    copy_to: Option<PathBuf>,
}

/// A finished module.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The text, header and directives included.
    pub ptx: String,
    /// The least arch that it runs on.
    pub arch: String,
    /// Its entries, in the order of the text.
    pub entries: Vec<PtxEntry>,
    /// What compiled it.
    pub toolchain: Toolchain,
    /// Digest of the sources, as the header states it.
    pub digest: String,
}

impl CudaBuilder {
    /// Builds the library of the kernel crate in that folder, whose manifest pins the device
    /// toolchain in `[package.metadata.cuda_builder]`.
    #[must_use]
    pub fn new(kernels: impl Into<PathBuf>) -> Self {
        Self {
            kernels: kernels.into(),
            arch: "sm_70".to_owned(),
            ptx_version: None,
            target_dir: None,
            toolchain: None,
            library: None,
            directives: Vec::new(),
            sources: None,
            generator: "cuda_builder".to_owned(),
            copy_to: None,
        }
    }

    /// The least GPU that the module runs on, as `sm_70` or `sm_90a`; the crates see it as
    /// `cfg(cuda_arch = "…")`. A later one allows more instructions on fewer GPUs. Default: `sm_70`.
    #[must_use]
    pub fn arch(mut self, arch: impl Into<String>) -> Self {
        self.arch = arch.into();
        self
    }

    /// The version of the PTX language, as (8, 7). A later one allows more instructions and needs a
    /// later driver. Default: the least that the arch allows.
    #[must_use]
    pub fn ptx_version(mut self, major: u32, minor: u32) -> Self {
        self.ptx_version = Some((major, minor));
        self
    }

    /// Folder for what the compiler makes. Default: `cuda` in the workspace's target folder.
    #[must_use]
    pub fn target_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(folder.into());
        self
    }

    /// The device toolchain. Default: the pinned one, as rustup has it.
    #[must_use]
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// The `library` folder of a Rust source, of which `core` is compiled. Default: the toolchain's own
    /// `rust-src` component.
    #[must_use]
    pub fn library(mut self, folder: impl Into<PathBuf>) -> Self {
        self.library = Some(folder.into());
        self
    }

    /// What the entries promise about their launches. Default: nothing, so the assembler allows for
    /// any block that the hardware takes.
    #[must_use]
    pub fn entry_directives(mut self, directives: Vec<EntryDirectives>) -> Self {
        self.directives = directives;
        self
    }

    /// The files, relative to `base`, whose digest the header states, see [`digest::of_sources`]:
    /// everything that decides the module. Default: the kernel crate's `src/lib.rs` and `Cargo.toml`.
    #[must_use]
    pub fn sources<S: AsRef<str>>(mut self, base: impl Into<PathBuf>, roots: &[S]) -> Self {
        let roots = roots.iter().map(|root| root.as_ref().to_owned()).collect();
        self.sources = Some((base.into(), roots));
        self
    }

    /// The command that the header names as the module's maker. Default: `cuda_builder`.
    #[must_use]
    pub fn generator(mut self, command: impl Into<String>) -> Self {
        self.generator = command.into();
        self
    }

    /// Also writes the module to that file, whole or not at all. Default: no file.
    #[must_use]
    pub fn copy_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.copy_to = Some(path.into());
        self
    }

    /// Builds the module.
    ///
    /// The compiler's messages go to stderr.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(&self) -> Result<Artifact, BuildError> {
        check_arch(&self.arch)?;
        let kernels = KernelCrate::read(&self.kernels)?;
        let default_dir = kernels.target_dir.join("cuda");
        let target_dir = self.target_dir.as_ref().unwrap_or(&default_dir);
        let digest = match &self.sources {
            Some((base, roots)) => digest::of_sources(base, roots, &self.arch)?,
            None => digest::of_sources(&self.kernels, &["Cargo.toml", "src/lib.rs"], &self.arch)?,
        };
        let toolchain = match &self.toolchain {
            Some(toolchain) => toolchain.clone(),
            None => pinned(&kernels)?,
        };
        let request = Request {
            toolchain: &toolchain,
            library: self.library.as_deref(),
            arch: &self.arch,
            ptx_version: self.ptx_version,
            target_dir,
        };
        let compiled = compile::compile(&kernels, &request)?;
        let header = Header {
            generator: self.generator.clone(),
            release: toolchain.release.clone(),
            commit: toolchain.commit.clone(),
            arch: self.arch.clone(),
            digest: digest.clone(),
        };
        let ptx = format!("{header}{}", directives::insert(&compiled, &self.directives)?);
        let module = PtxModule::parse(&ptx)?;
        if let Some(symbol) = module.externals.first() {
            let (arch, symbol) = (self.arch.clone(), symbol.clone());
            return Err(BuildError::ExternalFunction { arch, symbol });
        }
        if let Some(path) = &self.copy_to {
            write_whole(path, ptx.as_bytes())?;
        }
        Ok(Artifact { ptx, arch: self.arch.clone(), entries: module.entries, toolchain, digest })
    }
}

/// The toolchain that the manifest pins.
fn pinned(kernels: &KernelCrate) -> Result<Toolchain, BuildError> {
    let pins = &kernels.pins;
    Toolchain::find(pins)?.ok_or_else(|| BuildError::ToolchainMissing {
        toolchain: pins.toolchain.clone(),
        commit: pins.commit.clone(),
    })
}

/// `sm_` and a number, perhaps with the `a` or `f` of features that later GPUs lack.
fn check_arch(arch: &str) -> Result<(), BuildError> {
    let digits = arch.strip_prefix("sm_").map(|rest| rest.trim_end_matches(['a', 'f']));
    match digits {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
        _ => Err(BuildError::Setting(format!("`{arch}` is no arch; name one as `sm_70`"))),
    }
}

/// Writes a file and its folders, through a file beside it, so that no reader ever sees half a module.
///
/// # Errors
/// [`BuildError::Io`].
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), BuildError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder).map_err(BuildError::io("creating", folder))?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    fs::write(&beside, content).map_err(BuildError::io("writing", &beside))?;
    fs::rename(&beside, path).map_err(BuildError::io("replacing", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archs_are_checked_before_anything_runs() {
        for good in ["sm_70", "sm_90a", "sm_121f"] {
            assert!(check_arch(good).is_ok(), "{good}");
        }
        for bad in ["", "sm_", "sm_a", "90", "compute_70", "sm_70 -Copt-level=0"] {
            assert!(check_arch(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn files_are_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ptx/sm_70.ptx");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
