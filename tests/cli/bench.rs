//! `bench` and `replay` as a user meets them.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{command, end, tessera};

const QUICK: [&str; 9] =
    ["bench", "-n", "40", "--kernel", "serial,rayon", "--time", "0.05", "--device", "cpu"];

fn measured(path: &str) -> Value {
    tessera(&[&QUICK[..], &["--out", path]].concat()).fine();
    serde_json::from_str(&fs::read_to_string(path).expect("read")).expect("JSON")
}

#[test]
fn rows_say_how_sure_they_are_and_what_repeats_them() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("b.json");
    let document = measured(path.to_str().expect("UTF-8"));
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    let best: Vec<f64> =
        rows.iter().map(|row| row["percent_of_best"].as_f64().expect("a number")).collect();
    assert!(best.contains(&100.0) && best.iter().all(|&best| best <= 100.0), "{best:?}");
    for row in rows {
        let seconds = &row["seconds"];
        let number = |key: &str| seconds[key].as_f64().expect("a number");
        assert!(number("min") <= number("q25") && number("q25") <= number("median"));
        assert!(number("median") <= number("q75") && number("q75") <= number("max"));
        assert!(seconds["runs"].as_u64().is_some_and(|runs| runs > 1), "{row}");
        assert_eq!((&row["check"]["ok"], &row["refused"]), (&true.into(), &Value::Null));
        // The row's own command measures the row.
        let words = row["command"].as_array().expect("words");
        let words: Vec<&str> = words.iter().map(|word| word.as_str().expect("a word")).collect();
        assert_eq!(words[0], "tessera");
        let again = tessera(&[&words[1..], &["--format", "json"]].concat()).fine();
        let again: Value = serde_json::from_str(&again).expect("JSON");
        for key in ["kernel", "device", "m", "n", "k", "dtype", "seed", "cache", "threads"] {
            assert_eq!(again["rows"][0][key], row[key], "{key}");
        }
    }
}

#[test]
fn factors_can_be_stored_transposed_and_a_row_says_which() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("nn.json");
    let nn = path.to_str().expect("UTF-8");
    let shape = ["-m", "3", "-n", "50", "-k", "20", "--check", "full"];
    let quick = ["bench", "--kernel", "serial,cpu_packed", "--time", "0.02", "--device", "cpu"];
    let plain = [&quick[..], &shape].concat();
    let with_ops = |ops: &'static str| [&plain[..], &["--ops", ops]].concat();
    tessera(&[&plain[..], &["--out", nn]].concat()).fine();
    assert!(!fs::read_to_string(&path).expect("read").contains("\"ops\""));
    for ops in ["nn", "nt", "tn", "tt"] {
        let text = tessera(&[&with_ops(ops)[..], &["--format", "json"]].concat()).fine();
        let document: Value = serde_json::from_str(&text).expect("JSON");
        for row in document["rows"].as_array().expect("rows") {
            assert_eq!(row["check"]["ok"], true, "{row}");
            assert_eq!(row["ops"].as_str().unwrap_or("nn"), ops);
            let words = row["command"].as_array().expect("words");
            let named = words.windows(2).any(|pair| pair == ["--ops", ops]);
            assert_eq!(named, ops != "nn", "{words:?}");
        }
        let table = tessera(&with_ops(ops)).fine();
        assert_eq!(table.contains("B stored transposed"), ops.ends_with('t'), "{table}");
    }
    // Another way to store them is another measurement.
    let baseline = [&with_ops("nt")[..], &["--baseline", nn, "--idle-wait", "0"]].concat();
    end(&mut command(&baseline)).refused(2, &["--baseline has no row"]);
    end(&mut command(&with_ops("nx"))).refused(2, &["`nx`", "nt"]);
}

#[test]
fn a_regression_past_the_noise_ends_with_5() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("old.json");
    let name = path.to_str().expect("UTF-8");
    let mut old = measured(name);
    let with_baseline = [&QUICK[..], &["--baseline", name, "--idle-wait", "0"]].concat();
    // A past a thousand times as fast, then one a thousand times as slow.
    for (factor, code, word) in [(1e-3, Some(5), "SLOWER"), (1e6, Some(0), "no slower")] {
        for row in old["rows"].as_array_mut().expect("rows") {
            for key in ["median", "min", "max", "q25", "q75"] {
                let seconds = row["seconds"][key].as_f64().expect("a number");
                row["seconds"][key] = (seconds * factor).into();
            }
        }
        fs::write(&path, old.to_string()).expect("written");
        let end = end(&mut command(&with_baseline));
        assert_eq!(end.code, code, "{}", end.stdout);
        assert!(end.stdout.contains(word), "{}", end.stdout);
        let said = end.stderr.contains("slower than the baseline");
        assert_eq!(said, code == Some(5), "{}", end.stderr);
    }
}

