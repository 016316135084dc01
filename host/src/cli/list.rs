//! `tessera list`: every implementation there is.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use gemm_spec::{LaunchShape, Types};
use serde::Serialize;

use super::Exit;
use super::output::print;
use crate::registry::{self, Implementation};
use crate::report::Format;
use crate::report::layout::{Narrow, boxed, terminal_width};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Output: table, md, csv or json.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// In a table, show element types, limits and origin as well; the other formats always do.
    #[arg(long)]
    long: bool,
}

/// An implementation as the list shows it.
#[derive(Serialize)]
struct Line {
    kernel: &'static str,
    device: &'static str,
    dtypes: Vec<&'static str>,
    limits: Vec<String>,
    about: &'static str,
    origin: &'static str,
}

const COLUMNS: [&str; 6] = ["kernel", "device", "dtypes", "limits", "about", "origin"];
/// Those of the short table.
const SHORT: [&str; 3] = ["kernel", "device", "about"];
/// What gives way in a narrow terminal.
const LONG: Narrow<'_> =
    Narrow { words: &["dtypes", "limits", "about", "origin"], spare: &["origin", "limits"] };

impl Line {
    fn new(implementation: &Implementation) -> Self {
        let dtypes = Types::ALL.into_iter().filter(|&dtype| implementation.has(dtype));
        Self {
            kernel: implementation.id(),
            device: if implementation.on_gpu() { "gpu" } else { "cpu" },
            dtypes: dtypes.map(Types::name).collect(),
            limits: limits(implementation),
            about: implementation.about(),
            origin: implementation.origin(),
        }
    }

    fn cells(&self) -> [String; 6] {
        [
            self.kernel.to_owned(),
            self.device.to_owned(),
            self.dtypes.join(" "),
            self.limits.join("; "),
            self.about.to_owned(),
            self.origin.to_owned(),
        ]
    }
}

/// What an implementation does not do everywhere or for every problem.
fn limits(implementation: &Implementation) -> Vec<String> {
    let Implementation::Gpu(spec) = implementation else { return Vec::new() };
    let (major, minor) = spec.arch.compute_capability();
    let newer = if spec.arch.runs_on((u32::MAX, 0)) { "or newer" } else { "only" };
    let mut limits = vec![format!("compute capability {major}.{minor} {newer}")];
    if spec.launch == LaunchShape::SingleBlock {
        limits.push(format!("at most {} elements of C", spec.max_threads()));
    }
    limits
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let lines: Vec<Line> =
        registry::all().map(|implementation| Line::new(&implementation)).collect();
    print(&match args.format {
        Format::Table if args.long => boxed(table(&lines, &COLUMNS), terminal_width(), LONG),
        Format::Table => boxed(table(&lines, &SHORT), terminal_width(), LONG),
        Format::Markdown => {
            let mut table = table(&lines, &COLUMNS);
            table.load_style(ASCII_MARKDOWN);
            format!("{table}\n")
        }
        Format::Csv => csv(&lines)?,
        Format::Json => serde_json::to_string_pretty(&lines)? + "\n",
    })?;
    Ok(Exit::Success)
}

fn table(lines: &[Line], columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.force_no_tty().set_header(columns);
    for line in lines {
        let named = COLUMNS.into_iter().zip(line.cells());
        let shown = named.filter(|(name, _)| columns.contains(name));
        table.add_row(shown.map(|(_, cell)| cell));
    }
    table
}

fn csv(lines: &[Line]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for line in lines {
        writer.write_record(line.cells())?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
