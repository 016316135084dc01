//! R's own tests of matrix products and of LAPACK.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Outcome, Preload, output_of, sources};

pub(super) const PACKAGES: &[&str] = &["libblas3", "liblapack3", "r-base-core"];

/// The scripts; each stops where something is wrong.
const SCRIPTS: [&str; 2] = ["reg-BLAS.R", "lapack.R"];

pub(super) fn run(preload: &Preload) -> Result<Outcome> {
    let sources =
        sources::unpacked("r-base", "bookworm", &["*/tests/reg-BLAS.R", "*/tests/lapack.R"])?;
    let scratch = tempfile::tempdir()?;
    let mut outcome = Outcome { passed: 0, expected: SCRIPTS.len(), complaints: Vec::new() };
    for script in SCRIPTS {
        // R's start script puts folders of its own first.
        let line = "Rscript --vanilla \"$0\"; echo \"EXIT $?\"";
        let mut shell = preload.command("sh");
        shell.args(["-c", line]).arg(sources.join("tests").join(script));
        let folders = format!("{}:/usr/lib/R/lib", preload.reference());
        shell.env("R_LD_LIBRARY_PATH", folders);
        let text = output_of(&mut shell, scratch.path())?;
        outcome.passed += usize::from(text.lines().any(|line| line == "EXIT 0"));
        let errors =
            text.lines().filter(|line| line.starts_with("Error") || line.contains("is not TRUE"));
        outcome.complaints.extend(errors.map(str::to_owned));
    }
    outcome.complaints.extend(other_blas(preload)?);
    Ok(outcome)
}

/// A complaint where R's BLAS is not the one below this library.
fn other_blas(preload: &Preload) -> Result<Option<String>> {
    let mut r = Command::new("Rscript");
    r.args(["--vanilla", "-e", "cat(extSoftVersion()['BLAS'])"]);
    r.env("R_LD_LIBRARY_PATH", format!("{}:/usr/lib/R/lib", preload.reference()));
    let output = r.output().context("Rscript could not be started")?;
    let path = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = preload.folder.join("blas").display().to_string();
    Ok((!path.starts_with(&expected)).then(|| format!("the BLAS of R is {path}")))
}
