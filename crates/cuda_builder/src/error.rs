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
        "no installed toolchain is {toolchain} (rustc commit {commit}){}; \
         run `rustup toolchain install {toolchain} --profile minimal --component rust-src`",
        in_brackets(.tried)
    )]
    ToolchainMissing {
        /// The pinned name.
        toolchain: String,
        /// The pinned commit.
        commit: String,
        /// What was attempted, and how it failed.
        tried: Vec<String>,
    },
    /// The source of `core` is nowhere to be had.
    #[error(
        "the source of the Rust library {release} is not to be had{}; \
         run `rustup component add rust-src --toolchain {toolchain}`, or install a `rust-src` \
         package of {release}, or set RUST_LIBRARY_SRC to the `library` folder of an unpacked \
         Rust {release} source",
        in_brackets(.tried)
    )]
    LibraryMissing {
        /// The release whose library builds with the pinned toolchain, as `1.97`.
        release: String,
        /// The toolchain that the component would belong to.
        toolchain: String,
        /// What was attempted, and how it failed.
        tried: Vec<String>,
    },
    /// `RUST_LIBRARY_SRC` leads to something else.
    #[error(
        "RUST_LIBRARY_SRC is {path}, which has no core/src/lib.rs; set it to the `library` folder \
         of an unpacked Rust source, or unset it",
        path = .path.display()
    )]
    LibraryVariable {
        /// What the variable says.
        path: PathBuf,
    },
    /// A downloaded file is not the pinned one.
    #[error(
        "{path} has SHA-256 {found}, the manifest pins {expected}; correct \
         [package.metadata.cuda_builder.debian] or set RUST_LIBRARY_SRC",
        path = .path.display()
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What the manifest pins.
        expected: String,
        /// What the file has.
        found: String,
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
    /// Whether the device toolchain or the library source is missing on this machine: the sources
    /// may be right all the same.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::ToolchainMissing { .. }
                | Self::LibraryMissing { .. }
                | Self::LibraryVariable { .. }
                | Self::Checksum { .. }
        )
    }

    /// For `map_err` on a file operation.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

fn in_brackets(attempts: &[String]) -> String {
    if attempts.is_empty() { String::new() } else { format!(" ({})", attempts.join("; ")) }
}

fn indented(output: &str) -> String {
    output.trim_end().lines().map(|line| format!("\n  {line}")).collect()
}
