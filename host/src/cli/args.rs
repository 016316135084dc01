//! What can be typed. The doc comments are the help text.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::groups::{Implementations, Output, Products};
use super::values::{Sizes, seconds};
use super::{
    accuracy, bench, demo, devices, explain, list, mem, multiply, roofline, sweep, tiles, tune,
};

/// Matrix products on CPU and GPU: every implementation run, checked and timed.
///
/// Without a subcommand it is `tessera run`. Data go to standard output, progress and advice to
/// standard error.
///
/// Exit codes: 0 fine, 1 a result is wrong, 2 usage, unusable input or nothing that can run, 3 a GPU is
/// needed and is not there, 4 out of memory, 5 slower than a baseline allows.
#[derive(Parser)]
#[command(name = "tessera", version, args_conflicts_with_subcommands = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: Run,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Compute one product with every implementation that can, check each, print one table.
    Run(Run),
    /// Measure how fast implementations are, and how sure that is.
    Bench(bench::Args),
    /// Measure the rows of an earlier benchmark again and compare.
    Replay(bench::replay::Args),
    /// Measure and check implementations over many sizes, and find where one overtakes another.
    Sweep(sweep::Args),
    /// How far products of f32 are from the truth, on data from harmless to unkind.
    Accuracy(accuracy::Args),
    /// Multiply two matrices from `.npy` files and write the product as one.
    Multiply(multiply::Args),
    /// Show every implementation: types, limits, what it does and where it comes from.
    List(list::Args),
    /// Show the processors that this program may use, or why there is no GPU.
    Devices(devices::Args),
    /// Show what a product needs in memory, where it fits, and the largest that does.
    Mem(mem::Args),
    /// An implementation's page of the ladder: idea, picture, launch, bytes, registers, PTX.
    Explain(explain::Args),
    /// What a card's memory must deliver for its peak, and what it can feed, with tiles and without.
    Roofline(roofline::Args),
    /// Which tile widths a card allows, what they take, and how full a multiprocessor gets.
    Tiles(tiles::Args),
    /// Run the book's 4 x 4 example and show which block computes what.
    Demo(demo::Args),
    /// Measure what the choice between CPU and GPU goes by, in some seconds, and keep it for this user.
    Tune(tune::Args),
}

#[derive(Args, Clone)]
pub(super) struct Run {
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::values::{device, processor};
    use crate::measure::DeviceChoice;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_is_the_default() {
        let cli = Cli::try_parse_from(["tessera", "-n", "10240"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.run.sizes.mnk(), [10_240; 3]);
        let cli = Cli::try_parse_from(["tessera", "run", "-m", "3", "--alpha", "-1.5"]).unwrap();
        assert!(
            matches!(cli.command, Some(Command::Run(run)) if run.sizes.mnk() == [3, 1024, 1024])
        );
    }

    #[test]
    fn words_that_cannot_be_meant_are_refused() {
        for args in [
            ["-n", "0"],
            ["-n", "-3"],
            ["-n", "1.5"],
            ["-n", "99999999999999999999999"],
            ["--dtype", "f33"],
            ["--device", "gpu"],
            ["--device", "cuda:x"],
            ["--threads", "0"],
            ["--budget", "0"],
            ["--budget", "NaN"],
            ["--format", "xml"],
            ["--check", "maybe"],
            ["--dist", "gauss"],
        ] {
            assert!(Cli::try_parse_from(["tessera", args[0], args[1]]).is_err(), "{args:?}");
        }
        assert_eq!(device("cuda:2"), Ok(DeviceChoice::Cuda(2)));
        assert_eq!(device("emulate"), Ok(DeviceChoice::Emulate));
        assert!(processor("emulate").is_err());
    }
}
