//! The program as its users meet it: arguments in; data, one-line errors and an exit code out.

#[path = "cli/accuracy.rs"]
mod accuracy;
#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/cards.rs"]
mod cards;
#[path = "cli/exits.rs"]
mod exits;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/memory.rs"]
mod memory;
#[path = "cli/multiply.rs"]
mod multiply;
#[path = "cli/options.rs"]
mod options;
#[path = "cli/sanitize.rs"]
mod sanitize;
#[path = "cli/show.rs"]
mod show;
#[path = "cli/sweep.rs"]
mod sweep;
#[path = "cli/tune.rs"]
mod tune;

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lab::Types;
use lab::cpu::CPU;
use serde_json::Value;
use tempfile::TempDir;

/// The program under test: on another machine the variable says where it lies.
fn program() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_tessera")
        .map_or_else(|| env!("CARGO_BIN_EXE_tessera").into(), PathBuf::from)
}

/// What a run of the program left behind.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// How to repeat it.
    line: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, stdout, stderr, line } = self;
        write!(f, "{line}\nexit code {code:?}\n{stdout}\n--- standard error ---\n{stderr}")
    }
}

/// A command in a clean environment, where no driver and no figures are found.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "RUST_LOG", "RAYON_NUM_THREADS"] {
        command.env_remove(name);
    }
    // Tables have the lines that tests look for.
    command.env("LC_ALL", "C.UTF-8");
    // What the user keeps is neither read nor written.
    command.env("TESSERA_CACHE", "/nonexistent");
    command.env("TESSERA_LIBCUDA", "/nonexistent").args(args).stdin(Stdio::null());
    command
}

fn end(command: &mut Command) -> Ended {
    let line = format!("{command:?}");
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(!stderr.contains("panicked"), "{line}\n{stderr}");
    assert!(!stdout.contains('\x1b') && !stderr.contains('\x1b'), "{line}: colours in a pipe");
    Ended { code: output.status.code(), stdout, stderr, line }
}

fn tessera(args: &[&str]) -> Ended {
    end(&mut command(args))
}

impl Ended {
    /// All went well; what went to standard output.
    #[track_caller]
    fn fine(self) -> String {
        assert_eq!(self.code, Some(0), "{self}");
        assert!(!self.stderr.contains("error:"), "{self}");
        self.stdout
    }

    /// It stopped with this code and one line that has all the words; nothing is on standard output.
    #[track_caller]
    fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self}");
        assert_eq!(self.stdout, "", "{self}");
        assert!(self.stderr.starts_with("error: "), "{self}");
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "{self}");
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is missing: {self}");
        }
    }
}

/// The document of a run.
#[track_caller]
fn document(args: &[&str]) -> Value {
    let mut all = args.to_vec();
    all.extend(["--format", "json"]);
    serde_json::from_str(&tessera(&all).fine()).expect("JSON")
}

/// The object has these keys, and maybe others.
#[track_caller]
fn has_keys(value: &Value, wanted: &[&str]) {
    for key in wanted {
        assert!(value.get(key).is_some(), "no `{key}` in {value}");
    }
}

/// The object has these keys and no others.
#[track_caller]
fn has_only_keys(value: &Value, wanted: &[&str]) {
    has_keys(value, wanted);
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(wanted.len()), "{value}");
}

const SMALL: [&str; 6] = ["-m", "33", "-n", "17", "-k", "65"];

/// Cells of the lines of a table between these separators.
fn cells(text: &str, separators: &[char]) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| line.starts_with(['│', '|']));
    let words = lines.map(|line| line.split(separators).map(str::trim));
    let lines = words.map(|cells| cells.map(str::to_owned).collect::<Vec<_>>());
    // The border gives an empty cell at either end.
    lines.map(|cells| cells[1..cells.len() - 1].to_vec()).collect()
}

/// What runs on the CPU of this machine without being named: four rungs, and the matrix units if it has some.
fn on_the_cpu(types: Types) -> Vec<&'static str> {
    let here = CPU.iter().filter(|rung| !rung.study && rung.runs(types).is_ok());
    let names: Vec<_> = here.map(|rung| rung.id).collect();
    assert_eq!(names[..4], ["serial", "mutex_queue", "rayon", "cpu_packed"]);
    names
}

