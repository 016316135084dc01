//! Why a build gave no PTX.

use std::io;
use std::path::{Path, PathBuf};

use ptx_text::PtxError;

/// Why a build gave no PTX. Each message ends with what mends it, where something does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The kernel crate's manifest lacks what a build needs.
    #[error("{manifest}: {problem}", manifest = .manifest.display())]
    Manifest {
        /// The `Cargo.toml`.
        manifest: PathBuf,
        /// What is wrong with it, and what it should say.
        problem: String,
    },
    /// A setting of the builder has a value that means nothing.
    #[error("{0}")]
    Setting(String),
    /// Neither the pinned toolchain nor another of its commit is installed.
    #[error(
        "no installed toolchain is {toolchain} (rustc commit {commit}); \
         run `rustup toolchain install {toolchain} --profile minimal --component rust-src`"
    )]
    ToolchainMissing {
        /// The pinned name.
        toolchain: String,
        /// The pinned commit.
        commit: String,
    },
    /// A command could not be started.
    #[error(
        "`{line}` could not be started: {source}; see that its program is installed and on PATH"
    )]
    Spawn {
        /// The command line.
        line: String,
        /// What the system said.
        source: io::Error,
    },
    /// A command ended with a failure.
    #[error("`{line}` failed with {status}{}", indented(.output))]
    Command {
        /// The command line.
        line: String,
        /// How it ended.
        status: String,
        /// What it printed to stderr, where that was captured.
        output: String,
    },
    /// A file could not be read or written.
    #[error("{doing} {path}: {source}", path = .path.display())]
    Io {
        /// The attempt, as `reading`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The compiler finished and its assembly is not there.
    #[error("the compiler wrote no {path}; remove that folder and build again", path = .path.display())]
    NoAssembly {
        /// Where the assembly was expected.
        path: PathBuf,
    },
    /// The text is not a PTX module of the shape that was asked for.
    #[error(transparent)]
    Ptx(#[from] PtxError),
    /// An entry has no parameter of that index.
    #[error("entry {entry} has {count} parameters, none of index {index}")]
    NoParam {
        /// The entry.
        entry: String,
        /// How many it has.
        count: usize,
        /// The index that was given.
        index: usize,
    },
    /// A directive is newer than the module.
    #[error("entry {entry}: {directive} needs {needs}, the module is for {has}")]
    TooOld {
        /// The entry.
        entry: String,
        /// The directive.
        directive: &'static str,
        /// What it needs.
        needs: &'static str,
        /// What the module is.
        has: String,
    },
    /// A module calls a function that it does not hold.
    #[error(
        "the module for {arch} calls {symbol}, whose body is in another crate; \
         mark that function `#[inline]`"
    )]
    ExternalFunction {
        /// The module's arch.
        arch: String,
        /// The function.
        symbol: String,
    },
}

impl BuildError {
    /// For `map_err` on a file operation.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

fn indented(output: &str) -> String {
    output.trim_end().lines().map(|line| format!("\n  {line}")).collect()
}
