//! What a driver loads: the modules with their PTX and machine code.

use std::sync::LazyLock;

use gemm_spec::{Arch, EntryForm, KernelSpec};

use crate::{KERNELS, common_entries};

/// Entries that the driver loads together. Each kernel has a module of its own, so that its first
/// launch waits for nothing else; what several kernels launch beside their own entries is one more
/// module of their arch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// The arch that its PTX is for.
    pub arch: Arch,
    /// The kernel's name, or [`Module::HELPERS`].
    pub name: &'static str,
}

/// A module's machine code for several GPUs, made from its PTX.
#[derive(Clone, Copy, Debug)]
pub struct Assembled {
    /// The fat binary: compressed machine code for each of `archs`.
    pub image: &'static [u8],
    /// The archs that it has machine code for, as `sm_86`.
    pub archs: &'static [&'static str],
    /// SHA-256 of the PTX that was assembled, without the comment at its top.
    pub ptx_sha256: &'static str,
    /// SHA-256 of the image.
    pub image_sha256: &'static str,
    /// The release of the assembler, as `13.0.88`.
    pub ptxas: &'static str,
}

impl Assembled {
    /// Whether a GPU of that compute capability runs some of the machine code: what was assembled for it
    /// or for an earlier one of the same major number. That of an arch with an `a` runs there alone.
    #[must_use]
    pub fn runs_on(&self, compute_capability: (u32, u32)) -> bool {
        let (major, minor) = compute_capability;
        self.archs.iter().any(|arch| {
            let digits = arch.trim_start_matches("sm_");
            let (digits, alone) = match digits.strip_suffix('a') {
                Some(digits) => (digits, true),
                None => (digits, false),
            };
            digits.parse::<u32>().is_ok_and(|number| {
                let (for_major, for_minor) = (number / 10, number % 10);
                for_major == major && (for_minor == minor || for_minor < minor && !alone)
            })
        })
    }
}

impl Module {
    /// The name of the modules that several kernels launch entries of.
    pub const HELPERS: &'static str = "helpers";

    /// Every module, arch by arch, in the order of the registry.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        TABLE.iter().map(|(module, _)| *module)
    }

    /// The modules that launches of a kernel take entries from: its own first, then that of its helpers,
    /// if it has any.
    pub fn of_kernel(spec: &KernelSpec) -> impl Iterator<Item = Self> {
        let arch = spec.arch;
        let helpers = helpers(spec).next().map(|_| Self { arch, name: Self::HELPERS });
        [Self { arch, name: spec.id }].into_iter().chain(helpers)
    }

    /// The module of what copies operands to rows, whatever the kernel is.
    #[must_use]
    pub fn common() -> Self {
        Self { arch: COMMON_ARCH, name: Self::HELPERS }
    }

    /// The module of an entry of that arch.
    #[must_use]
    pub fn of_entry(arch: Arch, symbol: &str) -> Option<Self> {
        let mut of_arch = TABLE.iter().filter(|(module, _)| module.arch == arch);
        let found = of_arch.find(|(_, forms)| forms.iter().any(|form| form.symbol == symbol));
        found.map(|(module, _)| *module)
    }

    /// Its entries, each once, in the order of the registry.
    #[must_use]
    pub fn forms(self) -> &'static [EntryForm] {
        TABLE.iter().find(|(module, _)| *module == self).map_or(&[], |(_, forms)| forms)
    }

    /// Its place among the committed files, as `sm_80/split_k_64x64`.
    #[must_use]
    pub fn place(self) -> String {
        format!("{}/{}", self.arch.target_cpu(), self.name)
    }

    /// Its PTX, as `cargo xtask build-ptx` made it from this crate's sources; empty where that has not
    /// been run since the registry got the kernel.
    #[must_use]
    pub fn ptx(self) -> &'static str {
        self.files().map_or("", |files| files.ptx)
    }

    /// Its machine code, where some was assembled from this PTX.
    #[must_use]
    pub fn assembled(self) -> Option<&'static Assembled> {
        self.files()?.assembled.as_ref()
    }

    fn files(self) -> Option<&'static Files> {
        FILES.iter().find(|files| files.arch == self.arch && files.name == self.name)
    }
}