#[test]
fn run_is_the_default_and_its_document_has_the_promised_keys() {
    let extra = ["--alpha", "1.5", "--beta", "-0.5", "--seed", "7", "--dist", "int"];
    let args = [&SMALL[..], &extra].concat();
    let document = document(&args);
    has_only_keys(&document, &["problem", "machine", "program", "rows", "skipped"]);
    let program = &document["program"];
    has_only_keys(program, &["version", "date", "command"]);
    assert_eq!(program["version"], env!("CARGO_PKG_VERSION"));
    let command: Vec<_> = ["tessera"].iter().chain(&args).chain(&["--format", "json"]).collect();
    assert_eq!(program["command"], serde_json::json!(command));
    let problem = &document["problem"];
    has_only_keys(problem, &["m", "n", "k", "dtype", "alpha", "beta", "seed", "dist"]);
    for (key, value) in [("m", 33.0), ("n", 17.0), ("k", 65.0), ("alpha", 1.5), ("beta", -0.5)] {
        assert_eq!(problem[key].as_f64(), Some(value), "{key}");
    }
    assert_eq!((&problem["seed"], &problem["dist"]), (&7.into(), &"int".into()));
    has_keys(&document["machine"], &["cpu", "cores", "threads", "memory_bytes", "driver", "gpu"]);

    let rows = document["rows"].as_array().expect("rows");
    let kernels: Vec<_> = rows.iter().map(|row| row["kernel"].as_str().expect("a name")).collect();
    assert_eq!(kernels, on_the_cpu(Types::F32));
    for row in rows {
        has_keys(row, &["h2d_seconds", "kernel_seconds", "d2h_seconds"]);
        assert!(row["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{row}");
        assert!(row["gflops"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        assert!(row["speedup"].is_number(), "{row}");
        assert_eq!((&row["device"], &row["estimated"]), (&"cpu".into(), &false.into()));
        let check = &row["check"];
        has_only_keys(check, &["method", "ok", "max_error", "bound"]);
        assert_eq!((&check["method"], &check["ok"]), (&"full".into(), &true.into()));
    }
    let skipped = document["skipped"].as_array().expect("skipped");
    assert!(skipped.iter().any(|line| line["kernel"] == "tiled32"));
    for line in skipped {
        has_only_keys(line, &["kernel", "reason"]);
        let needs = if line["kernel"] == "cpu_amx" { "AMX" } else { "no CUDA device" };
        assert!(line["reason"].as_str().is_some_and(|reason| reason.contains(needs)), "{line}");
    }
    let named: Value = serde_json::from_str(
        &tessera(&[&["run"], &args[..], &["--format", "json"]].concat()).fine(),
    )
    .expect("JSON");
    assert_eq!(named["problem"], document["problem"]);
}

#[test]
fn table_markdown_and_csv_show_the_same_rows() {
    let shown = |format| tessera(&[&SMALL[..], &["--format", format]].concat()).fine();
    // Minutes and hours are not shown where all of them are 0.000.
    let header = ["implementation", "device", "seconds", "GFLOP/s", "speed-up"];
    for (format, separators) in [("table", &['│', '┆'][..]), ("md", &['|'])] {
        let text = shown(format);
        assert!(text.starts_with("C = A B, 33 x 17 x 65"), "{text}");
        // How the inputs came about is said by the run itself.
        assert!(text.contains("f32, uniform inputs, seed 1"), "{text}");
        let mut lines = cells(&text, separators);
        lines.retain(|line| !line[0].starts_with('-'));
        assert_eq!(lines[0][..5], header, "{format}");
        assert_eq!(lines[0][5..], ["check"], "{format}");
        let kernels = on_the_cpu(Types::F32);
        assert_eq!(lines.len(), 1 + kernels.len(), "{format}: {lines:?}");
        for (line, kernel) in lines[1..].iter().zip(kernels) {
            assert_eq!(line[..2], [kernel, "cpu"]);
            assert!(line[2].parse::<f64>().is_ok_and(|seconds| seconds > 0.0), "{line:?}");
            // Method, error and bound, so that a reader can judge the tolerance.
            assert!(line[5].starts_with("ok, full: ") && line[5].contains(" <= "), "{line:?}");
        }
        let is_of_gpus = |line: &&str| line.contains("skipped") && !line.contains("cpu_amx");
        let skipped: Vec<_> = text.lines().filter(is_of_gpus).collect();
        let line = format!(
            "skipped {} GPU kernels: TESSERA_LIBCUDA names a library that does not open \
             (`tessera devices` says more)",
            kernels_gpu::KERNELS.len()
        );
        assert_eq!(skipped.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), [line]);
        assert!(!text.contains("cannot open"), "what the loader said is for `devices`: {text}");
    }

    let mut reader = csv::Reader::from_reader(shown("csv").into_bytes().leak() as &[u8]);
    let columns = reader.headers().expect("a header").clone();
    let columns: Vec<&str> = columns.iter().collect();
    let promised = ["kernel", "device", "seconds", "estimated", "gflops", "h2d_seconds"];
    assert_eq!(columns[..6], promised);
    assert_eq!(columns[6..9], ["kernel_seconds", "d2h_seconds", "speedup"]);
    for column in ["check_method", "check_ok", "check_max_error", "check_bound"] {
        assert!(columns.contains(&column), "{columns:?}");
    }
    let records: Vec<_> = reader.records().map(|record| record.expect("a record")).collect();
    assert_eq!(records.len(), on_the_cpu(Types::F32).len());
    assert!(records.iter().all(|record| record.len() == columns.len()));
    assert!(records.iter().all(|record| record[2].parse::<f64>().is_ok()), "{records:?}");
}

#[test]
fn every_type_runs() {
    for types in Types::ALL {
        let document = document(&[&SMALL[..], &["--dtype", types.name()]].concat());
        assert_eq!(document["problem"]["dtype"], types.name());
        let rows = document["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), on_the_cpu(types).len());
        assert!(rows.iter().all(|row| row["check"]["ok"] == true), "{rows:?}");
    }
    tessera(&["-n", "8", "--dtype", "i32", "--alpha", "1.5"]).refused(2, &["--alpha 1.5", "i32"]);
}

#[test]
fn threads_are_what_the_user_asked_for() {
    let threads = |command: &mut Command| -> Value {
        let text = end(command.args(["-n", "16", "--format", "json"])).fine();
        let document: Value = serde_json::from_str(&text).expect("JSON");
        document["machine"]["threads"].clone()
    };
    assert_eq!(threads(&mut command(&["--threads", "2"])), 2);
    assert_eq!(threads(command(&[]).env("RAYON_NUM_THREADS", "3")), 3);
    assert_eq!(threads(command(&["--threads", "5"]).env("RAYON_NUM_THREADS", "3")), 5);
}

#[test]
fn what_does_not_fit_the_budget_is_estimated_and_says_so() {
    let args = ["-n", "2000", "--budget", "0.2", "--kernel", "serial", "--check", "none"];
    let document = document(&args);
    let row = &document["rows"][0];
    assert_eq!((&row["kernel"], &row["estimated"]), (&"serial".into(), &true.into()));
    assert_eq!((&row["runs"], &row["check"]), (&0.into(), &Value::Null));
    let text = tessera(&args).fine();
    let lines = cells(&text, &['│', '┆']);
    assert_eq!(lines[1][0], "serial");
    let check = lines[0].iter().position(|name| name == "check").expect("a column");
    for (column, cell) in lines[1].iter().enumerate().take(check - 1).skip(2) {
        assert!(cell.starts_with('~'), "column {column} shows an estimate as measured: {cell}");
    }
    assert_eq!(lines[1][check], "estimated");
    assert!(text.contains("~ estimated"), "{text}");
}

/// What a terminal of that many columns is shown.
#[cfg(target_os = "linux")]
fn on_a_terminal(columns: u16, args: &[&str]) -> String {
    use std::io::Read;
    use std::os::fd::FromRawFd;

    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let none = std::ptr::null_mut();
    // SAFETY: both numbers are there to be written, the size is read, and nothing else is asked for.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, none, none.cast(), &size) };
    assert_eq!(opened, 0, "there is a terminal");
    let [mut ours, theirs] = [ours, theirs].map(|descriptor| {
        // SAFETY: the call above gave the descriptor, which nobody else has.
        unsafe { fs::File::from_raw_fd(descriptor) }
    });
    let mut child = command(args)
        .env("NO_COLOR", "1")
        .stdout(theirs)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut bytes = Vec::new();
    // A terminal that nobody holds any more is an error to its reader.
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = ours.read(&mut part) {
        bytes.extend_from_slice(&part[..count]);
    }
    assert!(child.wait().expect("it ends").success(), "{args:?}");
    String::from_utf8(bytes).expect("UTF-8").replace('\r', "")
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_shown_fits_the_terminal() {
    for args in [
        &["-n", "40"][..],
        &["-n", "2000", "--kernel", "serial", "--budget", "0.1"],
        &["list"],
        &["explain", "cpu_packed"],
        &["explain", "rayon"],
        &["roofline"],
        &["tiles", "--gpu", "h200"],
        &["tiles"],
        &["bench", "-n", "40", "--time", "0.02", "--device", "cpu"],
        &["accuracy", "-n", "8", "-k", "8", "--data", "normal"],
    ] {
        for columns in [80, 120] {
            let text = on_a_terminal(columns, args);
            let wide: Vec<&str> =
                text.lines().filter(|line| line.chars().count() > columns.into()).collect();
            assert!(wide.is_empty() && text.lines().count() > 3, "{args:?} at {columns}: {text}");
        }
    }
    // Where there is no terminal nothing is broken or left out.
    let plain = tessera(&["list", "--long"]).fine();
    assert!(plain.lines().any(|line| line.chars().count() > 120), "{plain}");
}

#[test]
fn colours_stay_away_from_pipes() {
    // `end` looks for escape sequences.
    let plain = end(command(&["list"]).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1")).fine();
    assert_eq!(plain, tessera(&["list"]).fine());
    end(command(&SMALL).env("NO_COLOR", "1")).fine();
    end(command(&["--help"]).env("NO_COLOR", "1")).fine();
}

#[test]
fn an_output_file_is_replaced_at_once_or_not_at_all() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("out.json");
    let out = path.to_str().expect("UTF-8");
    fs::write(&path, "old").expect("written");
    tessera(&["-n", "8", "--out", out, "--device", "cuda"]).refused(3, &[]);
    tessera(&["-n", "3000000", "--out", out]).refused(4, &[]);
    assert_eq!(fs::read_to_string(&path).expect("read"), "old");

    let stdout = tessera(&["-n", "8", "--format", "json", "--out", out]).fine();
    assert_eq!(stdout, "", "data belong in the file");
    let text = fs::read_to_string(&path).expect("read");
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1, "nothing is left behind");
}

#[test]
fn one_run_can_be_kept_in_several_formats() {
    let folder = TempDir::new().expect("a folder");
    let paths = ["run.md", "run.json", "run.csv", "run.txt"].map(|name| folder.path().join(name));
    let mut args = vec!["-n", "8"];
    for path in &paths {
        args.extend(["--out", path.to_str().expect("UTF-8")]);
    }
    assert_eq!(tessera(&args).fine(), "");
    let [markdown, json, csv, table] = paths.map(|path| fs::read_to_string(path).expect("read"));
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let first = csv.lines().nth(1).and_then(|line| line.split(',').nth(2)).expect("seconds");
    let first: f64 = first.parse().expect("a number");
    let second = document["rows"][0]["seconds"].as_f64().expect("a number");
    // The digits of the clock are those of one run, but for the last one, which the reader of JSON may
    // round.
    assert!((first - second).abs() <= 1e-12 * second, "{csv} {json}");
    assert!(markdown.contains("| serial ") && table.contains("│ serial "));
}

/// A disk that is full when all has been measured: here the system lets no file grow.
#[cfg(target_os = "linux")]
#[test]
fn what_a_full_disk_does_not_take_goes_to_standard_output() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("run.csv");
    let out = path.to_str().expect("UTF-8");
    let plain = command(&["-n", "8", "--kernel", "serial", "--out", out]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
    shell.arg(program()).args(plain.get_args());
    shell.env("TESSERA_LIBCUDA", "/nonexistent").stdin(Stdio::null());
    let ended = end(&mut shell);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stdout.contains("\nserial,cpu,"), "{ended}");
    assert!(ended.stderr.contains(out), "{ended}");
    assert!(!path.exists());
}

/// What was measured before Ctrl-C is shown.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_shows_the_rows_that_it_has() {
    let args = ["-n", "1000", "--kernel", "serial,cpu_packed", "--budget", "3000"];
    let mut child = command(&[&args[..], &["--check", "none", "--format", "csv"]].concat())
        .env("RUST_LOG", "info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let slow = lines.by_ref().map_while(Result::ok).find(|line| line.contains("running serial"));
    assert!(slow.is_some(), "the slow one is the last");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("sent").success());
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{said:?}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        stdout.contains("\ncpu_packed,cpu,") && !stdout.contains("serial"),
        "{stdout} {said:?}"
    );
    assert!(said.iter().any(|line| line.contains("interrupted")), "{said:?}");
}

