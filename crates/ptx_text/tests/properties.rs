//! The reader on texts that nobody wrote: it ends without a panic on all of them, and reads what a module
//! says whatever its layout.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use ptx_text::{Param, PtxModule};

/// As the compiler writes it: the head of the committed module and its first entry.
fn real() -> &'static str {
    const MODULE: &str = include_str!("../../../kernels-gpu/ptx/sm_70/naive.ptx");
    let (second, _) = MODULE.match_indices(".visible .entry").nth(1).expect("several entries");
    &MODULE[..second]
}

/// A short run of time for each property, and no files of its own beside the sources.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() }
}

/// Reads a text and asks everything of what was read.
fn exercise(text: &str) {
    let module = match PtxModule::parse(text) {
        Ok(module) => module,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(module.entry("no entry has spaces in its name").is_err());
    assert!(module.cut(text, |_| false).len() <= text.len());
    let _ = module.cut(text, |_| true);
    for entry in &module.entries {
        assert!(entry.directives_at <= text.len());
        assert_eq!(entry.params.len(), entry.params_at.len());
        for (param, place) in entry.params.iter().zip(&entry.params_at) {
            assert!(place.end <= entry.directives_at, "{place:?}");
            assert!(text.get(place.clone()).is_some(), "{place:?}");
            assert!(!param.to_string().is_empty());
            let _ = param.size();
        }
        let opcodes = entry.opcodes().count();
        let special = [entry.local_memory(), entry.calls(), entry.traps()];
        assert!(opcodes <= entry.statements.len());
        assert!(special.iter().all(|found| found.len() <= entry.statements.len()));
    }
}

/// What texts of PTX are made of, in any order.
fn pieces() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        ".version 7.0\n",
        ".target sm_70\n",
        ".visible .entry ",
        "k",
        "(",
        ")",
        "{",
        "}",
        ";",
        ",",
        ".param .u32 x",
        ".param .align 8 .b8 y[",
        "16",
        "18446744073709551615",
        "]",
        "[",
        "\"",
        "//",
        "/*",
        "*/",
        "\n",
        " ",
        ".maxntid 1, 1, 1",
        ".extern .func ",
        "@%p1 ",
        "trap",
        "$L: ",
        "call.uni",
        ".local",
        ".ptr",
        ".align",
        ".b18446744073709551615",
        "é",
        ".entry",
        ":",
        "@",
    ];
    vec(prop_oneof![9 => select(WORDS).prop_map(str::to_owned), 1 => any::<String>()], 0..60)
        .prop_map(|pieces| pieces.concat())
}

/// A change of a text: what is put in place of a range.
fn change() -> impl Strategy<Value = (Index, usize, String)> {
    (any::<Index>(), 0..200usize, pieces())
}

/// The text with a range replaced; its ends move to where characters begin.
fn changed(text: &str, (at, len, new): &(Index, usize, String)) -> String {
    let boundary = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = boundary(at.index(text.len() + 1));
    let end = boundary(text.len().min(start + len));
    format!("{}{new}{}", &text[..start], &text[end..])
}

const TYPES: [&str; 6] = ["u32", "u64", "f32", "f64", "b8", "b16"];

fn param() -> impl Strategy<Value = Param> {
    let array = proptest::option::of(1..4096u64);
    let align = proptest::option::of(select(&[1u64, 2, 4, 8, 64, 128][..]));
    ("[a-z_$%][a-z0-9_$]{0,12}", select(&TYPES[..]), array, align)
        .prop_map(|(name, ty, array, align)| Param { name, ty: ty.to_owned(), array, align })
}

/// A declaration with a layout of its own; `pointer` adds what is said of a pointer's target.
fn declared(param: &Param, pointer: bool, gap: &str) -> String {
    let align = param.align.map_or(String::new(), |bytes| format!(".align {bytes}{gap}"));
    let target =
        if pointer { format!(".ptr{gap}.global{gap}.align 16{gap}") } else { String::new() };
    let array = param.array.map_or(String::new(), |count| format!("[{count}]"));
    format!("{gap}.param{gap}{align}.{}{gap}{target}{}{array}", param.ty, param.name)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        exercise(&text);
        exercise(&format!(".version 7.0\n.target sm_70\n{text}"));
    }

    #[test]
    fn texts_of_the_right_words_are_read_or_refused(text in pieces()) {
        exercise(&text);
        exercise(&format!(".version 7.0\n.target sm_70\n.entry k{text}"));
    }

    #[test]
    fn a_damaged_module_is_read_or_refused(changes in vec(change(), 1..4)) {
        let damaged = changes.iter().fold(real().to_owned(), |text, one| changed(&text, one));
        exercise(&damaged);
    }

    /// Names, parameters and directives come back, whatever stands between them.
    #[test]
    fn what_is_declared_is_read(
        entries in vec(("[a-z_][a-z0-9_$]{0,20}", vec((param(), any::<bool>()), 0..6)), 0..4),
        gap in select(&[" ", "\t", "\n\t", " /* , ( { */ ", " // ) }\n"][..]),
        version in (1..10u32, 0..10u32),
    ) {
        let mut text = format!(".version {}.{}\n.target sm_90a\n", version.0, version.1);
        for (name, params) in &entries {
            let params: Vec<String> =
                params.iter().map(|(param, pointer)| declared(param, *pointer, gap)).collect();
            let params = params.join(",");
            text += &format!("{gap}.visible{gap}.entry {name}{gap}({params}{gap}){gap}.maxntid 8, 4, 1{gap}{{ret;}}\n");
        }
        let module = PtxModule::parse(&text).unwrap();
        prop_assert_eq!(module.version, version);
        prop_assert_eq!(module.target.as_str(), "sm_90a");
        prop_assert_eq!(module.entries.len(), entries.len());
        for (read, (name, params)) in module.entries.iter().zip(&entries) {
            let params: Vec<Param> = params.iter().map(|(param, _)| param.clone()).collect();
            prop_assert_eq!(&read.name, name);
            prop_assert_eq!(&read.params, &params);
            prop_assert_eq!(&read.directives[..], [".maxntid 8, 4, 1".to_owned()]);
            prop_assert_eq!(&read.statements[..], ["ret".to_owned()]);
        }
        exercise(&text);
    }
}

/// The damaged modules are not all refused at their first line.
#[test]
fn the_real_module_is_read() {
    let module = PtxModule::parse(real()).unwrap();
    assert_eq!(module.entries.len(), 1);
    assert!(!module.entries[0].params.is_empty() && module.entries[0].opcodes().count() > 100);
    exercise(real());
}
