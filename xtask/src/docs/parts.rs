//! A document as lines and the tables between markers.

use anyhow::{Result, bail};

pub(super) const OPEN: &str = "<!-- ";
pub(super) const BEGIN: &str = ":begin -->";
pub(super) const END: &str = ":end -->";

/// What a marker may name: a table, or the rungs of the ladder.
const KINDS: [&str; 2] = ["results:", "ladder:"];

/// A piece of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Line(&'t str),
    Table { kind: &'t str, name: &'t str, inside: Vec<&'t str> },
}

/// A marker's kind and what follows it.
fn marker(line: &str) -> Option<(&'static str, &str)> {
    let text = line.strip_prefix(OPEN)?;
    KINDS.iter().find_map(|kind| Some((*kind, text.strip_prefix(kind)?)))
}

/// The line that ends a table: its beginning without what it selects.
pub(super) fn end(kind: &str, name: &str) -> String {
    format!("{OPEN}{kind}{}{END}", name.split(' ').next().unwrap_or(name))
}

pub(super) fn parse(text: &str) -> Result<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let marked = marker(line);
        if marked.is_some_and(|(_, rest)| rest.ends_with(END)) {
            bail!("`{line}` ends what no line has begun");
        }
        let begun = marked.and_then(|(kind, rest)| Some((kind, rest.strip_suffix(BEGIN)?)));
        let Some((kind, name)) = begun else {
            parts.push(Part::Line(line));
            continue;
        };
        let end = end(kind, name);
        let mut inside = Vec::new();
        loop {
            match lines.next() {
                Some(line) if line == end => break,
                Some(line) if marker(line).is_none() => inside.push(line),
                _ => bail!("`{line}` lacks its line `{end}`"),
            }
        }
        parts.push(Part::Table { kind, name, inside });
    }
    Ok(parts)
}
