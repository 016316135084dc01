//! The program `tessera`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::cli::main()
}
