//! `sweep` as a user meets it.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use super::{command, end, has_only_keys, tessera};

const QUICK: [&str; 7] =
    ["sweep", "--kernel", "serial,rayon,naive", "--threads", "1", "--budget", "5"];

fn sweep(more: &[&str]) -> super::Ended {
    tessera(&[&QUICK[..], more].concat())
}

/// The file with the figures of the clock taken out.
fn timeless(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("read");
    let line = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(mut value) => {
            for key in ["seconds", "gflops", "runs"] {
                if let Some(slot) = value.get_mut(key) {
                    *slot = slot.is_number().into();
                }
            }
            value.to_string()
        }
        Err(_) => {
            let cells: Vec<&str> = line.split(',').collect();
            let kept = cells.iter().enumerate().filter(|(at, _)| ![3, 4, 8].contains(at));
            kept.map(|(_, cell)| *cell).collect::<Vec<_>>().join(",")
        }
    };
    text.lines().map(line).collect()
}

#[test]
fn rows_go_to_standard_output_and_words_beside_them() {
    let ended = sweep(&["--sizes", "8:24:8,2^5"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(ended.stdout.as_bytes());
    let header = reader.headers().expect("a header").clone();
    assert_eq!(
        header.iter().take(5).collect::<Vec<_>>(),
        ["n", "kernel", "device", "seconds", "gflops"]
    );
    let rows: Vec<_> = reader.records().map(|row| row.expect("a row")).collect();
    let named: Vec<(&str, &str)> = rows.iter().map(|row| (&row[0], &row[1])).collect();
    let mut wanted = Vec::new();
    for n in ["8", "16", "24", "32"] {
        wanted.extend(["serial", "rayon", "naive"].map(|kernel| (n, kernel)));
    }
    assert_eq!(named, wanted);
    for row in &rows {
        let measured = row[3].parse::<f64>().is_ok_and(|seconds| seconds > 0.0);
        assert_eq!(measured, &row[1] != "naive", "{row:?}");
        assert_eq!(&row[10], if measured { "true" } else { "" }, "every measured row is checked");
        assert_eq!(row[13].contains("no CUDA device"), !measured, "{row:?}");
        assert!(row[13].len() < 80, "the reason stands in every row: {row:?}");
    }
    for words in ["rayon ", "serial: time grows as n^", "skipped naive at 4 sizes, the first n = 8"]
    {
        assert!(ended.stderr.contains(words), "{words}: {ended}");
    }
}

#[test]
fn a_resumed_sweep_ends_as_an_uninterrupted_one() {
    let folder = TempDir::new().expect("a folder");
    for ending in ["csv", "jsonl"] {
        let path = folder.path().join(format!("rows.{ending}"));
        let name = path.to_str().expect("UTF-8");
        let args = ["--sizes", "8:40:16", "--out", name];
        let summary = sweep(&args).fine();
        assert!(summary.contains("rayon") && summary.contains("skipped naive"), "{summary}");
        let whole = timeless(&path);
        sweep(&args).refused(2, &[name, "--resume"]);

        // As a stop in the middle of a row leaves it.
        let text = fs::read_to_string(&path).expect("read");
        let mut cut = text.len() * 3 / 5;
        cut -= usize::from(text[..cut].ends_with('\n'));
        fs::write(&path, &text[..cut]).expect("written");
        let resumed = [&args[..], &["--resume"]].concat();
        sweep(&resumed).fine();
        assert_eq!(timeless(&path), whole, "{ending}");
        let again = fs::read_to_string(&path).expect("read");
        assert!(again.starts_with(&text[..cut][..text[..cut].rfind('\n').unwrap_or(0)]));
        // With nothing left to do the file stays as it is, and the words come from it.
        assert!(sweep(&resumed).fine().contains("skipped naive"));
        assert_eq!(fs::read_to_string(&path).expect("read"), again);

        sweep(&[&resumed[..], &["--seed", "2"]].concat()).refused(2, &[name, "seed is 1, not 2"]);
        let fewer = ["--sizes", "8", "--out", name, "--resume"];
        sweep(&fewer).refused(2, &[name, "other settings", "sizes"]);
    }
    let path = folder.path().join("rows.csv");
    let text = fs::read_to_string(&path).expect("read");
    fs::write(&path, text.replace("tessera-sweep 1", "tessera-sweep 0")).expect("written");
    let name = path.to_str().expect("UTF-8");
    sweep(&["--sizes", "8:40:16", "--out", name, "--resume"]).refused(2, &["`tessera-sweep 0`"]);
    fs::write(&path, text.replacen("\n8,", "\nx,", 1)).expect("written");
    sweep(&["--sizes", "8:40:16", "--out", name, "--resume"]).refused(2, &["line 3"]);
    fs::write(&path, text.replacen("8,rayon", "8,serial", 1)).expect("written");
    sweep(&["--sizes", "8:40:16", "--out", name, "--resume"]).refused(2, &["serial at 8"]);
}

#[test]
fn json_lines_begin_with_the_settings() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("rows");
    let name = path.to_str().expect("UTF-8");
    sweep(&["--sizes", "9", "--format", "jsonl", "--out", name, "--beta", "0.5"]).fine();
    let text = fs::read_to_string(&path).expect("read");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["format"], "tessera-sweep 1");
    assert_eq!(lines[0]["sizes"], serde_json::json!([9]));
    assert_eq!((&lines[0]["beta"], &lines[0]["threads"]), (&0.5.into(), &1.into()));
    for line in &lines[1..] {
        let keys = ["n", "kernel", "device", "seconds", "gflops", "h2d_seconds", "kernel_seconds"];
        let more = ["d2h_seconds", "runs", "check", "ok", "max_error", "bound", "skipped"];
        has_only_keys(line, &[&keys[..], &more].concat());
    }
}

