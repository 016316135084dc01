//! The program: arguments in, text and an exit code out.

mod accuracy;
mod bench;
mod demo;
mod devices;
mod doctor;
mod exit;
mod explain;
mod groups;
mod interrupt;
mod list;
mod mem;
mod multiply;
mod nothing_ran;
mod npy;
mod output;
mod roofline;
mod run;
mod sanitize;
mod sweep;
mod tiles;
mod tune;
mod values;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
pub use exit::Exit;

use crate::error::Error;

/// Matrix products on CPU and GPU: every implementation run, checked and timed.
///
/// Without a subcommand it is `tessera run`. Data go to standard output, progress and advice to
/// standard error.
///
/// Exit codes: 0 success, 1 a result is wrong, 2 usage, unusable input or nothing that can run, 3 a GPU is
/// needed and is not there, 4 out of memory, 5 slower than a baseline allows.
#[derive(Parser)]
#[command(name = "tessera", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Args,
}

#[derive(Subcommand)]
enum Command {
    /// Compute one product with every implementation that can, check each result and print one table.
    Run(run::Args),
    /// Measure how fast implementations are, and how certain that is.
    Bench(bench::Args),
    /// Measure the rows of an earlier benchmark again and compare them.
    Replay(bench::replay::Args),
    /// Measure and check implementations over many sizes, and find where one overtakes another.
    Sweep(sweep::Args),
    /// Measure the errors of f32 products, on data from easy to ill-conditioned.
    Accuracy(accuracy::Args),
    /// Multiply two matrices from `.npy` files and write the product as one.
    Multiply(multiply::Args),
    /// List the implementations: types, limits, what each does and where it comes from.
    List(list::Args),
    /// Show the processors that this program may use, or why there is no GPU.
    Devices(devices::Args),
    /// Check the settings, and each processor with a product of every type; say what to fix.
    Doctor(doctor::Args),
    /// Run the GPU kernels on the CPU with every access and barrier checked, in several orders of events.
    Sanitize(sanitize::Args),
    /// Show what a product needs in memory, where it fits, and the largest that does.
    Mem(mem::Args),
    /// Show an implementation's page of the ladder: idea, picture, launch, bytes, registers, PTX.
    Explain(explain::Args),
    /// Show what memory bandwidth a card needs to reach its peak, and what it has, with tiles and without.
    Roofline(roofline::Args),
    /// Show which tile widths a card allows, what they take, and the occupancy of an SM.
    Tiles(tiles::Args),
    /// Run the book's 4 x 4 example and show which block computes what.
    Demo(demo::Args),
    /// Measure what the choice between CPU and GPU depends on, in some seconds, and store it for this user.
    Tune(tune::Args),
}

/// The program's command line, for those who write lines of it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program on the process's own arguments.
#[must_use]
pub fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => return ExitCode::from(refuse(&refusal) as u8),
    };
    let result = match cli.command {
        None => run::main(&cli.run),
        Some(Command::Run(args)) => run::main(&args),
        Some(Command::Bench(args)) => bench::main(&args),
        Some(Command::Replay(args)) => bench::replay::main(&args),
        Some(Command::Accuracy(args)) => accuracy::main(&args),
        Some(Command::Sweep(args)) => sweep::main(&args),
        Some(Command::Multiply(args)) => multiply::main(&args),
        Some(Command::List(args)) => list::main(&args),
        Some(Command::Devices(args)) => devices::main(&args),
        Some(Command::Doctor(args)) => doctor::main(&args),
        Some(Command::Sanitize(args)) => sanitize::main(&args),
        Some(Command::Mem(args)) => mem::main(&args),
        Some(Command::Explain(args)) => explain::main(&args),
        Some(Command::Roofline(args)) => roofline::main(&args),
        Some(Command::Tiles(args)) => tiles::main(&args),
        Some(Command::Demo(args)) => demo::main(&args),
        Some(Command::Tune(args)) => tune::main(&args),
    };
    let exit = result.unwrap_or_else(|error| {
        output::complain(&error);
        let library = || error.downcast_ref::<tessera::Error>().map(Exit::from);
        error.downcast_ref::<Error>().map(Exit::from).or_else(library).unwrap_or(Exit::Usage)
    });
    ExitCode::from(exit as u8)
}

/// Prints what the parser has to say in place of arguments: the help or the version as they are, a
/// mistake on one line.
fn refuse(refusal: &clap::Error) -> Exit {
    if !refusal.use_stderr() {
        let text = refusal.render();
        let text = if output::colour() { text.ansi().to_string() } else { text.to_string() };
        return match output::print(&text) {
            Ok(()) => Exit::Success,
            Err(error) => {
                output::complain(&error);
                Exit::Usage
            }
        };
    }
    output::complain(&anyhow::anyhow!(one_line(&refusal.render().to_string())));
    Exit::Usage
}

/// The parser's complaint without its usage: the first paragraph, the tips, and where to look.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let mut line = words.join(" ");
    for tip in text.lines().filter_map(|line| line.trim().strip_prefix("tip: ")) {
        line.push_str("; ");
        line.push_str(tip);
    }
    line + "; see `tessera --help`"
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::values::{device, processor};
    use super::*;
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

    fn complaint(args: &[&str]) -> String {
        match Cli::try_parse_from(args) {
            Ok(_) => String::new(),
            Err(refusal) => one_line(&refusal.render().to_string()),
        }
    }

    #[test]
    fn a_mistake_is_one_line_with_its_remedy() {
        assert_eq!(
            complaint(&["tessera", "-n", "0"]),
            "invalid value '0' for '-n <N>': sizes start at 1; see `tessera --help`"
        );
        let unknown = complaint(&["tessera", "--kernal", "naive"]);
        assert!(unknown.contains("'--kernal'") && unknown.contains("'--kernel'"), "{unknown}");
        let missing = complaint(&["tessera", "multiply", "a.npy"]);
        assert!(missing.contains("<B.npy>") && missing.contains("--output"), "{missing}");
        for line in [unknown, missing, complaint(&["tessera", "-n"])] {
            assert!(!line.contains('\n') && !line.contains("Usage"), "{line}");
            assert!(line.ends_with("see `tessera --help`"), "{line}");
        }
    }
}
