//! What a module must look like before an assembler sees it.

use std::collections::{BTreeMap, BTreeSet};

use gemm_spec::{EntryForm, KernelSpec};
use ptx_text::{PtxEntry, PtxModule};

/// All that is wrong with a module, one sentence each; empty where nothing is. `here` says which of the
/// kernels' entries are the module's, `common` are those that are no kernel's own.
pub(crate) fn faults(
    module: &PtxModule,
    kernels: &[&KernelSpec],
    common: Vec<EntryForm>,
    here: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expected = BTreeMap::new();
    for spec in kernels {
        for wanted in spec.forms().filter(|form| here(form.symbol)) {
            // Kernels may share a helper, which is then the same for all of them.
            let own = spec.entries.iter().any(|entry| entry.symbol == wanted.symbol);
            if expected.insert(wanted.symbol, wanted).is_some_and(|form| own || form != wanted) {
                faults.push(format!("{}: the registry has this symbol twice", wanted.symbol));
            }
        }
    }
    expected.extend(common.into_iter().map(|form| (form.symbol, form)));
    for (symbol, wanted) in &expected {
        match module.entry(symbol) {
            Ok(entry) => faults.extend(entry_faults(entry, wanted)),
            Err(_) => faults.push(format!("{symbol}: the module has no such entry")),
        }
    }
    let mut present = BTreeSet::new();
    for entry in &module.entries {
        let name = entry.name.as_str();
        if !present.insert(name) {
            faults.push(format!("{name}: the module has this entry twice"));
        } else if !expected.contains_key(name) {
            faults.push(format!("{name}: no kernel of the registry has this entry"));
        }
    }
    faults
}

fn entry_faults(entry: &PtxEntry, form: &EntryForm) -> Vec<String> {
    let name = &entry.name;
    let mut faults = Vec::new();
    let has: Vec<String> = entry.params.iter().map(ToString::to_string).collect();
    let wants: Vec<&str> = form.params.iter().map(|param| param.ty.ptx(form.acc)).collect();
    if has.len() != wants.len() {
        faults.push(format!("{name}: has {} parameters, not {}", has.len(), wants.len()));
    }
    for (at, (has, &wants)) in has.iter().zip(&wants).enumerate() {
        if has != wants {
            let param = form.params[at].name;
            faults.push(format!("{name}: parameter {param} is {has}, not {wants}"));
        }
    }
    let threads = entry.directives.iter().find_map(|line| threads(line));
    if threads != Some(form.threads()) {
        let stated = threads.map_or("no bound".to_owned(), |threads| threads.to_string());
        faults.push(format!("{name}: states {stated} on threads, not {}", form.threads()));
    }
    for (what, found) in [
        ("local memory", entry.local_memory()),
        ("a call", entry.calls()),
        ("a trap, what is left of a panic", entry.traps()),
    ] {
        if let Some(first) = found.first() {
            faults.push(format!("{name}: has {what}, {} in all; first `{first}`", found.len()));
        }
    }
    faults
}

/// Threads of a block that `.maxntid x, y, z` allows.
fn threads(directive: &str) -> Option<u32> {
    let extents = directive.strip_prefix(".maxntid ")?;
    extents.split(',').map(|extent| extent.trim().parse::<u32>().ok()).product()
}

#[cfg(test)]
mod tests {
    use gemm_spec::{Arch, Block, Entry, LaunchShape, Tile, Types};

    use super::*;

    const SPEC: KernelSpec = KernelSpec {
        id: "tiled",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[Entry { types: Types::F64, symbol: "tiled_f64" }],
        launch: LaunchShape::Grid { block: Block { x: 16, y: 16 }, tile: Tile { m: 16, n: 16 } },
        shared_elements: 512,
        min_blocks_per_sm: gemm_spec::MinBlocks::same(1),
        ..KernelSpec::PLAIN
    };

    fn module(name: &str, types: &str, body: &str) -> PtxModule {
        let params: Vec<String> =
            types.split(' ').map(|ty| format!(".param .{ty} {name}_x")).collect();
        let params = params.join(",\n");
        PtxModule::parse(&format!(
            ".version 7.0\n.target sm_70\n.visible .entry {name}({params})\n\
             .maxntid 16, 16, 1\n{{\n{body}\n}}\n"
        ))
        .unwrap()
    }

    const TYPES: &str = "u32 u32 u32 f64 u64 u64 u64 u64 f64 u64 u64";

    fn faults_of(module: &PtxModule) -> String {
        faults(module, &[&SPEC], Vec::new(), |_| true).join("\n")
    }

    #[test]
    fn a_good_module_has_no_fault() {
        let text = faults_of(&module("tiled_f64", TYPES, "fma.rn.f64 %d1, %d2, %d3, %d1;\nret;"));
        assert_eq!(text, "");
    }

    #[test]
    fn entries_and_symbols_pair_up() {
        let text = faults_of(&module("tiled_f65", TYPES, "ret;"));
        assert!(text.contains("tiled_f64: the module has no such entry"), "{text}");
        assert!(text.contains("tiled_f65: no kernel of the registry"), "{text}");
        let twice =
            faults(&module("tiled_f64", TYPES, "ret;"), &[&SPEC, &SPEC], Vec::new(), |_| true);
        assert!(twice.iter().any(|fault| fault.contains("twice")), "{twice:?}");
    }

    #[test]
    fn parameters_follow_the_element_type() {
        let text = faults_of(&module("tiled_f64", &TYPES.replace("f64", "f32"), "ret;"));
        assert!(text.contains("parameter alpha is .f32, not .f64"), "{text}");
        assert!(text.contains("parameter beta is .f32, not .f64"), "{text}");
        let text = faults_of(&module("tiled_f64", "u32 u32", "ret;"));
        assert!(text.contains("has 2 parameters, not 11"), "{text}");
    }

    #[test]
    fn local_memory_calls_and_traps_are_faults() {
        for (body, word) in [
            (".local .align 8 .b8 depot[64];\nret;", "local memory"),
            ("call.uni (retval0), far, (param0);\nret;", "a call"),
            ("@%p1 trap;\nret;", "a trap"),
        ] {
            let text = faults_of(&module("tiled_f64", TYPES, body));
            assert!(text.contains(word), "{body}: {text}");
        }
    }

    #[test]
    fn the_bound_on_threads_is_the_specs() {
        let larger = KernelSpec {
            launch: LaunchShape::SingleBlock, // 1024 threads
            ..SPEC
        };
        let text = faults(&module("tiled_f64", TYPES, "ret;"), &[&larger], Vec::new(), |_| true)
            .join("\n");
        assert!(text.contains("states 256 on threads, not 1024"), "{text}");
    }
}
