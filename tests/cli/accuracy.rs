//! `accuracy`: every way to sum against the truth.

use serde_json::Value;

use super::{command, end};

fn rows(args: &[&str]) -> Vec<Value> {
    let text = end(command(&["accuracy", "--format", "json", "-n", "24"]).args(args)).fine();
    let document: Value = serde_json::from_str(&text).expect("a document");
    document["rows"].as_array().expect("rows").clone()
}

#[test]
fn errors_are_those_of_chains_and_integers_are_exact() {
    let rows = rows(&["-k", "8,300", "--kernel", "serial,cpu_packed"]);
    assert_eq!(rows.len(), 9 * 2 * 2);
    for pair in rows.chunks_exact(2) {
        let figures = |row: &Value| {
            let of = |name: &str| row[name].as_f64().expect("a number");
            (of("frobenius"), of("worst"))
        };
        let (data, k) = (pair[0]["data"].as_str(), pair[0]["k"].as_f64().expect("a number"));
        let u = f64::from(f32::EPSILON) / 2.0;
        if data == Some("integers") {
            assert_eq!(pair.iter().map(figures).collect::<Vec<_>>(), [(0.0, 0.0); 2]);
            continue;
        }
        // Up to 128 elements of k both sum in one chain, and every figure is the same.
        assert_eq!(figures(&pair[0]) == figures(&pair[1]), k <= 128.0, "{pair:?}");
        // A rounding for each step of a chain and each addition of chains, of a sum that is at most |A||B|.
        for (row, roundings) in pair.iter().zip([k, k.min(128.0) + 3.0]) {
            let (frobenius, worst) = figures(row);
            assert!(worst > 0.0 && worst < (roundings + 1.0) * u, "{row:?}");
            // Where terms cancel the product is small beside what rounds them.
            let cancels = data == Some("cancellation");
            assert_eq!(frobenius > 100.0 * u, cancels, "{row:?}");
        }
    }
}

#[test]
fn errors_of_f64_are_told_in_its_own_units() {
    let rows = rows(&["--dtype", "f64", "-k", "8,300", "--kernel", "serial,cpu_packed"]);
    assert_eq!(rows.len(), 9 * 2 * 2);
    let u = f64::EPSILON / 2.0;
    for row in &rows {
        let of = |name: &str| row[name].as_f64().expect("a number");
        assert_eq!(row["ok"], true, "{row}");
        let exact = row["data"] == "integers";
        assert_eq!(of("worst") == 0.0, exact, "{row}");
        assert!(of("worst") < (of("k") + 1.0) * u, "{row}");
    }
}

#[test]
fn what_is_not_there_is_skipped_and_mistakes_are_named() {
    let ended = end(&mut command(&["accuracy", "-n", "8", "-k", "8", "--data", "normal"]));
    let skipped =
        "GPU kernels: TESSERA_LIBCUDA names a library that does not open (`tessera devices`";
    assert!(ended.stdout.contains("cpu_packed") && ended.stdout.contains(skipped), "{ended}");
    ended.fine();
    let refused = |args: &[&str], words: &[&str]| {
        end(command(&["accuracy"]).args(args)).refused(2, words);
    };
    refused(&["--data", "ones"], &["`ones`", "cancellation"]);
    refused(&["--dtype", "f16"], &["f32 and f64"]);
    refused(&["-k", "0"], &["sizes start at 1"]);
    refused(&["--kernel", "nonsense"], &["nonsense"]);
    refused(&["--out", "/nonexistent/x.md"], &["/nonexistent/x.md"]);
    end(&mut command(&["accuracy", "--device", "cuda"])).refused(3, &["no CUDA device"]);
}
