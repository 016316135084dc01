//! What a benchmark's table does not say by itself: how it was measured, and what follows from it.

use crate::bench::compare::{Comparison, DRIFT, is_sure};
use crate::bench::idle::IDLE;
use crate::bench::{Document, Row};
use crate::measure::Ops;
use crate::report::counted;
use crate::report::skipped::lines;

/// How the factors are stored, where that is not the usual way.
fn stored(ops: Ops) -> &'static str {
    match ops {
        Ops::Nn => "",
        Ops::Nt => ", B stored transposed",
        Ops::Tn => ", A stored transposed",
        Ops::Tt => ", A and B stored transposed",
    }
}

/// What a reader must know to read the table right.
pub(super) fn notes(document: &Document, comparisons: &[Comparison]) -> String {
    let mut notes = Vec::new();
    if let Some(row) = document.rows.first() {
        let point = &row.point;
        notes.push(format!(
            "{}{}, {} inputs, seed {}, alpha {}, beta {}, {} caches, {}; operands are where \
             the implementation needs them: no transfer is counted.",
            point.dtype,
            stored(point.ops),
            point.dist,
            point.seed,
            point.alpha,
            point.beta,
            point.cache.name(),
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
    notes.extend(lines(&document.skipped));
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
        "Each row has had {most} rounds, all rows interleaved in a random order; CPU rows in processes \
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
    let mut kinds: Vec<(&str, f64, f64)> = Vec::new();
    for row in &document.rows {
        let Some((vectors, peak)) = row.peak_vectors.as_deref().zip(row.peak_gflops) else {
            continue;
        };
        match kinds.iter_mut().find(|(kind, ..)| *kind == vectors) {
            Some((_, least, most)) => (*least, *most) = (least.min(peak), most.max(peak)),
            None => kinds.push((vectors, peak, peak)),
        }
    }
    let peaks = kinds.iter().map(|(vectors, least, most)| match most - least < 0.05 {
        true => format!("{most:.1} GFLOP/s by {vectors}"),
        false => format!("{least:.1} to {most:.1} GFLOP/s by {vectors}"),
    });
    let peaks = peaks.collect::<Vec<_>>().join(", ");
    (!peaks.is_empty()).then(|| {
        format!(
            "CPU peak: {peaks}, measured beside each row by multiply-adds in registers on as many \
             threads as the row uses."
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;
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
}
