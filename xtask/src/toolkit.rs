//! Finding `ptxas`, the one tool here that is not Rust.

use std::path::{Path, PathBuf};

use cuda_builder::ptxas::Ptxas;

use crate::venv;

/// The release line whose register counts the documents state.
pub(crate) const RELEASE: &str = "13.0";
const PACKAGE: &str = "nvidia-cuda-nvcc==13.0.*";

/// `ptxas` of a virtual environment under the target folder, made if need be; else one on PATH.
/// The error says in a line why there is none.
pub(crate) fn ptxas() -> Result<Ptxas, String> {
    let venv = venv::target().join("ptxas-venv");
    if let Some(ptxas) = within(&venv) {
        return Ok(ptxas);
    }
    let reason = match venv::install(&venv, &[PACKAGE]) {
        Ok(()) => match within(&venv) {
            Some(ptxas) => return Ok(ptxas),
            None => format!("{PACKAGE} holds no ptxas that runs on this machine"),
        },
        Err(reason) => reason,
    };
    Ptxas::new("ptxas").map_err(|_| format!("no ptxas on PATH, and {reason}"))
}

/// The package's `ptxas` in an environment; where it lies differs between releases.
fn within(venv: &Path) -> Option<Ptxas> {
    folders(venv).iter().find_map(|folder| Ptxas::new(folder.join("bin/ptxas")).ok())
}

/// What NVIDIA's packages have put into an environment: one folder for all of them, or one for each.
pub(crate) fn folders(venv: &Path) -> Vec<PathBuf> {
    let mut folders = vec![venv.join("lib")];
    // lib/python3.x/site-packages/nvidia/cu13
    for step in ["python3", "site-packages", "nvidia", ""] {
        folders = folders.iter().flat_map(|folder| subfolders(folder, step)).collect();
    }
    folders
}

fn subfolders(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.is_dir()
                && path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| name.starts_with(prefix))
        })
        .collect();
    found.sort();
    found
}
