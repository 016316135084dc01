//! The rows of a sweep and its settings, as CSV or as JSON lines.
//!
//! Both formats begin with the settings. In JSON lines that is the first object; in CSV it is a first
//! line behind `# ` and the names of the columns behind that.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::measure::Verdict;
use crate::run::Row;

/// The version of the files that this module writes and reads.
pub const FORMAT: &str = "tessera-sweep 1";

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RowFormat {
    /// Columns, after a comment line with the settings.
    #[default]
    Csv,
    /// An object on each line, the settings first.
    JsonLines,
}

impl RowFormat {
    /// The format that a file's ending asks for: .jsonl and .json are JSON lines, all others CSV.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(std::ffi::OsStr::to_str) {
            Some("jsonl" | "json") => Self::JsonLines,
            _ => Self::Csv,
        }
    }
}

impl std::str::FromStr for RowFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "csv" => Ok(Self::Csv),
            "jsonl" => Ok(Self::JsonLines),
            _ => Err(format!("`{name}` is none of csv, jsonl")),
        }
    }
}

/// What a file's rows have in common: two files can be one sweep only where all of it is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Square sizes, ascending.
    pub sizes: Vec<usize>,
    /// Implementations, in the order of the registry.
    pub kernels: Vec<String>,
    /// Element type.
    pub dtype: String,
    /// `auto`, `cpu`, `emulate` or `cuda:I`.
    pub device: String,
    /// CPU threads.
    pub threads: usize,
    /// Scalar that multiplies A B.
    pub alpha: f64,
    /// Scalar that multiplies the old C.
    pub beta: f64,
    /// Seed of the inputs.
    pub seed: u64,
    /// How the inputs are drawn.
    pub dist: String,
    /// How results are checked.
    pub check: String,
    /// Processor.
    pub cpu: String,
    /// GPU, where there is one.
    pub gpu: Option<String>,
    /// Driver, where there is a GPU.
    pub driver: Option<String>,
    /// Version of this program.
    pub version: String,
}

/// One implementation at one size.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    /// Size of the square product.
    pub n: usize,
    /// The implementation.
    pub kernel: String,
    /// `cpu`, `cuda:I` or `emulate`; nothing of what follows where the row was skipped.
    pub device: Option<String>,
    /// From operands in host memory to the result in host memory.
    pub seconds: Option<f64>,
    /// `2n³` over the time of the computation alone, in 10⁹ a second.
    pub gflops: Option<f64>,
    /// Copying to the device.
    pub h2d_seconds: Option<f64>,
    /// The kernel between two events.
    pub kernel_seconds: Option<f64>,
    /// Copying from the device.
    pub d2h_seconds: Option<f64>,
    /// Runs that the time is the median of.
    pub runs: Option<usize>,
    /// How the result was checked.
    pub check: Option<String>,
    /// Whether it is right.
    pub ok: Option<bool>,
    /// Largest error found.
    pub max_error: Option<f64>,
    /// Largest error allowed.
    pub bound: Option<f64>,
    /// Why there is no measurement, where there is none.
    pub skipped: Option<String>,
}

impl Point {
    /// A row of a run at one size.
    pub(super) fn measured(n: usize, row: Row) -> Self {
        let verdict = row.check.map(|check| check.verdict);
        // A NaN or infinity has no place in JSON.
        let number = |value: fn(&Verdict) -> f64| {
            verdict.as_ref().map(value).filter(|value| value.is_finite())
        };
        Self {
            n,
            kernel: row.kernel.to_owned(),
            device: Some(row.device),
            seconds: Some(row.seconds),
            gflops: Some(row.gflops),
            h2d_seconds: row.h2d_seconds,
            kernel_seconds: row.kernel_seconds,
            d2h_seconds: row.d2h_seconds,
            runs: Some(row.runs),
            check: verdict.as_ref().map(|verdict| verdict.method.clone()),
            ok: verdict.as_ref().map(|verdict| verdict.ok),
            max_error: number(|verdict| verdict.max_error),
            bound: number(|verdict| verdict.bound),
            skipped: None,
        }
    }

    /// Why there is no row at a size.
    pub(super) fn skipped(n: usize, kernel: &str, reason: String) -> Self {
        Self { n, kernel: kernel.to_owned(), skipped: Some(reason), ..Self::default() }
    }
}

const COLUMNS: [&str; 14] = [
    "n",
    "kernel",
    "device",
    "seconds",
    "gflops",
    "h2d_seconds",
    "kernel_seconds",
    "d2h_seconds",
    "runs",
    "check",
    "ok",
    "max_error",
    "bound",
    "skipped",
];

/// The settings as a file's first object.
#[derive(Serialize)]
struct Head<'s> {
    format: &'static str,
    #[serde(flatten)]
    settings: &'s Settings,
}

/// The lines before the first row.
pub(super) fn head(format: RowFormat, settings: &Settings) -> io::Result<String> {
    let object = serde_json::to_string(&Head { format: FORMAT, settings })?;
    Ok(match format {
        RowFormat::JsonLines => format!("{object}\n"),
        RowFormat::Csv => format!("# {object}\n{}\n", COLUMNS.join(",")),
    })
}

pub(super) fn line(format: RowFormat, point: &Point) -> io::Result<String> {
    match format {
        RowFormat::JsonLines => Ok(serde_json::to_string(point)? + "\n"),
        RowFormat::Csv => {
            let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
            writer.serialize(point).map_err(io::Error::other)?;
            let bytes = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
            // A reason is one line, or a torn row could not be told from a whole one.
            let text = String::from_utf8(bytes).map_err(io::Error::other)?;
            Ok(text.trim_end().replace(['\n', '\r'], " ") + "\n")
        }
    }
}

/// Reads the line of a row; a refusal is one line.
pub(super) fn point(format: RowFormat, line: &str) -> Result<Point, String> {
    match format {
        RowFormat::JsonLines => serde_json::from_str(line).map_err(|error| error.to_string()),
        RowFormat::Csv => {
            let mut reader =
                csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
            let mut rows = reader.deserialize();
            match rows.next() {
                Some(Ok(point)) => Ok(point),
                Some(Err(error)) => Err(error.to_string().replace('\n', " ")),
                None => Err("it is empty".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_the_fields() {
        let object = serde_json::to_value(Point::default()).unwrap();
        let mut keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        let mut columns = COLUMNS.to_vec();
        keys.sort_unstable();
        columns.sort_unstable();
        assert_eq!(keys, columns);
    }
}
