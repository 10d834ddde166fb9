//! Tests that cannot run here say so, and are counted.
//!
//! `cargo test` shows nothing of what a passing test prints, so a test that skips looks like one that ran. Where
//! `VIREO_SKIPPED` names a file, each skip appends a line to it: what would be needed, the test, and why.
//! `cargo xtask skipped FILE` counts these lines and fails for what this machine does have.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// The device, tool or processor that a test needs and a machine may lack.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "no program of tests needs all of them")]
pub enum Need<'a> {
    /// An architecture or system, as `std::env::consts` names them: `x86_64`, `linux`, `unix`.
    Platform(&'a str),
    /// A feature of the processor, as Linux names it: `avx512f`.
    Processor(&'a str),
    /// A processor without this feature.
    NoProcessor(&'a str),
    /// A program on the path: `cc`.
    Tool(&'a str),
    /// A package of the system: `libhsa-runtime-dev`.
    Package(&'a str),
    /// A service of the system that it may refuse: `perf_event`.
    Permission(&'a str),
    /// A variable of the environment that names what is not part of the repository.
    Variable(&'a str),
}

/// Notes that the running test leaves something out because of `need`.
pub fn skipped(need: Need, why: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread of a test");
    println!("skipped: {why}");
    let Some(path) = std::env::var_os("VIREO_SKIPPED") else { return };
    let (kind, name) = match need {
        Need::Platform(name) => ("platform", name),
        Need::Processor(name) => ("processor", name),
        Need::NoProcessor(name) => ("no-processor", name),
        Need::Tool(name) => ("tool", name),
        Need::Package(name) => ("package", name),
        Need::Permission(name) => ("permission", name),
        Need::Variable(name) => ("variable", name),
    };
    let why = why.to_string().replace(['\t', '\n'], " ");
    let line = format!("{kind} {name}\t{test}\t{why}\n");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
