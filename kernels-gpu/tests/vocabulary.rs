//! The sources of kernels use the field's words: a retired one does not come back.

use std::fs;
use std::path::{Path, PathBuf};

/// Words that comments no longer use, and what to write instead.
const PROSE: &[(&str, &str)] = &[
    ("copy engine", "TMA"),
    ("multiprocessor", "SM"),
    ("multiprocessors", "SMs"),
    ("first-level cache", "L1"),
    ("second-level cache", "L2"),
    ("page-locked", "pinned"),
    ("step of k", "k element, or k-block"),
    ("steps of k", "k elements, or k-blocks"),
    ("so many", "the number or the parameter's name"),
    ("by turns", "alternately"),
    ("bring", "load"),
    ("brings", "loads"),
    ("brought", "loaded"),
    ("lie", "be"),
    ("lies", "is"),
    ("turned", "transposed"),
];

/// Identifiers that code no longer uses, and their successors.
const NAMES: &[(&str, &str)] = &[
    ("Turn", "PipelineState"),
    ("Ring", "Pipeline"),
    ("set_all", "init_barriers"),
    ("wait_full", "consumer_wait"),
    ("bring", "load_tile"),
    ("bring_all", "producer_loop"),
    ("Sums", "Accumulators"),
    ("sums", "acc"),
    ("EIGHTS", "N16"),
    ("store_matrices", "stmatrix_x4"),
    ("A_ACROSS", "A_MN_MAJOR"),
    ("B_ACROSS", "B_MN_MAJOR"),
    ("staged", "tma_store"),
    ("Pieces", "Limbs"),
    ("pieces", "limbs"),
    ("maxima", "row_amax"),
    ("WIDE", "OUT_OF_RANGE"),
];

/// A retired word: its line, itself, and what to write instead.
type Finding = (usize, &'static str, &'static str);

/// The retired words of a source, first those of its code, then those of its comments.
fn findings(source: &str) -> Vec<Finding> {
    let (mut code, mut prose) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(source.lines()) {
        let (before, comment) = line.split_once("//").unwrap_or((line, ""));
        let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let words = before.split(|c| !part_of_word(c)).filter(|word| !word.is_empty());
        code.extend(words.map(|word| (number, word.to_owned())));
        // Text between backticks is code.
        for (i, text) in comment.split('`').enumerate() {
            let words =
                text.split(|c| !part_of_word(c) && c != '-').filter(|word| !word.is_empty());
            let words = words.filter(|_| i % 2 == 0);
            prose.extend(words.map(|word| (number, word.to_lowercase())));
        }
    }
    let mut found = retired(&code, NAMES);
    found.extend(retired(&prose, PROSE));
    found
}

/// Where the words of a list occur, also from the end of one line to the beginning of the next.
fn retired(
    words: &[(usize, String)],
    list: &'static [(&'static str, &'static str)],
) -> Vec<Finding> {
    let mut found = Vec::new();
    for &(old, new) in list {
        let old_words: Vec<&str> = old.split(' ').collect();
        for window in words.windows(old_words.len()) {
            if window.iter().map(|(_, word)| word.as_str()).eq(old_words.iter().copied()) {
                found.push((window[0].0, old, new));
            }
        }
    }
    found
}

/// Every Rust source below a folder.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder of sources is readable") {
        let path = entry.expect("an entry of the folder is readable").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn sources_of_kernels_use_no_retired_word() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in ["src", "../crates/cuda_std/src", "../crates/gemm_spec/src"] {
        sources(&package.join(folder), &mut paths);
    }
    assert!(paths.len() > 60, "only {} sources were found", paths.len());
    let mut report = String::new();
    for path in paths {
        let source = fs::read_to_string(&path).unwrap();
        for (line, old, new) in findings(&source) {
            report += &format!("{}:{line}: `{old}` is retired, write {new}\n", path.display());
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn a_planted_word_is_found_in_code_and_in_comments() {
    let planted = "\
//! Tiles that the copy
//! engine brings; `bring` is code here.
let turn = Turn::new(); // Stages lie in a ring.
";
    assert_eq!(
        findings(planted),
        [
            (3, "Turn", "PipelineState"),
            (1, "copy engine", "TMA"),
            (2, "brings", "loads"),
            (3, "lie", "be"),
        ]
    );
    assert!(
        findings("// A multiprocessor-wide barrier, belied.\nlet pieces_fallback = 0;").is_empty()
    );
}
