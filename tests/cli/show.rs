//! `list`, `devices`, `doctor`, `mem` and `demo`.

use std::fs;

use serde_json::Value;

use super::{cells, command, end, has_keys, has_only_keys, tessera};

#[test]
fn list_shows_every_implementation_in_every_format() {
    let ids: Vec<_> = lab::registry::all().map(|implementation| implementation.id()).collect();
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
    assert!(limits.contains("1024 elements of C") && limits.contains("7.0 or newer"), "{limits}");
    // A module with Hopper's own instructions runs on no later GPU.
    for spec in kernels_gpu::KERNELS {
        let (major, minor) = spec.arch.compute_capability();
        let newer = if spec.arch.runs_on((major + 1, 0)) { "or newer" } else { "only" };
        let limit = format!("compute capability {major}.{minor} {newer}");
        assert_eq!(line(spec.id)["limits"][0], limit, "{}", spec.id);
    }
    assert_eq!(line("f16x3")["limits"], serde_json::json!(["compute capability 9.0 only"]));

    for (format, separators) in [("table", &['│', '┆'][..]), ("md", &['|'])] {
        let mut lines = cells(&tessera(&["list", "--long", "--format", format]).fine(), separators);
        lines.retain(|line| !line[0].starts_with('-'));
        assert_eq!(lines[0], columns);
        assert_eq!(lines[1..].iter().map(|line| &line[0]).collect::<Vec<_>>(), ids);
        assert!(lines.iter().all(|line| !line[4].is_empty() && !line[5].is_empty()));
    }
    let short = tessera(&["list"]).fine();
    let lines = cells(&short, &['│', '┆']);
    assert_eq!(lines[0], ["kernel", "device", "about"]);
    assert_eq!(lines[1..].iter().map(|line| &line[0]).collect::<Vec<_>>(), ids);
    let widest = short.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest < 160), "{short}");
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

    assert!(text.contains(" for bf16x9, bf16x6\n") && text.contains(" for f16x3\n"), "{text}");
    assert!(text.contains(" for split_k_32x64, "), "{text}");

    // A row of 16-bit elements that is no multiple of 16 bytes is copied to lines of 128.
    let text = tessera(&["mem", "-m", "10", "-n", "8", "-k", "9", "--dtype", "bf16"]).fine();
    assert!(
        text.contains("besides, at most: 1280 bytes (1.280 kB, 1.250 KiB) for tensor_64x128, "),
        "{text}"
    );
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

#[test]
fn demo_shows_the_run_step_by_step() {
    let text = tessera(&["demo", "--trace"]).fine();
    assert_eq!(text, tessera(&["demo", "--trace", "--device", "cpu"]).fine(), "two runs differ");
    let count = |what: &str| text.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("Phase 1 of 2"), count("Phase 2 of 2"), count("Store")), (2, 2, 1));
    assert_eq!(count("-- barrier "), 4);
    // Each of 8 elements of A and 8 of B is loaded by two of the four blocks.
    assert_eq!(count("  16 loads of A, 8 different elements"), 2);
    assert_eq!(count("  16 loads of B, 8 different elements"), 2);
    assert!(text.ends_with("2 phases, 4 barriers for each thread, 16 stores\n"), "{text}");
    let (run, stores) = text.split_once("\nStore").expect("a last step");
    for i in 0..4 {
        for j in 0..4 {
            let store = format!("C[{i}][{j}] = {}\n", 4 * i * j);
            assert_eq!(stores.matches(&store).count(), 1, "{store}");
        }
    }
    for line in [
        "    Thread(1,0): A[0][1] -> tileA[0][1], B[0][1] -> tileB[0][1]",
        "    Thread(1,1): A[3][3]* -> tileA[1][1], B[3][3]* -> tileB[1][1]",
        "    Thread(1,1): tileA[1][0]*tileB[0][1] + tileA[1][1]*tileB[1][1] = 3*3 + 3*3; sum 18",
    ] {
        assert!(run.lines().any(|found| found == line), "{line}");
    }
    assert!(!tessera(&["demo"]).fine().contains("barrier"));
    tessera(&["demo", "--trace", "--tile", "8"]).refused(2, &["tiles of 2 and 4"]);
    tessera(&["demo", "--trace", "--device", "cuda"]).refused(2, &["--device"]);
}