#[test]
fn a_place_that_cannot_be_written_is_known_before_any_work() {
    let folder = TempDir::new().expect("a folder");
    let folder = folder.path().to_str().expect("UTF-8");
    // This size does not fit: had work begun, the code would be 4.
    let missing = format!("{folder}/missing/out.json");
    tessera(&["-n", "3000000", "--out", &missing]).refused(2, &[&missing]);
    tessera(&["-n", "3000000", "--out", folder]).refused(2, &[folder, "folder"]);
    #[cfg(unix)]
    tessera(&["-n", "3000000", "--out", "/dev/null"]).refused(2, &["/dev/null"]);
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    tessera(&["-n", "8", "--device", "cuda"]).refused(3, &["no CUDA device", "TESSERA_LIBCUDA"]);
    tessera(&["-n", "8", "--device", "cuda:7"]).refused(3, &["no CUDA device"]);
    tessera(&["-n", "3000000"]).refused(4, &["bytes", "choose a smaller size"]);
    tessera(&["-n", "99999999999999999999"]).refused(2, &["sizes end at"]);
    for sizes in [
        &["-n", "18446744073709551615"][..],
        &["-n", "18446744073709551615", "-m", "1", "-k", "1"],
        &["-n", "1", "-m", "9223372036854775807", "-k", "3"],
        &["-n", "4294967296", "-m", "4294967296", "-k", "1"],
        &["-n", "1", "-m", "1", "-k", "2305843009213693951"],
    ] {
        for dtype in ["f32", "f64"] {
            let ended = tessera(&[sizes, &["--dtype", dtype]].concat());
            assert!(matches!(ended.code, Some(2 | 4)), "{ended}");
            ended.refused(ended.code.unwrap_or_default(), &[]);
        }
    }
}

