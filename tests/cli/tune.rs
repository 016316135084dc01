//! `tune`: figures that are measured, kept, shown and forgotten; files that cannot be used.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{Ended, command, end};

/// The program with its figures in a folder.
fn tune(folder: &Path, args: &[&str]) -> Ended {
    let args = [&["tune"], args].concat();
    end(command(&args).env("TESSERA_CACHE", folder))
}

#[test]
fn figures_are_measured_kept_shown_and_forgotten() {
    let folder = TempDir::new().expect("a folder");
    // A folder that is not there yet is made.
    let cache = folder.path().join("of/tessera");
    let file = cache.join("figures.json");

    let shown = tune(&cache, &["--show"]).fine();
    assert!(shown.starts_with("from: assumptions; there is no "), "{shown}");
    assert!(shown.contains("GFLOP/s for each of") && shown.contains("gpu: none"), "{shown}");
    assert!(!file.exists());

    let measured = tune(&cache, &[]).fine();
    assert!(measured.starts_with("cpu: ") && measured.ends_with("gpu: none\n"), "{measured}");
    let json: Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("kept")).expect("JSON");
    assert_eq!(json["format"], "tessera-figures 4");
    // A column is as wide for every type.
    let lines = measured.lines().filter(|line| line.starts_with("  "));
    let widths: Vec<usize> = lines.map(|line| line.chars().count()).collect();
    assert!(widths.len() > 8 && widths.iter().all(|width| *width == widths[0]), "{measured}");
    assert_eq!(json["gpu"], Value::Null);
    let cubes = json["cpu"]["cubes"].as_array().expect("cubes");
    for dtype in lab::Types::ALL.map(lab::Types::name) {
        let own: Vec<_> = cubes.iter().filter(|cube| cube["dtype"] == dtype).collect();
        assert!(own.len() >= 4, "{dtype}: {own:?}");
        assert!(own.iter().all(|cube| cube["seconds"].as_f64().is_some_and(|s| s > 0.0)));
    }
    assert_eq!(fs::read_dir(&cache).expect("a folder").count(), 1, "nothing half-written");

    let shown = tune(&cache, &["--show"]).fine();
    let date = json["date"].as_str().expect("a date");
    assert!(shown.contains(&format!("measured on {date} by tessera ")), "{shown}");
    assert!(shown.contains(measured.trim_end_matches("gpu: none\n")), "{shown}\n{measured}");

    let forgotten = tune(&cache, &["--forget"]).fine();
    assert!(forgotten.ends_with("figures.json: deleted\n") && !file.exists(), "{forgotten}");
    assert!(tune(&cache, &["--forget"]).fine().ends_with("figures.json: there is none\n"));
}

#[test]
fn the_choice_is_judged_beside_every_way() {
    let folder = TempDir::new().expect("a folder");
    let judged = tune(folder.path(), &["--judge", "--most", "64"]).fine();
    let rows: Vec<Vec<&str>> = judged
        .lines()
        .filter(|line| line.starts_with('|') && line.contains("cpu_packed"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let sizes: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(sizes, ["8", "16", "32", "64"], "{judged}");
    for row in rows {
        let number = |cell: &str| cell.trim_end_matches('x').parse::<f64>().expect("a number");
        let (own, best, cost) = (number(row[2]), number(row[4]), number(row[5]));
        assert!(!row[2].contains('e') && !row[4].contains('e'), "{judged}");
        assert!((own / best - cost).abs() < 0.02 * cost + 0.01, "{judged}");
        assert!(number(row[6]) >= 1.0);
    }
    assert!(judged.contains("the choice costs at most "), "{judged}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is kept");

    let nothing = tune(folder.path(), &["--judge", "--most", "4"]);
    assert_eq!(nothing.code, Some(2), "{nothing}");
    assert!(nothing.stderr.contains("4 is not in 8.."), "{nothing}");
    assert_eq!(tune(folder.path(), &["--most", "64"]).code, Some(2));
}

#[test]
fn a_file_that_cannot_be_used_is_named_in_one_line() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("figures.json");
    for (text, reason) in [
        ("{\"format\": \"tessera-fig", "is not JSON"),
        ("{\"format\": \"tessera-figures 7\"}", "is `tessera-figures 7`, this program reads"),
        ("{\"format\": \"tessera-figures 4\", \"cpu\": 3}", "holds no figures"),
    ] {
        fs::write(&file, text).expect("written");
        let shown = tune(folder.path(), &["--show"]).fine();
        let first = shown.lines().next().unwrap_or_default();
        let path = file.display().to_string();
        for part in ["from: assumptions; ", &path, reason, "run `tessera tune`"] {
            assert!(first.contains(part), "{shown}");
        }
        assert!(shown.contains("assumed"), "{shown}");
    }
}

#[test]
fn figures_of_another_processor_are_not_shown_as_in_use() {
    let folder = TempDir::new().expect("a folder");
    let text = "{\"format\": \"tessera-figures 4\", \"version\": \"0\", \"date\": \"2026-01-01\", \
                \"cpu\": {\"processor\": \"a processor of old\", \"threads\": 1, \"cubes\": []}, \
                \"gpu\": null}";
    fs::write(folder.path().join("figures.json"), text).expect("written");
    let shown = tune(folder.path(), &["--show"]).fine();
    assert!(shown.contains("cpu: assumed, ") && !shown.contains("of old"), "{shown}");
}

#[test]
fn a_folder_that_takes_no_files_is_an_error() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("no folder");
    fs::write(&file, "").expect("written");
    let ended = tune(&file, &["--device", "cpu"]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("cannot make the folder"), "{ended}");
    // What was measured is not lost.
    assert!(ended.stdout.starts_with("cpu: ") && ended.stdout.contains("GFLOP/s"), "{ended}");
    assert_eq!(tune(folder.path(), &["--device", "cuda"]).code, Some(3));
}
