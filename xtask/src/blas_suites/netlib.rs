//! The reference BLAS' own testers of levels 2 and 3, in Fortran and in C.
//!
//! For each routine there is a line that its error exits passed, and one or two for its results. Neither NaN nor
//! results that are only suspect are failures to the testers, so the words themselves are looked for.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Outcome, Preload, output_of, sources};
use crate::command;

pub(super) const PACKAGES: &[&str] = &["libblas-test", "libblas3", "liblapack3"];
pub(super) const ILP64_PACKAGES: &[&str] = &["libblas64-3", "libblas64-test"];
pub(super) const NEWER_PACKAGES: &[&str] = &["gfortran", "libblas3"];

const LETTERS: [char; 4] = ['s', 'd', 'c', 'z'];

/// Routines of a level that a tester knows.
fn routines(level: u32, letter: char) -> usize {
    match (level, letter) {
        (2, 's' | 'd') => 16,
        (2, _) => 17,
        (_, 's' | 'd') => 6,
        (_, _) => 9,
    }
}

/// The folder of testers, and of the library below, with 32-bit and with 64-bit integers.
const SHORT: &str = "blas";
const LONG: &str = "blas64";

/// The testers in Fortran, with their own sizes.
pub(super) fn fortran(preload: &Preload) -> Result<Outcome> {
    fortran_in(preload, SHORT, 3)
}

/// Those of level 2.
pub(super) fn fortran_level2(preload: &Preload) -> Result<Outcome> {
    fortran_in(preload, SHORT, 2)
}

/// The same with 64-bit integers.
pub(super) fn fortran_ilp64(preload: &Preload) -> Result<Outcome> {
    fortran_in(preload, LONG, 3)
}

fn fortran_in(preload: &Preload, folder: &str, level: u32) -> Result<Outcome> {
    each(
        2,
        |letter| routines(level, letter),
        |letter, scratch| {
            let testers = preload.folder.join(folder);
            let input = testers.join(format!("{letter}blat{level}.in"));
            run(preload, &testers.join(format!("xblat{level}{letter}")), &input, scratch)
        },
    )
}

/// The same with sizes on both sides of what a tile holds.
pub(super) fn fortran_long(preload: &Preload) -> Result<Outcome> {
    each(
        2,
        |letter| routines(3, letter),
        |letter, scratch| {
            let testers = preload.folder.join(SHORT);
            let path = testers.join(format!("{letter}blat3.in"));
            let stock = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let long = with_long_list(&stock).context("the tester's input has no list of sizes")?;
            let input = scratch.join("long.in");
            fs::write(&input, long)?;
            run(preload, &testers.join(format!("xblat3{letter}")), &input, scratch)
        },
    )
}

/// The testers of release 3.12.1, which know `gemmtr`, compiled here.
pub(super) fn newer(preload: &Preload) -> Result<Outcome> {
    let sources = sources::unpacked("lapack", "trixie", &["*/BLAS/TESTING/*"])?;
    let testers = sources.join("BLAS/TESTING");
    each(
        2,
        |letter| routines(3, letter) + 1,
        |letter, scratch| {
            let program = scratch.join(format!("xblat3{letter}"));
            let mut compiler = Command::new("gfortran");
            compiler.args(["-O1", "-w", "-std=legacy", "-o"]).arg(&program);
            compiler.arg(testers.join(format!("{letter}blat3.f"))).arg(preload.library()?);
            compiler.arg(preload.folder.join("blas/libblas.so.3"));
            command::run(&mut compiler)?;
            let input = testers.join(format!("{letter}blat3.in"));
            run(preload, &program, &input, scratch)
        },
    )
}

/// The testers in C, with both orders of storage.
pub(super) fn c(preload: &Preload) -> Result<Outcome> {
    c_in(preload, SHORT, 3)
}

/// Those of level 2.
pub(super) fn c_level2(preload: &Preload) -> Result<Outcome> {
    c_in(preload, SHORT, 2)
}

/// The same with 64-bit integers.
pub(super) fn c_ilp64(preload: &Preload) -> Result<Outcome> {
    c_in(preload, LONG, 3)
}

fn c_in(preload: &Preload, folder: &str, level: u32) -> Result<Outcome> {
    each(
        3,
        |letter| routines(level, letter),
        |letter, scratch| {
            let testers = preload.folder.join(folder);
            let input = testers.join(format!("{letter}in{level}"));
            run(preload, &testers.join(format!("x{letter}cblat{level}")), &input, scratch)
        },
    )
}

/// An input whose list of sizes is a longer one.
pub(super) fn with_long_list(stock: &str) -> Option<String> {
    let mut lines: Vec<&str> = stock.lines().collect();
    let count = lines.iter().position(|line| line.contains("NUMBER OF VALUES OF N"))?;
    lines[count] = "9 NUMBER OF VALUES OF N";
    *lines.get_mut(count + 1)? = "0 1 5 8 15 16 33 64 65 VALUES OF N";
    Some(lines.join("\n") + "\n")
}

/// The output of a tester, and of the file that it writes.
fn run(preload: &Preload, program: &Path, input: &Path, scratch: &Path) -> Result<String> {
    let file = File::open(input).with_context(|| input.display().to_string())?;
    let mut text = output_of(preload.command(program).stdin(file), scratch)?;
    for entry in fs::read_dir(scratch)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "out") {
            text.push_str(&fs::read_to_string(&path)?);
            fs::remove_file(&path)?;
        }
    }
    Ok(text)
}

fn each(
    lines: usize,
    routines: impl Fn(char) -> usize,
    run: impl Fn(char, &Path) -> Result<String>,
) -> Result<Outcome> {
    let scratch = tempfile::tempdir()?;
    let mut all = Outcome { passed: 0, expected: 0, complaints: Vec::new() };
    for letter in LETTERS {
        let (passed, complaints) = read(&run(letter, scratch.path())?);
        all.passed += passed;
        all.expected += lines * routines(letter);
        all.complaints.extend(complaints);
    }
    Ok(all)
}

/// How many lines say that something passed, and the lines that say otherwise.
fn read(text: &str) -> (usize, Vec<String>) {
    let passed = text.lines().filter(|line| line.contains(" PASSED THE ")).count();
    let is_bad = |line: &&str| {
        let words = ["FAIL", "SUSPECT", "****", "NaN", "symbol lookup error", "panicked"];
        words.iter().any(|word| line.contains(word))
    };
    (passed, text.lines().filter(is_bad).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_suspect_has_not_passed() {
        let text = " DGEMM  PASSED THE TESTS OF ERROR-EXITS\n\n \
            DGEMM  COMPLETED THE COMPUTATIONAL TESTS (17496 CALLS)\n \
            ******* BUT WITH MAXIMUM TEST RATIO     NaN - SUSPECT *******\n";
        let (passed, complaints) = read(text);
        assert_eq!(passed, 1);
        assert_eq!(complaints.len(), 1);
    }

    #[test]
    fn the_list_of_sizes_is_replaced() {
        let stock = "T\n6   NUMBER OF VALUES OF N\n0 1 2 3 5 9  VALUES OF N\n3  NUMBER";
        let long = with_long_list(stock).unwrap();
        assert!(long.contains("9 NUMBER OF VALUES OF N\n0 1 5 8 15 16 33 64 65 VALUES OF N\n3"));
        assert!(with_long_list("T\n").is_none());
    }
}
