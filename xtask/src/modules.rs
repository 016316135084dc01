//! The committed PTX: where it lies, which kernels each module holds, and what it is made from.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cuda_builder::EntryDirectives;
use gemm_spec::{Arch, EntryForm, KernelSpec, ParamType};

/// What decides the PTX, relative to the workspace's root: the crates of the device build, each with the
/// modules that it compiles for an arch, the manifest that pins the toolchain, and of `cuda_builder`
/// the compiler's flags and what is written into the compiler's text.
///
/// `build-ptx --check` compares the text itself, for what the digest leaves out.
pub(crate) const SOURCES: [&str; 7] = [
    "crates/cuda_builder/src/compile.rs",
    "crates/cuda_builder/src/directives.rs",
    "crates/cuda_std/src/lib.rs",
    "crates/cuda_std_macros/src/lib.rs",
    "crates/gemm_spec/src/lib.rs",
    "kernels-gpu/Cargo.toml",
    "kernels-gpu/src/lib.rs",
];

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        // Cargo says at run time which checkout it runs; checkouts may share a target folder, so
        // this program may have been compiled in another.
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        // This package lies directly under the root.
        package.parent().unwrap_or(&package).to_owned()
    });
    &ROOT
}

/// The committed file of a module.
pub(crate) fn path(arch: Arch) -> PathBuf {
    root().join(relative(arch))
}

/// The same, as it is shown.
pub(crate) fn relative(arch: Arch) -> String {
    format!("kernels-gpu/ptx/{}.ptx", arch.target_cpu())
}

/// The kernels of a module, in the order of the registry.
pub(crate) fn kernels(arch: Arch) -> impl Iterator<Item = &'static KernelSpec> {
    kernels_gpu::KERNELS.iter().map(|kernel| kernel.spec()).filter(move |spec| spec.arch == arch)
}

/// What the entries of a kernel promise about their launches.
pub(crate) fn directives(spec: &KernelSpec) -> Vec<EntryDirectives> {
    let promise = |form: EntryForm| {
        let maps = form.params.iter().enumerate();
        maps.filter(|(_, param)| param.ty == ParamType::TensorMap).fold(
            EntryDirectives::new(form.symbol)
                .max_threads(form.block.x, form.block.y, 1)
                .min_blocks_per_sm(form.min_blocks),
            |directives, (index, _)| directives.param_align(index, ParamType::TENSOR_MAP_ALIGN),
        )
    };
    spec.forms().map(promise).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cuda_builder::{Header, digest};

    use super::*;

    /// Needs no toolchain, so no commit can bring stale PTX.
    #[test]
    fn the_committed_ptx_is_made_from_the_sources_beside_it() {
        for arch in Arch::ALL {
            let digest = digest::of_sources(root(), &SOURCES, arch.target_cpu()).unwrap();
            let file = relative(arch);
            let text = fs::read_to_string(path(arch))
                .unwrap_or_else(|error| panic!("{file}: {error}; run `cargo xtask build-ptx`"));
            let header = Header::parse(&text)
                .unwrap_or_else(|| panic!("{file} has no header; run `cargo xtask build-ptx`"));
            assert_eq!(
                header.digest, digest,
                "{file} was made from other sources; run `cargo xtask build-ptx`"
            );
            assert_eq!(header.arch, arch.target_cpu(), "{file}");
        }
    }

    /// The digest takes no notice of lines and comments, so neither may the modules: no debug lines, no
    /// message of a panic, and no other data in which a file's name could be.
    #[test]
    fn no_line_of_the_sources_reaches_the_ptx() {
        for arch in Arch::ALL {
            let text = fs::read_to_string(path(arch)).unwrap();
            let body = text.lines().skip_while(|line| line.starts_with("//"));
            for (at, line) in body.enumerate() {
                let of_place = line.contains(".rs\"")
                    || [".loc", ".file", ".section"]
                        .contains(&line.split_whitespace().next().unwrap_or(""))
                    || line.contains(".global .") && !line.contains(".extern");
                assert!(!of_place, "{}, line {at} behind the header: {line}", relative(arch));
            }
        }
    }

    #[test]
    fn no_module_lies_there_that_no_arch_asks_for() {
        let folder = root().join("kernels-gpu/ptx");
        for entry in fs::read_dir(&folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let known = Arch::ALL.iter().any(|arch| name == format!("{}.ptx", arch.target_cpu()));
            assert!(known || !name.ends_with(".ptx"), "{name} belongs to no arch; remove it");
        }
    }
}
