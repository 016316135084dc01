//! The tests that come with Octave's functions of linear algebra.

use std::fs;

use anyhow::{Context as _, Result};

use super::{Outcome, Preload, output_of};

pub(super) const PACKAGES: &[&str] = &["libblas3", "liblapack3", "octave"];

/// Tests of these functions in release 7.3, all of which pass on the reference BLAS.
const EXPECTED: usize = 345;

const SCRIPT: &str = r#"
names = {"commutation_matrix", "cond", "condest", "cross", "expm", "gallery", "glpk", "gls", ...
         "housh", "invhilb", "linsolve", "logm", "lscov", "lsqnonneg", "normest", "normest1", ...
         "null", "ols", "ordeig", "orth", "planerot", "qp", "rank", "sqp", "trace", "vecnorm"};
for i = 1:numel (names)
  try
    [passed, all] = test (names{i}, "quiet");
    printf ("RESULT %d %d %s\n", passed, all, names{i});
  catch err
    printf ("RESULT 0 1 %s: %s\n", names{i}, err.message);
  end
end
"#;

pub(super) fn run(preload: &Preload) -> Result<Outcome> {
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("suite.m"), SCRIPT)?;
    let mut octave = preload.command("octave-cli");
    let text = output_of(octave.args(["--norc", "suite.m"]), scratch.path())?;
    let mut outcome = Outcome { passed: 0, expected: EXPECTED, complaints: Vec::new() };
    for line in text.lines().filter_map(|line| line.strip_prefix("RESULT ")) {
        let (passed, all) = counts(line).with_context(|| format!("no counts in `{line}`"))?;
        outcome.passed += passed;
        if passed < all {
            outcome.complaints.push(line.to_owned());
        }
    }
    Ok(outcome)
}

fn counts(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}
