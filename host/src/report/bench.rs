//! A benchmark's document as a table, Markdown, CSV or JSON.

use comfy_table::{Cell, CellAlignment, Color, Table};

use super::Format;
use super::counted;
use super::duration::seconds;
use super::layout::Narrow;
use super::skipped::lines;
use super::table::{as_markdown, for_terminal};
use crate::bench::compare::{Comparison, DRIFT, is_sure};
use crate::bench::idle::IDLE;
use crate::bench::{Cache, Document, Row, SkippedPoint};

/// Writes a document, and below it what changed against another one.
///
/// # Errors
/// What the writers of CSV and JSON answer, which for these types is nothing.
pub fn render(
    document: &Document,
    comparisons: &[Comparison],
    format: Format,
    colour: bool,
) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(document)? + "\n",
        Format::Csv => csv(document)?,
        Format::Table => {
            for_terminal(table(document), &notes(document, comparisons), NARROW, colour)
        }
        Format::Markdown => as_markdown(table(document), &notes(document, comparisons)),
    })
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
        Cell::new(format!("WRONG, {}", row.check.method)).fg(Color::Red)
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

/// What a reader must know to read the table right.
fn notes(document: &Document, comparisons: &[Comparison]) -> String {
    let mut notes = Vec::new();
    if let Some(row) = document.rows.first() {
        let point = &row.point;
        let cache = match point.cache {
            Cache::Warm => "warm caches",
            Cache::Cold => "cold caches",
        };
        notes.push(format!(
            "{}, {} inputs, seed {}, alpha {}, beta {}, {cache}, {}; operands are where \
             the implementation needs them: no transfer is counted.",
            point.dtype,
            point.dist,
            point.seed,
            point.alpha,
            point.beta,
            counted(point.threads, "CPU thread")
        ));
    }
    notes.extend(cpu_peaks(document));
    if document.rows.iter().any(|row| !is_sure(row)) {
        notes.push(format!(
            "! the median may be off by more than {:.0} %: quiet the machine, or give --time more (or \
             more --rounds).",
            100.0 * DRIFT
        ));
    }
    notes.extend(busy(document));
    for row in &document.rows {
        let states = row.before.iter().chain(&row.after);
        if let Some(reasons) = states.filter_map(|state| state.throttled.as_deref()).next() {
            notes.push(format!("{} was held down by the GPU: {reasons}.", row.point.kernel));
        }
    }
    notes.extend(rounds(document));
    notes.extend(peers(document));
    notes.extend(means(document));
    notes.extend(fastest(document));
    notes.extend(lines(document.skipped.iter().map(|SkippedPoint { kernel, size, reason }| {
        let size = size.map(|[m, n, k]| format!("{m} x {n} x {k}"));
        (kernel.as_str(), size, reason.as_str())
    })));
    for comparison in comparisons {
        let point = &comparison.point;
        let verdict = if comparison.slower { "SLOWER" } else { "no slower" };
        let mut note = format!(
            "{verdict}: {} on {} at {} x {} x {}: {:.3}x of then, noise {:.1} %",
            point.kernel,
            point.device,
            point.m,
            point.n,
            point.k,
            comparison.speedup,
            100.0 * comparison.noise
        );
        let row = document.rows.iter().find(|row| row.point == *point);
        if let Some(busy) = row.and_then(|row| row.busy_before).filter(|busy| *busy > IDLE) {
            note.push_str(&format!("; other programs used {:.0} % of the machine", 100.0 * busy));
        }
        for change in &comparison.changed {
            note.push_str("; ");
            note.push_str(change);
        }
        notes.push(note);
    }
    notes.iter().map(|note| format!("{note}\n")).collect()
}

/// How the rounds went.
fn rounds(document: &Document) -> Option<String> {
    let most =
        document.rows.iter().map(|row| row.rounds.len()).max().filter(|rounds| *rounds > 0)?;
    Some(format!(
        "Each row has had {most} rounds, all rows by turns in an order drawn anew; CPU rows in processes \
         of their own. Medians and spread are those of the rounds' medians."
    ))
}

