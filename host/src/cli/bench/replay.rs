//! `tessera replay`: rows of an earlier benchmark, measured again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use gemm_spec::Types;

use super::{exit, percent, text};
use crate::bench::compare::{compare, read};
use crate::bench::{Document, Head, Point, Request, Row, again, run};
use crate::cli::output::{Progress, colour, print};
use crate::cli::{Exit, nothing_ran, values};
use crate::error::Error;
use crate::measure::{Candidate, DeviceChoice};
use crate::report::bench::Compared;
use crate::report::{Format, render};
use crate::verify::Method;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// A document of `tessera bench --format json`, or one of its rows.
    #[arg(value_name = "ROW.json")]
    file: PathBuf,
    /// Seconds for the runs of each row.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = values::seconds)]
    time: Duration,
    /// Percent of the median within which the middle half of the runs must lie.
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = percent)]
    spread: f64,
    /// Output: table, md, csv or json.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

pub(in crate::cli) fn main(args: &Args) -> anyhow::Result<Exit> {
    let rows = rows(&args.file)?;
    let mut new = Document::new(Head::default());
    let mut candidates = Vec::new();
    let requests = rows.iter().enumerate().map(|(index, row)| {
        let check: Method = row.check.method.parse().unwrap_or_default();
        can_be_meant(index, &row.point)?;
        Ok(again(row, args.time, args.spread, check)?)
    });
    let requests: Vec<Request> = requests.collect::<anyhow::Result<_>>()?;
    let mut progress = Progress::new();
    for request in &requests {
        candidates.extend(&request.candidates);
        let mut document = run(request, &mut progress)?;
        new.rows.append(&mut document.rows);
        new.skipped.append(&mut document.skipped);
    }
    drop(progress);
    new.rank();
    let old = Document { rows, ..Document::new(Head::default()) };
    let comparisons = compare(&old, &new);
    let compared = Compared { document: &new, comparisons: &comparisons };
    print(&render(&compared, args.format, colour())?)?;
    if new.rows.is_empty() {
        // A row of a GPU that is not there has ended it before.
        return Ok(nothing_ran::exit(DeviceChoice::Cpu, candidates.iter().map(Candidate::on_gpu)));
    }
    // A replay tells; it is a baseline that judges.
    Ok(exit(&new, &[]))
}

/// Refuses a row of a record that the command line could not ask for.
fn can_be_meant(index: usize, point: &Point) -> anyhow::Result<()> {
    let refused = |what: String| {
        let reason = format!("row {}: {what}; measure it anew with `tessera bench`", index + 1);
        Err(Error::Record { reason }.into())
    };
    for (name, size) in [("m", point.m), ("n", point.n), ("k", point.k)] {
        if let Err(reason) = values::size(&size.to_string()) {
            return refused(format!("{name} is {size}, {reason}"));
        }
    }
    if let Err(reason) = values::threads(&point.threads.to_string()) {
        return refused(format!("threads are {}, {reason}", point.threads));
    }
    match Types::from_name(&point.dtype) {
        Some(dtype) => values::check_scalars(dtype, point.alpha, point.beta),
        None => refused(format!("`{}` is no element type", point.dtype)),
    }
}

/// The rows of a document, or the one row that the file holds.
fn rows(path: &Path) -> anyhow::Result<Vec<Row>> {
    let text = text(path)?;
    let rows = match serde_json::from_str::<Row>(&text) {
        Ok(row) => vec![row],
        Err(_) => read(&text).with_context(|| path.display().to_string())?.rows,
    };
    ensure!(!rows.is_empty(), "{}: it has no rows to measure again", path.display());
    Ok(rows)
}
