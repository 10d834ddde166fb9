//! The flags of `vireo check`, part of the command line.

use std::path::PathBuf;

use clap::Args;

use super::{Format, ProgramArguments, examples};

/// Runs the test functions of modules, which check their results themselves.
///
/// Names of flags are those of `iree-check-module` and of GoogleTest, which it uses.
#[derive(Args, Debug)]
#[command(after_help = examples::help(examples::CHECK))]
pub struct CheckArguments {
    /// Test modules, each run on its own after the modules of --module. Without any, the last --module is the test
    /// module.
    #[arg(value_name = "FILE")]
    pub tests: Vec<PathBuf>,
    /// Only tests that a pattern matches: `PATTERN:PATTERN-PATTERN:PATTERN`, without those after the dash. `*` is any
    /// text, `?` any character. A test is called `function` or `module.function`.
    #[arg(long, value_name = "PATTERNS", alias = "gtest-filter", allow_hyphen_values = true)]
    pub filter: Option<String>,
    /// List the names of the tests and exit.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", alias = "gtest-list-tests")]
    pub list: bool,
    /// Stop after the first test that fails.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", alias = "gtest-fail-fast")]
    pub fail_fast: bool,
    /// Expect that a test fails: succeed if one does, fail if none does.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub expect_failure: bool,
    /// How results are written to stdout.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
    /// Also write the results to this file, in the form of JUnit.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Modules and devices.
    #[command(flatten)]
    pub program: ProgramArguments,
}