/// What other programs took.
fn busy(document: &Document) -> Option<String> {
    let shares = document.rows.iter().filter_map(|row| row.busy_before);
    let rows = shares.clone().filter(|busy| *busy > IDLE).count();
    (rows > 0).then(|| {
        format!(
            "The machine was not idle: other programs used up to {:.0} % of it just before a \
             measurement, in {rows} of {} rows.",
            100.0 * shares.fold(0.0, f64::max),
            document.rows.len()
        )
    })
}

/// How many implementations a comparison names.
const COMPARED: usize = 4;

/// How many times as fast as the others the fastest implementation is: that with the best geometric mean
/// of those which have a row for every product.
fn fastest(document: &Document) -> Option<String> {
    let size = |row: &Row| (row.point.m, row.point.n, row.point.k);
    let believed: Vec<&Row> = document.rows.iter().filter(|row| row.believed()).collect();
    let mut kernels: Vec<&str> = Vec::new();
    let mut sizes = Vec::new();
    for row in &believed {
        if !kernels.contains(&row.point.kernel.as_str()) {
            kernels.push(&row.point.kernel);
        }
        if !sizes.contains(&size(row)) {
            sizes.push(size(row));
        }
    }
    let seconds = |kernel: &str| -> Option<Vec<f64>> {
        let of = |at| {
            let mut rows = believed.iter();
            rows.find(|row| row.point.kernel == kernel && size(row) == at)
                .map(|row| row.seconds.median)
        };
        sizes.iter().map(|at| of(*at)).collect()
    };
    let mut lines: Vec<(&str, Vec<f64>)> =
        kernels.into_iter().filter_map(|kernel| Some((kernel, seconds(kernel)?))).collect();
    let mean = |seconds: &[f64]| seconds.iter().map(|seconds| seconds.ln()).sum::<f64>();
    lines.sort_by(|(_, one), (_, other)| mean(one).total_cmp(&mean(other)));
    let ((best, fast), others) = lines.split_first()?;
    if others.is_empty() {
        return None;
    }
    let times = |(kernel, slow): &(&str, Vec<f64>)| {
        let ratios = fast.iter().zip(slow).map(|(fast, slow)| slow / fast);
        let least = factor(ratios.clone().fold(f64::INFINITY, f64::min));
        let most = factor(ratios.fold(0.0, f64::max));
        match least == most {
            true => format!("{least} times as fast as {kernel}"),
            false => format!("{least} to {most} times as fast as {kernel}"),
        }
    };
    let named: Vec<String> = others.iter().take(COMPARED).map(times).collect();
    let rest = match others.len() - named.len() {
        0 => String::new(),
        rest => format!("; {rest} are slower still"),
    };
    Some(format!("{best} is {}{rest}.", named.join(", ")))
}

/// A ratio to two significant digits or so.
fn factor(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 10.0 => format!("{ratio:.0}"),
        ratio if ratio >= 2.0 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}

