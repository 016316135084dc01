//! Where text goes: data to standard output or a file, everything else to standard error.

mod replacement;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};

pub(super) use self::replacement::Replacement;
use crate::measure::Observer;
use crate::report::Format;
use crate::run::RowObserver;
use crate::stdout::stdout;

/// Prints an error and its causes on one line of standard error.
pub(super) fn complain(error: &anyhow::Error) {
    let line = format!("{error:#}").replace(['\n', '\r'], " ");
    let _ = writeln!(io::stderr(), "error: {line}");
}

/// Prints a line that is no data on standard error.
pub(super) fn advise(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Whether standard output takes colours: a terminal, and `NO_COLOR` is not set.
pub(super) fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

const UNWRITABLE: &str = "cannot write to standard output";

/// Writes data to standard output. A reader that has gone away is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let written = stdout().and_then(|stdout| {
        let mut stdout = stdout.lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    });
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context(UNWRITABLE),
    }
}

/// Where a document goes: the files of `--out`, else standard output.
pub(super) struct Outputs {
    files: Vec<(Replacement, Format)>,
    format: Option<Format>,
}

impl Outputs {
    /// Prepares every file, so that a place that cannot be written is known before any work, and so is
    /// that there is no standard output. Without a format each file's ending says it.
    pub(super) fn new(paths: &[PathBuf], format: Option<Format>) -> anyhow::Result<Self> {
        if paths.is_empty() {
            stdout().context(UNWRITABLE)?;
        }
        let mut files: Vec<(Replacement, Format)> = Vec::with_capacity(paths.len());
        for path in paths {
            if files.iter().any(|(file, _)| file.same_file(path)) {
                bail!("--out names one file twice, {}; name two", path.display());
            }
            files.push((Replacement::new(path)?, format.unwrap_or_else(|| Format::of(path))));
        }
        Ok(Self { files, format })
    }

    /// Writes what `render` makes of a format, with colours or without.
    pub(super) fn write(
        self,
        render: impl Fn(Format, bool) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        if self.files.is_empty() {
            return print(&render(self.format.unwrap_or_default(), colour())?);
        }
        let mut failed = None;
        for (file, format) in self.files {
            let text = render(format, false)?;
            // What was measured is worth more than the place that it should have.
            if let Err(error) = file.write(text.as_bytes()) {
                print(&text)?;
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// A line on standard error that says what is going on; silent where that is no terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        Self(bar)
    }
}

impl Observer for Progress {
    fn step(&mut self, what: &str) {
        self.0.set_message(what.to_owned());
    }
}

impl RowObserver for Progress {}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
