//! A run's document as a table with its notes, and as CSV.

use comfy_table::{Cell, CellAlignment, Color, Table};
use serde::Serialize;

use super::counted::counted;
use super::duration::{hours, minutes, seconds};
use super::formula::formula;
use super::layout::Narrow;
use super::skipped::lines;
use super::view::{Column, View, number};
use crate::measure::Verdict;
use crate::run::{self, Document, Explanation, Row};

impl View for Document {
    type Row = Row;

    const NARROW: Narrow<'static> = Narrow {
        words: &["check"],
        spare: &["then (s)", "from device", "to device", "kernel", "hours", "minutes", "device"],
    };
    const COLUMNS: &'static [Column<Row>] = &[
        ("kernel", |row| row.kernel.to_owned()),
        ("device", |row| row.device.clone()),
        ("seconds", |row| row.seconds.to_string()),
        ("estimated", |row| row.estimated.to_string()),
        ("gflops", |row| row.gflops.to_string()),
        ("h2d_seconds", |row| number(row.h2d_seconds)),
        ("kernel_seconds", |row| number(row.kernel_seconds)),
        ("d2h_seconds", |row| number(row.d2h_seconds)),
        ("speedup", |row| number(row.speedup)),
        ("runs", |row| row.runs.to_string()),
        ("check_method", |row| verdict(row).map_or_else(String::new, |check| check.method.clone())),
        ("check_ok", |row| verdict(row).map_or_else(String::new, |check| check.ok.to_string())),
        ("check_max_error", |row| number(verdict(row).map(|check| check.max_error))),
        ("check_bound", |row| number(verdict(row).map(|check| check.bound))),
        ("then_seconds", |row| number(row.then_seconds)),
    ];

    fn document(&self) -> &impl Serialize {
        self
    }

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headline(&self) -> Option<String> {
        Some(headline(self))
    }

    fn table(&self) -> Table {
        table(self)
    }

    fn notes(&self) -> String {
        notes(self)
    }
}

fn verdict(row: &Row) -> Option<&Verdict> {
    row.check.as_ref().map(|check| &check.verdict)
}

/// What was computed, and where.
fn headline(document: &Document) -> String {
    let run::Head { problem, machine, .. } = &document.head;
    let scalars = formula(problem.alpha, problem.beta);
    let threads = counted(machine.threads, "thread");
    let cores = counted(machine.host.cores, "core");
    let gpu = machine.gpu.as_ref().map_or_else(String::new, |gpu| {
        let driver = machine.driver.as_ref().and_then(|driver| driver.version.as_deref());
        format!("; {} (driver {})", gpu.name, driver.unwrap_or("of unknown version"))
    });
    format!(
        "{scalars}, {} x {} x {} (m x n x k), {}, {} inputs, seed {}\n\
         {}, {threads} on {cores}{gpu}",
        problem.m,
        problem.n,
        problem.k,
        problem.dtype,
        problem.dist,
        problem.seed,
        machine.host.cpu,
    )
}

