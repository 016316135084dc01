//! What was found, as a table, Markdown, CSV or JSON: four views of one document.

mod accuracy;
pub(crate) mod bench;
mod borders;
pub mod bytes;
mod counted;
pub mod duration;
mod formula;
pub(crate) mod layout;
mod run;
pub(crate) mod skipped;
mod view;

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

pub(crate) use self::borders::borders;
pub(crate) use self::counted::counted;
pub(crate) use self::view::render;

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
