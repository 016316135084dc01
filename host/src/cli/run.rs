//! `tessera run`: one product by every implementation, in one table.

use std::time::Duration;

use super::Exit;
use super::groups::{Implementations, Output, Products};
use super::interrupt::{self, Ended};
use super::nothing_ran;
use super::output::{advise, colour, print};
use super::values::{Sizes, seconds};
use crate::report::render;
use crate::run::{Document, Failure, Request, run};

#[derive(clap::Args, Clone)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) sizes: Sizes,
    #[command(flatten)]
    pub(super) implementations: Implementations,
    #[command(flatten)]
    pub(super) products: Products,
    /// Seconds for the whole run; rows that do not fit are estimated and say so.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(super) budget: Duration,
    #[command(flatten)]
    pub(super) output: Output,
}

pub(super) fn main(args: &Args) -> anyhow::Result<Exit> {
    let request = request(args)?;
    let outputs = args.output.open()?;
    let own = request.clone();
    let document = match interrupt::until(move |observer| run(&own, observer))? {
        Ended::Whole(document) => document?,
        Ended::Interrupted(so_far) => {
            // Temporary files go, and what is in their place stays.
            drop(outputs);
            if let Some(so_far) = so_far {
                print(&render(&so_far, args.output.format.unwrap_or_default(), colour())?)?;
            }
            advise("interrupted: implementations without a row were not measured");
            std::process::exit(interrupt::CODE);
        }
    };
    outputs.write(|format, colour| render(&document, format, colour))?;
    Ok(exit(&document, &request))
}

/// What was typed, made sense of.
fn request(args: &Args) -> anyhow::Result<Request> {
    let config = args.products.config()?;
    let implementations = args.implementations.select()?;
    Ok(Request { config, size: args.sizes.mnk(), implementations, budget: args.budget })
}

/// A wrong result is the worst, then an implementation that failed.
fn exit(document: &Document, request: &Request) -> Exit {
    match document.head.failure {
        _ if !document.all_right() => Exit::Wrong,
        Some(Failure::OutOfMemory) => Exit::OutOfMemory,
        Some(Failure::Other) => Exit::Wrong,
        None if document.rows.is_empty() => {
            let on_gpu = request.implementations.iter().map(|one| one.on_gpu());
            nothing_ran::exit(request.config.device, on_gpu)
        }
        None => Exit::Success,
    }
}
