use anyhow::{Result, bail};

use super::lint::{MUSEUM, RETIRED, lint};
use super::parts::parse;
use super::tables::filled;
use super::{Args, run, stale};

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
    for (document, up) in [("docs/x.md", "](../results/"), ("docs/a/x.md", "](../../results/")] {
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
    let row = "|---|---|---:|\n| [`one`, `two`](ladder/one.md) | an idea | ~30 |\n\n[2026-11-20]";
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
    let waiting =
        |inside: &str| format!("<!-- results:cpu:begin -->\n{inside}\n<!-- results:cpu:end -->\n");
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
    let text = faults("[v](../tests/verifier.rs); `no_such_test` in [v](../tests/verifier.rs)\n");
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

/// What is wrong with the rows of docs/promises.md: one that names no test, or one that its file does not have.
fn unkept(text: &str, read: &dyn Fn(&str) -> Result<String>) -> Vec<String> {
    let rows = text.lines().filter(|line| line.starts_with("| ") && *line != "| promise | test |");
    let of_row = |row: &str| {
        let mut named = row.split("` in [");
        let mut faults = Vec::new();
        let mut before = named.next().unwrap_or_default();
        for after in named {
            let test = before.rsplit('`').next().unwrap_or_default();
            let file = after.split_once("](").and_then(|(_, file)| file.split_once(')'));
            let file = file.map_or("", |(file, _)| file);
            let source = read(&super::from_root("docs/promises.md", file)).unwrap_or_default();
            let is_test = source
                .split("#[test]")
                .skip(1)
                .any(|after| after.trim_start().starts_with(&format!("fn {test}()")));
            if !is_test {
                faults.push(format!("{file} has no test `{test}`"));
            }
            before = after;
        }
        if !row.contains("` in [") {
            faults.push(format!("no test is named: {row}"));
        }
        faults
    };
    rows.flat_map(of_row).collect()
}

#[test]
fn each_promise_has_its_test() {
    let text = super::read("docs/promises.md").unwrap();
    let rows = text.lines().filter(|line| line.contains("` in [")).count();
    assert!(rows > 15, "the page has {rows} promises");
    assert_eq!(unkept(&text, &super::read), Vec::<String>::new());
}

#[test]
fn promises_without_a_test_are_found() {
    let read = |path: &str| match path {
        "tests/a.rs" => Ok("#[test]\nfn kept() {}\n\nfn helper() {}\n".to_owned()),
        _ => bail!("there is no {path}"),
    };
    let row = |test: &str, file: &str| {
        unkept(&format!("| promise | test |\n|---|---|\n| p | `{test}` in [a]({file}) |"), &read)
    };
    assert_eq!(row("kept", "../tests/a.rs"), Vec::<String>::new());
    assert_eq!(row("kep", "../tests/a.rs"), ["../tests/a.rs has no test `kep`"]);
    assert_eq!(row("helper", "../tests/a.rs"), ["../tests/a.rs has no test `helper`"]);
    assert_eq!(row("kept", "../tests/b.rs"), ["../tests/b.rs has no test `kept`"]);
    assert_eq!(unkept("| p | a test |", &read), ["no test is named: | p | a test |"]);
    let second = "| p | `kept` in [a](../tests/a.rs), `gone` in [a](../tests/a.rs) |";
    assert_eq!(unkept(second, &read), ["../tests/a.rs has no test `gone`"]);
}