/// What the peers say of themselves, once each.
fn peers(document: &Document) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for row in &document.rows {
        if let Some(peer) = &row.peer {
            let note = format!("{}: {peer}", row.point.kernel);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// The peaks that the CPU rows are held against.
fn cpu_peaks(document: &Document) -> Option<String> {
    let measured =
        document.rows.iter().filter_map(|row| row.peak_vectors.as_ref().zip(row.peak_gflops));
    let (vectors, _) = measured.clone().next()?;
    let (least, most) = measured.fold((f64::INFINITY, 0.0f64), |(least, most), (_, peak)| {
        (least.min(peak), most.max(peak))
    });
    let peak = match most - least < 0.05 {
        true => format!("{most:.1}"),
        false => format!("{least:.1} to {most:.1}"),
    };
    Some(format!(
        "CPU peak: {peak} GFLOP/s, measured beside each row by {vectors} multiply-adds in registers \
         on as many threads as the row uses."
    ))
}

/// Each implementation's mean of its ratios to the best peer, where it has several.
fn means(document: &Document) -> Vec<String> {
    let mut kernels: Vec<&str> = Vec::new();
    for row in &document.rows {
        if row.peer.is_none() && !kernels.contains(&row.point.kernel.as_str()) {
            kernels.push(&row.point.kernel);
        }
    }
    kernels
        .into_iter()
        .filter_map(|kernel| {
            let rows = document.rows.iter().filter(|row| row.point.kernel == kernel);
            let ratios: Vec<f64> = rows.filter_map(|row| row.ratio_to_best_peer).collect();
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            (ratios.len() > 1).then(|| {
                format!(
                    "{kernel} beside the best peer: geometric mean {mean:.3}x over {} products, least \
                     {least:.3}x.",
                    ratios.len()
                )
            })
        })
        .collect()
}

fn csv(document: &Document) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "kernel",
        "device",
        "m",
        "n",
        "k",
        "dtype",
        "cache",
        "median",
        "min",
        "max",
        "q25",
        "q75",
        "runs",
        "spread",
        "settled",
        "gflops",
        "percent_of_peak",
        "peak_gflops",
        "percent_of_best",
        "ratio_to_best_peer",
        "rounds",
        "busy_before",
        "joules",
        "peer",
        "check_ok",
        "refused",
        "command",
    ])?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for row in &document.rows {
        let (point, time) = (&row.point, &row.seconds);
        writer.write_record([
            point.kernel.clone(),
            point.device.clone(),
            point.m.to_string(),
            point.n.to_string(),
            point.k.to_string(),
            point.dtype.clone(),
            if point.cache == Cache::Cold { "cold" } else { "warm" }.to_owned(),
            time.median.to_string(),
            time.min.to_string(),
            time.max.to_string(),
            time.q25.to_string(),
            time.q75.to_string(),
            time.runs.to_string(),
            row.spread.to_string(),
            row.settled.to_string(),
            row.gflops.to_string(),
            number(row.percent_of_peak),
            number(row.peak_gflops),
            number(row.percent_of_best),
            number(row.ratio_to_best_peer),
            row.rounds.len().to_string(),
            number(row.busy_before),
            number(row.energy.and_then(|energy| energy.of_one())),
            row.peer.clone().unwrap_or_default(),
            row.check.ok.to_string(),
            row.refused.clone().unwrap_or_default(),
            row.command.join(" "),
        ])?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Energy;
    use crate::bench::compare::tests::{document, row};
    use crate::report::layout::boxed;

    #[test]
    fn the_mean_beside_peers_is_geometric_and_names_the_least() {
        let with = |kernel: &str, ratio: Option<f64>| {
            let mut row = row(kernel, 1.0, 0.0);
            row.ratio_to_best_peer = ratio;
            row
        };
        let mut peer = with("cublas", Some(1.0));
        peer.peer = Some("a library".to_owned());
        let rows = vec![with("a", Some(0.5)), with("a", Some(2.0)), with("b", Some(3.0)), peer];
        let means = means(&document(rows));
        assert_eq!(means.len(), 1, "{means:?}");
        assert!(means[0].starts_with("a beside the best peer: geometric mean 1.000x over 2"));
        assert!(means[0].ends_with("least 0.500x."), "{means:?}");
    }

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
    fn the_last_word_compares_the_fastest_with_the_others() {
        let at = |kernel: &str, n: usize, seconds: f64| {
            let mut row = row(kernel, seconds, 0.0);
            row.point.n = n;
            row
        };
        let said = |rows: Vec<Row>| fastest(&document(rows));
        assert_eq!(said(vec![at("a", 8, 1.0)]), None);
        assert_eq!(
            said(vec![at("a", 8, 5.0), at("b", 8, 2.0), at("c", 8, 200.0)]).unwrap(),
            "b is 2.5 times as fast as a, 100 times as fast as c."
        );
        let several = vec![at("a", 8, 1.0), at("b", 8, 0.9), at("a", 9, 6.0), at("b", 9, 2.0)];
        assert_eq!(said(several).unwrap(), "b is 1.11 to 3.0 times as fast as a.");
        let mut wrong = at("b", 8, 0.1);
        wrong.check.ok = false;
        assert_eq!(said(vec![at("a", 8, 1.0), wrong]), None);
    }

    #[test]
    fn a_busy_machine_is_named_with_rounds_and_without() {
        let mut busy = row("a", 1.0, 0.0);
        busy.busy_before = Some(0.4);
        let text = notes(&document(vec![busy, row("b", 1.0, 0.0)]), &[]);
        assert!(
            text.contains("used up to 40 % of it") && text.contains("in 1 of 2 rows"),
            "{text}"
        );
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
