//! OpenBLAS' own unit tests, among them those of a fork of a process that has used its threads.
//!
//! Level 1 below is OpenBLAS', which alone has some of the routines.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Outcome, Preload, output_of, sources};
use crate::command;

pub(super) const PACKAGES: &[&str] =
    &["gcc", "libc6-dev", "liblapacke", "libopenblas-pthread-dev", "libopenblas0-pthread"];

/// What a configured build has in its `common.h`, as far as the tests use it.
const COMMON: &str = "#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <complex.h>
#include <cblas.h>
#define FLOATRET float
#define BLASFUNC(name) name##_
#define CREAL creal
#define CIMAG cimag
#define BUILD_SINGLE
#define BUILD_DOUBLE
#define BUILD_COMPLEX
#define BUILD_COMPLEX16
#include \"common_interface.h\"
";

/// Tests of release 0.3.21.
const EXPECTED: usize = 38;

pub(super) fn run(preload: &Preload) -> Result<Outcome> {
    let sources =
        sources::unpacked("openblas", "bookworm", &["*/utest/*", "*/common_interface.h"])?;
    let scratch = tempfile::tempdir()?;
    let program = scratch.path().join("utest");
    fs::write(scratch.path().join("common.h"), COMMON)?;
    fs::copy(sources.join("common_interface.h"), scratch.path().join("common_interface.h"))?;
    let triple = preload.folder.file_name().context("the folder of libraries has a name")?;
    let headers = std::path::Path::new("/usr/include").join(triple).join("openblas-pthread");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-w", "-I"]).arg(scratch.path()).arg("-I").arg(headers);
    compiler.arg("-o").arg(&program).arg(sources.join("utest/utest_main.c"));
    for entry in fs::read_dir(sources.join("utest"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("test_") && name.ends_with(".c") {
            compiler.arg(path);
        }
    }
    compiler.arg(preload.library()?);
    for library in ["openblas-pthread/libopenblas.so.0", "liblapacke.so.3"] {
        compiler.arg(preload.folder.join(library));
    }
    command::run(compiler.args(["-lm", "-lpthread"]))?;
    let text = output_of(&mut preload.command(&program), scratch.path())?;
    let passed = text.lines().filter(|line| line.trim_end().ends_with("[OK]")).count();
    let complaints = text.lines().filter(|line| line.contains("[FAIL]") || line.contains("ERR"));
    Ok(Outcome { passed, expected: EXPECTED, complaints: complaints.map(str::to_owned).collect() })
}
