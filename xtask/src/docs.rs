//! `cargo xtask docs`: the measured figures in the documents, filled from the files under results/.
//!
//! A table belongs between the lines `<!-- results:FOLDER/FILE.md:begin -->` and
//! `<!-- results:FOLDER/FILE.md:end -->`. FOLDER is `DATE-MACHINE` under results/ and FILE.md what one
//! run of `tessera` wrote there. FOLDER/README.md says where the figures come from: a line
//! `- KEY: VALUE` for each of machine, driver, date and commit, and one for the file, whose value is
//! the command. After FILE.md, ` columns=NAME,NAME` and ` rows=NAME,NAME` select part of the table;
//! a selection has no notes.
//!
//! Between `<!-- ladder:FOLDER/FILE.md:begin -->` and its end is a table of rungs: each row begins with
//! a link to a page of the ladder, and the rest of it is filled, the idea from the page's heading and
//! the rate from the file. Where the page has several implementations, it is the rate of the fastest.
//!
//! A name without a folder is a place that waits for its results and holds no more than a comment.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::modules;

/// Fill the measured tables in the documents from results/
///
/// Also fails where a document links to a file that is not there, names something that the linked
/// file does not hold, states a rate outside a table, or uses a word that was retired.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing: fail unless every table is what its file under results/ gives
    #[arg(long)]
    pub(crate) check: bool,
}

/// The documents beside those in docs/.
const TOP: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
/// What results/FOLDER/README.md states of every file in the folder.
const PROVENANCE: [&str; 4] = ["machine", "driver", "date", "commit"];

const OPEN: &str = "<!-- ";
const BEGIN: &str = ":begin -->";
const END: &str = ":end -->";

/// What a marker may name: a table, or the rungs of the ladder.
const KINDS: [&str; 2] = ["results:", "ladder:"];

