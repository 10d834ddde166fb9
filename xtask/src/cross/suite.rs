//! Runs the tests of the workspace on a target, by its emulator, and for WebAssembly those of its host.

use std::fs;
use std::path::Path;

use super::cargo::{Linker, cargo, succeeds, variable, wasm_host};
use super::models;
use super::outcome::Outcome;
use super::targets::{Run, Target};
use crate::skipped;

/// The packages whose tests run. The rest is of tools for this machine.
const PACKAGES: [&str; 16] = [
    "vireo-runtime",
    "vireo-cli",
    "vireo-core",
    "vireo-module",
    "vireo-vm",
    "vireo-jit",
    "vireo-context",
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
    if let Some(why) = target.no_suite {
        return Ok(Outcome::Skipped(format!("its tests: {why}")));
    }
    if let Run::InWasm = target.run {
        let mut test = wasm_host("test");
        test.env("VIREO_ANYWHERE", models::program(target, models::ANYWHERE));
        return Ok(match succeeds(&mut test)? {
            true => Outcome::Passed("the tests of its host pass".to_string()),
            false => Outcome::Failed("tests of its host fail".to_string()),
        });
    }
    let skips = crate::chore::target().join(target.name).join("skipped.txt");
    if skips.exists() {
        fs::remove_file(&skips).map_err(|error| format!("{}: {error}", skips.display()))?;
    }
    let mut test = cargo(target, "test", linker);
    // All targets that have tests. `--bins` would take programs as tests that have none.
    test.args(["--no-fail-fast", "--tests"]).env("VIREO_SKIPPED", &skips);
    // An emulator takes many times as long for an instruction, so fewer of them are worth the longer compilation.
    test.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    // Random programs compare compiled code with the interpreter, which is all there is elsewhere: a few show that they
    // run.
    test.env("VIREO_NESTS", "10");
    test.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    if !runner.is_empty() {
        let words = runner.join(" ");
        test.env(variable(target, "RUNNER"), &words).env("VIREO_RUNNER", words);
    }
    Ok(match succeeds(&mut test)? {
        true => Outcome::Passed(format!("the tests pass, {}", counted(&skips)?)),
        false => Outcome::Failed("tests fail".to_string()),
    })
}

/// How many tests left something out, and why.
fn counted(file: &Path) -> Result<String, String> {
    skipped::report(&skipped::read(file)?)
}