#[test]
fn what_does_not_fit_the_budget_is_skipped_and_never_estimated() {
    let args =
        ["sweep", "--kernel", "serial", "--sizes", "16,4000", "--budget", "0.5", "--threads", "1"];
    let ended = tessera(&args);
    assert_eq!(ended.code, Some(0), "{ended}");
    let rows: Vec<&str> = ended.stdout.lines().skip(2).collect();
    assert_eq!(rows.len(), 2, "{ended}");
    assert!(rows[0].starts_with("16,serial,cpu,"), "{ended}");
    assert!(rows[1].starts_with("4000,serial,,,,,,,,,,,,"), "no figure stands there: {ended}");
    assert!(rows[1].contains("share of the budget"), "{ended}");
}

#[test]
fn the_picture_is_drawn_and_nothing_is_not() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("s.svg");
    let name = path.to_str().expect("UTF-8");
    for axis in ["seconds", "gflops"] {
        let ended = sweep(&["--sizes", "8:32:8", "--svg", name, "--axis", axis]);
        assert_eq!(ended.code, Some(0), "{ended}");
        let svg = fs::read_to_string(&path).expect("read");
        for words in ["<svg", "linear", "log-log", "serial", "rayon"] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(!svg.contains("naive"), "a skipped row has no line");
    }
}

/// The codes are those of the same sweep without a picture.
#[test]
fn a_picture_of_nothing_is_not_written_and_says_why() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("s.svg");
    let name = path.to_str().expect("UTF-8");
    for (line, code, why) in [
        ("--sizes 8:24:8 --kernel naive", 3, "skipped naive at 3 sizes, the first n = 8: TESSERA_"),
        ("--sizes 8 --kernel naive,serial --device cuda", 3, "no CUDA device"),
        ("--sizes 8 --kernel naive --device cpu", 2, "skipped naive at 1 size, the first n = 8"),
        ("--sizes 4000 --kernel serial --budget 0.1 --threads 1", 2, "share of the budget"),
        ("--sizes 3000000 --kernel serial", 4, "bytes"),
    ] {
        let mut args = vec!["sweep", "--svg", name];
        args.extend(line.split(' '));
        let ended = tessera(&args);
        assert_eq!(ended.code, Some(code), "{ended}");
        assert!(ended.stderr.contains(why), "{ended}");
        // Where the device is refused there are no rows.
        if !line.contains("cuda") {
            let said = ended.stderr.lines().find(|line| line.starts_with(name));
            let words = format!("{name} is not written: no row has a right result and its time: ");
            assert!(said.is_some_and(|said| said.starts_with(&words)), "{ended}");
            assert!(said.is_some_and(|said| said.contains(why)), "{ended}");
        }
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 0, "{ended}");
    }
}