#[test]
fn what_cannot_be_meant_is_one_line() {
    for (args, words) in [
        (&["-n", "0"][..], &["'0'", "sizes start at 1"][..]),
        (&["-m", "-3"], &["-3"]),
        (&["-k", "1.5"], &["'1.5'", "whole number"]),
        (&["-n"], &["'-n <N>'"]),
        (&["--kernal", "naive"], &["'--kernal'", "'--kernel'"]),
        (&["multply"], &["'multply'", "'multiply'"]),
        (&["--kernel", "tilde32"], &["`tilde32`", "`tiled32`"]),
        (&["--kernel", "serial,tiled99"], &["`tiled99`", "did you mean"]),
        (&["--kernel", "zzzzzzzzzzzzzzzzzzzz"], &["zzz", "`tessera list`"]),
        (&["--kernel", "serial,!serial"], &["takes every implementation away"]),
        (&["--format", "xml"], &["`xml`", "table, md, csv, json"]),
        (&["--dtype", "f33"], &["`f33`", "f32, f64, i32, i8, f16, bf16, f16_f32, bf16_f32"]),
        (&["--device", "gpu"], &["`gpu`", "auto, cpu, emulate, cuda"]),
        (&["--check", "maybe"], &["`maybe`", "freivalds"]),
        (&["--dist", "gauss"], &["`gauss`", "uniform"]),
        (&["--threads", "0"], &["'0'", "--threads"]),
        (&["--budget", "-1"], &["-1"]),
        (&["-n", "8", "list"], &["list"]),
        (&["list", "--format", "xml"], &["`xml`"]),
        (&["devices", "--format", "csv"], &["'csv'", "table, json"]),
        (&["mem", "-n", "0"], &["sizes start at 1"]),
        (&["demo", "--tile", "3"], &["`tiled3`", "did you mean"]),
        (&["demo", "--tile", "0"], &["'0'"]),
        (&["multiply"], &["<A.npy>", "<B.npy>", "--output"]),
    ] {
        tessera(args).refused(2, words);
    }
}

