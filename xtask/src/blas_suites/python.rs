//! The linear algebra in the tests of Debian's NumPy and SciPy, which call BLAS as a shared library.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::{Outcome, Preload, output_of};

pub(super) const PACKAGES: &[&str] = &[
    "libblas3",
    "liblapack3",
    "python3-hypothesis",
    "python3-numpy",
    "python3-pytest",
    "python3-scipy",
];

const LIBRARY: &str = "/usr/lib/python3/dist-packages";

/// Tests of NumPy 1.24.2. The reference LAPACK passes one more, which a preloaded library skips: its `dorgqr` is to find
/// NumPy's own handler of wrong arguments, which is in a module that is loaded for NumPy alone.
pub(super) fn numpy(preload: &Preload) -> Result<Outcome> {
    let core = |name: &str| format!("numpy/core/tests/test_{name}.py");
    let tests = ["multiarray", "einsum", "numeric"].map(core);
    let folders = ["numpy/linalg/tests".to_owned(), "numpy/matrixlib/tests".to_owned()];
    let tests: Vec<_> = tests.iter().chain(&folders).map(in_library).collect();
    pytest(preload, "/usr/bin/python3", &[], &tests, 3407, &[])
}

/// Tests of SciPy 1.10.1.
pub(super) fn scipy(preload: &Preload) -> Result<Outcome> {
    let tests = [in_library("scipy/linalg/tests")];
    pytest(preload, "/usr/bin/python3", &[], &tests, 3574, &[])
}

fn in_library(test: impl AsRef<Path>) -> PathBuf {
    Path::new(LIBRARY).join(test)
}

/// What passes of some files' tests in a Python, `chosen` being arguments that choose among them, and `explained` the
/// ends of the names of those that may fail, for a reason that is told where they are named.
pub(super) fn pytest(
    preload: &Preload,
    python: impl AsRef<Path>,
    chosen: &[&str],
    tests: &[PathBuf],
    expected: usize,
    explained: &[&str],
) -> Result<Outcome> {
    let scratch = tempfile::tempdir()?;
    let mut command = preload.command(python);
    command
        .args(["-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"])
        .args(chosen)
        .args(tests);
    let text = output_of(&mut command, scratch.path())?;
    let last = || text.lines().rev().take(20).collect::<Vec<_>>().join("\n");
    let passed = counted(&text, "passed").with_context(|| format!("no summary in:\n{}", last()))?;
    let failed = text.lines().filter(|line| line.starts_with("FAILED"));
    let name = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let is_explained =
        |line: &&str| explained.iter().any(|&explained| name(line).ends_with(explained));
    let (may_fail, failures): (Vec<&str>, Vec<&str>) = failed.partition(is_explained);
    if !may_fail.is_empty() {
        println!("{} failures are explained in xtask/src/blas_suites", may_fail.len());
    }
    let mut complaints: Vec<String> = failures.into_iter().map(str::to_owned).collect();
    for kind in ["failed", "error", "errors"] {
        let count = counted(&text, kind).unwrap_or(0);
        let count = if kind == "failed" { count.saturating_sub(may_fail.len()) } else { count };
        complaints.extend((count > 0).then(|| format!("{count} {kind}")));
    }
    Ok(Outcome { passed, expected: expected - may_fail.len(), complaints })
}

/// The number before a word of the last line.
fn counted(text: &str, word: &str) -> Option<usize> {
    let last = text.lines().rev().find(|line| line.contains(" in ") && line.contains("passed"))?;
    let words: Vec<&str> = last.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().position(|&it| it == word)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read() {
        let text =
            "....\nFAILED x\n2 failed, 3406 passed, 18 skipped, 8 xfailed in 95.20s (0:01:35)\n";
        assert_eq!(counted(text, "passed"), Some(3406));
        assert_eq!(counted(text, "failed"), Some(2));
        assert_eq!(counted(text, "errors"), None);
        assert_eq!(counted("Segmentation fault", "passed"), None);
    }
}