/// Words that documents no longer use, and the ones that they use instead.
const RETIRED: [(&str, &str); 16] = [
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
const MUSEUM: &str = "docs/museum.md";

/// Gives the text of a file, by its path from the workspace's root.
type Read<'r> = &'r dyn Fn(&str) -> Result<String>;

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut faults = Vec::new();
    for document in documents()? {
        let text = read(&document)?;
        let parts = parse(&text).with_context(|| document.clone())?;
        let filled = filled(&document, &parts, &read).with_context(|| document.clone())?;
        faults.extend(lint(&document, &parts, &read));
        if args.check {
            faults.extend(stale(&document, &text, &filled));
        } else if filled != text {
            fs::write(modules::root().join(&document), filled)
                .with_context(|| format!("writing {document}"))?;
            println!("{document}: filled");
        }
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    println!("the documents are as they should be");
    Ok(())
}

/// Says so where a document is not what it would be filled.
fn stale(document: &str, text: &str, filled: &str) -> Option<String> {
    (text != filled)
        .then(|| format!("{document}: a table is not what results/ gives; run `cargo xtask docs`"))
}

fn documents() -> Result<Vec<String>> {
    let mut documents: Vec<String> = TOP.map(str::to_owned).into();
    below("docs", &mut documents)?;
    documents[TOP.len()..].sort();
    Ok(documents)
}

/// Adds the documents of a folder and of those in it.
fn below(folder: &str, documents: &mut Vec<String>) -> Result<()> {
    for entry in
        fs::read_dir(modules::root().join(folder)).with_context(|| format!("reading {folder}"))?
    {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            below(&path, documents)?;
        } else if path.ends_with(".md") {
            documents.push(path);
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(modules::root().join(path)).with_context(|| format!("reading {path}"))
}

/// A piece of a document.
#[derive(Debug, PartialEq, Eq)]
enum Part<'t> {
    Line(&'t str),
    Table { kind: &'t str, name: &'t str, inside: Vec<&'t str> },
}

/// A marker's kind and what follows it.
fn marker(line: &str) -> Option<(&'static str, &str)> {
    let text = line.strip_prefix(OPEN)?;
    KINDS.iter().find_map(|kind| Some((*kind, text.strip_prefix(kind)?)))
}

/// The line that ends a table: its beginning without what it selects.
fn end(kind: &str, name: &str) -> String {
    format!("{OPEN}{kind}{}{END}", name.split(' ').next().unwrap_or(name))
}

fn parse(text: &str) -> Result<Vec<Part<'_>>> {
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

/// The document with every table taken from its file.
fn filled(document: &str, parts: &[Part<'_>], read: Read<'_>) -> Result<String> {
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

/// What is wrong with a document, whatever its tables hold.
fn lint(document: &str, parts: &[Part<'_>], read: Read<'_>) -> Vec<String> {
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

/// A link's target as a path from the workspace's root.
fn from_root(document: &str, target: &str) -> String {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let mut path = Vec::new();
    for step in folder.iter().chain(Path::new(target)) {
        if step == ".." {
            path.pop();
        } else {
            path.push(step.to_string_lossy());
        }
    }
    path.join("/")
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Results\n\
        <!-- results:2026-11-20-box/run.md:begin -->\n\
        <!-- results:2026-11-20-box/run.md:end -->\n\
        tail\n";

    fn results(path: &str) -> Result<String> {
        Ok(match path {
            "results/2026-11-20-box/run.md" => "| a |\n|---|\n| 1 |\n\n".to_owned(),
            "results/2026-11-20-box/README.md" => "# Box\n\n- machine: a box\n- driver: none\n\
                - date: 2026-11-20\n- commit: abc\n- run.md: `tessera -n 1`\n- wide.md: `tessera`\n"
                .to_owned(),
            "results/2026-11-20-box/wide.md" => {
                "f32 on a box\n\n| name | s | GFLOP/s |\n|---|--:|--:|\n\
                | one | 3 | 20 |\n| two | 2 | ~30 |\n| six | 1 | 60 |\n\nslow\nhot\nslow\n"
                    .to_owned()
            }
            "docs/ladder/one.md" => "# `one`, `two`: an idea\n\nText.\n".to_owned(),
            "docs/ladder/bad.md" => "no heading\n".to_owned(),
            "tests/verifier.rs" => "fn every_mutant_is_caught() {".to_owned(),
            _ => bail!("there is no {path}"),
        })
    }

    fn fill(document: &str, text: &str) -> Result<String> {
        filled(document, &parse(text)?, &results)
    }

    fn faults(text: &str) -> String {
        lint("docs/x.md", &parse(text).unwrap(), &results).join("\n")
    }

    #[test]
    fn a_table_is_its_file_and_where_it_comes_from() {
        let text = fill("README.md", TEXT).unwrap();
        assert!(text.starts_with("# Results\n<!--") && text.ends_with("end -->\ntail\n"), "{text}");
        let source = "[2026-11-20](results/2026-11-20-box/README.md), a box, driver none, commit abc: \
                      `tessera -n 1`\n";
        assert!(text.contains("\n\n| a |\n|---|\n| 1 |\n\n["), "{text}");
        assert!(text.contains(source), "{text}");
        assert_eq!(fill("README.md", &text).unwrap(), text, "a second time changes nothing");
        for (document, up) in [("docs/x.md", "](../results/"), ("docs/a/x.md", "](../../results/")]
        {
            assert!(fill(document, TEXT).unwrap().contains(up), "links are relative");
        }
    }

    /// The table of one marker, filled.
    fn inside(name: &str, rows: &str) -> Result<String> {
        let end = name.split(' ').next().unwrap();
        fill("docs/x.md", &format!("<!-- {name}:begin -->\n{rows}<!-- {end}:end -->\n"))
    }

    #[test]
    fn columns_and_rows_are_selected_by_name() {
        let name = |rest: &str| format!("results:2026-11-20-box/wide.md{rest}");
        let all = inside(&name(""), "").unwrap();
        assert_eq!(all.matches("slow").count(), 1, "a note is there once: {all}");
        assert!(all.contains("| six | 1 | 60 |") && all.contains("\nhot\n"), "{all}");
        let some = inside(&name(" columns=name,GFLOP/s rows=six,one"), "").unwrap();
        let table =
            "f32 on a box\n\n| name | GFLOP/s |\n|---|---:|\n| six | 60 |\n| one | 20 |\n\n[2026";
        assert!(some.contains(table) && !some.contains("slow"), "{some}");
        let torn = |path: &str| Ok(results(path)?.replace("| six | 1 | 60 |", "| six | 1 |"));
        let text = format!("<!-- {} rows=one:begin -->\n<!-- {}:end -->\n", name(""), name(""));
        let error = filled("docs/x.md", &parse(&text).unwrap(), &torn).unwrap_err();
        assert!(format!("{error:#}").contains("a row has 2 cells, the heading 3"), "{error:#}");
        for (rest, fault) in [
            (" columns=name,minutes", "no column minutes"),
            (" rows=nine", "no row nine"),
            (" lines=1", "`lines=1` is neither"),
        ] {
            let error = format!("{:#}", inside(&name(rest), "").unwrap_err());
            assert!(error.contains(fault), "{error}");
        }
    }

    #[test]
    fn a_rung_has_its_pages_idea_and_the_rate_of_its_fastest() {
        let name = "ladder:2026-11-20-box/wide.md";
        let filled = inside(name, "| [](ladder/one.md) | typed by hand | 99 |\n").unwrap();
        let row =
            "|---|---|---:|\n| [`one`, `two`](ladder/one.md) | an idea | ~30 |\n\n[2026-11-20]";
        assert!(filled.contains(row) && !filled.contains("99"), "{filled}");
        assert_eq!(fill("docs/x.md", &filled).unwrap(), filled, "a second time changes nothing");
        for (row, fault) in [
            ("| [](ladder/other.md) |", "there is no docs/ladder/other.md"),
            ("| [](ladder/bad.md) |", "does not begin with `# NAMES: IDEA`"),
            ("| [ladder/one.md] |", "does not begin with a link"),
        ] {
            let error = format!("{:#}", inside(name, &format!("{row}\n")).unwrap_err());
            assert!(error.contains(fault), "{error}");
        }
    }

    #[test]
    fn a_figure_that_was_edited_by_hand_is_found_and_replaced() {
        let text = fill("README.md", TEXT).unwrap();
        assert_eq!(stale("README.md", &text, &text), None);
        let edited = text.replace("| 1 |", "| 2 |");
        assert_eq!(fill("README.md", &edited).unwrap(), text);
        let fault = stale("README.md", &edited, &text).unwrap();
        assert!(fault.contains("README.md") && fault.contains("`cargo xtask docs`"), "{fault}");
    }

    #[test]
    fn results_say_where_they_come_from() {
        let bare = |path: &str| match path.ends_with("README.md") {
            true => Ok("- machine: a box\n- driver: none\n- date: 2026-11-20\n".to_owned()),
            false => results(path),
        };
        let error = filled("README.md", &parse(TEXT).unwrap(), &bare).unwrap_err().to_string();
        assert!(error.contains("lacks a line `- commit: …`"), "{error}");
        let late = TEXT.replace("2026-11-20-box", "2026-11-21-box");
        let other = |path: &str| results(&path.replace("11-21", "11-20"));
        let error = filled("README.md", &parse(&late).unwrap(), &other).unwrap_err().to_string();
        assert!(error.contains("is of 2026-11-20"), "{error}");
    }

    #[test]
    fn markers_come_in_pairs() {
        for text in [
            "<!-- results:a/b.md:begin -->\n",
            "<!-- results:a/b.md:end -->\n",
            "<!-- results:a/b.md:begin -->\n<!-- results:c/d.md:end -->\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let quoted = "write `<!-- results:a/b.md:begin -->` there\n";
        assert_eq!(fill("README.md", quoted).unwrap(), quoted);
    }

    #[test]
    fn a_place_that_waits_holds_no_figures() {
        let waiting = |inside: &str| {
            format!("<!-- results:cpu:begin -->\n{inside}\n<!-- results:cpu:end -->\n")
        };
        let empty = waiting("<!-- no results yet -->");
        assert_eq!(faults(&empty), "");
        assert_eq!(fill("README.md", &empty).unwrap(), empty);
        assert!(faults(&waiting("| 1 |")).contains("`cpu` waits"));
    }

    #[test]
    fn links_and_names_are_held_to_the_files() {
        assert_eq!(faults("see [a](https://example.org/x), [b](#top)\n"), "");
        assert_eq!(faults("`every_mutant_is_caught` in [v](../tests/verifier.rs)\n"), "");
        assert!(faults("see [a](../tests/other.rs)\n").contains("there is no tests/other.rs"));
        let text =
            faults("[v](../tests/verifier.rs); `no_such_test` in [v](../tests/verifier.rs)\n");
        assert!(text.contains("holds no `no_such_test`"), "{text}");
    }

    #[test]
    fn a_typed_rate_is_a_fault() {
        assert_eq!(faults("GFLOP/s is 2mnk over the time\n"), "");
        assert!(faults("it reaches 51.2 TFLOP/s, which\n").contains("51.2 TFLOP/s"));
        assert_eq!(faults("```console\n$ tessera\n51.2 TFLOP/s\n```\n"), "");
        let after = "```console\n$ tessera\n```\nit reaches 51.2 TFLOP/s\n";
        assert!(faults(after).contains("51.2 TFLOP/s"), "only what is shown is left alone");
        assert!(faults("```text\n51.2 TFLOP/s\n```\n").contains("51.2 TFLOP/s"));
    }

    #[test]
    fn a_retired_word_is_a_fault() {
        assert_eq!(faults("TMA copies a box from pinned memory; so manyfold a text\n"), "");
        for (word, instead) in RETIRED {
            let text = faults(&format!("It uses {}, here.\n", word.to_uppercase()));
            assert!(text.contains(word) && text.contains(instead), "{text}");
        }
        assert_eq!(faults("```console\n$ tessera\n8 steps of k\n```\n"), "", "what a program said");
        let row = "| `piece` | the last 6 steps of k |\n";
        assert!(faults(row).contains("steps of k"));
        assert_eq!(lint(MUSEUM, &parse(row).unwrap(), &results), [""; 0]);
    }

    #[test]
    fn the_documents_are_as_they_should_be() {
        run(&Args { check: true }).unwrap_or_else(|error| panic!("{error:#}"));
    }
}
