//! Two measurements of the same thing held against each other.

use super::{Document, FORMAT, Point, Request, Row};
use crate::error::Error;
use crate::measure::is_time;

/// What a machine's clock moves by from one day to the next: no smaller regression is reported.
pub(crate) const DRIFT: f64 = 0.02;
/// Standard errors of the median that a regression must pass.
const ERRORS: f64 = 3.0;

/// One row, then and now.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What was measured.
    pub point: Point,
    /// Median then over median now: above 1 is faster.
    pub speedup: f64,
    /// Share by which the median may grow before it is called slower.
    pub noise: f64,
    /// Whether it is slower by more than the noise.
    pub slower: bool,
    /// What differs beside the time: driver, processor, kernel sources, program version.
    pub changed: Vec<String>,
}

/// Reads a document that `tessera bench --format json` wrote.
///
/// # Errors
/// [`Error::Record`]: not JSON, or a document of another version.
pub fn read(text: &str) -> Result<Document, Error> {
    let unreadable = |reason: String| Error::Record { reason };
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| unreadable(format!("it is not JSON: {error}")))?;
    match value.get("format").and_then(serde_json::Value::as_str) {
        Some(FORMAT) => {
            let document: Document = serde_json::from_value(value)
                .map_err(|error| unreadable(format!("it is no `{FORMAT}` document: {error}")))?;
            match document.rows.iter().find(|row| !is_time(row.seconds.median)) {
                Some(row) => Err(unreadable(format!(
                    "its median of {} is {:e} s, which is no time",
                    row.point.kernel, row.seconds.median
                ))),
                None => Ok(document),
            }
        }
        Some(other) => Err(unreadable(format!(
            "it is a `{other}` document and this program reads `{FORMAT}`; measure anew"
        ))),
        None => Err(unreadable(format!(
            "it has no `format`; a document of `tessera bench --format json` says `{FORMAT}`"
        ))),
    }
}

/// Whether any row of an earlier document is of the kernel, size and inputs of a benchmark that is yet to
/// be run. Where and on how many threads it will run is not known before.
#[must_use]
pub fn applies(old: &Document, request: &Request) -> bool {
    old.rows.iter().any(|Row { point, .. }| {
        let size = [point.m, point.n, point.k];
        let named = request.candidates.iter().find(|candidate| candidate.id() == point.kernel);
        let asked =
            named.map(|named| request.point(*named, size, point.threads, point.device.clone()));
        request.sizes.contains(&size) && asked.as_ref() == Some(point)
    })
}

/// Compares the rows that both documents have.
#[must_use]
pub fn compare(old: &Document, new: &Document) -> Vec<Comparison> {
    new.rows
        .iter()
        .filter_map(|now| {
            let then = old.rows.iter().find(|then| then.point == now.point)?;
            Some(comparison(then, now))
        })
        .collect()
}

/// Compares two rows of the same point.
#[must_use]
pub fn comparison(then: &Row, now: &Row) -> Comparison {
    let noise = DRIFT + ERRORS * median_error(then).max(median_error(now));
    let mut changed = Vec::new();
    let mut note = |what: &str, then: &str, now: &str| {
        if then != now {
            changed.push(format!("{what} was {then}, is {now}"));
        }
    };
    note("processor", &then.processor, &now.processor);
    note("program", &then.version, &now.version);
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    note("peer", &word(&then.peer), &word(&now.peer));
    note("driver", &word(&then.driver), &word(&now.driver));
    note("kernel sources", &word(&then.ptx_sources), &word(&now.ptx_sources));
    // Not the other way round: a time that is no number is within nothing.
    let within = now.seconds.median <= then.seconds.median * (1.0 + noise);
    Comparison {
        point: now.point.clone(),
        speedup: then.seconds.median / now.seconds.median,
        noise,
        slower: !within,
        changed,
    }
}

/// Runs below which their spread says nothing.
const FEW: usize = 3;

/// Whether a row's median is sure to within what machines drift by anyway.
pub(crate) fn is_sure(row: &Row) -> bool {
    row.seconds.runs >= FEW && ERRORS * median_error(row) <= DRIFT
}

