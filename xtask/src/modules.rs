//! The committed modules: where they lie, which kernels they hold, and what they are made from.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

use cuda_builder::EntryDirectives;
use gemm_spec::{Arch, EntryForm, KernelSpec, ParamType};
use kernels_gpu::Module;

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

/// The folder of the committed modules, from the root.
pub(crate) const FOLDER: &str = "kernels-gpu/ptx";

/// The list of the committed modules that the host compiles in, from the root.
pub(crate) const LIST: &str = "kernels-gpu/ptx/modules.rs";

/// The committed PTX of a module.
pub(crate) fn path(module: Module) -> PathBuf {
    root().join(relative(module))
}

/// The same, as it is shown.
pub(crate) fn relative(module: Module) -> String {
    format!("{FOLDER}/{}.ptx", module.place())
}

/// The committed machine code of a module, as it is shown.
pub(crate) fn relative_image(module: Module) -> String {
    format!("{FOLDER}/{}.fatbin", module.place())
}

/// The kernels of an arch, in the order of the registry.
pub(crate) fn kernels(arch: Arch) -> impl Iterator<Item = &'static KernelSpec> {
    kernels_gpu::KERNELS.iter().map(|kernel| kernel.spec()).filter(move |spec| spec.arch == arch)
}

/// The kernels that launch entries of a module.
pub(crate) fn users(module: Module) -> impl Iterator<Item = &'static KernelSpec> {
    kernels(module.arch).filter(move |spec| Module::of_kernel(spec).any(|of| of == module))
}

/// The entries of a module that are no kernel's own, but what kernels of any arch launch.
pub(crate) fn common(module: Module) -> Vec<EntryForm> {
    let common = kernels_gpu::common_entries().filter(|_| module == Module::common());
    common.map(|entry| entry.form()).collect()
}

/// Every file below the folder of the modules, from the root, folders with `/`; none where there is no
/// folder.
pub(crate) fn committed() -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![FOLDER.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).into_iter().flatten().flatten() {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// Whether a file belongs to a module that there is.
pub(crate) fn is_wanted(file: &str) -> bool {
    let of = |module: Module| [relative(module), relative_image(module)].contains(&file.to_owned());
    file == LIST || Module::all().any(of)
}

/// What the entries of an arch promise about their launches.
pub(crate) fn directives(arch: Arch) -> Vec<EntryDirectives> {
    let promise = |form: EntryForm| {
        let maps = form.params.iter().enumerate();
        maps.filter(|(_, param)| param.ty == ParamType::TensorMap).fold(
            EntryDirectives::new(form.symbol)
                .max_threads(form.block.x, form.block.y, 1)
                .min_blocks_per_sm(form.min_blocks),
            |directives, (index, _)| directives.param_align(index, ParamType::TENSOR_MAP_ALIGN),
        )
    };
    let of_modules = Module::all().filter(|module| module.arch == arch).flat_map(common);
    kernels(arch).flat_map(KernelSpec::forms).chain(of_modules).map(promise).collect()
}

#[cfg(test)]
mod tests {
    use cuda_builder::{Header, digest};

    use super::*;

    /// Needs no toolchain, so no commit can bring stale PTX.
    #[test]
    fn the_committed_ptx_is_made_from_the_sources_beside_it() {
        for arch in Arch::ALL {
            let digest = digest::of_sources(root(), &SOURCES, arch.target_cpu()).unwrap();
            for module in Module::all().filter(|module| module.arch == arch) {
                let file = relative(module);
                let text = fs::read_to_string(path(module))
                    .unwrap_or_else(|error| panic!("{file}: {error}; run `cargo xtask build-ptx`"));
                let header = Header::parse(&text)
                    .unwrap_or_else(|| panic!("{file} has no header; run `cargo xtask build-ptx`"));
                assert_eq!(
                    header.digest, digest,
                    "{file} was made from other sources; run `cargo xtask build-ptx`"
                );
                assert_eq!(header.arch, arch.target_cpu(), "{file}");
                assert!(module.ptx() == text, "{LIST} lacks {file}; run `cargo xtask build-ptx`");
            }
        }
    }

    /// The digest takes no notice of lines and comments, so neither may the modules: no debug lines, no
    /// message of a panic, and no other data in which a file's name could be.
    #[test]
    fn no_line_of_the_sources_reaches_the_ptx() {
        for module in Module::all() {
            let text = fs::read_to_string(path(module)).unwrap();
            let body = text.lines().skip_while(|line| line.starts_with("//"));
            for (at, line) in body.enumerate() {
                let of_place = line.contains(".rs\"")
                    || [".loc", ".file", ".section"]
                        .contains(&line.split_whitespace().next().unwrap_or(""))
                    || line.contains(".global .") && !line.contains(".extern");
                assert!(!of_place, "{}, line {at} behind the header: {line}", relative(module));
            }
        }
    }

    #[test]
    fn no_module_lies_there_that_no_kernel_asks_for() {
        for file in committed() {
            assert!(is_wanted(&file), "{file} belongs to no kernel; run `cargo xtask build-ptx`");
        }
    }
}
