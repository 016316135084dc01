//! A comparison of accuracies as a table, Markdown, CSV or JSON.

use comfy_table::{Cell, CellAlignment, Color, Table};
use serde::Serialize;

use super::layout::Narrow;
use super::skipped::lines;
use super::view::{Column, View, number};
use crate::accuracy::{Document, Head, Row};

impl View for Document {
    type Row = Row;

    const NARROW: Narrow<'static> =
        Narrow { words: &["m x n x k"], spare: &["check", "m x n x k"] };
    const COLUMNS: &'static [Column<Row>] = &[
        ("data", |row| row.data.to_owned()),
        ("m", |row| row.m.to_string()),
        ("n", |row| row.n.to_string()),
        ("k", |row| row.k.to_string()),
        ("kernel", |row| row.kernel.to_owned()),
        ("frobenius", |row| number(Some(row.frobenius.unwrap_or(f64::INFINITY)))),
        ("worst", |row| number(Some(row.worst.unwrap_or(f64::INFINITY)))),
        ("ok", |row| row.ok.to_string()),
    ];

    fn document(&self) -> &impl Serialize {
        self
    }

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn table(&self) -> Table {
        table(self)
    }

    fn notes(&self) -> String {
        notes(self)
    }
}

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
    let Head { dtype, seed, processors, driver, .. } = &document.head;
    let driver = driver.as_ref().map_or_else(String::new, |d| format!(" (driver {d})"));
    let mut notes = format!(
        "{dtype}, seed {seed}, {}{driver}.\nFrobenius: norm of the errors over that of the product. Worst \
         element: largest error over |A||B| of that element. Both against a product with twice the digits, rounded \
         to f64.\n",
        processors.join(" and "),
    );
    for line in lines(&document.skipped) {
        notes.push_str(&line);
        notes.push('\n');
    }
    notes
}
