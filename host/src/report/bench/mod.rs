//! A benchmark's document as a table, and as CSV.

mod notes;

use comfy_table::{Cell, CellAlignment, Color, Table};
use serde::Serialize;

use super::duration::seconds;
use super::layout::Narrow;
use super::view::{Column, View, number};
use crate::bench::compare::{Comparison, is_sure};
use crate::bench::{Document, Row};
use notes::notes;

/// A document, and what changed against another one.
pub(crate) struct Compared<'d> {
    pub(crate) document: &'d Document,
    pub(crate) comparisons: &'d [Comparison],
}

impl View for Compared<'_> {
    type Row = Row;

    const NARROW: Narrow<'static> = NARROW;
    const COLUMNS: &'static [Column<Row>] = &[
        ("kernel", |row| row.point.kernel.clone()),
        ("device", |row| row.point.device.clone()),
        ("m", |row| row.point.m.to_string()),
        ("n", |row| row.point.n.to_string()),
        ("k", |row| row.point.k.to_string()),
        ("dtype", |row| row.point.dtype.clone()),
        ("ops", |row| row.point.ops.to_string()),
        ("cache", |row| row.point.cache.name().to_owned()),
        ("median", |row| row.seconds.median.to_string()),
        ("min", |row| row.seconds.min.to_string()),
        ("max", |row| row.seconds.max.to_string()),
        ("q25", |row| row.seconds.q25.to_string()),
        ("q75", |row| row.seconds.q75.to_string()),
        ("runs", |row| row.seconds.runs.to_string()),
        ("spread", |row| row.spread.to_string()),
        ("settled", |row| row.settled.to_string()),
        ("gflops", |row| row.gflops.to_string()),
        ("percent_of_peak", |row| number(row.percent_of_peak)),
        ("peak_gflops", |row| number(row.peak_gflops)),
        ("percent_of_best", |row| number(row.percent_of_best)),
        ("ratio_to_best_peer", |row| number(row.ratio_to_best_peer)),
        ("rounds", |row| row.rounds.len().to_string()),
        ("busy_before", |row| number(row.busy_before)),
        ("joules", |row| number(row.energy.and_then(|energy| energy.of_one()))),
        ("peer", |row| row.peer.clone().unwrap_or_default()),
        ("check_ok", |row| row.check.ok.to_string()),
        ("refused", |row| row.refused.clone().unwrap_or_default()),
        ("command", |row| row.command.join(" ")),
    ];

    fn document(&self) -> &impl Serialize {
        self.document
    }

    fn rows(&self) -> &[Row] {
        &self.document.rows
    }

    fn table(&self) -> Table {
        table(self.document)
    }

    fn notes(&self) -> String {
        notes(self.document, self.comparisons)
    }
}

/// Columns that are shown where a row has something in them.
const OPTIONAL: [&str; 3] = ["to best peer", "clock (MHz)", "GFLOP/J"];

/// What gives way in a narrow terminal.
const NARROW: Narrow<'_> = Narrow {
    words: &["check"],
    spare: &[
        "device",
        "check",
        "clock (MHz)",
        "min (s)",
        "max (s)",
        "runs",
        "of best",
        "GFLOP/J",
        "of peak",
        // Where it is the same in all rows it goes, else it stays as long as it can.
        "m x n x k",
    ],
};

