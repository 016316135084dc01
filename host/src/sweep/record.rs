//! The file of a sweep: a head that says what was asked for, then one line for each row, written when
//! the row is there.
//!
//! A file whose last line was torn by a stop loses that line and no other.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::row::{FORMAT, Point, RowFormat, Settings, head, line, point};
use crate::error::Error;
use crate::measure::is_time;
use crate::stdout::stdout;

/// Where rows are written, each at once.
pub struct Record {
    sink: Box<dyn Write>,
    format: RowFormat,
}

impl Record {
    /// Writes to standard output. Where nobody reads it, the first row says so.
    ///
    /// # Errors
    /// What standard output answers else.
    pub fn stdout(format: RowFormat, settings: &Settings) -> io::Result<Self> {
        let mut record = Self { sink: Box::new(stdout()?), format };
        match record.write(&head(format, settings)?) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(record),
        }
    }

    /// Begins a file that is not there yet.
    ///
    /// # Errors
    /// [`Error::SweepFile`] where it is there, or cannot be written.
    pub fn create(path: &Path, format: RowFormat, settings: &Settings) -> Result<Self, Error> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                let why = "it is there already; go on from it with --resume, or name another file";
                return refused(path, why);
            }
            refused(path, &format!("it cannot be written: {error}"))
        })?;
        lock(path, &file)?;
        let mut record = Self { sink: Box::new(file), format };
        head(format, settings)
            .and_then(|head| record.write(&head))
            .map_err(|error| refused(path, &format!("it cannot be written: {error}")))?;
        Ok(record)
    }

    /// Goes on with a file, which begins it where it is not there; also gives the rows that it has.
    /// `plan` is size and implementation of each row.
    ///
    /// # Errors
    /// [`Error::SweepFile`]: no file of a sweep, one of another version or other settings, a line that
    /// cannot be read or is of another row, a file that cannot be written. The file is then as it was.
    pub fn resume(
        path: &Path,
        format: RowFormat,
        settings: &Settings,
        plan: &[(usize, &str)],
    ) -> Result<(Self, Vec<Point>), Error> {
        let unwritable =
            |error: io::Error| refused(path, &format!("it cannot be written: {error}"));
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Self::create(path, format, settings)?, Vec::new()));
            }
            Err(error) => return Err(unwritable(error)),
        };
        // Before anything is read: what another sweep is writing is no state to go on from.
        lock(path, &file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(|error| refused(path, &format!("it cannot be read: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|_| refused(path, "it is no text"))?;
        let head = head(format, settings).map_err(unwritable)?;
        // What a stop left of the head itself.
        let (points, whole) = if text.len() < head.len() && head.starts_with(&text) {
            (Vec::new(), 0)
        } else {
            check_head(path, format, &text, &head)?;
            // Behind the last line break is what a stop left of a row.
            let whole = text.rfind('\n').map_or(0, |last| last + 1);
            (rows(path, format, &text[..whole], head.lines().count())?, whole)
        };
        check_rows(path, &points, plan, head.lines().count())?;
        file.set_len(whole as u64).map_err(unwritable)?;
        file.seek(SeekFrom::End(0)).map_err(unwritable)?;
        let mut record = Self { sink: Box::new(file), format };
        if whole == 0 {
            record.write(&head).map_err(unwritable)?;
        }
        Ok((record, points))
    }

    /// Adds a row.
    ///
    /// # Errors
    /// What the file answers.
    pub fn add(&mut self, point: &Point) -> io::Result<()> {
        let line = line(self.format, point)?;
        self.write(&line)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.sink.write_all(text.as_bytes())?;
        self.sink.flush()
    }
}

/// Keeps other sweeps off a file until it is closed.
fn lock(path: &Path, file: &File) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(refused(
            path,
            "another sweep is writing it; wait for its end, or name another file",
        )),
        // Not every file system has locks.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => {
            Err(refused(path, &format!("it cannot be locked: {error}")))
        }
    }
}

