//! A comparison of accuracies as a table, Markdown, CSV or JSON.

use comfy_table::{Cell, CellAlignment, Color, Table};

use super::Format;
use super::layout::Narrow;
use super::skipped::lines;
use super::table::{as_markdown, for_terminal};
use crate::accuracy::{Document, Row, Skipped};

/// Writes a document.
///
/// # Errors
/// What the writers of CSV and JSON answer, which for these types is nothing.
pub fn render(document: &Document, format: Format, colour: bool) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => for_terminal(table(document), &notes(document), NARROW, colour),
        Format::Markdown => as_markdown(table(document), &notes(document)),
        Format::Csv => csv(document)?,
        Format::Json => serde_json::to_string_pretty(document)? + "\n",
    })
}

/// What gives way in a narrow terminal.
const NARROW: Narrow<'_> = Narrow { words: &["m x n x k"], spare: &["check", "m x n x k"] };

fn table(document: &Document) -> Table {
    let mut table = Table::new();
    table.set_header([
        "data",
        "m x n x k",
        "implementation",
        "Frobenius",
        "worst element",
        "check",
    ]);
    for row in &document.rows {
        let Row { data, m, n, k, kernel, frobenius, worst, ok } = row;
        let check = match ok {
            true => Cell::new("ok"),
            false => Cell::new("WRONG").fg(Color::Red),
        };
        let (frobenius, worst) = (figure(*frobenius), figure(*worst));
        table.add_row([
            Cell::new(data),
            Cell::new(format!("{m} x {n} x {k}")),
            Cell::new(kernel),
            Cell::new(frobenius),
            Cell::new(worst),
            check,
        ]);
    }
    for index in [3, 4] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn figure(value: Option<f64>) -> String {
    match value {
        None => "infinite".to_owned(),
        Some(0.0) => "exact".to_owned(),
        Some(value) => format!("{value:.2e}"),
    }
}

fn notes(document: &Document) -> String {
    let driver = document.driver.as_ref().map_or_else(String::new, |d| format!(" (driver {d})"));
    let mut notes = format!(
        "f32, seed {}, {}{driver}.\nFrobenius: norm of the errors over that of the product. Worst element: \
         largest error over |A||B| of that element. Both against a product in f64.\n",
        document.seed,
        document.processors.join(" and "),
    );
    let skipped = document.skipped.iter().map(|Skipped { kernel, k, reason }| {
        (*kernel, k.map(|k| format!("k = {k}")), reason.as_str())
    });
    for line in lines(skipped) {
        notes.push_str(&line);
        notes.push('\n');
    }
    notes
}

fn csv(document: &Document) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["data", "m", "n", "k", "kernel", "frobenius", "worst", "ok"])?;
    let number = |value: Option<f64>| value.map_or_else(|| "inf".to_owned(), |v| v.to_string());
    for Row { data, m, n, k, kernel, frobenius, worst, ok } in &document.rows {
        let sizes = [m, n, k].map(ToString::to_string);
        let [m, n, k] = sizes.each_ref().map(String::as_str);
        let (frobenius, worst) = (number(*frobenius), number(*worst));
        writer.write_record([data, m, n, k, kernel, &frobenius, &worst, &ok.to_string()])?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
