//! ScaLAPACK's testers, in four processes that the launcher for clusters starts.

use std::fs;

use anyhow::{Context as _, Result};

use super::{Outcome, Preload, output_of};

pub(super) const PACKAGES: &[&str] =
    &["libblas3", "liblapack3", "openmpi-bin", "scalapack-mpi-test"];

/// How long a tester may take.
const LIMIT: &str = "120s";

/// The launcher, from the workspace's root on.
const LAUNCHER: &str = "crates/tessera_blas/cluster/tessera-mpirun";

/// Testers, and how many lines of each say that a test passed. Those of Cholesky in f32 and f64 are left out: they hang
/// with the reference BLAS as well.
const TESTERS: [(&str, usize); 12] = [
    ("PBLAS/spb3tst", 16),
    ("PBLAS/dpb3tst", 16),
    ("PBLAS/cpb3tst", 22),
    ("PBLAS/zpb3tst", 22),
    ("xslu", 240),
    ("xdlu", 240),
    ("xzlu", 240),
    ("xdqr", 352),
    ("xcqr", 352),
    ("xdinv", 320),
    ("xdls", 576),
    ("xcllt", 432),
];

pub(super) fn run(preload: &Preload) -> Result<Outcome> {
    let scratch = tempfile::tempdir()?;
    let inputs = std::path::Path::new("/usr/share/scalapack");
    for folder in [inputs.to_owned(), inputs.join("PBLAS")] {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if let (Some("dat"), Some(name)) =
                (path.extension().and_then(|it| it.to_str()), path.file_name())
            {
                fs::copy(&path, scratch.path().join(name))?;
            }
        }
    }
    let mut all = Outcome { passed: 0, expected: 0, complaints: Vec::new() };
    for (tester, expected) in TESTERS {
        let mut mpi = preload.limited(Some(LIMIT), crate::modules::root().join(LAUNCHER));
        mpi.env("TESSERA_BLAS_LIBRARY", preload.library()?);
        mpi.args(["--allow-run-as-root", "--oversubscribe", "-np", "4"]);
        mpi.arg(preload.folder.join("scalapack/openmpi-tests").join(tester));
        mpi.env("OMPI_MCA_mpi_yield_when_idle", "1");
        let text = output_of(&mut mpi, scratch.path())?;
        let passed = passed(&text);
        all.passed += passed.min(expected);
        all.expected += expected;
        if passed < expected {
            all.complaints.push(format!("{tester}: {passed} of {expected}"));
        }
        let failures = text.lines().filter(|line| is_failure(line));
        all.complaints.extend(failures.take(3).map(|line| format!("{tester}: {}", line.trim())));
    }
    Ok(all)
}

/// Lines about tests that passed, not those that explain the words.
fn passed(text: &str) -> usize {
    let is_pblas = |line: &str| line.contains("Computational check:") && line.contains(" PASSED ");
    let is_residual = |line: &str| line.contains(" PASSED") && line.starts_with("WALL");
    text.lines().filter(|line| is_pblas(line) || is_residual(line)).count()
}

fn is_failure(line: &str) -> bool {
    let is_pblas = line.contains("check:") && line.contains(" FAILED ");
    is_pblas || line.contains(" FAILED") && line.starts_with("WALL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_are_told_from_others() {
        let text = "  THRESH : If a residual is less than THRESH, CHECK is flagged as PASSED\n\
            WALL    13    13   4     3    5    4    1     0.00     0.00     3.91 PASSED\n\
            WALL      2      2   4   4     1     1      0.00        0.19 PASSED   0.4\n\
            ***** Input-only parameter check: PDGEMM  PASSED  *****\n\
            ***** Computational check: PDGEMM         PASSED  *****\n";
        assert_eq!(passed(text), 3);
        assert!(is_failure(" ***** Computational check: PDGEMM         FAILED  *****"));
        assert!(is_failure(
            "WALL    13    13   4     3    5    4    1     0.00     0.00     NaN FAILED"
        ));
        assert!(!is_failure("     SUBROUTINE  TOTAL TESTS  PASSED   FAILED  SKIPPED"));
    }
}
