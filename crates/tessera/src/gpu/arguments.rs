//! Whether the entries of a module take what launches pass.
//!
//! The driver gets an array of addresses and reads from each as many bytes as the PTX declares: it
//! checks neither number nor types. So the lists of [`gemm_spec::params`], from which the arrays are made,
//! are compared with the PTX before a module is used.

use gemm_spec::EntryForm;
use ptx_text::PtxModule;

use crate::error::PtxFault;
use crate::mismatch::{EntryMismatch, Slot};

/// Compares every entry of a module with what a launch passes.
///
/// # Errors
/// A [`PtxFault`], for the first entry that does not fit.
pub(super) fn check(file: &str, ptx: &str, forms: &[EntryForm]) -> Result<(), PtxFault> {
    let module = PtxModule::parse(ptx).map_err(|error| PtxFault::Unreadable {
        file: file.to_owned(),
        reason: error.to_string(),
    })?;
    for wanted in forms {
        let Some(entry) = module.entries.iter().find(|entry| entry.name == wanted.symbol) else {
            let launched = forms.iter().map(|form| form.symbol);
            return Err(PtxFault::EntryMissing {
                file: file.to_owned(),
                entry: wanted.symbol,
                entries: EntryMismatch::of_names(
                    launched.map(str::to_owned).collect(),
                    module.entries.iter().map(|entry| entry.name.clone()).collect(),
                ),
            });
        };
        let passed: Vec<(&str, Slot)> = wanted
            .params
            .iter()
            .map(|param| {
                let ty = param.ty.ptx(wanted.acc).to_owned();
                (param.name, Slot { ty, bytes: param.ty.size(wanted.acc) as u64 })
            })
            .collect();
        let declared: Vec<Slot> = entry
            .params
            .iter()
            .map(|param| Slot { ty: param.to_string(), bytes: param.size() })
            .collect();
        if passed.len() != declared.len() || passed.iter().map(|(_, slot)| slot).ne(&declared) {
            return Err(PtxFault::EntryParameters {
                file: file.to_owned(),
                entry: wanted.symbol,
                parameters: EntryMismatch::of_slots(&passed, &declared),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gemm_spec::Arch;
    use gemm_spec::params::{GemmParams, Params as _};
    use kernels_gpu::{KERNELS, Kernel, Module};

    use super::*;

    #[test]
    fn the_committed_ptx_takes_what_is_passed() {
        let mut entries = 0;
        for module in Module::all() {
            check(&module.place(), module.ptx(), module.forms()).unwrap();
            let own = module.forms().iter();
            entries += own.filter(|_| module.name != Module::HELPERS).count();
        }
        assert_eq!(entries, KERNELS.iter().flat_map(|spec| spec.entries).count());
    }

    /// A module with the entries of `naive`, whose types are edited for one of them.
    fn refused(edit: impl Fn(&mut Vec<&str>)) -> String {
        let naive = Kernel::named("naive").unwrap();
        let mut text = ".version 7.0\n.target sm_70\n".to_owned();
        for entry in naive.entries {
            let mut types: Vec<&str> = GemmParams::<f32>::LIST
                .iter()
                .map(|param| param.ty.ptx(entry.types.acc()))
                .collect();
            if entry.types == gemm_spec::Types::F32 {
                edit(&mut types);
            }
            let params: Vec<String> =
                types.iter().enumerate().map(|(at, ty)| format!(".param {ty} p_{at}")).collect();
            text +=
                &format!(".visible .entry {}({})\n{{ ret; }}\n", entry.symbol, params.join(","));
        }
        match check("x.ptx", &text, &naive.forms().collect::<Vec<_>>()) {
            Ok(()) => "accepted".to_owned(),
            Err(error) => {
                assert!(
                    matches!(error, PtxFault::EntryParameters { entry: "naive_f32", .. }),
                    "{error:?}"
                );
                error.to_string()
            }
        }
    }

    /// The lines of a message that are marked as different.
    fn marked(message: &str) -> Vec<&str> {
        message.lines().filter(|line| line.starts_with('!')).collect()
    }

    #[test]
    fn a_good_module_is_accepted() {
        assert_eq!(refused(|_| ()), "accepted");
    }

    #[test]
    fn a_missing_parameter_is_refused_with_both_lists() {
        let message = refused(|types| types.truncate(10));
        assert_eq!(marked(&message), ["! ldc .u64 (8 bytes)   | nothing"], "{message}");
        assert!(message.contains("  ldb .u64 (8 bytes)   | .u64 (8 bytes)"), "{message}");
        assert!(message.starts_with("x.ptx: naive_f32 "), "{message}");
    }

    #[test]
    fn a_parameter_too_many_is_refused() {
        let message = refused(|types| types.push(".u32"));
        assert_eq!(marked(&message), ["! nothing              | .u32 (4 bytes)"], "{message}");
    }

    #[test]
    fn swapped_parameters_are_refused() {
        let message = refused(|types| types.swap(7, 8)); // ldb and beta
        assert_eq!(
            marked(&message),
            ["! ldb .u64 (8 bytes)   | .f32 (4 bytes)", "! beta .f32 (4 bytes)  | .u64 (8 bytes)"],
            "{message}"
        );
    }

    #[test]
    fn another_element_type_is_refused() {
        let message = refused(|types| types[3] = ".f64");
        assert_eq!(marked(&message), ["! alpha .f32 (4 bytes) | .f64 (8 bytes)"], "{message}");
        // As many bytes, another meaning.
        let message = refused(|types| types[3] = ".u32");
        assert_eq!(marked(&message), ["! alpha .f32 (4 bytes) | .u32 (4 bytes)"], "{message}");
    }

    #[test]
    fn a_missing_entry_is_refused_with_both_lists() {
        let tiled8 = Module::of_entry(Arch::Sm70, "tiled8_f64").unwrap();
        let ptx = tiled8.ptx().replace(".entry tiled8_f64(", ".entry tiled9_f64(");
        let error = check("tiled8.ptx", &ptx, tiled8.forms()).unwrap_err();
        assert!(matches!(error, PtxFault::EntryMissing { entry: "tiled8_f64", .. }), "{error:?}");
        let message = error.to_string();
        // The columns are as wide as the longest name of the registry.
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let marked: Vec<String> = marked(&message).into_iter().map(words).collect();
        assert_eq!(marked, ["! tiled8_f64 | nothing", "! nothing | tiled9_f64"], "{message}");
        assert!(message.lines().any(|line| words(line) == "tiled8_f32 | tiled8_f32"), "{message}");
    }

    #[test]
    fn what_is_no_ptx_is_refused() {
        let error = check("x.ptx", "nonsense", &[]).unwrap_err();
        assert!(matches!(error, PtxFault::Unreadable { .. }), "{error:?}");
        assert!(error.to_string().starts_with("x.ptx cannot be read: "), "{error}");
    }
}
