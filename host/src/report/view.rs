//! What is shown of a document, whatever it is of; how it is written is here.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use serde::Serialize;

use super::Format;
use super::layout::{Narrow, boxed, paragraphs, terminal_width};

/// A document that can be shown.
pub(crate) trait View {
    /// What one line of the table is made of.
    type Row: 'static;

    /// What gives way in a narrow terminal.
    const NARROW: Narrow<'static>;
    /// The columns of the document as CSV: each with its name and what a row has there.
    const COLUMNS: &'static [Column<Self::Row>];

    /// The document itself, which is what JSON shows.
    fn document(&self) -> &impl Serialize;

    /// Its rows.
    fn rows(&self) -> &[Self::Row];

    /// What stands above the table.
    fn headline(&self) -> Option<String> {
        None
    }

    /// The rows as a table.
    fn table(&self) -> Table;

    /// What a reader must know to read the table right, line by line.
    fn notes(&self) -> String;
}

/// A column of CSV.
pub(crate) type Column<R> = (&'static str, fn(&R) -> String);

/// Writes a document.
///
/// # Errors
/// What the writers of CSV and JSON answer, which for these types is nothing.
pub(crate) fn render(view: &impl View, format: Format, colour: bool) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => for_terminal(view, colour),
        Format::Markdown => as_markdown(view),
        Format::Csv => csv(view)?,
        Format::Json => serde_json::to_string_pretty(view.document())? + "\n",
    })
}

/// Aligned columns, for a terminal.
fn for_terminal<V: View>(view: &V, colour: bool) -> String {
    let mut table = view.table();
    if !colour {
        table.force_no_tty();
    }
    let width = terminal_width();
    let headline = view.headline().map(|text| paragraphs(&text, width)).unwrap_or_default();
    headline + &boxed(table, width, V::NARROW) + &paragraphs(&view.notes(), width)
}

/// The same as Markdown, where two blanks end a line.
fn as_markdown(view: &impl View) -> String {
    let mut table = view.table();
    table.load_style(ASCII_MARKDOWN).force_no_tty();
    let headline = view.headline().map(|text| text + "\n\n").unwrap_or_default();
    let notes: String = view.notes().lines().map(|line| format!("\n{line}  ")).collect();
    format!("{headline}{table}\n{notes}\n")
}

fn csv<V: View>(view: &V) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(V::COLUMNS.iter().map(|(name, _)| name))?;
    for row in view.rows() {
        writer.write_record(V::COLUMNS.iter().map(|(_, cell)| cell(row)))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// A number as CSV has it; nothing where there is none.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
