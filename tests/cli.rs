//! The program as its users meet it: arguments in; data, one-line errors and an exit code out.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// A command in a clean environment, where no driver is found.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "RUST_LOG", "RAYON_NUM_THREADS"] {
        command.env_remove(name);
    }
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

// --- run ---

const SMALL: [&str; 6] = ["-m", "33", "-n", "17", "-k", "65"];

/// Cells of the lines of a table between these separators.
fn cells(text: &str, separators: &[char]) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| line.starts_with(['│', '|']));
    let words = lines.map(|line| line.split(separators).map(str::trim));
    let lines = words.map(|cells| cells.map(str::to_owned).collect::<Vec<_>>());
    // The border gives an empty cell at either end.
    lines.map(|cells| cells[1..cells.len() - 1].to_vec()).collect()
}

#[test]
fn run_is_the_default_and_its_document_has_the_promised_keys() {
    let extra = ["--alpha", "1.5", "--beta", "-0.5", "--seed", "7", "--dist", "int"];
    let args = [&SMALL[..], &extra].concat();
    let document = document(&args);
    has_only_keys(&document, &["problem", "machine", "rows", "skipped"]);
    let problem = &document["problem"];
    has_only_keys(problem, &["m", "n", "k", "dtype", "alpha", "beta", "seed", "dist"]);
    for (key, value) in [("m", 33.0), ("n", 17.0), ("k", 65.0), ("alpha", 1.5), ("beta", -0.5)] {
        assert_eq!(problem[key].as_f64(), Some(value), "{key}");
    }
    assert_eq!((&problem["seed"], &problem["dist"]), (&7.into(), &"int".into()));
    has_keys(&document["machine"], &["cpu", "cores", "threads", "memory_bytes", "driver", "gpu"]);

    let rows = document["rows"].as_array().expect("rows");
    let kernels: Vec<_> = rows.iter().map(|row| row["kernel"].as_str().expect("a name")).collect();
    assert_eq!(kernels, ["serial", "mutex_queue", "rayon"]);
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
        assert!(line["reason"].as_str().is_some_and(|reason| reason.contains("no CUDA device")));
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
    let header = ["implementation", "device", "seconds", "minutes", "hours", "GFLOP/s", "speed-up"];
    for (format, separators) in [("table", &['│', '┆'][..]), ("md", &['|'])] {
        let text = shown(format);
        assert!(text.starts_with("C = A B, 33 x 17 x 65"), "{text}");
        let mut lines = cells(&text, separators);
        lines.retain(|line| !line[0].starts_with('-'));
        assert_eq!(lines[0][..7], header, "{format}");
        assert_eq!(lines[0][7..], ["check"], "{format}");
        assert_eq!(lines.len(), 4, "{format}: {lines:?}");
        for (line, kernel) in lines[1..].iter().zip(["serial", "mutex_queue", "rayon"]) {
            assert_eq!(line[..2], [kernel, "cpu"]);
            assert!(line[2].parse::<f64>().is_ok_and(|seconds| seconds > 0.0), "{line:?}");
            assert!(line[7].starts_with("ok, full"), "{line:?}");
        }
        assert!(text.contains("skipped single_block"), "{text}");
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
    assert_eq!(records.len(), 3);
    assert!(records.iter().all(|record| record.len() == columns.len()));
    assert!(records.iter().all(|record| record[2].parse::<f64>().is_ok()), "{records:?}");
}

#[test]
fn integers_and_doubles_run_too() {
    for dtype in ["f64", "i32"] {
        let document = document(&[&SMALL[..], &["--dtype", dtype]].concat());
        assert_eq!(document["problem"]["dtype"], dtype);
        let rows = document["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 3);
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
    for (column, cell) in lines[1].iter().enumerate().take(6).skip(2) {
        assert!(cell.starts_with('~'), "column {column} shows an estimate as measured: {cell}");
    }
    assert_eq!(lines[1][7], "estimated");
    assert!(text.contains("~ estimated"), "{text}");
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
        (&["--dtype", "f33"], &["`f33`", "f32, f64, i32"]),
        (&["--device", "gpu"], &["`gpu`", "auto, cpu, cuda"]),
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
    for command in ["run", "multiply", "list", "devices", "mem", "demo"] {
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

// --- list, devices, mem, demo ---

#[test]
fn list_shows_every_implementation_in_every_format() {
    let ids: Vec<_> = tessera::registry::all().map(|implementation| implementation.id()).collect();
    let columns = ["kernel", "device", "dtypes", "limits", "about", "origin"];

    let json: Value =
        serde_json::from_str(&tessera(&["list", "--format", "json"]).fine()).expect("JSON");
    let lines = json.as_array().expect("a list");
    assert_eq!(lines.iter().map(|line| line["kernel"].clone()).collect::<Vec<_>>(), ids);
    lines.iter().for_each(|line| has_only_keys(line, &columns));
    let line = |id| lines.iter().find(|line| line["kernel"] == id).expect("listed");
    assert_eq!(line("serial")["device"], "cpu");
    assert_eq!(line("serial")["limits"], serde_json::json!([]));
    assert_eq!(line("naive")["device"], "gpu");
    assert_eq!(line("naive")["dtypes"], serde_json::json!(["f32", "f64", "i32"]));
    let limits = line("single_block")["limits"].to_string();
    assert!(limits.contains("1024 elements of C") && limits.contains("7.0"), "{limits}");

    for (format, separators) in [("table", &['│', '┆'][..]), ("md", &['|'])] {
        let mut lines = cells(&tessera(&["list", "--format", format]).fine(), separators);
        lines.retain(|line| !line[0].starts_with('-'));
        assert_eq!(lines[0], columns);
        assert_eq!(lines[1..].iter().map(|line| &line[0]).collect::<Vec<_>>(), ids);
        assert!(lines.iter().all(|line| !line[4].is_empty() && !line[5].is_empty()));
    }
    let csv = tessera(&["list", "--format", "csv"]).fine();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(reader.headers().expect("a header"), &csv::StringRecord::from(columns.to_vec()));
    let names: Vec<_> =
        reader.records().map(|record| record.expect("a record")[0].to_owned()).collect();
    assert_eq!(names, ids);
}

#[test]
fn devices_say_why_there_is_no_gpu() {
    let text = tessera(&["devices"]).fine();
    for word in ["cpu: ", "cores", "vector features", "memory available", "no CUDA device: "] {
        assert!(text.contains(word), "{text}");
    }
    let json: Value =
        serde_json::from_str(&tessera(&["devices", "--format", "json"]).fine()).expect("JSON");
    has_keys(&json["host"], &["cpu", "cores", "features", "memory_bytes"]);
    assert!(json["host"]["cores"].as_u64().is_some_and(|cores| cores > 0));
    assert_eq!((&json["gpus"], &json["driver"]), (&serde_json::json!([]), &Value::Null));
    assert!(json["no_gpu"].as_str().is_some_and(|reason| reason.contains("/nonexistent")));
}

/// With the machine's own driver, or none: there are GPUs, or a reason.
#[test]
fn devices_show_gpus_or_a_reason() {
    let devices = || {
        let mut devices = command(&["devices", "--format", "json"]);
        devices.env_remove("TESSERA_LIBCUDA");
        devices
    };
    let json: Value = serde_json::from_str(&end(&mut devices()).fine()).expect("JSON");
    let gpus = json["gpus"].as_array().expect("a list");
    assert_eq!(gpus.is_empty(), json["no_gpu"].is_string(), "{json}");
    for gpu in gpus {
        let wanted = ["name", "compute_capability", "multiprocessors", "clock_mhz", "memory_bytes"];
        has_keys(gpu, &wanted);
        has_keys(gpu, &["free_bytes", "l2_bytes", "shared_bytes_per_block"]);
        assert!(gpu["free_bytes"].as_u64() <= gpu["memory_bytes"].as_u64(), "{gpu}");
    }
    let hidden = end(devices().env("CUDA_VISIBLE_DEVICES", "")).fine();
    let hidden: Value = serde_json::from_str(&hidden).expect("JSON");
    assert_eq!(hidden["gpus"], serde_json::json!([]));
    assert!(hidden["no_gpu"].is_string(), "{hidden}");
}

#[test]
fn mem_does_the_seeds_arithmetic_and_never_overflows() {
    let text = tessera(&["mem", "-n", "10240"]).fine();
    assert_eq!(text.matches("104857600 elements = 419430400 bytes").count(), 3, "{text}");
    assert!(text.contains("sum: 1258291200 bytes (1.258 GB, 1.172 GiB)"), "{text}");
    assert!(text.contains("free, ") && text.contains("the largest square n is "), "{text}");
    assert!(text.contains("no CUDA device"), "{text}");

    let text = tessera(&["mem", "-m", "2", "-n", "3", "-k", "5", "--dtype", "f64"]).fine();
    for line in
        ["A: 2 x 5 = 10 elements = 80 bytes", "B: 5 x 3 = 15 ", "C: 2 x 3 = 6 ", "sum: 248 "]
    {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("fits; "), "{text}");
    let text = tessera(&["mem", "-n", "18446744073709551615", "--dtype", "f64"]).fine();
    assert!(text.contains("sum: more than 2^128 bytes") && text.contains("does not fit"), "{text}");
}

#[test]
fn demo_computes_the_books_example() {
    let text = tessera(&["demo"]).fine();
    let result: Vec<Vec<u32>> = text
        .lines()
        .skip_while(|line| *line != "The result of Matrix multiplication is:")
        .skip(1)
        .take(4)
        .map(|line| line.split_whitespace().map(|cell| cell.parse().expect("a number")).collect())
        .collect();
    let right: Vec<Vec<u32>> = (0..4).map(|i| (0..4).map(|j| 4 * i * j).collect()).collect();
    assert_eq!(result, right);
    assert!(text.contains("tiled2 on the CPU emulator"), "{text}");
    for line in [
        "Block(0,0): C[0][0] C[0][1] C[1][0] C[1][1]",
        "Block(1,0): C[0][2] C[0][3] C[1][2] C[1][3]",
        "Block(0,1): C[2][0] C[2][1] C[3][0] C[3][1]",
        "Block(1,1): C[2][2] C[2][3] C[3][2] C[3][3]",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let wide = tessera(&["demo", "--tile", "4"]).fine();
    assert!(wide.contains("tiled4") && !wide.contains("Block(1,"), "{wide}");
    tessera(&["demo", "--device", "cuda"]).refused(3, &["no CUDA device"]);
}

// --- multiply ---

/// The bytes of a `.npy` file, by the format's own description.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).expect("short").to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

/// Type of the elements of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Float {
    F32,
    F64,
}

impl Float {
    fn descr(self) -> &'static str {
        if self == Self::F32 { "'<f4'" } else { "'<f8'" }
    }

    fn bytes(self, value: f64) -> Vec<u8> {
        match self {
            Self::F32 => (value as f32).to_le_bytes().to_vec(),
            Self::F64 => value.to_le_bytes().to_vec(),
        }
    }
}

/// A matrix of small numbers, exact in every type.
#[derive(Clone, Debug, PartialEq)]
struct Mat {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Mat {
    fn new(rows: usize, cols: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let value = &value;
        let data = (0..rows).flat_map(|row| (0..cols).map(move |col| value(row, col))).collect();
        Self { rows, cols, data }
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        self.data[row * self.cols + col]
    }

    fn transposed(&self) -> Self {
        Self::new(self.cols, self.rows, |row, col| self.at(col, row))
    }

    fn file(&self, float: Float, fortran: bool) -> Vec<u8> {
        let stored = if fortran { self.transposed() } else { self.clone() };
        let data: Vec<u8> = stored.data.iter().flat_map(|&value| float.bytes(value)).collect();
        npy(float.descr(), fortran, &format!("({}, {})", self.rows, self.cols), &data)
    }

    /// alpha A B + beta C.
    fn gemm(alpha: f64, a: &Self, b: &Self, beta: f64, c: &Self) -> Self {
        Self::new(a.rows, b.cols, |row, col| {
            let sum: f64 = (0..a.cols).map(|step| a.at(row, step) * b.at(step, col)).sum();
            alpha * sum + if beta == 0.0 { 0.0 } else { beta * c.at(row, col) }
        })
    }
}

/// A folder of matrices in which `multiply` is run.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("written");
    }

    fn run(&self, args: &[&str]) -> Ended {
        end(command(&["multiply"]).args(args).current_dir(self.0.path()))
    }

    /// The run is refused, and the output is what it was, with nothing half-written beside it.
    #[track_caller]
    fn refused(&self, args: &[&str], code: i32, words: &[&str]) {
        let names = || {
            let entries = fs::read_dir(self.0.path()).expect("listed");
            let mut names: Vec<_> =
                entries.map(|entry| entry.expect("listed").file_name()).collect();
            names.sort();
            names
        };
        self.put("out.npy", b"old");
        let before = names();
        self.run(args).refused(code, words);
        assert_eq!(fs::read(self.path("out.npy")).expect("read"), b"old", "{args:?}");
        assert_eq!(names(), before, "{args:?}");
    }

    #[track_caller]
    fn assert_holds(&self, name: &str, want: &Mat, float: Float) {
        let found = fs::read(self.path(name)).expect("read");
        assert_eq!(found[..8], *b"\x93NUMPY\x01\x00", "version 1.0");
        let data = 10 + usize::from(u16::from_le_bytes([found[8], found[9]]));
        assert_eq!(data % 64, 0, "elements are aligned");
        let header = String::from_utf8_lossy(&found[10..data]).into_owned();
        let shape = format!("({}, {})", want.rows, want.cols);
        for word in [float.descr(), "'fortran_order': False", &shape] {
            assert!(header.contains(word), "{header}");
        }
        let bytes: Vec<u8> = want.data.iter().flat_map(|&value| float.bytes(value)).collect();
        assert!(found[data..] == bytes, "{name} does not hold {want:?}");
    }
}

fn a_and_b() -> (Mat, Mat) {
    let a = Mat::new(5, 7, |row, col| (3 * row + col) as f64 - 8.0);
    let b = Mat::new(7, 4, |row, col| (row * col) as f64 - 2.0 * col as f64 + 1.0);
    (a, b)
}

#[test]
fn products_are_right_in_either_order_type_and_transposed() {
    let (a, b) = a_and_b();
    let none = Mat::new(0, 0, |_, _| 0.0);
    let c = Mat::new(5, 4, |row, col| 100.0 * row as f64 + col as f64);
    let bench = Bench::new();
    for float in [Float::F32, Float::F64] {
        for case in 0..16 {
            let [fortran_a, fortran_b, trans_a, trans_b] =
                [1, 2, 4, 8].map(|bit: u32| case & bit != 0);
            let stored = |mat: &Mat, trans| if trans { mat.transposed() } else { mat.clone() };
            bench.put("a.npy", &stored(&a, trans_a).file(float, fortran_a));
            bench.put("b.npy", &stored(&b, trans_b).file(float, fortran_b));
            let mut args = vec!["a.npy", "b.npy", "-o", "c.npy", "--check", "full"];
            args.extend(trans_a.then_some("--trans-a"));
            args.extend(trans_b.then_some("--trans-b"));
            assert_eq!(bench.run(&args).fine(), "", "data belong in the file");
            bench.assert_holds("c.npy", &Mat::gemm(1.0, &a, &b, 0.0, &none), float);

            bench.put("c0.npy", &c.file(float, fortran_a));
            args.extend(["--alpha", "-1.5", "--beta", "0.5", "--c", "c0.npy"]);
            bench.run(&args).fine();
            bench.assert_holds("c.npy", &Mat::gemm(-1.5, &a, &b, 0.5, &c), float);
        }
    }
}

#[test]
fn every_cpu_implementation_and_check_can_be_named() {
    let (a, b) = a_and_b();
    let want = Mat::gemm(1.0, &a, &b, 0.0, &a);
    let bench = Bench::new();
    bench.put("a.npy", &a.file(Float::F32, false));
    bench.put("b.npy", &b.file(Float::F32, true));
    for kernel in ["auto", "serial", "mutex_queue", "rayon"] {
        for check in ["auto", "full", "freivalds", "sample", "none"] {
            let _ = fs::remove_file(bench.path("c.npy"));
            let args = ["a.npy", "b.npy", "-o", "c.npy", "--kernel", kernel, "--check", check];
            let ended = bench.run(&[&args[..], &["--device", "cpu"]].concat());
            let name = if kernel == "auto" { "rayon" } else { kernel };
            assert!(ended.stderr.contains(&format!("by {name} in ")), "{ended}");
            ended.fine();
            bench.assert_holds("c.npy", &want, Float::F32);
        }
    }
}

#[test]
fn the_output_may_be_an_input_and_a_link_stays_a_link() {
    let (a, b) = a_and_b();
    let want = Mat::gemm(1.0, &a, &b, 0.0, &a);
    let bench = Bench::new();
    bench.put("a.npy", &a.file(Float::F64, false));
    bench.put("b.npy", &b.file(Float::F64, false));
    bench.run(&["a.npy", "b.npy", "-o", "a.npy"]).fine();
    bench.assert_holds("a.npy", &want, Float::F64);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("b.npy", bench.path("link.npy")).expect("linked");
        bench.run(&["a.npy", "a.npy", "--trans-a", "-o", "link.npy"]).fine();
        assert!(bench.path("link.npy").is_symlink());
        bench.assert_holds(
            "b.npy",
            &Mat::gemm(1.0, &want.transposed(), &want, 0.0, &a),
            Float::F64,
        );
    }
}

#[test]
fn files_that_hold_no_matrix_are_refused() {
    let (a, b) = a_and_b();
    let good = b.file(Float::F32, false);
    let whole = a.file(Float::F32, false);
    let zeros = |len| vec![0u8; len];
    let shaped = |shape: &str, len| npy("'<f4'", false, shape, &zeros(len));
    let typed = |descr: &str, size: usize| npy(descr, false, "(5, 7)", &zeros(35 * size));
    let mut version2 = b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'".to_vec();
    version2.extend(zeros(100));
    let mut version9 = whole.clone();
    version9[6] = 9;
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("empty", Vec::new(), &["no .npy file"]),
        ("text", b"1 2 3\n4 5 6\n".to_vec(), &["no .npy file", "numpy.save"]),
        ("magic alone", whole[..6].to_vec(), &["cut short"]),
        ("half a header", whole[..40].to_vec(), &["header", "cut short"]),
        ("half the data", whole[..whole.len() - 50].to_vec(), &["140 bytes", "90", "cut short"]),
        ("no data", whole[..128].to_vec(), &["140 bytes", "holds 0"]),
        ("more data", [&whole[..], b"more"].concat(), &["140 bytes", "144"]),
        ("version 2, no end", version2, &["cut short"]),
        ("version 9", version9, &["version 9"]),
        ("1-D", shaped("(35,)", 140), &["1 dimensions", "reshape"]),
        ("3-D", shaped("(5, 7, 1)", 140), &["3 dimensions"]),
        ("0-D", shaped("()", 4), &["0 dimensions"]),
        ("no rows", shaped("(0, 7)", 0), &["0 x 7", "sizes start at 1"]),
        ("no columns", shaped("(5, 0)", 0), &["5 x 0", "sizes start at 1"]),
        ("claims much", shaped("(1000000000, 1000000000)", 140), &["1000000000", "holds 140"]),
        (
            "claims more than there are bytes",
            shaped("(18446744073709551615, 18446744073709551615)", 140),
            &["18446744073709551615"],
        ),
        ("claims more than a usize", shaped("(18446744073709551616, 1)", 140), &["no array"]),
        ("negative", shaped("(-5, -7)", 140), &["no array"]),
        ("not a shape", shaped("'x'", 140), &["no array"]),
        ("no Python", npy("'<f4", false, "(5, 7)", &zeros(140)), &["no array"]),
        ("nested", npy(&"{".repeat(3000), false, "(5, 7)", &zeros(140)), &["no array"]),
        ("long", npy(&"'".repeat(9000), false, "(5, 7)", &zeros(140)), &["header has", "4096"]),
        ("i4", typed("'<i4'", 4), &["32-bit integers", "'<i4'", "f32"]),
        ("i8", typed("'<i8'", 8), &["64-bit integers"]),
        ("u1", typed("'|u1'", 1), &["8-bit unsigned integers"]),
        ("f2", typed("'<f2'", 2), &["16-bit floats"]),
        ("c8", typed("'<c8'", 8), &["64-bit complex numbers"]),
        ("b1", typed("'|b1'", 1), &["booleans"]),
        ("big-endian f4", typed("'>f4'", 4), &["big-endian 32-bit floats"]),
        ("big-endian f8", typed("'>f8'", 8), &["big-endian 64-bit floats", "astype"]),
        ("records", typed("[('x', '<f4'), ('y', '<f4')]", 8), &["records"]),
        ("objects", typed("'|O'", 8), &["Python objects"]),
        ("odd letters", typed("'\\n\\n'", 4), &["another type"]),
    ];
    let bench = Bench::new();
    bench.put("good.npy", &good);
    for (name, bytes, words) in cases {
        // The name of the file is in the message, and shows which case it is.
        let file = format!("{name}.npy");
        bench.put(&file, &bytes);
        let words = [words, &[file.as_str()]].concat();
        bench.refused(&[&file, "good.npy", "-o", "out.npy"], 2, &words);
        bench.refused(&["good.npy", &file, "-o", "out.npy"], 2, &words);
    }
}

#[test]
fn matrices_that_do_not_fit_together_are_refused() {
    let (a, b) = a_and_b();
    let bench = Bench::new();
    bench.put("a.npy", &a.file(Float::F32, false));
    bench.put("b.npy", &b.file(Float::F32, true));
    bench.put("b64.npy", &b.file(Float::F64, false));
    bench.put("c.npy", &Mat::new(5, 4, |_, _| 1.0).file(Float::F32, false));
    bench.put("c64.npy", &Mat::new(5, 4, |_, _| 1.0).file(Float::F64, false));
    let both = ["a.npy holds f32", "b64.npy holds f64"];
    bench.refused(&["a.npy", "b64.npy", "-o", "out.npy"], 2, &both);
    let sizes = ["a.npy and a.npy", "A is 5 x 7 and B is 5 x 7"];
    bench.refused(&["a.npy", "a.npy", "-o", "out.npy"], 2, &sizes);
    let args = ["a.npy", "b.npy", "-o", "out.npy"];
    let with = |more: &[&'static str]| [&args[..], more].concat();
    bench.refused(&with(&["--trans-a"]), 2, &["A is 7 x 5 and B is 7 x 4"]);
    bench.refused(&with(&["--trans-b"]), 2, &["A is 5 x 7 and B is 4 x 7"]);
    bench.refused(&with(&["--beta", "2"]), 2, &["--beta 2", "--c"]);
    bench.refused(&with(&["--beta", "NaN"]), 2, &["--beta NaN", "--c"]);
    let wrong_c = ["C is 7 x 4, the product is 5 x 4", "b.npy"];
    bench.refused(&with(&["--beta", "2", "--c", "b.npy"]), 2, &wrong_c);
    bench.refused(&with(&["--beta", "2", "--c", "c64.npy"]), 2, &["c64.npy holds f64"]);
    bench.refused(&with(&["--c", "missing.npy"]), 2, &["missing.npy"]);
    bench.refused(&with(&["--kernel", "tilde32"]), 2, &["`tilde32`", "`tiled32`"]);
    bench.refused(
        &with(&["--kernel", "serial", "--device", "cuda"]),
        2,
        &["serial runs on the CPU"],
    );
    bench.refused(&with(&["--kernel", "naive", "--device", "cpu"]), 2, &["naive runs on a GPU"]);
    bench.refused(&with(&["--kernel", "naive"]), 3, &["no CUDA device"]);
    bench.refused(&with(&["--device", "cuda"]), 3, &["no CUDA device"]);
    bench.refused(&with(&["--check", "most"]), 2, &["most"]);
    // The same files do multiply.
    bench.run(&with(&["--beta", "2", "--c", "c.npy"])).fine();
}

#[test]
fn places_that_cannot_be_read_or_written_are_refused() {
    let (a, b) = a_and_b();
    let bench = Bench::new();
    bench.put("a.npy", &a.file(Float::F32, false));
    bench.put("b.npy", &b.file(Float::F32, false));
    fs::create_dir(bench.path("folder")).expect("created");
    bench.refused(&["none.npy", "b.npy", "-o", "out.npy"], 2, &["none.npy", "No such file"]);
    bench.refused(&["a.npy", "folder", "-o", "out.npy"], 2, &["folder", "no plain file"]);
    bench.refused(&["a.npy", "b.npy", "-o", "none/c.npy"], 2, &["none/c.npy", "No such file"]);
    bench.refused(&["a.npy", "b.npy", "-o", "folder"], 2, &["folder", "name a file"]);
    #[cfg(unix)]
    {
        bench.refused(&["/dev/zero", "b.npy", "-o", "out.npy"], 2, &["/dev/zero", "plain"]);
        bench.refused(&["a.npy", "b.npy", "-o", "/dev/null"], 2, &["/dev/null", "plain"]);
        assert!(!Path::new("/dev/null").is_file(), "the device was replaced by a file");
    }
    // A name with a line break still gives one line.
    bench.refused(&["two\nlines.npy", "b.npy", "-o", "out.npy"], 2, &["two lines.npy"]);
}

#[test]
fn a_product_beyond_memory_is_refused_before_anything_is_written() {
    let bench = Bench::new();
    let thin = vec![0u8; 4 * 3_000_000];
    bench.put("tall.npy", &npy("'<f4'", false, "(3000000, 1)", &thin));
    bench.put("wide.npy", &npy("'<f4'", false, "(1, 3000000)", &thin));
    let words = ["3000000 x 3000000 x 1", "36000024000000 bytes"];
    bench.refused(&["tall.npy", "wide.npy", "-o", "out.npy"], 4, &words);
    bench.run(&["wide.npy", "tall.npy", "-o", "dot.npy"]).fine();
    bench.assert_holds("dot.npy", &Mat::new(1, 1, |_, _| 0.0), Float::F32);
}
