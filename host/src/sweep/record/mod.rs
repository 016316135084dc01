//! The file of a sweep: a head that says what was asked for, then one line for each row, written when
//! the row is there.
//!
//! A file whose last line was torn by a stop loses that line and no other.

#[cfg(test)]
mod tests;

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
