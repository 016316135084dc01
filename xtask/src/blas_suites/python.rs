//! The linear algebra in the tests of Debian's NumPy and SciPy, which call BLAS as a shared library.

use std::path::Path;

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

/// Tests of NumPy 1.24.2.
pub(super) fn numpy(preload: &Preload) -> Result<Outcome> {
    let core = |name: &str| format!("numpy/core/tests/test_{name}.py");
    let tests = ["multiarray", "einsum", "numeric"].map(core);
    let folders = ["numpy/linalg/tests".to_owned(), "numpy/matrixlib/tests".to_owned()];
    pytest(preload, tests.iter().chain(&folders), 3408)
}

/// Tests of SciPy 1.10.1.
pub(super) fn scipy(preload: &Preload) -> Result<Outcome> {
    pytest(preload, ["scipy/linalg/tests".to_owned()].iter(), 3574)
}

fn pytest<'a>(
    preload: &Preload,
    tests: impl Iterator<Item = &'a String>,
    expected: usize,
) -> Result<Outcome> {
    let scratch = tempfile::tempdir()?;
    let mut python = preload.command("/usr/bin/python3");
    python.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    python.args(tests.map(|test| Path::new(LIBRARY).join(test)));
    let text = output_of(&mut python, scratch.path())?;
    let last = || text.lines().rev().take(20).collect::<Vec<_>>().join("\n");
    let passed = counted(&text, "passed").with_context(|| format!("no summary in:\n{}", last()))?;
    let mut complaints: Vec<String> =
        text.lines().filter(|line| line.starts_with("FAILED")).map(str::to_owned).collect();
    for kind in ["failed", "error", "errors"] {
        complaints.extend(counted(&text, kind).map(|number| format!("{number} {kind}")));
    }
    Ok(Outcome { passed, expected, complaints })
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
