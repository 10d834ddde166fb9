//! The command `vireo`. All of it is in the library of this package, since what links decides how all crates are optimised together.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    vireo_cli::main()
}
