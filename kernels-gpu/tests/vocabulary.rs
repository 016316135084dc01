//! The sources use the field's words: a retired one does not come back.

use std::fs;
use std::path::{Path, PathBuf};

/// Retired words, and what to write instead.
type Words = &'static [(&'static str, &'static str)];

/// Words that comments of kernels no longer use.
const PROSE: Words = &[
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

/// Identifiers that kernels no longer use, and their successors.
const NAMES: Words = &[
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

/// Words that no other comment uses either.
const PROSE_ELSEWHERE: Words = &[
    ("copy engine", "TMA"),
    ("multiprocessor", "SM"),
    ("multiprocessors", "SMs"),
    ("first-level cache", "L1"),
    ("second-level cache", "L2"),
    ("third-level cache", "L3"),
    ("page-locked", "pinned"),
    ("step of k", "k element, or k-block"),
    ("steps of k", "k elements, or k-blocks"),
    ("so many", "that many, or the parameter's name"),
    ("by turns", "interleaved"),
    ("go by", "depend on"),
    ("goes by", "depends on"),
    ("to be had", "available"),
    ("as it lies", "in place"),
    ("as they lie", "in place"),
    ("entrant", "candidate"),
    ("entrants", "candidates"),
    ("steward", "scheduler"),
];

/// Identifiers that are used nowhere else either.
const NAMES_ELSEWHERE: Words = &[
    ("Entrant", "Candidate"),
    ("Steward", "Scheduler"),
    ("in_turn", "interleaved"),
    ("Pace", "Efficiency"),
    ("Paces", "Constants"),
    ("Places", "the entry's struct of parameters"),
    ("Settled", "DrainGuard"),
    ("Upcoming", "PrefetchSource"),
    ("Hint", "Prefetch"),
    ("STARTS", "COMPENSATES"),
    ("Fine", "Success"),
    ("Inner", "InnerDim"),
    ("Outer", "OuterDim"),
    ("InUse", "Measured"),
];

/// A retired word: its line, itself, and what to write instead.
type Finding = (usize, &'static str, &'static str);

/// The retired words of a source, first those of its code, then those of its comments.
fn findings(source: &str, names: Words, retired_prose: Words) -> Vec<Finding> {
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
    let mut found = retired(&code, names);
    found.extend(retired(&prose, retired_prose));
    found
}

/// Where the words of a list occur, also from the end of one line to the beginning of the next.
fn retired(words: &[(usize, String)], list: Words) -> Vec<Finding> {
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

/// The workspace's root.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package is in the workspace").to_owned()
}

const OF_KERNELS: [&str; 3] = ["kernels-gpu/src", "crates/cuda_std/src", "crates/gemm_spec/src"];

/// The retired words of those sources, a line each.
fn report(paths: &[PathBuf], names: Words, prose: Words) -> String {
    let mut report = String::new();
    for path in paths {
        let source = fs::read_to_string(path).expect("a source is text");
        for (line, old, new) in findings(&source, names, prose) {
            report += &format!("{}:{line}: `{old}` is retired, write {new}\n", path.display());
        }
    }
    report
}

#[test]
fn sources_of_kernels_use_no_retired_word() {
    let mut paths = Vec::new();
    for folder in OF_KERNELS {
        sources(&root().join(folder), &mut paths);
    }
    assert!(paths.len() > 60, "only {} sources were found", paths.len());
    let report = report(&paths, NAMES, PROSE);
    assert!(report.is_empty(), "{report}");
}

#[test]
fn no_other_source_uses_a_retired_word() {
    let mut paths = Vec::new();
    for folder in ["crates", "host", "tests", "xtask"] {
        sources(&root().join(folder), &mut paths);
    }
    paths.retain(|path| !OF_KERNELS.iter().any(|folder| path.starts_with(root().join(folder))));
    assert!(paths.len() > 300, "only {} sources were found", paths.len());
    let report = report(&paths, NAMES_ELSEWHERE, PROSE_ELSEWHERE);
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
        findings(planted, NAMES, PROSE),
        [
            (3, "Turn", "PipelineState"),
            (1, "copy engine", "TMA"),
            (2, "brings", "loads"),
            (3, "lie", "be"),
        ]
    );
    let other = "// A multiprocessor-wide barrier, belied.\nlet pieces_fallback = 0;";
    assert!(findings(other, NAMES, PROSE).is_empty());
    let elsewhere = "/// Measures so many\n/// entrants.\nfn in_turn() {}";
    assert_eq!(
        findings(elsewhere, NAMES_ELSEWHERE, PROSE_ELSEWHERE),
        [
            (3, "in_turn", "interleaved"),
            (1, "so many", "that many, or the parameter's name"),
            (2, "entrants", "candidates"),
        ]
    );
}
