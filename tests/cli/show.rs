//! `list`, `devices`, `mem` and `demo`.

use serde_json::Value;

use super::{cells, command, end, has_keys, has_only_keys, tessera};

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
