//! The program: arguments in, text and an exit code out.

mod accuracy;
mod args;
mod bench;
mod demo;
mod devices;
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
mod sweep;
mod tiles;
mod tune;
mod values;

use std::process::ExitCode;

use args::Command;
use clap::Parser;

use crate::error::Error;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done, and every checked result is right.
    Fine = 0,
    /// A result is wrong, or an implementation failed.
    Wrong = 1,
    /// The arguments or the input cannot be used, or nothing that was asked for can run.
    Usage = 2,
    /// A GPU is needed and is not there.
    NoDevice = 3,
    /// Memory is short.
    OutOfMemory = 4,
    /// A measurement is slower than its baseline allows.
    Slower = 5,
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::Product { error } => Self::from(error),
            Error::MemoryLimit { .. } => Self::OutOfMemory,
            Error::Emulation { .. } => Self::Wrong,
            Error::UnknownKernel { .. }
            | Error::UnknownCard { .. }
            | Error::UnknownPeak { .. }
            | Error::WrongDevice { .. }
            | Error::NotHere { .. }
            | Error::Variable { .. }
            | Error::Record { .. }
            | Error::SweepFile { .. }
            | Error::Check { .. }
            | Error::Peer { .. } => Self::Usage,
        }
    }
}

impl From<&tessera::Error> for Exit {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the library may add to its errors")]
    fn from(error: &tessera::Error) -> Self {
        match error {
            tessera::Error::NoDevice { .. } | tessera::Error::NoSuchDevice { .. } => Self::NoDevice,
            tessera::Error::OutOfMemory { .. } => Self::OutOfMemory,
            tessera::Error::Cuda { .. } => Self::Wrong,
            _ => Self::Usage,
        }
    }
}

/// Runs the program on the process's own arguments.
#[must_use]
pub fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let cli = match args::Cli::try_parse() {
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
            Ok(()) => Exit::Fine,
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
    use super::*;

    fn complaint(args: &[&str]) -> String {
        match args::Cli::try_parse_from(args) {
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
