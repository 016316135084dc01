//! What a launch passes to an entry, and whether the entry takes it.
//!
//! The driver gets an array of addresses and reads from each as many bytes as the PTX declares: it
//! checks neither number nor types. So the array is made from one typed struct, and its list of
//! names, types and sizes is compared with the PTX before a module is used.

use std::ffi::c_void;
use std::ptr;

use cuda_lazy::TensorMap;
use gemm_spec::{DType, Element, EntryForm, ParamType, WideBf16, WideF16, bf16, f16};
use ptx_text::PtxModule;

use super::mismatch::{EntryMismatch, Slot};
use crate::error::PtxFault;

/// The Rust type of each kind of parameter.
macro_rules! passed_type {
    (U32, $element:ty) => {
        u32
    };
    (U64, $element:ty) => {
        u64
    };
    (Element, $element:ty) => {
        <$element as Element>::Acc
    };
    (TensorMap, $element:ty) => {
        TensorMap
    };
}

/// Defines the arguments of one form of launch: a struct, the list of what it passes, and its
/// addresses, in one order.
macro_rules! arguments {
    ($(#[$doc:meta])* $struct:ident<T>: $($name:ident: $kind:ident),+ $(,)?) => {
        $(#[$doc])*
        pub(super) struct $struct<T: Element> {
            $(pub(super) $name: passed_type!($kind, T)),+
        }

        impl<T: Element> $struct<T> {
            arguments!(@parts T; $($name: $kind),+);
        }
    };
    ($(#[$doc:meta])* $struct:ident: $($name:ident: $kind:ident),+ $(,)?) => {
        $(#[$doc])*
        pub(super) struct $struct {
            $(pub(super) $name: passed_type!($kind, f32)),+
        }

        impl $struct {
            arguments!(@parts f32; $($name: $kind),+);
        }
    };
    (@parts $element:ty; $($name:ident: $kind:ident),+) => {
        /// What is passed, in order.
        const PASSED: &'static [Passed] = &[$(Passed {
            name: stringify!($name),
            ty: ParamType::$kind,
            bytes: size_of::<passed_type!($kind, $element)>() as u64,
        }),+];

        /// The addresses that the driver reads the arguments from, in the order of `PASSED`.
        pub(super) fn addresses(&mut self) -> [*mut c_void; [$(stringify!($name)),+].len()] {
            [$(ptr::from_mut(&mut self.$name).cast()),+]
        }
    };
}

arguments! {
    /// A GEMM entry; pointers are device addresses, here and below.
    Arguments<T>:
    m: U32, n: U32, k: U32, alpha: Element, a: U64, lda: U64, b: U64, ldb: U64, beta: Element, c: U64,
    ldc: U64,
}

arguments! {
    /// The helper that splits a K-major operand.
    SplitKMajor:
    k: U32, from: U64, ld: U64, limbs: U64, exponents: U64, underflows: U64, flags: U64,
}

arguments! {
    /// The helper that finds the largest magnitudes of the rows of an MN-major operand.
    RowAmax: rows: U32, k: U32, from: U64, ld: U64, row_amax: U64,
}

arguments! {
    /// The helper that splits an MN-major operand.
    SplitMnMajor:
    rows: U32, k: U32, from: U64, ld: U64, row_amax: U64, limbs: U64, exponents: U64, underflows: U64,
    flags: U64,
}

arguments! {
    /// The helper that looks at samples of C.
    Probe:
    rows: U32, first: U32, m: U32, n: U32, k: U32, a: U64, a_row: U64, a_step: U64, b: U64, b_step: U64, b_col: U64,
    a_exponents: U64, b_exponents: U64, flags: U64,
}

arguments! {
    /// The product of split operands.
    Multiply:
    m: U32, n: U32, k: U32, alpha: Element, a_limbs: U64, b_limbs: U64, a_exponents: U64,
    b_exponents: U64, beta: Element, c: U64, ldc: U64, flags: U64, unless: U32,
}

arguments! {
    /// The product of the operands themselves.
    Fallback:
    m: U32, n: U32, k: U32, alpha: Element, a: U64, a_row: U64, a_step: U64, b: U64, b_step: U64,
    b_col: U64, beta: Element, c: U64, ldc: U64, flags: U64, when: U32,
}

arguments! {
    /// The helper that copies a factor of 16-bit elements to rows of another pitch.
    Pad: rows: U32, width: U32, from: U64, ld: U64, to: U64, pitch: U64,
}

arguments! {
    /// The product of factors of 16-bit elements.
    TensorProduct<T>:
    a_map: TensorMap, b_map: TensorMap, c_map: TensorMap, m: U32, n: U32, k: U32, alpha: Element,
    major_flags: U32, beta: Element, c: U64, ldc: U64, tma_store: U32,
}

arguments! {
    /// The product of f32 factors that TMA loads for FMA units.
    Boxes<T>:
    a_map: TensorMap, b_map: TensorMap, m: U32, n: U32, k: U32, alpha: Element, beta: Element, c: U64,
    ldc: U64,
}

/// One argument of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passed {
    name: &'static str,
    ty: ParamType,
    bytes: u64,
}