fn table(document: &Document) -> Table {
    let split = document.rows.iter().any(|row| row.kernel_seconds.is_some());
    let then = document.rows.iter().any(|row| row.then_seconds.is_some());
    // Of products that take less than a second the longer units say nothing.
    let longer =
        |unit: fn(f64) -> String| document.rows.iter().any(|row| unit(row.seconds) != ZERO);
    let (in_minutes, in_hours) = (longer(minutes), longer(hours));
    let mut header = vec!["implementation", "device", "seconds"];
    if in_minutes {
        header.push("minutes");
    }
    if in_hours {
        header.push("hours");
    }
    header.extend(["GFLOP/s", "speed-up"]);
    if split {
        header.extend(["to device", "kernel", "from device"]);
    }
    header.push("check");
    if then {
        header.push("then (s)");
    }
    let mut table = Table::new();
    table.set_header(&header);
    for row in &document.rows {
        table.add_row(cells(row, &header));
    }
    // Words to the left, numbers to the right.
    for (index, name) in header.iter().enumerate() {
        if !matches!(*name, "implementation" | "device" | "check")
            && let Some(column) = table.column_mut(index)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Minutes or hours that round to nothing.
const ZERO: &str = "0.000";

fn cells(row: &Row, header: &[&str]) -> Vec<Cell> {
    // An estimate never looks like a measurement.
    let mark = if row.estimated { "~" } else { "" };
    let optional = |value: Option<f64>| Cell::new(value.map_or_else(String::new, seconds));
    let mut cells = vec![
        Cell::new(row.kernel),
        Cell::new(&row.device),
        Cell::new(format!("{mark}{}", seconds(row.seconds))),
    ];
    for (unit, name) in [(minutes as fn(f64) -> String, "minutes"), (hours, "hours")] {
        if header.contains(&name) {
            cells.push(Cell::new(format!("{mark}{}", unit(row.seconds))));
        }
    }
    cells.extend([
        Cell::new(format!("{mark}{}", rate(row.gflops))),
        Cell::new(row.speedup.map_or_else(String::new, |factor| format!("{}x", digits(factor)))),
    ]);
    if header.contains(&"kernel") {
        cells.extend([row.h2d_seconds, row.kernel_seconds, row.d2h_seconds].map(optional));
    }
    cells.push(match verdict(row) {
        None => Cell::new("estimated"),
        Some(check) if check.ok && check.method == "none" => Cell::new("unchecked"),
        Some(check) if check.ok => Cell::new(format!(
            "ok, {}: {} <= {}",
            check.method,
            digits(check.max_error),
            digits(check.bound)
        )),
        Some(check) => {
            Cell::new(format!("WRONG, {}", check.detail.as_deref().unwrap_or(&check.method)))
                .fg(Color::Red)
        }
    });
    if header.contains(&"then (s)") {
        cells.push(Cell::new(row.then_seconds.map_or_else(String::new, |then| {
            format!("{} ({}x)", seconds(then), digits(then / row.seconds))
        })));
    }
    cells
}

/// A rate in GFLOP/s.
fn rate(gflops: f64) -> String {
    if gflops >= 1000.0 { format!("{gflops:.0}") } else { digits(gflops) }
}

/// Three significant digits or so.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

/// What a reader must know to read the table right.
fn notes(document: &Document) -> String {
    let mut notes = String::new();
    let mut note = |text: &str| {
        notes.push_str(text);
        notes.push('\n');
    };
    if document.rows.iter().any(|row| row.estimated) {
        note(
            "~ estimated, not measured: it does not fit the budget; give --budget SECONDS to measure it. \
             From some rows of C on the CPU, else from smaller sizes by c*n^3.",
        );
    }
    if document.rows.iter().any(|row| row.kernel_seconds.is_some()) {
        note(
            "GPU rows: seconds count the transfers (estimates do not), GFLOP/s the kernel alone. \
             The driver's compile time is in no row.",
        );
    }
    for row in &document.rows {
        let Some(explanation) = row.check.as_ref().and_then(|check| check.diagnosis.as_ref())
        else {
            continue;
        };
        note(&format!("{}: {}", row.kernel, reading(explanation)));
    }
    if document.rows.iter().any(|row| row.device == "emulate") {
        note(
            "emulate rows: seconds and GFLOP/s are the emulator's, which runs a kernel's threads one \
             after the other on the CPU and checks each access; they say nothing about a GPU.",
        );
    }
    lines(&document.skipped).iter().for_each(|line| note(line));
    notes
}

/// What a wrong result looks like, in a line.
fn reading(explanation: &Explanation) -> String {
    let Explanation { m, n, k, rerun, first, diagnoses } = explanation;
    let mut text = match diagnoses.first() {
        Some(diagnosis) => diagnosis.to_string(),
        None => "wrong in no pattern that has a name".to_owned(),
    };
    text += &format!(
        "; first C({},{}) is {:e}, expected {:e}",
        first.row, first.col, first.found, first.expected
    );
    if *rerun {
        text += &format!(" in a second run of {m} x {n} x {k} on position-coded inputs");
    }
    text
}