#[test]
fn every_command_explains_itself() {
    let help = tessera(&["--help"]).fine();
    for command in [
        "run", "sweep", "multiply", "list", "devices", "mem", "explain", "roofline", "tiles",
        "demo",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let help = tessera(&[command, "--help"]).fine();
        assert!(help.contains(&format!("Usage: tessera {command}")), "{help}");
        assert!(help.contains("--help"), "{help}");
        assert_eq!(tessera(&["help", command]).fine(), help);
    }
    assert!(help.contains("Exit codes"), "{help}");
    assert_eq!(
        tessera(&["--version"]).fine(),
        concat!("tessera ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn a_reader_that_has_gone_away_is_no_error() {
    let mut child = command(&["list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
}

/// `>&-` in a shell, and a service without standard streams.
#[cfg(target_os = "linux")]
#[test]
fn data_that_nobody_can_get_are_an_error() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("run.json");
    let out = path.to_str().expect("UTF-8");
    let closed = |line: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$0\" \"$@\" >&-"]).arg(program()).args(line.split(' '));
        end(shell.env("TESSERA_LIBCUDA", "/nonexistent").stdin(Stdio::null()))
    };
    for line in ["list", "--help", "mem -n 8", "-n 8", "sweep --sizes 8", "bench -n 8 --time 0.01"]
    {
        closed(line).refused(2, &["standard output", "it is closed"]);
    }
    // Before any work: had it begun, the code would be 4.
    closed("-n 3000000").refused(2, &["standard output", "it is closed"]);
    closed(&format!("-n 8 --format json --out {out}")).fine();
    assert!(path.exists());
    // An output that takes everything is another matter, however it was opened.
    for redirect in [">/dev/null", "1<>/dev/null"] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"$0\" list {redirect}")]).arg(program());
        end(&mut shell).fine();
    }
}

/// Every kernel of the registry, without a GPU; its rows cannot be taken for a GPU's.
#[test]
fn the_emulator_is_a_device() {
    let text = tessera(&["run", "--device", "emulate", "-n", "17", "--format", "json"]).fine();
    let document: Value = serde_json::from_str(&text).expect("the document is JSON");
    let rows = document["rows"].as_array().expect("there are rows");
    for kernel in ["single_block", "naive", "tiled2", "tiled32"] {
        let row = rows.iter().find(|row| row["kernel"] == kernel).expect(kernel);
        assert_eq!(row["device"], "emulate");
        assert_eq!(row["check"]["ok"], true, "{row}");
        assert!(row["then_seconds"].is_null() && row["kernel_seconds"].is_null(), "{row}");
    }
    let table = tessera(&["run", "--device", "emulate", "-n", "17", "--kernel", "naive"]).fine();
    assert!(table.contains("they say nothing about a GPU"), "{table}");
    let refused = tessera(&["multiply", "a", "b", "-o", "c", "--device", "emulate"]);
    assert_eq!(refused.code, Some(2), "{refused}");
}