/// Every element that is opened is closed, in order; the names of those that were opened.
fn elements(xml: &str) -> Vec<&str> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for piece in xml.trim().split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains(['>', '&']), "{text}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("a name");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
            continue;
        }
        assert!(!all.is_empty() || name == "svg", "the root is {name}");
        all.push(name);
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    all
}

#[test]
fn demo_draws_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.svg");
    let file = path.to_str().expect("a plain path");
    let text = tessera(&["demo", "--svg", file]).fine();
    assert!(!text.contains("barrier"), "--trace was not asked for");
    let svg = fs::read_to_string(&path).expect("the file");
    let names = elements(&svg);
    let count = |what: &str| svg.matches(what).count();
    assert_eq!((count("class=\"panel load\""), count("class=\"panel multiply\"")), (2, 2));
    assert_eq!((count("class=\"panel store\""), count("class=\"barrier\"")), (1, 4));
    for (i, j) in [(0, 0), (1, 2), (3, 3)] {
        assert_eq!(count(&format!(">C[{i}][{j}]<")), 1);
        // Loaded in one phase by two blocks; the second phase's carry a mark.
        assert_eq!(count(&format!(">A[{i}][{j}]<")) + count(&format!(">A[{i}][{j}]*<")), 2);
    }
    assert_eq!(count(">= 36<"), 1);
    // The page, five panels, four bars, four colours, 2 * 32 loads, 2 * 16 sums and 16 stores.
    let boxes = names.iter().filter(|name| **name == "rect").count();
    assert_eq!(boxes, 1 + 5 + 4 + 4 + 64 + 32 + 16);
    for foreign in ["script", "@import", "href", "url("] {
        assert!(!svg.contains(foreign), "{foreign}");
    }
    // The old file is replaced whole, and nothing else stays in the folder.
    tessera(&["demo", "--svg", file, "--tile", "4"]).fine();
    assert_eq!(elements(&fs::read_to_string(&path).expect("the file"))[0], "svg");
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    let nowhere = folder.path().join("none/run.svg");
    tessera(&["demo", "--svg", nowhere.to_str().expect("a path")]).refused(2, &["run.svg"]);
}

/// With the machine's own driver: a GPU that `devices` shows is one that the others use.
#[test]
fn a_gpu_is_used_where_there_is_one() {
    let own = |args: &[&str]| end(command(args).env_remove("TESSERA_LIBCUDA"));
    let devices: Value =
        serde_json::from_str(&own(&["devices", "--format", "json"]).fine()).expect("JSON");
    let demo = own(&["demo"]).fine();
    let run: Value =
        serde_json::from_str(&own(&["-n", "64", "--format", "json"]).fine()).expect("JSON");
    let rows = run["rows"].as_array().expect("rows");
    let on_gpu = |row: &&Value| row["device"] == "cuda:0";
    if devices["gpus"] == serde_json::json!([]) {
        assert!(demo.contains("on the CPU emulator"), "{demo}");
        assert_eq!(rows.iter().find(on_gpu), None);
        own(&["-n", "64", "--device", "cuda"]).refused(3, &["no CUDA device"]);
    } else {
        assert!(demo.contains("on the GPU"), "{demo}");
        let row = rows.iter().find(on_gpu).expect("a row of the GPU");
        assert!(row["kernel_seconds"].is_number() && row["check"]["ok"] == true, "{row}");
        own(&["-n", "64", "--device", "cuda"]).fine();
        own(&["-n", "64", "--device", "cuda:99"]).refused(3, &["99"]);
        assert!(own(&["mem"]).fine().contains("cuda:0 "));
    }
}

#[test]
fn the_doctor_multiplies_and_names_what_needs_mending() {
    let text = end(command(&["doctor"]).env_remove("TESSERA_LIBCUDA")).fine();
    assert!(text.contains("cpu_packed    right in f32, f64, i32, i8, "), "{text}");
    assert!(text.ends_with("nothing needs mending\n"), "{text}");

    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("figures.json"), "{").expect("written");
    let ended = end(command(&["doctor"])
        .env("TESSERA_CACHE", folder.path())
        .env("TESSERA_CPU_UNIT", "all"));
    assert_eq!(ended.code, Some(2), "{ended}");
    for words in [
        "FAULT: none: no CUDA device: TESSERA_LIBCUDA names a library that does not open",
        "FAULT: TESSERA_CPU_UNIT is set and nothing reads it",
        "TESSERA_CPU_UNITS",
        "figures.json: is not JSON",
    ] {
        assert!(ended.stdout.contains(words), "`{words}`: {ended}");
    }
}
