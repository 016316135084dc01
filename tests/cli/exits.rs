//! Exit codes: what ran, what could not, and why.

use std::fs;

use tempfile::TempDir;

use super::{Ended, tessera};

fn ended(line: &str) -> Ended {
    tessera(&line.split(' ').collect::<Vec<_>>())
}

/// A script whose GPU went away must not take an empty table for a success.
#[test]
fn a_command_that_ran_nothing_does_not_end_well() {
    for (line, code) in [
        ("-n 8 --kernel tiled16", 3),
        ("-n 8 --kernel tiled*", 3),
        ("-n 8 --kernel tiled16 --device cpu", 2),
        ("run --device emulate -n 8 -k 8 --dtype f32 --kernel f16x3", 2),
        ("run --device emulate -n 8 --kernel serial", 2),
        ("bench -n 8 --kernel tiled16 --time 0.01", 3),
        ("bench -n 8 --kernel auto --time 0.01", 3),
        ("bench -n 8 --kernel none --peers-only cublas --time 0.01 --rounds 1 --idle-wait 0", 3),
        ("sweep --sizes 8:16:8 --kernel tiled16", 3),
        ("sweep --sizes 8:16:8 --kernel tiled16 --device cpu", 2),
        ("accuracy -n 8 -k 8 --kernel f16x3", 3),
        ("accuracy -n 8 -k 8 --kernel f16x3 --device cpu", 2),
    ] {
        let ended = ended(line);
        assert_eq!(ended.code, Some(code), "{ended}");
        assert!(ended.stderr.contains("error: nothing was run: "), "{ended}");
        assert_eq!(ended.stderr.contains("run: no CUDA device: "), code == 3, "{ended}");
        // What was asked for is shown all the same, with the reasons.
        assert!(!ended.stdout.is_empty(), "{ended}");
        assert!(!ended.stdout.contains("no CUDA device: no CUDA device"), "{ended}");
    }
}

#[test]
fn a_command_that_ran_something_ends_well() {
    for line in [
        "-n 8 --kernel tiled16,serial",
        "bench -n 8 --kernel tiled16,serial --time 0.01 --check none",
        "sweep --sizes 8 --kernel tiled16,serial",
        "accuracy -n 8 -k 8 --kernel f16x3,serial",
    ] {
        ended(line).fine();
    }
}

#[test]
fn a_size_that_no_memory_has_is_no_wrong_result() {
    for line in ["sweep --sizes 18446744073709551615", "-n 18446744073709551615"] {
        let ended = ended(line);
        assert_eq!(ended.stderr.matches("more bytes than can be addressed").count(), 1, "{ended}");
        ended.code_is(2, "more bytes than can be addressed");
    }
    ended("sweep --sizes 3000000 --kernel serial").code_is(4, "bytes");
}

impl Ended {
    /// It ended with this code, and says this.
    #[track_caller]
    fn code_is(&self, code: i32, word: &str) {
        assert_eq!(self.code, Some(code), "{self}");
        assert!(self.stdout.contains(word) || self.stderr.contains(word), "{self}");
    }
}

#[test]
fn a_record_that_nobody_could_ask_for_is_not_replayed() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("old.json");
    let name = path.to_str().expect("UTF-8");
    let line =
        format!("bench -n 8 --kernel serial --device cpu --time 0.01 --check none --out {name}");
    ended(&line).fine();
    let text = fs::read_to_string(&path).expect("read");
    let measured: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for (key, value, word) in [
        ("n", serde_json::json!(0), "row 1: n is 0, sizes start at 1"),
        ("threads", serde_json::json!(0), "row 1: threads are 0"),
        ("threads", serde_json::json!(1_000_000), "row 1: threads are 1000000"),
        ("alpha", serde_json::json!(1e39), "--alpha 1e39 is beyond the largest f32"),
    ] {
        let mut document = measured.clone();
        document["rows"][0][key] = value;
        fs::write(&path, document.to_string()).expect("written");
        tessera(&["replay", name]).refused(2, &[word]);
    }
    let mut document = measured.clone();
    document["rows"] = serde_json::json!([]);
    fs::write(&path, document.to_string()).expect("written");
    tessera(&["replay", name]).refused(2, &[name, "no rows"]);
    // A kernel that a CPU does not run.
    let mut document = measured;
    document["rows"][0]["kernel"] = "tiled16".into();
    fs::write(&path, document.to_string()).expect("written");
    let ended = tessera(&["replay", name]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("nothing was run"), "{ended}");
}
