//! The exit codes of the command. Scripts rely on them, so a code never changes its meaning.

use std::panic::{UnwindSafe, catch_unwind};
use std::process::ExitCode;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done.
    Ok = 0,
    /// The program was loaded, but running it or handling its results failed.
    RunFailure = 1,
    /// The command line is wrong, or a value or input file that it names.
    Usage = 2,
    /// A module, a function in it or a device could not be loaded, verified, found or created.
    LoadFailure = 3,
    /// The program ran, but its results are not the expected ones.
    Mismatch = 4,
    /// The sanitizer found something in kernels.
    Findings = 5,
}

/// The table of exit codes for `--help`.
pub const HELP: &str = "\
Exit codes:
  0  ok
  1  run failure: the program was loaded, but running it or writing its results failed
  2  usage: the command line, a value or an input file is wrong
  3  load failure: a module, a function or a device cannot be loaded, verified or found
  4  mismatch: the results are not the expected ones
  5  findings: the sanitizer found something in kernels";

/// The code of a process after a panic, which is that of all programs in Rust.
const PANIC: i32 = 101;

/// The exit code of a process that does nothing but `main`. A panic, whose message has been written, does not go
/// further.
pub fn exit_code(main: impl FnOnce() -> Exit + UnwindSafe) -> i32 {
    catch_unwind(main).map_or(PANIC, |exit| exit as i32)
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stable_and_documented() {
        let codes = [Exit::Ok, Exit::RunFailure, Exit::Usage, Exit::LoadFailure, Exit::Mismatch, Exit::Findings];
        for (number, code) in codes.into_iter().enumerate() {
            assert_eq!(code as usize, number);
            assert!(HELP.contains(&format!("\n  {number}  ")));
        }
    }

    #[test]
    fn a_panic_is_an_exit_code_like_that_of_other_programs() {
        assert_eq!(exit_code(|| Exit::Mismatch), 4);
        assert_eq!(exit_code(|| panic!("a panic for the test")), 101);
    }
}
