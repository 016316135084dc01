//! What the kernel crate's manifest says: its names, and the device toolchain that it pins.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{BuildError, command};

/// A kernel crate, as `cargo metadata` knows it.
#[derive(Clone, Debug)]
pub struct KernelCrate {
    /// The package's name.
    pub package: String,
    /// Root of its workspace.
    pub workspace_root: PathBuf,
    /// The workspace's target folder.
    pub target_dir: PathBuf,
    /// The device toolchain that it pins.
    pub pins: Pins,
}

/// `[package.metadata.cuda_builder]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    /// Name of the rustup toolchain, as `nightly-2026-05-20`.
    pub toolchain: String,
    /// Its `commit-hash` in `rustc -vV`.
    pub commit: String,
    /// The release whose library builds with it, as `1.97`.
    pub library: String,
    /// The Debian package that holds this library.
    pub debian: Option<DebianPin>,
}

/// `[package.metadata.cuda_builder.debian]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DebianPin {
    /// Name of the package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The suites of the archive that carry it.
    pub suites: Vec<String>,
    /// Bytes of the file.
    pub size: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    metadata: Option<serde_json::Value>,
}

impl KernelCrate {
    /// Asks cargo about the crate in `folder`.
    ///
    /// # Errors
    /// [`BuildError::Manifest`] where its manifest pins no device toolchain, and whatever keeps cargo from
    /// answering.
    pub fn read(folder: &Path) -> Result<Self, BuildError> {
        let manifest = folder.join("Cargo.toml");
        let manifest = manifest.canonicalize().map_err(BuildError::io("looking for", &manifest))?;
        // Any cargo can answer this: the one that runs us, or the folder's own.
        let mut cargo = command::clean(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        cargo.arg("--manifest-path").arg(&manifest);
        if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
            cargo.env("CARGO_TARGET_DIR", folder);
        }
        Self::from_metadata(&command::output(&mut cargo)?, &manifest)
    }

    fn from_metadata(json: &str, manifest: &Path) -> Result<Self, BuildError> {
        let wrong =
            |problem: String| BuildError::Manifest { manifest: manifest.to_owned(), problem };
        let metadata: Metadata = serde_json::from_str(json)
            .map_err(|error| wrong(format!("`cargo metadata` gave something else: {error}")))?;
        let package = metadata
            .packages
            .into_iter()
            .find(|package| package.manifest_path == manifest)
            .ok_or_else(|| wrong("the manifest has no [package]; name a kernel crate".into()))?;
        let pins = package
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.get("cuda_builder"))
            .ok_or_else(|| {
                wrong(
                    "no [package.metadata.cuda_builder]; add one with `toolchain`, `commit` and \
                     `library`"
                        .into(),
                )
            })?;
        let pins: Pins = Deserialize::deserialize(pins)
            .map_err(|error| wrong(format!("[package.metadata.cuda_builder]: {error}")))?;
        Ok(Self {
            package: package.name,
            workspace_root: metadata.workspace_root,
            target_dir: metadata.target_directory,
            pins,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(table: &str) -> String {
        format!(
            r#"{{"packages":[{{"name":"k","manifest_path":"/w/k/Cargo.toml","metadata":{table}}}],
                "workspace_root":"/w","target_directory":"/w/target"}}"#
        )
    }

    fn read(table: &str) -> Result<KernelCrate, BuildError> {
        KernelCrate::from_metadata(&metadata(table), Path::new("/w/k/Cargo.toml"))
    }

    #[test]
    fn the_pins_are_read() {
        let kernels = read(
            r#"{"cuda_builder":{"toolchain":"nightly-1","commit":"c0","library":"1.97",
                "debian":{"package":"rust-src","version":"1","suites":["sid"],"size":3,"sha256":"ab"}}}"#,
        )
        .unwrap();
        assert_eq!(kernels.package, "k");
        assert_eq!(kernels.pins.toolchain, "nightly-1");
        assert_eq!(kernels.pins.debian.unwrap().suites, ["sid"]);
    }

    #[test]
    fn a_manifest_without_pins_says_what_to_add() {
        for table in ["null", "{}", r#"{"cuda_builder":{"toolchain":"nightly-1"}}"#] {
            let text = read(table).unwrap_err().to_string();
            assert!(text.starts_with("/w/k/Cargo.toml") && text.contains("commit"), "{text}");
        }
    }
}
