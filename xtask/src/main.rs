//! The project's own tasks: whatever is done twice is a subcommand here.
//!
//! Exit codes: 0 done, 1 a check failed, 2 usage, 3 the device toolchain or its library source is
//! not available on this machine.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task says what it does")]

mod assemble;
mod blas_deb;
mod blas_suites;
mod build_ptx;
mod c_library;
mod candle;
mod check_ptx;
mod ci;
mod command;
mod docs;
mod emulator_suites;
#[cfg(test)]
mod features;
mod fit;
mod gpu_bundle;
mod modules;
mod neon;
mod packages;
mod peers;
mod python;
mod registers;
mod sanitize;
mod shape;
mod toolchain;
mod toolkit;
mod venv;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the Tessera workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    BuildPtx(build_ptx::Args),
    Assemble(assemble::Args),
    CheckPtx(check_ptx::Args),
    GpuBundle(gpu_bundle::Args),
    Docs(docs::Args),
    Fit(fit::Args),
    Peers(peers::Args),
    Sanitize(sanitize::Args),
    EmulatorSuites(emulator_suites::Args),
    Neon(neon::Args),
    BlasSuites(blas_suites::Args),
    BlasDeb(blas_deb::Args),
    CLibrary(c_library::Args),
    Candle(candle::Args),
    Wheel(wheel::Args),
    PythonTests(python::Args),
    Ci(ci::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::BuildPtx(args) => build_ptx::run(&args),
        Task::Assemble(args) => assemble::run(&args),
        Task::CheckPtx(args) => check_ptx::run(&args).map(drop),
        Task::GpuBundle(args) => gpu_bundle::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::Fit(args) => fit::run(&args),
        Task::Peers(args) => peers::run(&args),
        Task::Sanitize(args) => sanitize::run(&args).map(drop),
        Task::EmulatorSuites(args) => emulator_suites::run(&args),
        Task::Neon(args) => neon::run(&args),
        Task::BlasSuites(args) => blas_suites::run(&args),
        Task::BlasDeb(args) => blas_deb::run(&args),
        Task::CLibrary(args) => c_library::run(&args),
        Task::Candle(args) => candle::run(&args),
        Task::Wheel(args) => wheel::run(&args),
        Task::PythonTests(args) => python::run(&args).map(drop),
        Task::Ci(args) => ci::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            match toolchain::Unavailable::is(&error) {
                true => ExitCode::from(3),
                false => ExitCode::from(1),
            }
        }
    }
}