fn table(document: &Document) -> Table {
    let mut table = Table::new();
    let rows: Vec<Vec<(&str, Cell)>> = document.rows.iter().map(cells).collect();
    let shown = |name: &str| {
        let filled = |row: &Vec<(&str, Cell)>| {
            row.iter().any(|(own, cell)| *own == name && !cell.content().is_empty())
        };
        !OPTIONAL.contains(&name) || rows.iter().any(filled)
    };
    let header: Vec<&str> = HEADER.into_iter().filter(|name| shown(name)).collect();
    let numbers = 3..header.len() - 1;
    table.set_header(header.clone());
    for row in rows {
        table.add_row(
            row.into_iter().filter(|(name, _)| header.contains(name)).map(|(_, cell)| cell),
        );
    }
    for index in numbers {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

const HEADER: [&str; 15] = [
    "implementation",
    "device",
    "m x n x k",
    "median (s)",
    "min (s)",
    "max (s)",
    "spread",
    "runs",
    "GFLOP/s",
    "of peak",
    "of best",
    "to best peer",
    "clock (MHz)",
    "GFLOP/J",
    "check",
];

/// 10⁹ operations for each joule that the GPU took, where that was measured.
fn gflop_of_a_joule(row: &Row) -> Option<f64> {
    let flops = row.gflops * row.seconds.median;
    Some(flops / row.energy?.of_one()?)
}

/// Every cell of a row with the name of its column.
fn cells(row: &Row) -> Vec<(&'static str, Cell)> {
    let percent = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.1} %"));
    let optional = |value: Option<String>| Cell::new(value.unwrap_or_default());
    let clock = row.after.as_ref().and_then(|state| state.sm_mhz);
    let check = if !row.check.ok {
        let said = row.check.detail.as_deref().unwrap_or(&row.check.method);
        Cell::new(format!("WRONG, {said}")).fg(Color::Red)
    } else if let Some(reason) = &row.refused {
        Cell::new(format!("REFUSED, {reason}")).fg(Color::Red)
    } else {
        Cell::new(format!("ok, {}", row.check.method))
    };
    let point = &row.point;
    let cells = [
        Cell::new(match &row.chosen {
            Some(chosen) => format!("{}: {chosen}", point.kernel),
            None => point.kernel.clone(),
        }),
        Cell::new(&point.device),
        Cell::new(format!("{} x {} x {}", point.m, point.n, point.k)),
        Cell::new(seconds(row.seconds.median)),
        Cell::new(seconds(row.seconds.min)),
        Cell::new(seconds(row.seconds.max)),
        Cell::new(spread(row)),
        Cell::new(row.seconds.runs),
        Cell::new(format!("{:.1}", row.gflops)),
        Cell::new(percent(row.percent_of_peak)),
        Cell::new(percent(row.percent_of_best)),
        optional(row.ratio_to_best_peer.map(|ratio| format!("{ratio:.3}x"))),
        optional(clock.map(|clock| clock.to_string())),
        optional(gflop_of_a_joule(row).map(|work| format!("{work:.1}"))),
        check,
    ];
    HEADER.into_iter().zip(cells).collect()
}

/// The spread of a row's runs, marked where the median is not sure; one run has none.
fn spread(row: &Row) -> String {
    let mark = if is_sure(row) { "" } else { " !" };
    match row.seconds.runs {
        1 => format!("one run{mark}"),
        _ => format!("{:.2} %{mark}", 100.0 * row.spread),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Energy;
    use crate::bench::compare::tests::{document, row};
    use crate::report::layout::boxed;

    #[test]
    fn a_chosen_kernel_is_named_in_its_row() {
        let mut row = row("auto", 1.0, 0.0);
        row.chosen = Some("split_k_64x64".to_owned());
        let cells: Vec<String> = cells(&row).iter().map(|(_, cell)| cell.content()).collect();
        assert_eq!(cells[0], "auto: split_k_64x64");
    }

    /// What a terminal of that width shows.
    fn shown(document: &Document, width: usize) -> String {
        boxed(table(document), Some(width), NARROW)
    }

    #[test]
    fn a_terminal_of_80_columns_takes_the_table() {
        let mut rows = vec![row("cpu_packed", 0.001_234, 0.1), row("mutex_queue", 1.5, 0.0)];
        for row in &mut rows {
            row.percent_of_peak = Some(99.9);
            (row.point.m, row.point.n, row.point.k) = (1024, 1024, 1024);
        }
        let text = shown(&document(rows), 80);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 80), "{text}");
        for word in ["implementation", "mutex_queue", "0.00123", "99.9 %", "1024 x 1024 x 1024"] {
            assert!(text.contains(word), "{word}\n{text}");
        }
        assert!(!text.contains("clock (MHz)"), "a column with nothing in it\n{text}");
    }

    #[test]
    fn a_mark_is_for_a_median_that_is_not_sure() {
        let mut one = row("a", 1.0, 0.0);
        one.settled = false;
        assert_eq!(spread(&one), "0.00 %");
        // A deviation of 4 % is settled by many runs and not by few.
        let mut wide = row("a", 1.0, 0.04);
        assert_eq!(spread(&wide), "4.00 % !");
        wide.seconds.runs = 100;
        assert_eq!(spread(&wide), "4.00 %");
        one.seconds.runs = 1;
        assert_eq!(spread(&one), "one run !");
        assert!(notes(&document(vec![one]), &[]).contains("may be off by more than 2 %"));
        assert!(!notes(&document(vec![wide]), &[]).contains("may be off"));
    }

    #[test]
    fn energy_has_a_column_where_it_was_measured() {
        let mut measured = row("a", 2.0, 0.0);
        measured.gflops = 50.0;
        let without = table(&document(vec![measured.clone()])).to_string();
        measured.energy = Some(Energy { joules: 80.0, products: 4, seconds: 8.0 });
        let with = table(&document(vec![measured, row("b", 1.0, 0.0)])).to_string();
        assert!(!without.contains("GFLOP/J") && with.contains("GFLOP/J"), "{with}");
        // 100 GFLOP for 20 J.
        assert!(with.contains(" 5.0 "), "{with}");
    }
}
