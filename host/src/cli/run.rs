//! `tessera run`: one product by every implementation, in one table.

use std::io::Write;

use anyhow::bail;

use super::Exit;
use super::args;
use super::output::{Progress, Replacement, colour, print};
use crate::registry;
use crate::report::{Format, render};
use crate::run::{Config, Document, Failure, run};

pub(super) fn main(args: &args::Run) -> anyhow::Result<Exit> {
    let config = config(args)?;
    // Before any work: a place that cannot be written is known now.
    let mut files = Vec::with_capacity(args.out.len());
    for path in &args.out {
        files.push((Replacement::new(path)?, args.format.unwrap_or_else(|| Format::of(path))));
    }
    let document = run(&config, &mut Progress::new())?;
    if files.is_empty() {
        print(&render(&document, args.format.unwrap_or_default(), colour())?)?;
    }
    for (mut file, format) in files {
        file.writer().write_all(render(&document, format, false)?.as_bytes())?;
        file.commit()?;
    }
    Ok(exit(&document))
}

/// What was typed, made sense of.
fn config(args: &args::Run) -> anyhow::Result<Config> {
    args::check_scalars(args.dtype, args.alpha, args.beta)?;
    let implementations = registry::select(&args.kernel)?;
    if implementations.is_empty() {
        bail!("--kernel '{}' takes every implementation away", args.kernel);
    }
    let (m, n, k) = args.sizes.mnk();
    Ok(Config {
        m,
        n,
        k,
        dtype: args.dtype,
        alpha: args.alpha,
        beta: args.beta,
        implementations,
        device: args.device,
        threads: args.threads,
        seed: args.seed,
        distribution: args.dist,
        check: args.check,
        budget: args.budget,
    })
}

/// A wrong result is the worst, then an implementation that failed.
fn exit(document: &Document) -> Exit {
    match document.failure {
        _ if !document.all_right() => Exit::Wrong,
        Some(Failure::OutOfMemory) => Exit::OutOfMemory,
        Some(Failure::Other) => Exit::Wrong,
        None => Exit::Fine,
    }
}