/// The modules and their entries.
static TABLE: LazyLock<Vec<(Module, Vec<EntryForm>)>> = LazyLock::new(|| {
    let mut table = Vec::new();
    for arch in Arch::ALL {
        // What kernels of any arch launch is in the module of the oldest.
        let common = common_entries().filter(|_| arch == COMMON_ARCH);
        let mut helping: Vec<EntryForm> = common.map(|entry| entry.form()).collect();
        for spec in KERNELS.iter().filter(|spec| spec.arch == arch) {
            let own = spec.forms().take(spec.entries.len()).collect();
            table.push((Module { arch, name: spec.id }, own));
            for form in helpers(spec) {
                if helping.iter().all(|known| known.symbol != form.symbol) {
                    helping.push(form);
                }
            }
        }
        if !helping.is_empty() {
            table.push((Module { arch, name: Module::HELPERS }, helping));
        }
    }
    table
});

/// The arch of what kernels of any arch launch.
const COMMON_ARCH: Arch = Arch::Sm70;

/// What a kernel launches beside its own entries.
fn helpers(spec: &KernelSpec) -> impl Iterator<Item = EntryForm> {
    spec.forms().skip(spec.entries.len())
}

/// The committed files of a module.
struct Files {
    arch: Arch,
    name: &'static str,
    ptx: &'static str,
    assembled: Option<Assembled>,
}

/// Written by `cargo xtask build-ptx` and `cargo xtask assemble`, which so keep PTX and machine code
/// together: where none could be made from a module's PTX there is none, rather than an older one.
static FILES: &[Files] = include!("../ptx/modules.rs");

/// A fat binary, where the driver may read words of 64 bits.
macro_rules! image {
    ($path:literal) => {{
        #[repr(align(64))]
        struct Aligned<T: ?Sized>(T);
        static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &IMAGE.0
    }};
}
use image;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_in_one_module_and_every_module_has_entries() {
        let mut entries = 0;
        for module in Module::all() {
            let forms = module.forms();
            assert!(!forms.is_empty(), "{module:?}");
            for form in forms {
                assert_eq!(Module::of_entry(module.arch, form.symbol), Some(module));
            }
            entries += forms.len();
        }
        let mut symbols: Vec<_> = KERNELS
            .iter()
            .flat_map(|spec| spec.forms().map(|form| (spec.arch.target_cpu(), form.symbol)))
            .chain(common_entries().map(|entry| (COMMON_ARCH.target_cpu(), entry.symbol)))
            .collect();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(entries, symbols.len());
        assert_eq!(Module::of_entry(Arch::Sm70, "no_such_kernel_f32"), None);
        assert_eq!(Module::of_entry(Arch::Sm80, "naive_f32"), None, "of another arch");
    }

    #[test]
    fn a_kernel_needs_its_own_module_and_that_of_its_helpers() {
        for spec in KERNELS {
            let needed: Vec<Module> = Module::of_kernel(spec).collect();
            assert!(
                needed.iter().all(|module| Module::all().any(|of| of == *module)),
                "{}",
                spec.id
            );
            for form in spec.forms() {
                let module = Module::of_entry(spec.arch, form.symbol).unwrap();
                assert!(needed.contains(&module), "{}: {}", spec.id, form.symbol);
            }
        }
    }

    #[test]
    fn machine_code_runs_on_later_gpus_of_the_same_major_number() {
        let of =
            |archs| Assembled { image: &[], archs, ptx_sha256: "", image_sha256: "", ptxas: "" };
        let ampere = of(&["sm_86"]);
        assert!(ampere.runs_on((8, 6)) && ampere.runs_on((8, 9)));
        assert!(!ampere.runs_on((8, 0)) && !ampere.runs_on((9, 0)) && !ampere.runs_on((7, 5)));
        let hopper = of(&["sm_90a"]);
        assert!(hopper.runs_on((9, 0)) && !hopper.runs_on((9, 1)) && !hopper.runs_on((10, 0)));
        assert!(of(&["sm_80", "sm_120"]).runs_on((12, 1)));
        assert!(!of(&["sm_120"]).runs_on((10, 0)) && !of(&[]).runs_on((8, 0)));
    }
}
