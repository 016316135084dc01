//! Products of NumPy by its own BLAS and by the library: errors, and times where there are matrix units.

use std::process::Command;

use anyhow::Result;

use super::{Outcome, Preload, output_of};
use crate::{modules, venv};

pub(super) const PACKAGES: &[&str] = &["python3-venv"];

/// The program.
pub(super) const EXAMPLE: &str = "crates/tessera_blas/examples/numpy_products.py";
const SIZES: [&str; 2] = ["1000", "4096"];

/// Runs the example, which says what is wrong in lines that begin with a size. With a broken library an element is out
/// of its bounds.
pub(super) fn run(preload: &Preload) -> Result<Outcome> {
    let python =
        venv::ready("python-venv", &crate::python::PACKAGES).map_err(anyhow::Error::msg)?;
    let scratch = tempfile::tempdir()?;
    let mut command = Command::new(python.join("bin/python"));
    command.arg(modules::root().join(EXAMPLE)).arg(preload.joined());
    let text = output_of(command.arg("--check").args(SIZES), scratch.path())?;
    print!("{text}");
    Ok(read(&text))
}

/// One for each size and type of which the library's own way came to an end.
fn read(text: &str) -> Outcome {
    let passed = text.lines().filter(|line| line.contains(" library ")).count();
    let is_complaint = |line: &&str| {
        let is_size = |word: &str| SIZES.contains(&word);
        line.contains(": ") && line.split(' ').next().is_some_and(is_size)
    };
    let complaints = text.lines().filter(is_complaint).map(str::to_owned).collect();
    Outcome { passed, expected: 2 * SIZES.len(), complaints }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_read() {
        let lines = ["1000 f32", "1000 f64", "4096 f32", "4096 f64"];
        let good: String = lines
            .iter()
            .map(|of| format!("  {of} library      1 s 2 GFLOP/s, error 1\n"))
            .collect();
        assert!(read(&good).is_good());
        assert!(!read("").is_good());
        let bad = format!("{good}4096 f64: the library is not faster than NumPy's own BLAS\n");
        assert_eq!(read(&bad).complaints.len(), 1);
    }
}