/// What can be known before is not found out after all has been measured; what cannot be loses no row.
#[test]
fn a_baseline_of_other_rows_is_refused_at_once_or_below_the_rows() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("old.json");
    let name = path.to_str().expect("UTF-8");
    let mut old = measured(name);
    let started = Instant::now();
    let long = ["bench", "-n", "40", "--kernel", "serial,rayon", "--time", "60", "--seed", "2"];
    tessera(&[&long[..], &["--baseline", name]].concat()).refused(2, &["no row of the same"]);
    assert!(started.elapsed().as_secs() < 30, "it was measured first");

    for row in old["rows"].as_array_mut().expect("rows") {
        row["device"] = "cuda:7".into();
    }
    fs::write(&path, old.to_string()).expect("written");
    let ended = tessera(&[&QUICK[..], &["--baseline", name, "--idle-wait", "0"]].concat());
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(
        ended.stdout.contains("rayon") && ended.stderr.contains("no row of the same"),
        "{ended}"
    );

    old["rows"][0]["seconds"]["median"] = 1e300.into();
    fs::write(&path, old.to_string()).expect("written");
    tessera(&[&QUICK[..], &["--baseline", name]].concat()).refused(2, &["1e300 s", "no time"]);
}

/// A turn's process ends with the one that waits for it, however that one ends.
#[cfg(target_os = "linux")]
#[test]
fn a_turn_does_not_outlive_its_parent() {
    let line =
        "bench -m 1500 -n 1501 -k 1502 --kernel serial --peers-only none --time 60 --idle-wait 0";
    let words: Vec<&str> = line.split(' ').collect();
    let mut parent = command(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let children = || {
        let all = fs::read_dir("/proc").expect("read").filter_map(|entry| Some(entry.ok()?.path()));
        let line = |path: PathBuf| fs::read(path.join("cmdline")).ok();
        let lines = all.filter_map(line).map(|line| String::from_utf8_lossy(&line).into_owned());
        lines.filter(|line| line.contains("--alone") && line.contains("\x001501\0")).count()
    };
    let wait_for = |count: usize| {
        let started = Instant::now();
        while children() != count && started.elapsed().as_secs() < 60 {
            std::thread::sleep(Duration::from_millis(50));
        }
        children()
    };
    assert_eq!(wait_for(1), 1, "a turn begins");
    parent.kill().expect("killed");
    parent.wait().expect("it ends");
    assert_eq!(wait_for(0), 0, "a turn outlives its parent");
}

#[test]
fn turns_are_announced_where_there_is_no_terminal() {
    let line = "bench -n 40 --kernel serial --peers-only none --rounds 2 --time 0.02 --idle-wait 0";
    let ended = tessera(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.stderr.contains("2 turns of 0.02 s at most"), "{ended}");
    assert!(ended.stderr.contains("preparing serial"), "{ended}");
}

#[test]
fn replay_measures_a_document_or_one_row_again() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("b.json");
    let name = path.to_str().expect("UTF-8");
    let document = measured(name);
    let text = tessera(&["replay", name, "--time", "0.05"]).fine();
    assert!(
        text.contains("serial") && text.contains("rayon") && text.contains("of then"),
        "{text}"
    );
    fs::write(&path, document["rows"][1].to_string()).expect("written");
    let text = tessera(&["replay", name, "--time", "0.05"]).fine();
    assert!(!text.contains("serial") && text.contains("rayon"), "{text}");
}

