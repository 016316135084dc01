//! `tessera mem`: what a product needs in memory, and where it fits.

use std::fmt::Write;

use gemm_spec::{KernelSpec, Operand, Problem, Types};

use super::output::print;
use super::{Exit, values};
use crate::gpu::{self, Gpu};
use crate::machine::available_memory;
use crate::report::bytes::{binary, decimal};
use crate::report::layout::{paragraphs, terminal_width};
use gemm_spec::with_gemm_types;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    sizes: values::Sizes,
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = values::types,
          help = values::types_help())]
    dtype: Types,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let [m, n, k] = args.sizes.mnk();
    let mut text = String::new();
    writeln!(text, "C = A B of {m} x {n} x {k} (m x n x k), {}", args.dtype)?;
    let needed = matrices(&mut text, m, n, k, args.dtype)?;
    workspaces(&mut text, m, n, k, args.dtype)?;

    let mut line = |place: &str, free: Option<u64>| {
        writeln!(text, "{place}: {}", verdict(needed, free, args.dtype))
    };
    line("host memory", available_memory())?;
    match gpu::devices() {
        Err(reason) => writeln!(text, "{reason}")?,
        Ok(devices) => {
            for info in devices {
                let free = Gpu::open(info.index).and_then(|gpu| Ok(gpu.free_memory()?));
                line(&format!("cuda:{} {}", info.index, info.name), free.ok())?;
            }
        }
    }
    print(&paragraphs(&text, terminal_width()))?;
    Ok(Exit::Success)
}

/// A line for each matrix and one for their sum, which is returned; `None` is more than 2^128.
fn matrices(
    text: &mut String,
    m: usize,
    n: usize,
    k: usize,
    types: Types,
) -> Result<Option<u128>, std::fmt::Error> {
    let mut sum = Some(0u128);
    for (operand, rows, cols) in [(Operand::A, m, k), (Operand::B, k, n), (Operand::C, m, n)] {
        // The product of two usize fits.
        let elements = rows as u128 * cols as u128;
        let bytes = elements.checked_mul(types.of(operand).size() as u128);
        sum = sum.zip(bytes).and_then(|(sum, bytes)| sum.checked_add(bytes));
        writeln!(text, "{operand}: {rows} x {cols} = {elements} elements = {}", amount(bytes))?;
    }
    writeln!(text, "sum: {}", amount(sum))?;
    Ok(sum)
}

/// What kernels take of a GPU's memory besides the matrices, where these are row-major.
fn workspaces(
    text: &mut String,
    m: usize,
    n: usize,
    k: usize,
    types: Types,
) -> Result<(), std::fmt::Error> {
    // Larger ones no kernel takes.
    if [m, n, k].into_iter().any(|size| i32::try_from(size).is_err()) {
        return Ok(());
    }
    let bytes = |spec: &KernelSpec| with_gemm_types!(types, T => spec.workspace_bytes(&Problem::<T>::new(m, n, k)));
    let mut taken: Vec<(u64, Vec<&str>)> = Vec::new();
    for spec in kernels_gpu::KERNELS.iter().filter(|spec| spec.entry(types).is_ok()) {
        match (bytes(spec), taken.last_mut()) {
            (0, _) => {}
            (bytes, Some((same, ids))) if *same == bytes => ids.push(spec.id),
            (bytes, _) => taken.push((bytes, vec![spec.id])),
        }
    }
    for (bytes, ids) in taken {
        writeln!(text, "besides, at most: {} for {}", amount(Some(bytes.into())), ids.join(", "))?;
    }
    Ok(())
}

fn amount(bytes: Option<u128>) -> String {
    match bytes {
        Some(bytes) if bytes < 1000 => format!("{bytes} bytes"),
        Some(bytes) => format!("{bytes} bytes ({}, {})", decimal(bytes), binary(bytes)),
        None => "more than 2^128 bytes".to_owned(),
    }
}

/// Whether that many bytes fit, and the largest square product that does.
fn verdict(needed: Option<u128>, free: Option<u64>, types: Types) -> String {
    let Some(free) = free.map(u128::from) else { return "free memory unknown".to_owned() };
    let fits = if needed.is_some_and(|needed| needed <= free) { "fits" } else { "does not fit" };
    format!("{} free, {fits}; the largest square n is {}", amount(Some(free)), largest(free, types))
}

/// The largest n whose three square matrices fit.
fn largest(free: u128, types: Types) -> u128 {
    let bytes = [Operand::A, Operand::B, Operand::C].map(|operand| types.of(operand).size());
    (free / bytes.iter().sum::<usize>() as u128).isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_square_fits_and_the_next_does_not() {
        for free in [0, 11, 12, 47, 48, 1_610_612_736, u128::from(u64::MAX)] {
            let n = largest(free, Types::F32);
            let bytes = |n: u128| 12 * n * n;
            assert!(bytes(n) <= free && bytes(n + 1) > free, "{free}: {n}");
        }
        // The seed's GPU had 1.5 GB.
        assert_eq!(largest(1_500_000_000, Types::F32), 11_180);
    }

    #[test]
    fn no_size_overflows() {
        let mut text = String::new();
        let max = usize::MAX;
        assert_eq!(matrices(&mut text, max, max, max, Types::F64), Ok(None));
        assert!(text.contains("sum: more than 2^128 bytes"), "{text}");
        assert!(verdict(None, Some(u64::MAX), Types::F64).contains("does not fit"));
        assert!(
            verdict(Some(48), Some(48), Types::F32).contains(", fits; the largest square n is 2")
        );
        assert!(verdict(Some(49), Some(48), Types::F32).contains("does not fit"));
    }
}