/// What is passed to an entry of that form; none where no launch here passes just its parameters.
fn passed(form: &EntryForm) -> Option<&'static [Passed]> {
    let gemm = match form.dtype {
        DType::F32 => Arguments::<f32>::PASSED,
        DType::F64 => Arguments::<f64>::PASSED,
        DType::I32 => Arguments::<i32>::PASSED,
        DType::I8 => Arguments::<i8>::PASSED,
        DType::F16 => Arguments::<f16>::PASSED,
        DType::BF16 => Arguments::<bf16>::PASSED,
        DType::F16F32 => Arguments::<WideF16>::PASSED,
        DType::BF16F32 => Arguments::<WideBf16>::PASSED,
    };
    let lists = [
        gemm,
        SplitKMajor::PASSED,
        RowAmax::PASSED,
        SplitMnMajor::PASSED,
        Probe::PASSED,
        Multiply::PASSED,
        Fallback::PASSED,
        Pad::PASSED,
        // Scalars of both types are f32.
        TensorProduct::<f16>::PASSED,
        Boxes::<f32>::PASSED,
    ];
    lists.into_iter().find(|list| {
        let params = form.params.iter().map(|param| (param.name, param.ty));
        list.iter().map(|passed| (passed.name, passed.ty)).eq(params)
    })
}

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
        let passed: Vec<(&str, Slot)> = passed(wanted)
            .unwrap_or_default()
            .iter()
            .map(|arg| {
                let ty = arg.ty.ptx(wanted.dtype).to_owned();
                (arg.name, Slot { ty, bytes: arg.bytes })
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
    use gemm_spec::{Arch, GEMM_PARAMS};
    use kernels_gpu::{KERNELS, Kernel, Module};

    use super::*;

    #[test]
    fn the_arguments_are_the_parameters_of_every_kernel() {
        for form in KERNELS.iter().flat_map(|spec| spec.forms()) {
            let passed = passed(&form).unwrap_or_else(|| panic!("nothing is passed to {form:?}"));
            for (passed, param) in passed.iter().zip(form.params) {
                assert_eq!(passed.bytes, param.ty.size(form.dtype) as u64, "{}", param.name);
            }
        }
    }

    #[test]
    fn the_addresses_follow_the_list() {
        let mut arguments = Arguments::<f64> {
            m: 1,
            n: 2,
            k: 3,
            alpha: 4.0,
            a: 5,
            lda: 6,
            b: 7,
            ldb: 8,
            beta: 9.0,
            c: 10,
            ldc: 11,
        };
        let addresses = arguments.addresses();
        for (at, (address, passed)) in addresses.iter().zip(Arguments::<f64>::PASSED).enumerate() {
            // SAFETY: each address is that of a field of `arguments`, of the type in the list.
            let value = unsafe {
                match passed.ty {
                    ParamType::U32 => f64::from(*address.cast::<u32>()),
                    ParamType::U64 => *address.cast::<u64>() as f64,
                    ParamType::Element => *address.cast::<f64>(),
                    ParamType::TensorMap => unreachable!("a chain has no tensor map"),
                }
            };
            assert_eq!(value, (at + 1) as f64, "{}", passed.name);
        }
    }

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
            let mut types: Vec<&str> =
                GEMM_PARAMS.iter().map(|param| param.ty.ptx(entry.dtype)).collect();
            if entry.dtype == gemm_spec::DType::F32 {
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