/// Peers may be on the machine or not; what takes part is measured and checked, the rest is named.
#[test]
fn peers_and_implementations_take_turns_in_processes_of_their_own() {
    let folder = TempDir::new().expect("a folder");
    let line = "bench --shapes 40,1,9;33,20,17 --kernel rayon,serial --peers-only openblas,onednn,gemm \
                --device cpu --threads 1 --time 0.02 --rounds 3 --idle-wait 0 --format json";
    let words: Vec<&str> = line.split_whitespace().collect();
    let path = folder.path().to_str().expect("UTF-8");
    let document = tessera(&[&words[..], &["--peer-path", path]].concat()).fine();
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
    let skipped = document["skipped"].as_array().expect("skipped");
    let of = |kernel: &str| rows.iter().filter(|row| row["kernel"] == kernel).collect::<Vec<_>>();
    for own in ["rayon", "serial"] {
        let sizes: Vec<_> = of(own).iter().map(|row| row["m"].as_u64()).collect();
        assert_eq!(sizes, [Some(40), Some(33)], "{own}");
        assert!(of(own).iter().all(|row| row["peer"].is_null()));
    }
    for peer in ["openblas", "onednn", "gemm"] {
        let named = skipped.iter().filter(|skipped| skipped["kernel"] == peer).count();
        match of(peer).len() {
            0 => assert_eq!(named, 1, "{peer} is named once, not at each size"),
            sizes => assert_eq!((sizes, named), (2, 0), "{peer}"),
        }
        assert!(of(peer).iter().all(|row| row["peer"].is_string()));
    }
    for row in rows {
        let rounds = row["rounds"].as_array().expect("rounds");
        assert_eq!((rounds.len(), &row["seconds"]["runs"]), (3, &3.into()));
        let mut medians: Vec<f64> =
            rounds.iter().map(|round| round["median"].as_f64().expect("a number")).collect();
        medians.sort_by(f64::total_cmp);
        assert_eq!(row["seconds"]["median"].as_f64(), Some(medians[1]));
        assert_eq!(row["check"]["ok"], true);
        assert!(row["percent_of_peak"].as_f64().is_some_and(|percent| percent > 0.0), "{row}");
        assert!(row["busy_before"].is_number() || row["busy_before"].is_null());
    }
    // A row's own command measures the row, in rounds again.
    let words: Vec<&str> =
        rows[0]["command"].as_array().expect("words").iter().flat_map(Value::as_str).collect();
    let again = tessera(&[&words[1..], &["--format", "json"]].concat()).fine();
    let again: Value = serde_json::from_str(&again).expect("JSON");
    for key in ["kernel", "device", "m", "n", "k", "dtype", "seed", "threads"] {
        assert_eq!(again["rows"][0][key], rows[0][key], "{key}");
    }
    assert_eq!(again["rows"][0]["rounds"].as_array().map(Vec::len), Some(3));
}

#[test]
fn what_cannot_be_measured_or_compared_is_one_line() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("old.json");
    let name = path.to_str().expect("UTF-8");
    for (text, word) in [
        ("{", "not JSON"),
        ("[]", "no `format`"),
        (r#"{"format":"tessera-bench 0","rows":[],"skipped":[]}"#, "tessera-bench 0"),
        (r#"{"format":"tessera-bench 1","rows":[],"skipped":[]}"#, "no row of the same"),
    ] {
        fs::write(&path, text).expect("written");
        tessera(&[&QUICK[..], &["--baseline", name]].concat()).refused(2, &[word]);
    }
    tessera(&["replay", "/nonexistent/row.json"]).refused(2, &["/nonexistent/row.json"]);
    tessera(&["bench", "--squares", "8,0"]).refused(2, &["sizes start at 1"]);
    tessera(&["bench", "--squares", "8", "-n", "9"]).refused(2, &["--squares"]);
    tessera(&["bench", "--shapes", "8,9"]).refused(2, &["`8,9`", "m,n,k"]);
    tessera(&["bench", "--shapes", "8,9,0"]).refused(2, &["sizes start at 1"]);
    tessera(&["bench", "--peers-only", "openblass"]).refused(2, &["`openblass`", "onednn"]);
    tessera(&["bench", "--peers-only", "none", "--kernel", "none"]).refused(2, &["`none`"]);
    tessera(&["bench", "--peers", "--idle-wait", "long"]).refused(2, &["--idle-wait"]);
    tessera(&["bench", "--spread", "0"]).refused(2, &["spread"]);
    tessera(&["bench", "--cache", "tepid"]).refused(2, &["warm, cold"]);
    tessera(&["bench", "--dtype", "i32", "--alpha", "0.5"]).refused(2, &["--alpha"]);
    tessera(&["bench", "--kernel", "tilde32"]).refused(2, &["tiled32"]);
    tessera(&["bench", "--device", "cuda"]).refused(3, &[]);
}

#[test]
fn ragged_shapes_come_after_the_others_and_auto_is_for_gpus() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("ragged.json");
    let words = "bench --kernel cpu_packed,auto --device cpu --squares 20 --ragged 2 --time 0.01 --check none --out";
    let words: Vec<&str> = words.split(' ').chain(path.to_str()).collect();
    tessera(&words).fine();
    let text = fs::read_to_string(&path).expect("read");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["m"], 20);
    for row in &rows[1..] {
        for size in ["m", "n", "k"] {
            let size = row[size].as_u64().expect("a size");
            assert!((17..=9000).contains(&size) && size % 8 != 0, "{row}");
        }
    }
    let skipped = document["skipped"].as_array().expect("skipped");
    assert_eq!(skipped.len(), 3);
    assert!(skipped.iter().all(|skipped| skipped["kernel"] == "auto"), "{skipped:?}");
}
