//! Files torn, foreign and impossible.

use super::head as begin;
use super::*;

const PLAN: &[(usize, &str)] = &[(8, "serial"), (16, "serial")];

fn settings() -> Settings {
    Settings {
        sizes: vec![8, 16],
        kernels: vec!["serial".to_owned()],
        dtype: "f32".to_owned(),
        device: "cpu".to_owned(),
        threads: 2,
        alpha: 1.0,
        beta: 0.0,
        seed: 1,
        dist: "uniform".to_owned(),
        check: "auto".to_owned(),
        cpu: "a processor".to_owned(),
        gpu: None,
        driver: None,
        version: "0".to_owned(),
    }
}

fn measured(n: usize) -> Point {
    Point {
        n,
        kernel: "serial".to_owned(),
        device: Some("cpu".to_owned()),
        seconds: Some(0.125),
        gflops: Some(3.5),
        runs: Some(3),
        check: Some("full".to_owned()),
        ok: Some(true),
        max_error: Some(0.0),
        bound: Some(2.0),
        ..Point::default()
    }
}

fn skipped() -> Point {
    Point {
        n: 16,
        kernel: "serial".to_owned(),
        skipped: Some("it says \"no\",\nin two lines".to_owned()),
        ..Point::default()
    }
}

fn message<T>(result: Result<T, Error>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

/// Every place that a stop can tear a file at.
#[test]
fn a_file_torn_anywhere_is_mended_and_loses_no_whole_row() {
    let folder = tempfile::tempdir().unwrap();
    for format in [RowFormat::Csv, RowFormat::JsonLines] {
        let path = folder.path().join(format!("{format:?}"));
        let mut record = Record::create(&path, format, &settings()).unwrap();
        record.add(&measured(8)).unwrap();
        record.add(&skipped()).unwrap();
        // The file is another's from here on.
        drop(record);
        let whole = std::fs::read_to_string(&path).unwrap();
        let head = begin(format, &settings()).unwrap().lines().count();
        assert_eq!(whole.lines().count(), head + 2, "{whole}");
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut record, points) = Record::resume(&path, format, &settings(), PLAN).unwrap();
            let kept = whole[..cut].matches('\n').count().saturating_sub(head);
            assert_eq!(points.len(), kept, "{format:?} cut at {cut}");
            if kept > 0 {
                assert_eq!(points[0], measured(8));
            }
            for point in &[measured(8), skipped()][kept..] {
                record.add(point).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "cut at {cut}");
        }
    }
}

#[test]
fn a_file_has_one_writer_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    let format = RowFormat::Csv;
    let first = Record::create(&path, format, &settings()).unwrap();
    let said = message(Record::resume(&path, format, &settings(), PLAN));
    assert!(said.contains("another sweep is writing it"), "{said}");
    drop(first);
    let (second, points) = Record::resume(&path, format, &settings(), PLAN).unwrap();
    assert_eq!(points, []);
    let said = message(Record::resume(&path, format, &settings(), PLAN));
    assert!(said.contains("another sweep is writing it"), "{said}");
    drop(second);
}

#[test]
fn times_that_cannot_be_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    let format = RowFormat::Csv;
    let head = begin(format, &settings()).unwrap();
    for seconds in [f64::INFINITY, f64::NAN, 0.0, -1.0, 1e308, 1e-320] {
        let point = Point { seconds: Some(seconds), ..measured(8) };
        std::fs::write(&path, head.clone() + &line(format, &point).unwrap()).unwrap();
        let said = message(Record::resume(&path, format, &settings(), PLAN));
        assert!(said.contains("line 3 cannot be read: seconds is "), "{seconds}: {said}");
    }
    let point = Point { gflops: Some(f64::NAN), ..measured(8) };
    std::fs::write(&path, head + &line(format, &point).unwrap()).unwrap();
    let said = message(Record::resume(&path, format, &settings(), PLAN));
    assert!(said.contains("line 3 cannot be read: gflops"), "{said}");
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let format = RowFormat::JsonLines;
    let head = begin(format, &settings()).unwrap();
    let other = |from: &str, to: &str| head.replace(from, to);
    for (text, words) in [
        ("my notes\n".to_owned(), "no file of `tessera sweep`"),
        ("{\"a\": 1}\n".to_owned(), "no file of `tessera sweep`"),
        (other("sweep 1", "sweep 9"), "`tessera-sweep 9`"),
        (other("\"threads\":2", "\"threads\":8"), "threads is 8, not 2"),
        (other("[8,16]", "[8]"), "sizes is [8], not [8,16]"),
        (other("{\"format", "# {\"format"), "other format"),
        (head.clone() + "{\"n\": 8\n", "line 2 cannot be read"),
        (head.clone() + "{}\n" + "{}\n", "line 2 cannot be read"),
    ] {
        let text = text + "torn";
        std::fs::write(&path, &text).unwrap();
        let said = message(Record::resume(&path, format, &settings(), PLAN));
        assert!(said.contains(words) && !said.contains('\n'), "{text}: {said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "the file was changed");
    }
    let row = |n| line(format, &measured(n)).unwrap();
    for (rows, words) in [
        (row(16), "line 2 is serial at 16, where this sweep has serial at 8"),
        (row(8) + &row(16) + &row(16), "line 4 is serial at 16, behind the last row"),
    ] {
        let text = head.clone() + &rows + "torn";
        std::fs::write(&path, &text).unwrap();
        let said = message(Record::resume(&path, format, &settings(), PLAN));
        assert!(said.contains(words), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "the file was changed");
    }
    let said = message(Record::create(&path, format, &settings()));
    assert!(said.contains("--resume"), "{said}");
    let nowhere = folder.path().join("no/where");
    assert!(message(Record::create(&nowhere, format, &settings())).contains("cannot be written"));
    assert!(
        message(Record::resume(&nowhere, format, &settings(), PLAN)).contains("cannot be written")
    );
    let csv = RowFormat::Csv;
    let head = begin(csv, &settings()).unwrap();
    std::fs::write(&path, head + "8,serial,cpu\n").unwrap();
    assert!(
        message(Record::resume(&path, csv, &settings(), PLAN)).contains("line 3 cannot be read")
    );
}
