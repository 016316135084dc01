//! `cargo xtask build-ptx`: the kernels to PTX, or the proof that the committed PTX is theirs.

use std::fs;

use anyhow::{Context as _, Result, bail};
use cuda_builder::{CudaBuilder, KernelCrate};
use gemm_spec::Arch;

use crate::{modules, toolchain};

/// Build the kernels into kernels-gpu/ptx
///
/// Needs the device toolchain that kernels-gpu/Cargo.toml pins, and looks for the source of `core`
/// in its rust-src component, in RUST_LIBRARY_SRC and in an installed Debian rust-src package. If
/// none is there it says so and asks rustup (unless RUSTUP_AUTO_INSTALL=0), then apt.
/// Exits with 3, and leaves the committed PTX as it is, where the machine lacks them.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing: fail unless the committed files are what the sources give, byte for byte
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = modules::root().join("kernels-gpu");
    let device = toolchain::prepare(&KernelCrate::read(&folder)?)?;
    let mut stale = Vec::new();
    for arch in Arch::ALL {
        let file = modules::relative(arch);
        let mut builder = CudaBuilder::new(&folder)
            .toolchain(device.toolchain.clone())
            .arch(arch.target_cpu())
            .generator("`cargo xtask build-ptx`")
            .sources(modules::root(), &modules::SOURCES)
            .entry_directives(modules::kernels(arch).flat_map(modules::directives).collect());
        if let Some(library) = &device.library {
            builder = builder.library(library);
        }
        if !args.check {
            builder = builder.copy_to(modules::path(arch));
        }
        let artifact = builder.build()?;
        let entries = artifact.entries.len();
        if !args.check {
            println!("{file}: {entries} entries, sources sha256 {}", artifact.digest);
        } else if let Some(difference) = difference(arch, &artifact.ptx)? {
            println!("{file}: {difference}");
            stale.push(file);
        } else {
            println!("{file}: is what the sources give, {entries} entries");
        }
    }
    if !stale.is_empty() {
        bail!("{} not what the sources give; run `cargo xtask build-ptx`", stale.join(", "));
    }
    Ok(())
}

/// Where the committed file first differs from the text.
fn difference(arch: Arch, built: &str) -> Result<Option<String>> {
    let path = modules::path(arch);
    if !path.exists() {
        return Ok(Some("is missing".to_owned()));
    }
    let committed = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(first_difference(&String::from_utf8_lossy(&committed), built))
}

fn first_difference(committed: &str, built: &str) -> Option<String> {
    if committed == built {
        return None;
    }
    let mut lines = committed.split('\n').zip(built.split('\n')).enumerate();
    Some(match lines.find(|(_, (old, new))| old != new) {
        Some((at, (old, new))) => {
            format!("differs from line {} on:\n  committed: {old}\n  built:     {new}", at + 1)
        }
        None => "differs in length".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let text = first_difference("a\nb\n", "a\nc\n").unwrap();
        assert!(text.contains("line 2") && text.contains("committed: b"), "{text}");
        assert!(first_difference("a\r\n", "a\n").is_some());
        assert!(first_difference("a\n", "a").is_some());
        assert!(first_difference("", "a").is_some());
    }
}
