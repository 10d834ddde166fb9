//! Runs the tests of the workspace on a target, by its emulator.

use super::targets::Target;
use super::{Linker, Outcome, cargo, succeeds, variable};

/// The packages whose tests run. The rest is of tools for this machine; the tests of the command and of
/// some examples have models for x86-64.
const PACKAGES: [&str; 15] = [
    "vireo",
    "vireo-core",
    "vireo-module",
    "vireo-vm",
    "vireo-jit",
    "vireo-session",
    "vireo-hal",
    "vireo-hal-abi",
    "vireo-inference",
    "vireo-local",
    "vireo-vmvx",
    "vireo-modules",
    "vireo-params",
    "vireo-counting-driver",
    "vireo-executable-plugin",
];

/// Runs the tests. Those that start programs of the target start them by the words of `VIREO_RUNNER`.
pub fn run(target: &Target, linker: &Linker, runner: &[String]) -> Result<Outcome, String> {
    let mut test = cargo(target, "test", linker);
    test.args(["--no-fail-fast", "--lib", "--bins", "--tests"]);
    test.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    if !runner.is_empty() {
        let words = runner.join(" ");
        test.env(variable(target, "RUNNER"), &words).env("VIREO_RUNNER", words);
    }
    Ok(match succeeds(&mut test)? {
        true => Outcome::Passed("the tests pass".to_string()),
        false => Outcome::Failed("tests fail".to_string()),
    })
}
