//! `tessera tiles`: which tile widths a card allows, and what they cost.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table};

use super::output::print;
use super::roofline::chosen;
use super::{Exit, values};
use crate::card::{Card, Tile, cards, largest_legal};
use crate::report::layout::{Narrow, boxed, paragraphs, terminal_width};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The card, as in `tessera roofline`, or this: the GPU at hand [default: all of the table].
    #[arg(long, value_name = "CARD")]
    gpu: Option<String>,
    /// Widths of the tiles.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::tile,
          default_value = "2,4,8,16,22,32,64")]
    tile: Vec<u32>,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let text = match &args.gpu {
        Some(name) => card(&chosen(name)?, &args.tile)?,
        None => generations(&args.tile)?,
    };
    print(&paragraphs(&text, terminal_width()))?;
    Ok(Exit::Success)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.force_no_tty().set_header(header);
    table
}

fn right(table: &mut Table, columns: impl Iterator<Item = usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Every width on one card.
fn card(card: &Card, widths: &[u32]) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "{}, {}, compute capability {}",
        card.board, card.generation, card.compute_capability
    )?;
    writeln!(
        text,
        "a block: {} threads, {} bytes of shared memory; an SM: {} threads, {} bytes, {} blocks",
        card.threads_per_block,
        card.shared_per_block,
        card.threads_per_sm,
        card.shared_per_sm,
        card.blocks_per_sm
    )?;
    let mut table = table(&[
        "tile",
        "threads",
        "shared bytes",
        "blocks at once",
        "limited by",
        "occupancy",
        "loads/multiply-add",
        "possible GFLOP/s",
        "of peak",
    ]);
    for &width in widths {
        let tile = Tile::new(card, width);
        let (blocks, limit, occupancy) = match tile.blocks {
            Ok(full) => {
                let occupancy = format!("{:.0} %", 100.0 * full.occupancy);
                (full.blocks.to_string(), full.limit.to_owned(), occupancy)
            }
            Err(illegal) => ("none".to_owned(), illegal.to_string(), String::new()),
        };
        let bound = tile.blocks.ok().map(|_| tile.bound_gflops(card));
        table.add_row([
            format!("{width} x {width}"),
            tile.threads.to_string(),
            tile.shared_bytes.to_string(),
            blocks,
            limit,
            occupancy,
            format!("{:.4}", tile.loads_per_multiply_add),
            bound.map_or_else(String::new, |bound| format!("{bound:.1}")),
            bound.map_or_else(String::new, |b| format!("{:.1} %", 100.0 * b / card.peak_gflops())),
        ]);
    }
    right(&mut table, [1, 2, 3, 5, 6, 7, 8].into_iter());
    let narrow = Narrow {
        words: &["limited by"],
        spare: &["of peak", "loads/multiply-add", "shared bytes", "threads"],
    };
    let table = boxed(table, terminal_width(), narrow);
    writeln!(text, "\n{table}\nThe widest tile is {0} x {0}.", largest_legal(card))?;
    writeln!(text, "{NOTE}\ncard: {}\nlimits: {}", card.board_source, card.limits_source)?;
    Ok(text)
}

const NOTE: &str = "A tile of f32 for each of A and B, a thread for each element; registers may allow fewer \
     blocks. What is possible takes every load to go to memory.";

/// Every card of the table: the blocks of each width that an SM holds.
fn generations(widths: &[u32]) -> anyhow::Result<String> {
    let mut header =
        vec!["card", "board", "capability", "threads a block", "shared bytes a block", "widest"];
    let names: Vec<String> = widths.iter().map(|width| format!("{width} x {width}")).collect();
    header.extend(names.iter().map(String::as_str));
    let mut table = table(&header);
    for card in cards() {
        let mut row = vec![
            card.id.clone(),
            card.board.clone(),
            card.compute_capability.clone(),
            card.threads_per_block.to_string(),
            card.shared_per_block.to_string(),
            largest_legal(card).to_string(),
        ];
        row.extend(widths.iter().map(|&width| match Tile::new(card, width).blocks {
            Ok(full) => format!("{} ({:.0} %)", full.blocks, 100.0 * full.occupancy),
            Err(_) => "none".to_owned(),
        }));
        table.add_row(row);
    }
    right(&mut table, 2..header.len());
    let mut spare = vec!["capability", "shared bytes a block", "threads a block", "board"];
    spare.extend(names.iter().map(String::as_str));
    let narrow = Narrow { words: &["board"], spare: &spare };
    let table = boxed(table, terminal_width(), narrow);
    Ok(format!(
        "{table}\nFor each tile: blocks that an SM holds at once, and its occupancy; \"none\" is \
         not legal there.\n{NOTE}\n`tessera tiles --gpu CARD` shows one card with its sources.\n"
    ))
}
