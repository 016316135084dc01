//! The program `tessera`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tessera::cli::main()
}
