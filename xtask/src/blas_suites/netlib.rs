//! The reference BLAS' own testers of level 3, in Fortran and in C.
//!
//! For each routine there is a line that its error exits passed, and one or two for its results. Neither NaN nor
//! results that are only suspect are failures to the testers, so the words themselves are looked for.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result};

use super::{Outcome, Preload, output_of};

pub(super) const PACKAGES: &[&str] = &["libblas-test", "libblas3", "liblapack3"];

const LETTERS: [char; 4] = ['s', 'd', 'c', 'z'];

/// Routines of level 3 that a tester knows.
fn routines(letter: char) -> usize {
    if matches!(letter, 's' | 'd') { 6 } else { 9 }
}

/// The testers in Fortran, with their own sizes.
pub(super) fn fortran(preload: &Preload) -> Result<Outcome> {
    each(2, |letter, scratch| {
        let input = preload.folder.join(format!("blas/{letter}blat3.in"));
        run(preload, &format!("xblat3{letter}"), &input, scratch)
    })
}

/// The same with sizes on both sides of what a tile holds.
pub(super) fn fortran_long(preload: &Preload) -> Result<Outcome> {
    each(2, |letter, scratch| {
        let path = preload.folder.join(format!("blas/{letter}blat3.in"));
        let stock = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let long = with_long_list(&stock).context("the tester's input has no list of sizes")?;
        let input = scratch.join("long.in");
        fs::write(&input, long)?;
        run(preload, &format!("xblat3{letter}"), &input, scratch)
    })
}

/// The testers in C, with both orders of storage.
pub(super) fn c(preload: &Preload) -> Result<Outcome> {
    each(3, |letter, scratch| {
        let input = preload.folder.join(format!("blas/{letter}in3"));
        run(preload, &format!("x{letter}cblat3"), &input, scratch)
    })
}

/// An input whose list of sizes is a longer one.
fn with_long_list(stock: &str) -> Option<String> {
    let mut lines: Vec<&str> = stock.lines().collect();
    let count = lines.iter().position(|line| line.contains("NUMBER OF VALUES OF N"))?;
    lines[count] = "9 NUMBER OF VALUES OF N";
    *lines.get_mut(count + 1)? = "0 1 5 8 15 16 33 64 65 VALUES OF N";
    Some(lines.join("\n") + "\n")
}

/// The output of a tester, and of the file that it writes.
fn run(preload: &Preload, tester: &str, input: &Path, scratch: &Path) -> Result<String> {
    let program = preload.folder.join("blas").join(tester);
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

fn each(lines: usize, run: impl Fn(char, &Path) -> Result<String>) -> Result<Outcome> {
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
