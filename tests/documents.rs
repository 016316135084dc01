//! The documents hold what the program does: their commands run, their outputs are compared.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rayon::prelude::*;
use tempfile::TempDir;

/// The program under test, wherever a command is run.
fn program() -> PathBuf {
    let path = std::env::var_os("CARGO_BIN_EXE_tessera")
        .map_or_else(|| env!("CARGO_BIN_EXE_tessera").into(), PathBuf::from);
    fs::canonicalize(path).expect("the program is there")
}

/// A command line's words; only single quotes are known.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            '\'' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            _ => {
                word.push(c);
                begun = true;
            }
        }
    }
    assert!(!quoted, "a quote is open: {line}");
    if begun {
        words.push(word);
    }
    words
}

/// The same command on less work.
fn small(word: &str) -> String {
    match word {
        "10240" | "2048" | "1024" | "512" => "64",
        "1000" => "100",
        "100" => "40",
        "8:2096:8" => "8:64:8",
        "8:256:8" => "8:32:8",
        "512,1024" => "32,48",
        "64,128,256,512" => "16,32,64",
        other => other,
    }
    .to_owned()
}

/// A folder with the files that the documents' commands read.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, rows, cols) in [("A.npy", 5, 5), ("B.npy", 5, 5), ("C0.npy", 5, 5)] {
        let matrix = ndarray::Array2::<f32>::from_shape_fn((rows, cols), |(i, j)| (i + j) as f32);
        ndarray_npy::write_npy(folder.path().join(name), &matrix).expect("written");
    }
    folder
}

