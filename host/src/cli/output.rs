//! Where text goes: data to standard output or a file, everything else to standard error.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::report::Format;
use crate::run::Observer;

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

/// Writes data to standard output. A reader that has gone away is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// A file that will be replaced only when everything is written.
///
/// Creating it checks that the place can be written, before any work is done for it.
pub(super) struct Replacement {
    file: tempfile::NamedTempFile,
    path: PathBuf,
}

impl Replacement {
    /// Prepares to replace `path`.
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        if path.is_dir() {
            bail!("cannot write {}: it is a folder; name a file", path.display());
        }
        // A device or a pipe would be replaced by a plain file.
        if path.exists() && !path.is_file() {
            bail!("cannot write {}: it is no plain file; name one", path.display());
        }
        // A link stays one: what it points to is replaced.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tessera-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // What a plain new file would get; the process's mask takes its share.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder).with_context(|| {
            format!("cannot write {}: its folder takes no new files", path.display())
        })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Where to write.
    pub(super) fn writer(&mut self) -> &mut impl Write {
        self.file.as_file_mut()
    }

    /// Puts the file in its place.
    pub(super) fn commit(self) -> anyhow::Result<()> {
        let Self { file, path } = self;
        file.as_file().sync_all().with_context(|| format!("cannot write {}", path.display()))?;
        file.persist(&path).with_context(|| format!("cannot replace {}", path.display()))?;
        Ok(())
    }
}

/// Where a document goes: the files of `--out`, else standard output.
pub(super) struct Outputs {
    files: Vec<(Replacement, Format)>,
    format: Option<Format>,
}

impl Outputs {
    /// Prepares every file, so that a place that cannot be written is known before any work. Without
    /// a format each file's ending says it.
    pub(super) fn new(paths: &[PathBuf], format: Option<Format>) -> anyhow::Result<Self> {
        let file = |path: &PathBuf| {
            Ok((Replacement::new(path)?, format.unwrap_or_else(|| Format::of(path))))
        };
        Ok(Self { files: paths.iter().map(file).collect::<anyhow::Result<_>>()?, format })
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
        for (mut file, format) in self.files {
            let text = render(format, false)?;
            let path = file.path.clone();
            let written = file
                .writer()
                .write_all(text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))
                .and_then(|()| file.commit());
            // What was measured is worth more than the place that it should have.
            if let Err(error) = written {
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
