//! `cargo xtask cross [--suite] [TARGET]`: builds Vireo for other machines and runs it there, as far as this one has
//! what that needs.
//!
//! For each target of `targets`, `examples/anywhere` and the command are built and run the models of `fixtures/models`
//! that the machine can run (`models`); what they print must be what the reference runtime printed. `--suite` runs the
//! tests of the workspace too (`suite`). Targets that nothing here links or runs are checked by the compiler, and so
//! are those for which no emulator is known. What is absent is said, as in tests: `skipped: why`.
//!
//! A target needs the compiler's standard library for it, `rustup target add TARGET`, a linker, and something that runs
//! its programs. `RUSTC` names another compiler than the one of the workspace; cargo's own variables name another
//! linker (`CARGO_TARGET_..._LINKER`).

mod cargo;
mod models;
mod outcome;
mod programs;
mod suite;
mod targets;

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::chore::workspace;
use cargo::{Linker, WASM_HOST, cargo, succeeds, variable, wasm_host, wasm_host_target};
use models::{ANYWHERE, COMMAND};
use outcome::Outcome;
use programs::Wine;
use targets::{NODE, Run, TARGETS, Target};

/// Builds and runs the targets, or the one called `only`, and their tests if `with_suite` says so.
pub fn cross(only: Option<&str>, with_suite: bool) -> Result<(), String> {
    let chosen: Vec<&Target> =
        TARGETS.iter().filter(|target| only.is_none_or(|name| target.name.contains(name))).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        return Err(format!("there is no target `{}`: expected one of {}", only.unwrap_or_default(), names.join(", ")));
    }
    let mut failed = Vec::new();
    for target in chosen {
        for outcome in try_target(target, with_suite)? {
            match outcome {
                Outcome::Passed(what) => println!("{}: {what}", target.name),
                Outcome::Skipped(why) => println!("{}: skipped: {why}", target.name),
                Outcome::Failed(why) => failed.push(format!("{}: {why}", target.name)),
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn try_target(target: &Target, with_suite: bool) -> Result<Vec<Outcome>, String> {
    if !has_standard_library(target.name)? {
        let why = format!("the compiler has no standard library for it (rustup target add {})", target.name);
        return Ok(vec![Outcome::Skipped(why)]);
    }
    if let Run::CheckOnly = target.run {
        return Ok(vec![check(target, "programs for it cannot be run here")?]);
    }
    let linker = match linker(target) {
        Ok(linker) => linker,
        Err(why) => return Ok(vec![check(target, &why)?]),
    };
    let runners = match runners(target)? {
        Ok(runners) => runners,
        Err(why) => return Ok(vec![check(target, &why)?]),
    };
    let mut build = cargo(target, "build", &linker);
    build.args(["--package", ANYWHERE]);
    if target.has_command {
        build.args(["--package", COMMAND.0]);
    }
    if !succeeds(&mut build)? {
        return Ok(vec![Outcome::Failed("does not build".to_string())]);
    }
    let _kept = match target.run {
        Run::InWine(_) => Some(Wine::start(&runners[0])?),
        _ => None,
    };
    let mut outcomes = Vec::new();
    for runner in &runners {
        outcomes.push(models::run_example(target, runner)?);
    }
    if target.has_command {
        outcomes.push(models::run_command(target, &runners[0])?);
    }
    if with_suite {
        outcomes.push(suite::run(target, &linker, &runners[0])?);
    }
    Ok(outcomes)
}

/// Checks the library and the programs, for a target that is not run for the reason `why`.
fn check(target: &Target, why: &str) -> Result<Outcome, String> {
    let mut check = cargo(target, "check", &Linker::default());
    check.args(["--package", ANYWHERE]);
    if target.has_command {
        check.args(["--package", COMMAND.0, "--package", "vireo-runtime"]);
    }
    Ok(match succeeds(&mut check)? {
        true => Outcome::Passed(format!("compiles; skipped: {why}")),
        false => Outcome::Failed("does not compile".to_string()),
    })
}

/// The linker of a target, or why there is none.
fn linker(target: &Target) -> Result<Linker, String> {
    let mut variables = Vec::new();
    let (linker, flags) = (variable(target, "LINKER"), variable(target, "RUSTFLAGS"));
    if let Some(program) = target.linker
        && env::var_os(&linker).is_none()
    {
        if !on_path(program) {
            return Err(format!("there is no `{program}` to link with"));
        }
        variables.push((linker, program.to_string()));
    }
    if !target.flags.is_empty() {
        let given = env::var(&flags).unwrap_or_default();
        variables.push((flags, format!("{given} {}", target.flags)));
    }
    Ok(Linker { variables })
}

/// The words before the name of a program that run it, for each way in which programs of a target are run, or why there
/// is none.
fn runners(target: &Target) -> Result<Result<Vec<Vec<String>>, String>, String> {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    Ok(match target.run {
        Run::Directly | Run::CheckOnly => Ok(vec![Vec::new()]),
        Run::With(commands) | Run::InWine(commands) => match commands.iter().find(|command| on_path(command[0])) {
            Some(command) => Ok(vec![words(command)]),
            None => {
                let names: Vec<&str> = commands.iter().map(|command| command[0]).collect();
                Err(format!("there is no {} to run its programs", names.join(" or ")))
            }
        },
        Run::InWasm => {
            if !succeeds(&mut wasm_host("build"))? {
                return Err(format!("{} does not build", WASM_HOST.0));
            }
            let host = wasm_host_target().join("debug").join(WASM_HOST.1);
            let mut runners = vec![vec![host.to_string_lossy().into_owned()]];
            if on_path(NODE[0]) {
                runners.push(words(NODE));
            }
            Ok(runners)
        }
    })
}

/// Whether the compiler has a standard library for a target.
fn has_standard_library(target: &str) -> Result<bool, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(&rustc).current_dir(workspace()).args(["--print", "target-libdir", "--target", target]).output();
    let output = output.map_err(|error| format!("{}: {error}", rustc.to_string_lossy()))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let mut files = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
    Ok(files.any(|file| file.to_string_lossy().starts_with("libstd-")))
}

fn on_path(tool: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(tool).is_file())
}
