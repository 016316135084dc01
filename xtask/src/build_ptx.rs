//! `cargo xtask build-ptx`: the kernels to PTX, or the proof that the committed PTX is theirs.

use std::fs;

use anyhow::{Context as _, Result, bail};
use cuda_builder::{Artifact, CudaBuilder, Header, KernelCrate};
use gemm_spec::Arch;
use kernels_gpu::Module;
use ptx_text::PtxModule;

use crate::{assemble, modules, toolchain};

/// Build the kernels into kernels-gpu/ptx
///
/// Needs the device toolchain that kernels-gpu/Cargo.toml pins, and looks for the source of `core`
/// in its rust-src component, in RUST_LIBRARY_SRC and in an installed Debian rust-src package. If
/// none is there it says so and asks rustup (unless RUSTUP_AUTO_INSTALL=0), then apt.
/// Exits with 3, and leaves the committed PTX as it is, where the machine lacks them.
///
/// Then it assembles what changed, as `cargo xtask assemble` does; where there is no ptxas, changed
/// modules are left to the driver's compiler.
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
        let mut builder = CudaBuilder::new(&folder)
            .toolchain(device.toolchain.clone())
            .arch(arch.target_cpu())
            .generator("`cargo xtask build-ptx`")
            .sources(modules::root(), &modules::SOURCES)
            .entry_directives(modules::directives(arch));
        if let Some(library) = &device.library {
            builder = builder.library(library);
        }
        let artifact = builder.build()?;
        for (module, text) in cut(arch, &artifact)? {
            let file = modules::relative(module);
            if !args.check {
                write(module, &text)?;
            } else if let Some(difference) = difference(module, &text)? {
                println!("{file}: {difference}");
                stale.push(file);
            }
        }
        let (target, entries) = (arch.target_cpu(), artifact.entries.len());
        if !args.check {
            println!("{target}: {entries} entries, sources sha256 {}", artifact.digest);
        } else if stale.is_empty() {
            println!("{target}: the committed PTX is what the sources give, {entries} entries");
        }
    }
    if !stale.is_empty() {
        bail!("{} not what the sources give; run `cargo xtask build-ptx`", stale.join(", "));
    }
    if args.check {
        return assemble::check_record();
    }
    for file in modules::committed().into_iter().filter(|file| !modules::is_wanted(file)) {
        println!("{file}: removed, no kernel asks for it");
        fs::remove_file(modules::root().join(&file)).with_context(|| format!("removing {file}"))?;
    }
    assemble::refresh()
}

/// The modules of an arch, cut out of what the compiler made of all its kernels together: an entry's
/// code does not depend on which others are built.
fn cut(arch: Arch, artifact: &Artifact) -> Result<Vec<(Module, String)>> {
    let text = &artifact.ptx;
    let header = Header::parse(text).context("the built PTX has no header")?;
    let whole = PtxModule::parse(text)?;
    if let Some(entry) =
        whole.entries.iter().find(|entry| Module::of_entry(arch, &entry.name).is_none())
    {
        bail!("no kernel of {} has the entry {}", arch.target_cpu(), entry.name);
    }
    let of_arch = Module::all().filter(|module| module.arch == arch);
    let cut = |module: Module| {
        let own = |name: &str| Module::of_entry(arch, name) == Some(module);
        let body = whole.cut(text, |entry| own(&entry.name));
        (module, format!("{header}\n{body}"))
    };
    Ok(of_arch.map(cut).collect())
}

/// Writes a module's PTX, where it is not what is there.
fn write(module: Module, text: &str) -> Result<()> {
    let path = modules::path(module);
    if difference(module, text)?.is_some() {
        cuda_builder::write_whole(&path, text.as_bytes())?;
    }
    Ok(())
}

/// Where the committed file first differs from the text.
fn difference(module: Module, built: &str) -> Result<Option<String>> {
    let path = modules::path(module);
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
