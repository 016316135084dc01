//! What a run found, as a table, Markdown, CSV or JSON: four views of one [`Document`].

pub mod accuracy;
pub mod bench;
mod borders;
pub mod bytes;
mod counted;
pub mod duration;
mod formula;
pub(crate) mod layout;
pub(crate) mod skipped;
mod table;

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

pub(crate) use self::borders::borders;
pub(crate) use self::counted::counted;
use crate::run::Document;

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// Aligned columns for a terminal.
    #[default]
    Table,
    /// A Markdown table.
    Markdown,
    /// One line for each row, with a header.
    Csv,
    /// One document with everything.
    Json,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Table, Self::Markdown, Self::Csv, Self::Json];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Markdown => "md",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }

    /// The format that a file's ending asks for: .md, .csv or .json, else a table.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        ending.parse().unwrap_or_default()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| format!("`{name}` is none of table, md, csv, json"))
    }
}

/// Writes a document.
///
/// # Errors
/// What the writers of CSV and JSON answer, which for these types is nothing.
pub fn render(document: &Document, format: Format, colour: bool) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => table::terminal(document, colour),
        Format::Markdown => table::markdown(document),
        Format::Csv => csv(document)?,
        Format::Json => serde_json::to_string_pretty(document)? + "\n",
    })
}

fn csv(document: &Document) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "kernel",
        "device",
        "seconds",
        "estimated",
        "gflops",
        "h2d_seconds",
        "kernel_seconds",
        "d2h_seconds",
        "speedup",
        "runs",
        "check_method",
        "check_ok",
        "check_max_error",
        "check_bound",
        "then_seconds",
    ])?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for row in &document.rows {
        let check = row.check.as_ref();
        writer.write_record([
            row.kernel.to_owned(),
            row.device.clone(),
            row.seconds.to_string(),
            row.estimated.to_string(),
            row.gflops.to_string(),
            number(row.h2d_seconds),
            number(row.kernel_seconds),
            number(row.d2h_seconds),
            number(row.speedup),
            row.runs.to_string(),
            check.map_or_else(String::new, |check| check.method.to_owned()),
            check.map_or_else(String::new, |check| check.ok.to_string()),
            number(check.map(|check| check.max_error)),
            number(check.map(|check| check.bound)),
            number(row.then_seconds),
        ])?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