/// Standard error of a row's median as a share of it. For runs that scatter normally it is 1.25
/// deviations over the root of their number, and the middle half is 1.35 deviations wide.
fn median_error(row: &Row) -> f64 {
    0.93 * row.spread / (row.seconds.runs.max(1) as f64).sqrt()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::{Cache, Head};
    use crate::measure::{Ops, Timing, Verdict};

    pub(crate) fn row(kernel: &str, median: f64, spread: f64) -> Row {
        let half = median * spread / 2.0;
        let seconds = Timing {
            median,
            min: median - half,
            max: median + half,
            q25: median - half,
            q75: median + half,
            runs: 10,
        };
        Row {
            point: Point {
                kernel: kernel.to_owned(),
                device: "cpu".to_owned(),
                m: 8,
                n: 8,
                k: 8,
                dtype: "f32".to_owned(),
                ops: Ops::Nn,
                alpha: 1.0,
                beta: 0.0,
                seed: 1,
                dist: "uniform".to_owned(),
                threads: 1,
                cache: Cache::Warm,
            },
            spread: seconds.spread(),
            seconds,
            rounds: Vec::new(),
            busy_before: None,
            settled: true,
            batch: 1,
            sets: 1,
            gflops: 1.0,
            percent_of_peak: None,
            peak_gflops: None,
            peak_vectors: None,
            percent_of_best: Some(100.0),
            ratio_to_best_peer: None,
            peer: None,
            chosen: None,
            ranges: None,
            check: Verdict {
                method: "full".to_owned(),
                ok: true,
                max_error: 0.0,
                bound: 1.0,
                detail: None,
            },
            refused: None,
            energy: None,
            before: None,
            after: None,
            command: vec!["tessera".to_owned()],
            ptx_sources: None,
            version: "0".to_owned(),
            processor: "this".to_owned(),
            driver: None,
        }
    }

    pub(crate) fn document(rows: Vec<Row>) -> Document {
        Document { rows, ..Document::new(Head::default()) }
    }

    #[test]
    fn a_regression_is_what_passes_both_runs_noise() {
        let old = document(vec![row("a", 1.0, 0.001), row("b", 1.0, 0.05), row("c", 1.0, 0.0)]);
        let new = document(vec![row("a", 1.03, 0.001), row("b", 1.05, 0.0), row("d", 9.0, 0.0)]);
        let found = compare(&old, &new);
        let slower: Vec<_> = found.iter().map(|c| (c.point.kernel.as_str(), c.slower)).collect();
        assert_eq!(slower, [("a", true), ("b", false)]);
        let nan = comparison(&row("a", 1.0, 0.0), &row("a", f64::NAN, 0.0));
        assert!(nan.slower, "a time that is no number is no good news");
    }

    #[test]
    fn documents_come_back_as_they_were_written() {
        let old = document(vec![row("a", 0.125, 0.5)]);
        let text = serde_json::to_string(&old).unwrap();
        assert_eq!(read(&text).unwrap().rows, old.rows);
    }

    /// What earlier versions wrote is read: the documents that the tables of `docs/` come from.
    #[test]
    fn committed_documents_are_read() {
        let results = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../results"));
        let folders = |path: &std::path::Path| std::fs::read_dir(path).unwrap();
        let paths = folders(results).flat_map(|folder| {
            let folder = folder.unwrap().path();
            let files = folder.is_dir().then(|| folders(&folder)).into_iter().flatten();
            files.map(|file| file.unwrap().path()).collect::<Vec<_>>()
        });
        let mut read_in = 0;
        for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains(&format!("\"{FORMAT}\"")) {
                let document = read(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
                assert!(!document.rows.is_empty(), "{path:?}");
                read_in += 1;
            }
        }
        assert!(read_in > 0, "no document of `{FORMAT}` under results/");
    }

    #[test]
    fn other_files_are_refused_with_what_they_are() {
        for (text, word) in [
            ("{", "not JSON"),
            ("{}", "no `format`"),
            (r#"{"format":"tessera-bench 9","rows":[],"skipped":[]}"#, "tessera-bench 9"),
            (r#"{"format":"tessera-bench 1","rows":[{}],"skipped":[]}"#, "missing field"),
        ] {
            let error = read(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains('\n'), "{error}");
        }
        for median in [1e300, 0.0, -1.0, 1e-300] {
            let row = Row { spread: 0.0, ..row("a", median, 0.0) };
            let text = serde_json::to_string(&document(vec![row])).unwrap();
            let error = read(&text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("median of a") && error.len() < 100, "{error}");
        }
    }
}
