//! Libraries that compute nothing, to see that a suite notices.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command;

/// What a library does wrong: it returns at once, under the names that programs look for first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Products,
    Factors,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Products => "wrong products",
            Self::Factors => "wrong factorisations",
        })
    }
}

impl Broken {
    /// The names of its routines.
    fn names(self) -> Vec<String> {
        let letters = ["s", "d", "c", "z"];
        let spelt = |routine: &str, spell: &dyn Fn(String) -> Vec<String>| -> Vec<String> {
            letters.iter().flat_map(|letter| spell(format!("{letter}{routine}"))).collect()
        };
        match self {
            Self::Products => ["gemm", "gemv"]
                .iter()
                .flat_map(|routine| {
                    spelt(routine, &|name| {
                        vec![
                            format!("{name}_"),
                            format!("cblas_{name}"),
                            format!("scipy_{name}_"),
                            format!("scipy_cblas_{name}64_"),
                        ]
                    })
                })
                .collect(),
            Self::Factors => ["getrf", "gesv", "potrf", "geqrf"]
                .iter()
                .flat_map(|routine| {
                    spelt(routine, &|name| vec![format!("{name}_"), format!("scipy_{name}_")])
                })
                .collect(),
        }
    }
}

pub(super) fn build(folder: &Path, broken: Broken) -> Result<PathBuf> {
    let (source, library) = (folder.join("broken.rs"), folder.join("libbroken.so"));
    let routine =
        |name: String| format!("#[unsafe(no_mangle)]\npub extern \"C\" fn {name}() {{}}\n");
    let text: String = broken.names().into_iter().map(routine).collect();
    std::fs::write(&source, text)?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "-o"]).arg(&library).arg(&source);
    command::run(&mut rustc)?;
    Ok(library)
}
