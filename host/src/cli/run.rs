//! `tessera run`: one product by every implementation, in one table.

use super::Exit;
use super::args;
use super::interrupt::{self, Ended};
use super::nothing_ran;
use super::output::{Outputs, advise, colour, print};
use super::values;
use crate::report::render;
use crate::run::{Config, Document, Failure, run};

pub(super) fn main(args: &args::Run) -> anyhow::Result<Exit> {
    let config = config(args)?;
    let outputs = Outputs::new(&args.out, args.format)?;
    let own = config.clone();
    let document = match interrupt::until(move |observer| run(&own, observer))? {
        Ended::Whole(document) => document?,
        Ended::Interrupted(so_far) => {
            // Temporary files go, and what is in their place stays.
            drop(outputs);
            if let Some(so_far) = so_far {
                print(&render(&so_far, args.format.unwrap_or_default(), colour())?)?;
            }
            advise("interrupted: implementations without a row were not measured");
            std::process::exit(interrupt::CODE);
        }
    };
    outputs.write(|format, colour| render(&document, format, colour))?;
    Ok(exit(&document, &config))
}

/// What was typed, made sense of.
fn config(args: &args::Run) -> anyhow::Result<Config> {
    values::check_scalars(args.dtype, args.alpha, args.beta)?;
    let implementations = values::implementations(args.kernel.as_deref())?;
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
        threads: values::thread_count(args.threads)?,
        seed: args.seed,
        distribution: args.dist,
        check: args.check,
        budget: args.budget,
    })
}

/// A wrong result is the worst, then an implementation that failed.
fn exit(document: &Document, config: &Config) -> Exit {
    match document.failure {
        _ if !document.all_right() => Exit::Wrong,
        Some(Failure::OutOfMemory) => Exit::OutOfMemory,
        Some(Failure::Other) => Exit::Wrong,
        None if document.rows.is_empty() => {
            nothing_ran::exit(config.device, config.implementations.iter().map(|one| one.on_gpu()))
        }
        None => Exit::Fine,
    }
}