fn refused(path: &Path, why: &str) -> Error {
    Error::SweepFile { path: PathBuf::from(path), reason: why.to_owned() }
}
/// Refuses a file that does not begin as this sweep's would.
fn check_head(path: &Path, format: RowFormat, text: &str, head: &str) -> Result<(), Error> {
    if text.starts_with(head) {
        return Ok(());
    }
    let object = |text: &str| -> Option<Value> {
        let first = text.lines().next()?;
        serde_json::from_str(first.strip_prefix("# ").unwrap_or(first)).ok()
    };
    let no_sweep = || refused(path, "it is no file of `tessera sweep`: its first line is no head");
    let there = object(text).ok_or_else(no_sweep)?;
    match there.get("format").and_then(Value::as_str) {
        Some(FORMAT) => {}
        Some(other) => {
            let why =
                format!("it is a `{other}` file and this program reads `{FORMAT}`; begin anew");
            return Err(refused(path, &why));
        }
        None => return Err(no_sweep()),
    }
    if text.starts_with("# ") != (format == RowFormat::Csv) {
        return Err(refused(path, "it is of the other format; name it with --format csv or jsonl"));
    }
    let here = object(head).unwrap_or_default();
    let keys = here.as_object().into_iter().flatten();
    let differs = keys.filter(|(key, value)| there.get(key.as_str()) != Some(value));
    let said: Vec<String> =
        differs.map(|(key, value)| difference(key, &there[key], value)).collect();
    let said = if said.is_empty() { "its columns".to_owned() } else { said.join(", ") };
    Err(refused(path, &format!("it is of other settings: {said}; begin anew in another file")))
}

/// What differs, with both values where they are short.
fn difference(key: &str, there: &Value, here: &Value) -> String {
    match (there.to_string(), here.to_string()) {
        (there, here) if there.len() + here.len() < 120 => format!("{key} is {there}, not {here}"),
        _ => key.to_owned(),
    }
}

fn rows(path: &Path, format: RowFormat, text: &str, head: usize) -> Result<Vec<Point>, Error> {
    let lines = text.lines().enumerate().skip(head);
    lines
        .map(|(index, line)| {
            point(format, line)
                .and_then(possible)
                .map_err(|why| refused(path, &format!("line {} cannot be read: {why}", index + 1)))
        })
        .collect()
}

/// Refuses a row whose figures no measurement gives.
fn possible(point: Point) -> Result<Point, String> {
    let Point { seconds, gflops, h2d_seconds, kernel_seconds, d2h_seconds, .. } = &point;
    let times = [("seconds", seconds), ("kernel_seconds", kernel_seconds)];
    // A copy may be too short for the clock.
    let copies = [("h2d_seconds", h2d_seconds), ("d2h_seconds", d2h_seconds)];
    let copies = copies.into_iter().filter(|(_, copy)| **copy != Some(0.0));
    for (name, value) in times.into_iter().chain(copies) {
        if let Some(value) = value.filter(|value| !is_time(*value)) {
            return Err(format!("{name} is {value:e}, which is no time"));
        }
    }
    match gflops.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
        Some(rate) => Err(format!("gflops is {rate}, which is no rate")),
        None => Ok(point),
    }
}

/// Refuses rows that are not the first ones of the plan.
fn check_rows(
    path: &Path,
    points: &[Point],
    plan: &[(usize, &str)],
    head: usize,
) -> Result<(), Error> {
    for (index, point) in points.iter().enumerate() {
        let line = head + index + 1;
        let here = format!("line {line} is {} at {}", point.kernel, point.n);
        match plan.get(index) {
            Some((n, kernel)) if point.n == *n && point.kernel == *kernel => {}
            Some((n, kernel)) => {
                return Err(refused(
                    path,
                    &format!("{here}, where this sweep has {kernel} at {n}"),
                ));
            }
            None => {
                return Err(refused(path, &format!("{here}, behind the last row of this sweep")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
                let (mut record, points) =
                    Record::resume(&path, format, &settings(), PLAN).unwrap();
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
        assert!(
            message(Record::create(&nowhere, format, &settings())).contains("cannot be written")
        );
        assert!(
            message(Record::resume(&nowhere, format, &settings(), PLAN))
                .contains("cannot be written")
        );
        let csv = RowFormat::Csv;
        let head = begin(csv, &settings()).unwrap();
        std::fs::write(&path, head + "8,serial,cpu\n").unwrap();
        assert!(
            message(Record::resume(&path, csv, &settings(), PLAN))
                .contains("line 3 cannot be read")
        );
    }
}
