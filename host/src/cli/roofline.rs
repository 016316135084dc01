//! `tessera roofline`: the lecture's sum for any card.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use comfy_table::{CellAlignment, Table};

use super::output::{Progress, Replacement, print};
use super::{Exit, values};
use crate::card::{Bound, Card, Limit, Mark, Roofline, draw};
use crate::measure::{Config, DeviceChoice};
use crate::registry;
use crate::report::bytes::decimal;
use crate::report::duration::seconds;
use crate::report::layout::{Narrow, boxed, paragraphs, terminal_width};
use crate::{card, history, run};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The card: g80, gt200, fermi, gtx460m, kepler, maxwell, pascal, volta, turing, ampere, ada,
    /// hopper, h200, blackwell, or this: the GPU at hand, on which the kernels are then measured.
    #[arg(long, value_name = "CARD", default_value = "g80")]
    gpu: String,
    /// Size of the square product.
    #[arg(short = 'n', value_name = "N", default_value = "1024", value_parser = values::size)]
    n: usize,
    /// Width of the tiles.
    #[arg(long, value_name = "T", default_value = "16", value_parser = values::tile)]
    tile: u32,
    /// Draw the roofline into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The card of that name, or the first GPU of this machine.
pub(super) fn chosen(name: &str) -> anyhow::Result<Card> {
    Ok(if name == "this" { card::this(0)? } else { card::find(name)?.clone() })
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let picture = args.svg.as_deref().map(Replacement::new).transpose()?;
    let card = chosen(&args.gpu)?;
    let sum = Roofline::new(&card, args.n, args.tile);
    let (marks, all_right) =
        if args.gpu == "this" { measured(&sum)? } else { (then(&card, &sum), true) };
    if let Some(file) = picture {
        let svg = draw(&card, &sum, &marks).map_err(|error| anyhow!("cannot draw: {error}"))?;
        file.write(svg.as_bytes())?;
    }
    print(&text(&card, &sum, &marks)?)?;
    Ok(if all_right { Exit::Success } else { Exit::Wrong })
}

/// Operations for each byte of a kernel, as the sum has them.
fn intensity(kernel: &str, sum: &Roofline) -> f64 {
    match kernel.strip_prefix("tiled").and_then(|width| width.parse::<f64>().ok()) {
        Some(width) => sum.naive.intensity * width,
        None => sum.naive.intensity,
    }
}

/// What the seeds measured on the card.
fn then(card: &Card, sum: &Roofline) -> Vec<Mark> {
    let rates = history::rates(&card.id).into_iter();
    rates
        .map(|rate| {
            let transfers = if rate.transfers { ", with transfers" } else { "" };
            Mark {
                name: format!("{} in {}{transfers}", rate.kernel, rate.source),
                intensity: intensity(rate.kernel, sum),
                gflops: rate.gflops,
                measured: true,
            }
        })
        .collect()
}

/// What the kernels of the sum reach on the GPU at hand, and whether their results are right.
fn measured(sum: &Roofline) -> anyhow::Result<(Vec<Mark>, bool)> {
    let tiled = format!("tiled{}", sum.width);
    let named = |one: &registry::Implementation| one.id() == "naive" || one.id() == tiled;
    let request = run::Request {
        config: Config { device: DeviceChoice::Cuda(0), ..Config::default() },
        size: [sum.n; 3],
        implementations: registry::all().filter(named).collect(),
        budget: Duration::from_secs(60),
    };
    let document = run::run(&request, &mut Progress::new())?;
    let rows = document.rows.iter().filter(|row| !row.estimated);
    let marks = rows.map(|row| Mark {
        name: row.kernel.to_owned(),
        intensity: intensity(row.kernel, sum),
        gflops: row.gflops,
        measured: true,
    });
    Ok((marks.collect(), document.all_right() && document.head.failure.is_none()))
}

fn text(card: &Card, sum: &Roofline, marks: &[Mark]) -> anyhow::Result<String> {
    let mut text = String::new();
    let Card { board, generation, multiprocessors, lanes, clock_mhz, bandwidth_gbs, .. } = card;
    writeln!(
        text,
        "{board}, {generation}: {multiprocessors} SMs x {lanes} lanes x 2 x {clock_mhz} MHz \
         = {:.1} GFLOP/s; memory {bandwidth_gbs:.1} GB/s",
        sum.peak_gflops
    )?;
    writeln!(text, "C = A B, n = {}, f32: 2n^3 = {:.0} operations\n", sum.n, sum.operations)?;
    let narrow =
        Narrow { words: &["loads"], spare: &["limit", "GB/s for the peak", "bytes loaded"] };
    writeln!(text, "{}", boxed(table(sum), terminal_width(), narrow))?;
    let loads = sum.loads;
    writeln!(
        text,
        "tiles of {0} x {0}: {1} threads a block, {2} x {2} = {3} blocks; in each phase a block's {4} \
         loads feed {5} operations.",
        sum.width,
        loads.threads,
        loads.blocks_along,
        u128::from(loads.blocks_along) * u128::from(loads.blocks_along),
        loads.loads,
        loads.operations
    )?;
    for mark in marks {
        writeln!(
            text,
            "measured, {}: {:.1} GFLOP/s, {} of the peak",
            mark.name,
            mark.gflops,
            share(sum.peak_gflops, mark.gflops)
        )?;
    }
    writeln!(
        text,
        "Every load is taken to go to memory; caches serve many, so measured rates may lie above a bound."
    )?;
    writeln!(text, "card: {}\nlimits: {}", card.board_source, card.limits_source)?;
    Ok(paragraphs(&text, terminal_width()))
}

fn table(sum: &Roofline) -> Table {
    let mut table = Table::new();
    table.force_no_tty().set_header([
        "loads",
        "bytes loaded",
        "operations/byte",
        "GB/s for the peak",
        "possible GFLOP/s",
        "of peak",
        "limit",
        "seconds",
    ]);
    let tiles = format!("tiles of {0} x {0}", sum.width);
    let rows =
        [("2 a multiply-add", sum.naive), (&tiles, sum.tiled), ("each element once", sum.ideal)];
    for (name, bound) in rows {
        table.add_row(cells(name, bound, sum));
    }
    for index in [1, 2, 3, 4, 5, 7] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(name: &str, bound: Bound, sum: &Roofline) -> [String; 8] {
    let limit = match bound.limit {
        Limit::Bandwidth => "bandwidth",
        Limit::Arithmetic => "arithmetic",
    };
    [
        name.to_owned(),
        bytes(bound.bytes),
        format!("{:.2}", bound.intensity),
        format!("{:.1}", bound.needed_gbs),
        format!("{:.1}", bound.gflops),
        share(sum.peak_gflops, bound.gflops),
        limit.to_owned(),
        seconds(bound.seconds),
    ]
}

/// Bytes as text, whatever their number.
#[expect(clippy::cast_possible_truncation, reason = "below 1e30, which fits")]
fn bytes(bytes: f64) -> String {
    if bytes < 1e30 { decimal(bytes as u128) } else { format!("{bytes:.3e} bytes") }
}

/// A share as the notes write it, `1/16`, to a tenth.
fn share(peak: f64, rate: f64) -> String {
    format!("1/{:.1}", peak / rate)
}
