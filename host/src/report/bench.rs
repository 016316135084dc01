//! A benchmark's document as a table, Markdown, CSV or JSON.

use comfy_table::{Cell, CellAlignment, Color, Table};

use super::Format;
use super::counted;
use super::duration::seconds;
use super::table::{as_markdown, for_terminal};
use crate::bench::compare::Comparison;
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
        Format::Table => for_terminal(table(document), &notes(document, comparisons), colour),
        Format::Markdown => as_markdown(table(document), &notes(document, comparisons)),
    })
}

const HEADER: [&str; 11] = [
    "implementation",
    "device",
    "m x n x k",
    "median (s)",
    "spread",
    "runs",
    "GFLOP/s",
    "of peak",
    "of best",
    "clock (MHz)",
    "check",
];

/// Where the ratio to the best peer stands, if there is one.
const RATIO: usize = 9;
/// Columns behind that of the work for each joule, if there is one.
const BEHIND_ENERGY: usize = 1;

fn table(document: &Document) -> Table {
    let mut table = Table::new();
    let peers = document.rows.iter().any(|row| row.ratio_to_best_peer.is_some());
    let mut header = HEADER.to_vec();
    if peers {
        header.insert(RATIO, "to best peer");
    }
    let energy = document.rows.iter().any(|row| gflop_of_a_joule(row).is_some());
    if energy {
        header.insert(header.len() - BEHIND_ENERGY, "GFLOP/J");
    }
    let numbers = 3..header.len() - 1;
    table.set_header(header);
    for row in &document.rows {
        let mut cells = cells(row);
        if peers {
            let ratio = row.ratio_to_best_peer;
            cells.insert(RATIO, Cell::new(ratio.map_or_else(String::new, |r| format!("{r:.3}x"))));
        }
        if energy {
            let work = gflop_of_a_joule(row).map_or_else(String::new, |work| format!("{work:.1}"));
            cells.insert(cells.len() - BEHIND_ENERGY, Cell::new(work));
        }
        table.add_row(cells);
    }
    for index in numbers {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// 10⁹ operations for each joule that the GPU took, where that was measured.
fn gflop_of_a_joule(row: &Row) -> Option<f64> {
    let flops = row.gflops * row.seconds.median;
    Some(flops / row.energy?.of_one()?)
}

fn cells(row: &Row) -> Vec<Cell> {
    let percent = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.1} %"));
    let clock = row.after.as_ref().and_then(|state| state.sm_mhz);
    let check = if !row.check.ok {
        Cell::new(format!("WRONG, {}", row.check.method)).fg(Color::Red)
    } else if let Some(reason) = &row.refused {
        Cell::new(format!("REFUSED, {reason}")).fg(Color::Red)
    } else {
        Cell::new(format!("ok, {}", row.check.method))
    };
    let point = &row.point;
    vec![
        Cell::new(match &row.chosen {
            Some(chosen) => format!("{}: {chosen}", point.kernel),
            None => point.kernel.clone(),
        }),
        Cell::new(&point.device),
        Cell::new(format!("{} x {} x {}", point.m, point.n, point.k)),
        Cell::new(seconds(row.seconds.median)),
        Cell::new(format!("{:.2} %{}", 100.0 * row.spread, if row.settled { "" } else { " !" })),
        Cell::new(row.seconds.runs),
        Cell::new(format!("{:.1}", row.gflops)),
        Cell::new(percent(row.percent_of_peak)),
        Cell::new(percent(row.percent_of_best)),
        Cell::new(clock.map_or_else(String::new, |clock| clock.to_string())),
        check,
    ]
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
    if document.rows.iter().any(|row| !row.settled) {
        notes.push(
            "! the spread did not settle in the time given: quiet the machine, or give --time \
             more (or more --rounds)."
                .to_owned(),
        );
    }
    for row in &document.rows {
        let states = row.before.iter().chain(&row.after);
        if let Some(reasons) = states.filter_map(|state| state.throttled.as_deref()).next() {
            notes.push(format!("{} was held down by the GPU: {reasons}.", row.point.kernel));
        }
    }
    notes.extend(rounds(document));
    notes.extend(peers(document));
    notes.extend(means(document));
    for SkippedPoint { kernel, size, reason } in &document.skipped {
        notes.push(match size {
            Some([m, n, k]) => format!("skipped {kernel} at {m} x {n} x {k}: {reason}"),
            None => format!("skipped {kernel}: {reason}"),
        });
    }
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
    let mut note = format!(
        "Each row has had {most} rounds, all rows by turns in an order drawn anew; CPU rows in processes \
         of their own. Medians and spread are those of the rounds' medians."
    );
    let busy = document.rows.iter().filter_map(|row| row.busy_before).fold(0.0, f64::max);
    if busy > IDLE {
        let rows = document.rows.iter().filter(|row| row.busy_before.is_some_and(|b| b > IDLE));
        note.push_str(&format!(
            " The machine was not idle: other programs used up to {:.0} % of it at the start of a round, \
             in {} of {} rows.",
            100.0 * busy,
            rows.count(),
            document.rows.len()
        ));
    }
    Some(note)
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
        let cells: Vec<String> = cells(&row).iter().map(Cell::content).collect();
        assert_eq!(cells[0], "auto: split_k_64x64");
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