fn run(folder: &Path, line: &str) -> Output {
    let mut args: Vec<String> = words(line).iter().map(|word| small(word)).collect();
    assert_eq!(args.remove(0), "tessera", "{line}");
    if args.first().is_some_and(|command| command == "bench") {
        // What decides how long it takes, where the line does not say it: of what is measured here
        // nothing is believed, so nothing waits for an idle machine.
        let quick = [("--time", "0.02"), ("--idle-wait", "0"), ("--rounds", "1")];
        let sizes = ["-n", "--squares", "--shapes", "--ragged"];
        let says = |name: &str| args.iter().any(|arg| arg == name);
        let mut more: Vec<&str> = Vec::new();
        for (name, value) in quick {
            let of_rounds = name == "--time" || says("--peers") || says("--peers-only");
            if of_rounds && !says(name) {
                more.extend([name, value]);
            }
        }
        if !sizes.iter().any(|name| says(name)) {
            more.extend(["--squares", "32,48"]);
        }
        args.extend(more.into_iter().map(str::to_owned));
    }
    if args.iter().any(|arg| arg == "--judge") {
        args.extend(["--most", "256"].map(str::to_owned));
    }
    if args[0] == "accuracy" && !args.iter().any(|arg| arg == "-k") {
        args.extend(["-k", "16,128", "-n", "64"].map(str::to_owned));
    }
    let mut command = Command::new(program());
    // A library that is named and not there is what the doctor calls a fault.
    if args[0] != "doctor" {
        command.env("TESSERA_LIBCUDA", "/nonexistent");
    }
    command
        .args(&args)
        .current_dir(folder)
        .env("LC_ALL", "C.UTF-8")
        .env("TESSERA_CACHE", folder)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

/// Runs every line; one that needs a GPU must say so here, where there is none.
fn all_work(lines: &[String]) {
    let folder = folder();
    // Where CONTRIBUTING.md keeps a run.
    fs::create_dir_all(folder.path().join("results/2026-11-20-h200")).expect("a folder");
    let mut faults = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if lines[..number].contains(line) {
            continue;
        }
        let mut output = run(folder.path(), line);
        // Where other programs take the processor while its peak is measured, a rate looks too high.
        for _ in 0..2 {
            if String::from_utf8_lossy(&output.stderr).contains("of the units' peak") {
                output = run(folder.path(), line);
            }
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let needs_gpu = line.contains("cuda") || line.ends_with("--gpu this");
        let right = match output.status.code() {
            Some(0) => {
                let kept = line.contains(" -o ") || line.contains("--out");
                !needs_gpu && (kept || !output.stdout.is_empty())
            }
            Some(3) => needs_gpu && said.starts_with("error: no CUDA device"),
            _ => false,
        };
        if !right {
            faults.push(format!("{line}\n  {:?}: {said}", output.status.code()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The rows of a table as their cells, of the lines that begin with a number.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| "));
    let cells = lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect());
    cells.filter(|cells: &Vec<&str>| cells[0].parse::<usize>().is_ok()).collect()
}

/// What stands in backquotes and begins with the program's name.
fn commands(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .filter(|c| c.starts_with("tessera "))
        .map(str::to_owned)
        .collect()
}

const SEEDS: &str = include_str!("../docs/history/seeds.md");

#[test]
fn every_row_of_the_seeds_has_a_command_that_works() {
    let rows = rows(SEEDS);
    let numbers: Vec<usize> = rows.iter().map(|row| row[0].parse().expect("a number")).collect();
    assert_eq!(numbers, (1..=69).collect::<Vec<_>>());
    let mut lines = Vec::new();
    for row in &rows {
        assert_eq!(row.len(), 5, "{row:?}");
        let own = commands(row[4]);
        assert!(!own.is_empty(), "row {} has no command", row[0]);
        lines.extend(own);
    }
    all_work(&lines);
}

/// The documents whose shell blocks are run.
const DOCUMENTS: [(&str, &str); 8] = [
    ("README.md", include_str!("../README.md")),
    ("CONTRIBUTING.md", include_str!("../CONTRIBUTING.md")),
    ("docs/accuracy.md", include_str!("../docs/accuracy.md")),
    ("docs/auto.md", include_str!("../docs/auto.md")),
    ("docs/emulator.md", include_str!("../docs/emulator.md")),
    ("docs/measuring.md", include_str!("../docs/measuring.md")),
    ("docs/museum.md", include_str!("../docs/museum.md")),
    ("docs/usage.md", include_str!("../docs/usage.md")),
];

/// The program's command lines in a document's shell blocks, without their comments.
fn shell_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut shell = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            shell = line == "```sh";
        } else if shell {
            let line = line.split(" #").next().unwrap_or_default().trim();
            let line = line.replace("cargo run -p host --", "tessera");
            // What stands for a name of the reader's own cannot be run.
            if line.starts_with("tessera ") && !line.contains('<') {
                lines.push(line);
            }
        }
    }
    lines
}

#[test]
fn the_commands_of_the_documents_work() {
    let mut seen = HashSet::new();
    let lines = DOCUMENTS.map(|(name, text)| {
        let own = shell_lines(text);
        println!("{name}: {} commands", own.len());
        // What several documents show is run once.
        own.into_iter().filter(|line| seen.insert(line.clone())).collect::<Vec<String>>()
    });
    assert!(seen.len() >= 18, "few commands were found: {lines:?}");
    lines.par_iter().for_each(|lines| all_work(lines));
}

/// A guard must be able to fail.
#[test]
#[should_panic(expected = "tessera --kernel nonsense")]
fn a_command_that_fails_is_found() {
    all_work(&["tessera list".to_owned(), "tessera --kernel nonsense".to_owned()]);
}

/// Adds the Markdown files of a folder and of those in it.
fn markdown(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("read") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            markdown(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            files.push(path);
        }
    }
}

/// The outputs shown in console blocks, `...` and `[..]` standing for what differs.
#[test]
fn the_outputs_shown_are_the_programs() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut documents = vec![docs.join("../README.md")];
    markdown(&docs, &mut documents);
    let shows = |path: &PathBuf| fs::read_to_string(path).expect("read").contains("```console");
    let shown: Vec<PathBuf> = documents.into_iter().filter(shows).collect();
    for name in ["history/seeds.md", "ladder.md", "ladder/loop_order.md"] {
        assert!(shown.iter().any(|path| path.ends_with(name)), "{name} shows no output");
    }
    let cases = trycmd::TestCases::new();
    cases.register_bin("tessera", program());
    cases.env("TESSERA_LIBCUDA", "/nonexistent").env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
    for path in shown {
        cases.case(path);
    }
}
