//! `tessera explain`: an implementation's page of the ladder, with its numbers for a size and a card.

mod geometry;
mod sources;

use std::fmt::Write;

use anyhow::Context;
use gemm_spec::{KernelSpec, Operand, Types};
use kernels_gpu::Module;

use super::output::print;
use super::roofline::chosen;
use super::{Exit, values};
use crate::card::Card;
use crate::ladder;
use crate::registry::{self, Implementation};
use crate::report::bytes::decimal;
use crate::report::layout::{paragraphs, prose_width, terminal_width, wrapped};
use geometry::{Launch, loads};

/// Sums are written out up to this size.
const WRITTEN_OUT: usize = 3;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The implementation (see `tessera list`).
    #[arg(value_name = "NAME")]
    kernel: String,
    /// Size of the square product; up to 3 its sums are written out.
    #[arg(short = 'n', value_name = "N", default_value = "1024", value_parser = values::size)]
    n: usize,
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = values::types,
          help = values::types_help())]
    dtype: Types,
    /// The card of the launch, as in `tessera roofline`, or this: the GPU at hand.
    #[arg(long, value_name = "CARD", default_value = "h200")]
    gpu: String,
    /// Show the Rust source as well and, of a kernel, the PTX of its entry.
    #[arg(long)]
    ptx: bool,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let one = registry::find(&args.kernel)?;
    let card = chosen(&args.gpu)?;
    let page = ladder::find(one.id()).with_context(|| format!("{} has no page yet", one.id()))?;
    let mut text = String::new();
    let title = format!("{}: {}\nfrom {}\n", one.id(), one.about(), one.origin());
    writeln!(text, "{}", paragraphs(&title, terminal_width()).trim_end())?;
    writeln!(text, "\n{}", prose(&page.body, prose_width()))?;
    if args.n <= WRITTEN_OUT {
        written_out(&mut text, args.n)?;
    }
    match one {
        Implementation::Cpu(_) => cpu(&mut text, args)?,
        Implementation::Gpu(spec) => gpu(&mut text, args, spec.spec(), &card)?,
    }
    if args.ptx {
        let source = sources::source(page.source)
            .with_context(|| format!("{} is not in this program", page.source))?;
        writeln!(text, "\n--- {} ---\n\n{}", page.source, source.trim_end())?;
        if let Implementation::Gpu(spec) = one {
            let symbol =
                spec.entry(args.dtype).map_err(|why| anyhow::anyhow!("{} {why}", spec.id))?;
            let module = Module { arch: spec.arch, name: spec.id };
            let file = format!("{}.ptx", module.place());
            let entry = sources::entry(module.ptx(), symbol).with_context(|| {
                format!("{file} has no entry {symbol}; run `cargo xtask build-ptx`")
            })?;
            writeln!(text, "\n--- {symbol} in kernels-gpu/ptx/{file} ---\n\n{entry}")?;
        }
    }
    print(&text)?;
    Ok(Exit::Success)
}

/// A page in lines of a width; drawings stay as they are, without the fences, which are for other readers.
fn prose(body: &str, width: usize) -> String {
    let mut text = String::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut drawing = false;
    for line in body.lines().chain([""]) {
        let fence = line.starts_with("```");
        // Sentences of a paragraph have a line each, which is for other readers, too.
        if !drawing && !fence && !line.is_empty() && !line.starts_with("- ") {
            paragraph.push(line);
            continue;
        }
        if !paragraph.is_empty() {
            text.push_str(&wrapped(&paragraph.join(" "), width));
            text.push('\n');
            paragraph.clear();
        }
        if fence {
            drawing = !drawing;
        } else if drawing {
            text.push_str(line);
            text.push('\n');
        } else if line.starts_with("- ") {
            paragraph.push(line);
        } else {
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Every element of C as a sum of products.
fn written_out(text: &mut String, n: usize) -> std::fmt::Result {
    for row in 0..n {
        for col in 0..n {
            let terms: Vec<String> =
                (0..n).map(|step| format!("A[{row}][{step}]*B[{step}][{col}]")).collect();
            writeln!(text, "C[{row}][{col}] = {}", terms.join(" + "))?;
        }
    }
    writeln!(text)
}

fn amount(value: f64) -> String {
    if value < 1e15 { format!("{value:.0}") } else { format!("{value:.3e}") }
}

fn work(text: &mut String, n: usize, types: Types) -> std::fmt::Result {
    let size = n as f64;
    let bytes = [Operand::A, Operand::B, Operand::C].map(|operand| types.of(operand).size());
    let matrices = size.powi(2) * bytes.iter().sum::<usize>() as f64;
    writeln!(text, "  2n^3 = {} operations", amount(2.0 * size.powi(3)))?;
    writeln!(text, "  A, B and C take {} bytes", amount(matrices))
}

fn cpu(text: &mut String, args: &Args) -> std::fmt::Result {
    writeln!(text, "Work for n = {}, {}:", args.n, args.dtype)?;
    work(text, args.n, args.dtype)
}

fn gpu(text: &mut String, args: &Args, spec: &KernelSpec, card: &Card) -> anyhow::Result<()> {
    let (n, types) = (args.n, args.dtype);
    writeln!(text, "Launch for n = {n}, {types}, on {}:", card.board)?;
    match Launch::new(spec, n, types, card) {
        Err(why) => writeln!(text, "  none: {} {why}", spec.id)?,
        Ok(launch) => writeln!(text, "{launch}")?,
    }
    writeln!(text, "Work:")?;
    work(text, n, types)?;
    if let Some(elements) = loads(spec, n) {
        let bytes = elements * types.a().size() as f64;
        let each = elements / (n as f64).powi(3);
        #[expect(clippy::cast_possible_truncation, reason = "below 1e30, which fits")]
        let shown = if bytes < 1e30 { decimal(bytes as u128) } else { amount(bytes) };
        writeln!(text, "  {shown} asked of global memory, {each:.4} loads for each multiply-add")?;
    }
    writeln!(text, "Registers of a thread and shared bytes of a block, by the assembler:")?;
    let mut rows = geometry::registers().filter(|row| row.kernel == spec.id).peekable();
    if rows.peek().is_none() {
        writeln!(text, "  not in docs/registers.md; run `cargo xtask check-ptx --write`")?;
    }
    for row in rows {
        writeln!(text, "  {}: {}, {} bytes shared", row.entry, row.registers, row.shared_bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_drawings_are_not() {
        let body = "One two three.\nFour five.\n\n- six seven eight\n- nine\n\n```text\n+---- a drawing ----+\n```\n\nTen.";
        assert_eq!(
            prose(body, 12),
            "One two\nthree. Four\nfive.\n\n- six seven\n  eight\n- nine\n\n+---- a drawing ----+\n\nTen.\n"
        );
    }
}
