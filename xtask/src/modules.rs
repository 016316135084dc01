//! The committed PTX: where it lies, which kernels each module holds, and what it is made from.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cuda_builder::EntryDirectives;
use gemm_spec::{Arch, EntryForm, KernelSpec, ParamType};

/// Everything that decides the PTX, relative to the workspace's root.
pub(crate) const SOURCES: [&str; 12] = [
    "crates/cuda_builder/Cargo.toml",
    "crates/cuda_builder/src",
    "crates/cuda_std/Cargo.toml",
    "crates/cuda_std/src",
    "crates/cuda_std_macros/Cargo.toml",
    "crates/cuda_std_macros/src",
    "crates/gemm_spec/Cargo.toml",
    "crates/gemm_spec/src",
    "crates/ptx_text/Cargo.toml",
    "crates/ptx_text/src",
    "kernels-gpu/Cargo.toml",
    "kernels-gpu/src",
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
        let digest = digest::of_sources(root(), &SOURCES).unwrap();
        for arch in Arch::ALL {
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
