//! What stands between markers: tables of results/, and rungs of the ladder.

use anyhow::{Context as _, Result, bail};

use super::parts::{BEGIN, OPEN, Part, end};
use super::{Read, from_root};

/// What results/FOLDER/README.md states of every file in the folder.
const PROVENANCE: [&str; 4] = ["machine", "driver", "date", "commit"];

/// The document with every table taken from its file.
pub(super) fn filled(document: &str, parts: &[Part<'_>], read: Read<'_>) -> Result<String> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Line(line) => text.push_str(line),
            Part::Table { kind, name, inside } => {
                let inside = match name.split_once('/') {
                    Some((folder, file)) if *kind == "ladder:" => {
                        let table = rungs(document, folder, file, inside, read)?;
                        sourced(document, folder, file, &table, read)?
                    }
                    Some((folder, file)) => table(document, folder, file, read)?,
                    None => format!("{}\n", inside.join("\n")),
                };
                text.push_str(&format!("{OPEN}{kind}{name}{BEGIN}\n{inside}{}", end(kind, name)));
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// A file under results/, or the part of its table that the marker selects.
fn table(document: &str, folder: &str, wanted: &str, read: Read<'_>) -> Result<String> {
    let mut options = wanted.split(' ');
    let file = options.next().unwrap_or_default();
    let text = read(&format!("results/{folder}/{file}"))?;
    let (mut columns, mut rows) = (None, None);
    for option in options {
        match option.split_once('=') {
            Some(("columns", names)) => columns = Some(names.split(',').collect::<Vec<_>>()),
            Some(("rows", names)) => rows = Some(names.split(',').collect::<Vec<_>>()),
            _ => bail!("`{option}` is neither columns=NAME,... nor rows=NAME,..."),
        }
    }
    let text = if columns.is_none() && rows.is_none() {
        each_note_once(text.trim())
    } else {
        selected(&text, columns.as_deref(), rows.as_deref())
            .with_context(|| format!("results/{folder}/{file}"))?
    };
    sourced(document, folder, file, &text, read)
}

/// The cells of a table's row.
fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')).unwrap_or(line);
    inner.split('|').map(str::trim).collect()
}

/// The text before a table, and the named columns and rows of the table.
fn selected(text: &str, columns: Option<&[&str]>, rows: Option<&[&str]>) -> Result<String> {
    let in_table = |line: &&str| line.starts_with('|');
    let before: Vec<&str> = text.lines().take_while(|line| !in_table(line)).collect();
    let table: Vec<&str> = text.lines().skip(before.len()).take_while(in_table).collect();
    let [heading, rules, ..] = table[..] else { bail!("there is no table") };
    let (heading, rules) = (cells(heading), cells(rules));
    let places = match columns {
        None => (0..heading.len()).collect(),
        Some(names) => names
            .iter()
            .map(|name| {
                let place = heading.iter().position(|column| column == name);
                place.with_context(|| format!("the table has no column {name}"))
            })
            .collect::<Result<Vec<_>>>()?,
    };
    let all: Vec<Vec<&str>> = table.iter().skip(2).map(|line| cells(line)).collect();
    if let Some(row) = all.iter().chain([&rules]).find(|row| row.len() != heading.len()) {
        bail!("a row has {} cells, the heading {}: {row:?}", row.len(), heading.len());
    }
    let chosen: Vec<&Vec<&str>> = match rows {
        None => all.iter().collect(),
        Some(names) => names
            .iter()
            .map(|name| {
                let row = all.iter().find(|cells| cells[0] == *name);
                row.with_context(|| format!("the table has no row {name}"))
            })
            .collect::<Result<_>>()?,
    };
    let line = |cells: &[&str]| {
        let cells: Vec<&str> = places.iter().map(|place| cells[*place]).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule = |place: &usize| if rules[*place].ends_with(':') { "---:" } else { "---" };
    let rule = format!("|{}|", places.iter().map(rule).collect::<Vec<_>>().join("|"));
    let mut lines = vec![before.join("\n").trim().to_owned(), String::new(), line(&heading), rule];
    lines.extend(chosen.iter().map(|cells| line(cells)));
    Ok(lines.join("\n").trim().to_owned())
}

/// The text without the notes that repeat an earlier one word for word.
fn each_note_once(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        let note = !line.is_empty() && !line.starts_with('|');
        if !(note && lines.contains(&line)) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// A table of the rungs that `inside` links to.
fn rungs(
    document: &str,
    folder: &str,
    file: &str,
    inside: &[&str],
    read: Read<'_>,
) -> Result<String> {
    let results = read(&format!("results/{folder}/{file}"))?;
    let measured: Vec<Vec<&str>> =
        results.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let rate_at = measured
        .first()
        .and_then(|heading| heading.iter().position(|column| *column == "GFLOP/s"))
        .with_context(|| format!("results/{folder}/{file} has no column GFLOP/s"))?;
    let mut lines = vec!["| rung | idea | GFLOP/s |".to_owned(), "|---|---|---:|".to_owned()];
    for row in inside.iter().filter(|line| line.starts_with("| [")) {
        let target = row
            .split_once("](")
            .and_then(|(_, rest)| Some(rest.split_once(')')?.0))
            .with_context(|| format!("`{row}` does not begin with a link"))?;
        let page = read(&from_root(document, target))?;
        let (names, idea) = page
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# ")?.split_once(": "))
            .with_context(|| format!("{target} does not begin with `# NAMES: IDEA`"))?;
        let rates = measured.iter().filter(|cells| names.contains(&format!("`{}`", cells[0])));
        let rates = rates.filter_map(|cells| cells.get(rate_at).copied());
        let value = |rate: &str| rate.trim_start_matches('~').parse::<f64>().unwrap_or(0.0);
        let best = rates.max_by(|a, b| value(a).total_cmp(&value(b))).unwrap_or_default();
        lines.push(format!("| [{names}]({target}) | {idea} | {best} |"));
    }
    Ok(lines.join("\n"))
}

/// A table of results, and a sentence on where it comes from.
fn sourced(
    document: &str,
    folder: &str,
    file: &str,
    table: &str,
    read: Read<'_>,
) -> Result<String> {
    let source = format!("results/{folder}/README.md");
    let about = read(&source)?;
    let value = |key: &str| {
        about
            .lines()
            .find_map(|line| line.strip_prefix("- ")?.strip_prefix(key)?.strip_prefix(": "))
            .with_context(|| format!("{source} lacks a line `- {key}: …`"))
    };
    let [machine, driver, date, commit] = PROVENANCE.map(value);
    let (machine, driver, date, commit) = (machine?, driver?, date?, commit?);
    let command = value(file)?;
    if !folder.starts_with(date) {
        bail!("{source} is of {date}, which does not begin the folder's name");
    }
    let up = "../".repeat(document.matches('/').count());
    Ok(format!(
        "\n{table}\n\n[{date}]({up}{source}), {machine}, driver {driver}, commit {commit}: {command}\n\n"
    ))
}
