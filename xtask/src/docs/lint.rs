//! What a document must not hold, whatever its tables do.

use super::parts::Part;
use super::{Read, from_root};

/// Words that documents no longer use, and the ones that they use instead.
pub(super) const RETIRED: [(&str, &str); 16] = [
    ("copy engine", "TMA"),
    ("first-level cache", "L1"),
    ("second-level cache", "L2"),
    ("third-level cache", "L3"),
    ("page-locked", "pinned"),
    ("multiply-add units", "FP32 pipes"),
    ("steps of k", "elements of k, or k-blocks"),
    ("step of k", "element of k, or k-block"),
    ("so many", "a number, or a parameter's name"),
    ("by turns", "interleaved"),
    ("two truths", "two times"),
    ("goes by", "uses, or depends on"),
    ("brings", "loads, or copies"),
    ("is to be had", "is available"),
    ("as it lies", "in place"),
    ("as they lie", "in place"),
];

/// Its table is what the program says of broken kernels, to which tests/museum.rs holds it.
pub(super) const MUSEUM: &str = "docs/museum.md";

/// What is wrong with a document, whatever its tables hold.
pub(super) fn lint(document: &str, parts: &[Part<'_>], read: Read<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    // What a program printed is held to it by tests/documents.rs.
    let mut shown = false;
    for part in parts {
        match part {
            Part::Line(line) if line.starts_with("```") => shown = *line == "```console",
            Part::Line(_) if shown => {}
            Part::Line(line) => {
                faults.extend(links(document, line, read));
                let shown = document == MUSEUM && line.starts_with('|');
                if !shown {
                    faults.extend(retired(line));
                }
                faults.extend(typed_rate(line).map(|rate| {
                    format!("a rate outside a table, {rate}; put its run under results/")
                }));
            }
            Part::Table { name, inside, .. } if !name.contains('/') => {
                let comment = |line: &str| line.starts_with("<!--") && line.ends_with("-->");
                if !inside.iter().all(|line| line.is_empty() || comment(line)) {
                    faults.push(format!("`{name}` waits for results and must hold no text"));
                }
            }
            Part::Table { .. } => {}
        }
    }
    faults.iter().map(|fault| format!("{document}: {fault}")).collect()
}

/// Links of one line that lead nowhere, or to a file without the name that stands in backquotes and "in"
/// before the link.
fn links(document: &str, line: &str, read: Read<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, next)) = after.split_once(')') else { break };
        rest = next;
        if target.contains("://") || target.starts_with('#') {
            continue;
        }
        let file = target.split('#').next().unwrap_or(target);
        let text = match read(&from_root(document, file)) {
            Ok(text) => text,
            Err(error) => {
                faults.push(format!("a link to {target}: {error}"));
                continue;
            }
        };
        let claimed = before
            .rsplit_once('[')
            .and_then(|(before, _)| before.strip_suffix("` in "))
            .and_then(|before| before.rsplit_once('`'))
            .map(|(_, name)| name);
        if let Some(name) = claimed.filter(|name| !text.contains(*name)) {
            faults.push(format!("{file} holds no `{name}`"));
        }
    }
    faults
}

/// A number before `GFLOP/s` and its like.
fn typed_rate(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    words
        .windows(2)
        .find(|pair| number(pair[0]) && pair[1].contains("FLOP/s"))
        .map(|pair| pair.join(" "))
}

/// The retired words of a line.
fn retired(line: &str) -> Vec<String> {
    let line = line.to_lowercase();
    let bounded = |found: usize, length: usize| {
        let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !letter(line[..found].chars().next_back()) && !letter(line[found + length..].chars().next())
    };
    RETIRED
        .iter()
        .filter(|(word, _)| line.match_indices(word).any(|(found, _)| bounded(found, word.len())))
        .map(|(word, instead)| format!("`{word}` is a retired word; write {instead}"))
        .collect()
}