#[test]
fn what_cannot_be_swept_is_one_line() {
    for (args, words) in [
        (&["--sizes", "9:8"][..], &["`9:8` is empty"][..]),
        (&["--sizes", "8:64:0"], &["step of 0"]),
        (&["--sizes", "0"], &["sizes start at 1"]),
        (&["--sizes", "a:b"], &["`a` is no size"]),
        (&["--sizes", "1:99999999"], &["larger step"]),
        (&["--sizes", "8", "--format", "json"], &["`json`", "csv, jsonl"]),
        (&["--sizes", "8", "--axis", "hours"], &["`hours`", "seconds, gflops"]),
        (&["--sizes", "8", "--out", "/no/where.csv"], &["/no/where.csv", "cannot be written"]),
        (&["--sizes", "8", "--svg", "/no/where.svg"], &["/no/where.svg"]),
        (&["--sizes", "8", "--resume"], &["--out"]),
        (&["--sizes", "8", "--budget", "0"], &["budget"]),
        (&["--sizes", "8", "--dtype", "i32", "--alpha", "0.5"], &["--alpha"]),
    ] {
        sweep(args).refused(2, words);
    }
    sweep(&["--sizes", "8", "--device", "cuda"]).refused(3, &["no CUDA device"]);
}

/// Those who resume one file at once do not mix their lines.
#[test]
fn two_sweeps_do_not_write_one_file() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("rows.csv");
    let name = path.to_str().expect("UTF-8");
    let args = ["sweep", "--sizes", "8:4000:8", "--kernel", "serial", "--out", name, "--resume"];
    let mut first = command(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    // From its first row on it has the file.
    while !fs::read_to_string(&path).is_ok_and(|text| text.lines().count() > 2) {
        assert!(first.try_wait().expect("asked").is_none(), "it ended early");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    tessera(&args).refused(2, &[name, "another sweep is writing it"]);
    first.kill().expect("killed");
    first.wait().expect("it ends");
}

/// A size that memory cannot hold takes its rows and no others.
#[test]
fn one_size_too_large_does_not_end_a_sweep() {
    let ended = tessera(&["sweep", "--kernel", "serial", "--sizes", "8,3000000"]);
    assert_eq!(ended.code, Some(4), "{ended}");
    assert!(ended.stdout.contains("\n8,serial,cpu,"), "{ended}");
    assert!(ended.stdout.contains("\n3000000,serial,,"), "{ended}");
    assert!(ended.stdout.contains("choose a smaller size"), "{ended}");
}

#[test]
fn a_reader_that_has_gone_away_ends_a_sweep() {
    let mut child = command(&["sweep", "--sizes", "8:800:8", "--kernel", "rayon"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("error"), "{stderr}");
}

/// With the machine's own driver: kernels are rows with their transfers, or say why not.
#[test]
fn a_gpu_is_swept_where_there_is_one() {
    let args = ["sweep", "--sizes", "64,128", "--kernel", "serial,naive"];
    let ended = end(command(&args).env_remove("TESSERA_LIBCUDA"));
    assert_eq!(ended.code, Some(0), "{ended}");
    let rows: Vec<Vec<&str>> =
        ended.stdout.lines().skip(2).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 4, "{ended}");
    for row in rows.iter().filter(|row| row[1] == "naive") {
        if row[2].is_empty() {
            assert!(row[13..].join(",").contains("no CUDA device"), "{ended}");
            continue;
        }
        let number = |cell: usize| row[cell].parse::<f64>().expect("a number");
        assert!((number(3) / (number(5) + number(6) + number(7)) - 1.0).abs() < 1e-9, "{ended}");
        for words in ["GPU with transfers ", "GPU without transfers "] {
            assert!(ended.stderr.contains(words), "{ended}");
        }
    }
}
