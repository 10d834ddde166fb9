//! `cargo xtask cross [TARGET]`: builds Vireo for other machines and runs it there, as far as this one has what that needs.
//!
//! For each target `examples/anywhere` is built and runs the models of `fixtures/models` that the machine can run; what it prints must be what the
//! reference runtime printed there. Other targets are only checked by the compiler. What is absent is said, as in tests: `skipped: why`.
//!
//! A target needs the compiler's standard library for it, `rustup target add TARGET`, a linker, and something that runs its programs. `RUSTC` names
//! another compiler than the one of the workspace; cargo's own variables name another linker (`CARGO_TARGET_..._LINKER`).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::workspace;

/// The package that is built and run.
const PACKAGE: &str = "vireo-anywhere";

/// A target, and how its programs are run here.
struct Target {
    name: &'static str,
    /// What links them, unless the compiler brings that along or cargo is told otherwise.
    linker: Option<&'static str>,
    /// Flags of the compiler for that linker.
    flags: &'static str,
    run: Run,
    /// The processors of `fixtures/models/manifest.json` whose kernels can run there.
    processors: &'static [&'static str],
}

/// How programs of a target are run.
enum Run {
    /// As those of this machine.
    Directly,
    /// By the first of these commands that is there; the last words are arguments of it.
    With(&'static [&'static [&'static str]]),
    /// Not at all.
    CheckOnly,
}

const TARGETS: [Target; 5] = [
    Target {
        name: "aarch64-unknown-linux-gnu",
        linker: Some("aarch64-linux-gnu-gcc"),
        flags: "",
        run: Run::With(&[
            &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
            &["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"],
        ]),
        processors: &["aarch64", "vmvx"],
    },
    // Static: there is no loader of libraries in it, and kernels come from embedded ELF libraries all the same.
    Target {
        name: "x86_64-unknown-linux-musl",
        linker: None,
        flags: "-Ctarget-feature=+crt-static",
        run: Run::Directly,
        processors: &["x86-64", "vmvx"],
    },
    Target {
        name: "wasm32-wasip1",
        linker: None,
        flags: "",
        run: Run::With(&[&["wasmtime", "run", "--dir=.::/"], &["node", "--no-warnings", "examples/anywhere/run.mjs"]]),
        processors: &["vmvx"],
    },
    Target { name: "x86_64-pc-windows-msvc", linker: None, flags: "", run: Run::CheckOnly, processors: &[] },
    Target { name: "aarch64-apple-darwin", linker: None, flags: "", run: Run::CheckOnly, processors: &[] },
];

/// Why a target was not tried, or what went wrong.
enum Outcome {
    Passed(String),
    Skipped(String),
    Failed(String),
}

/// Builds and runs the targets, or the one called `only`.
pub fn cross(only: Option<&str>) -> Result<(), String> {
    let chosen: Vec<&Target> =
        TARGETS.iter().filter(|target| only.is_none_or(|name| target.name.contains(name))).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        return Err(format!("there is no target `{}`: expected one of {}", only.unwrap_or_default(), names.join(", ")));
    }
    let mut failed = Vec::new();
    for target in chosen {
        match try_target(target)? {
            Outcome::Passed(what) => println!("{}: {what}", target.name),
            Outcome::Skipped(why) => println!("{}: skipped: {why}", target.name),
            Outcome::Failed(why) => failed.push(format!("{}: {why}", target.name)),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn try_target(target: &Target) -> Result<Outcome, String> {
    if !has_standard_library(target.name)? {
        let why = format!("the compiler has no standard library for it (rustup target add {})", target.name);
        return Ok(Outcome::Skipped(why));
    }
    let cargo = |command: &str| {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let options = ["--quiet", "--locked", "--package", PACKAGE, "--target", target.name];
        cargo.current_dir(workspace()).arg(command).args(options);
        cargo
    };
    let succeeds = |command: &mut Command| -> Result<bool, String> {
        Ok(command.status().map_err(|error| format!("cargo: {error}"))?.success())
    };
    if matches!(target.run, Run::CheckOnly) {
        return Ok(match succeeds(&mut cargo("check"))? {
            true => Outcome::Passed("compiles; programs for it cannot be run here".to_string()),
            false => Outcome::Failed("does not compile".to_string()),
        });
    }
    let variable = |what: &str| format!("CARGO_TARGET_{}_{what}", target.name.replace('-', "_").to_uppercase());
    let mut build = cargo("build");
    if let Some(linker) = target.linker
        && env::var_os(variable("LINKER")).is_none()
    {
        if !on_path(linker) {
            return Ok(Outcome::Skipped(format!("there is no `{linker}` to link with")));
        }
        build.env(variable("LINKER"), linker);
    }
    if !target.flags.is_empty() {
        let given = env::var(variable("RUSTFLAGS")).unwrap_or_default();
        build.env(variable("RUSTFLAGS"), format!("{given} {}", target.flags));
    }
    let runner = match target.run {
        Run::With(commands) => match commands.iter().find(|command| on_path(command[0])) {
            Some(command) => *command,
            None => {
                let names: Vec<&str> = commands.iter().map(|command| command[0]).collect();
                return Ok(Outcome::Skipped(format!("there is no {} to run its programs", names.join(" or "))));
            }
        },
        _ => &[],
    };
    if !succeeds(&mut build)? {
        return Ok(Outcome::Failed("does not build".to_string()));
    }
    let suffix = if target.name.starts_with("wasm") { ".wasm" } else { "" };
    let program = crate::target().join(target.name).join("debug").join(format!("{PACKAGE}{suffix}"));
    run_models(target, runner, &program)
}

/// Runs the cases whose inputs `examples/anywhere` can read, and compares what it prints.
fn run_models(target: &Target, runner: &[&str], program: &Path) -> Result<Outcome, String> {
    let manifest = workspace().join("fixtures/models/manifest.json");
    let text = std::fs::read(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let manifest: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let (mut passed, mut wrong) = (0, Vec::new());
    for case in manifest["cases"].as_array().into_iter().flatten() {
        let module = &manifest["modules"][case["module"].as_str().unwrap_or_default()];
        let is_for = |processor: &&str| module["cpu"] == **processor;
        let [call] = case["calls"].as_array().map_or(&[][..], Vec::as_slice) else { continue };
        let inputs: Vec<&str> = call["inputs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let readable =
            !inputs.is_empty() && inputs.iter().all(|input| input.contains("xf32=") && !input.contains("nan"));
        if !target.processors.iter().any(is_for)
            || !readable
            || module.get("units").is_some()
            || call.get("error").is_some()
        {
            continue;
        }
        let Some(expected) = call["stdout"].as_str() else { continue };
        let file = format!("fixtures/models/{}", module["file"].as_str().unwrap_or_default());
        let function = call["function"].as_str().unwrap_or_default();
        let run = Invocation { runner, program, arguments: [&[&file, function], &inputs[..]].concat() };
        let output = run.command().output().map_err(|error| format!("{}: {error}", program.display()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if printed == expected {
            passed += 1;
        } else {
            let name = case["name"].as_str().unwrap_or_default();
            wrong.push(format!(
                "{name}: printed\n{printed}{}expected\n{expected}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    if !wrong.is_empty() {
        return Ok(Outcome::Failed(wrong.join("\n")));
    }
    if passed == 0 {
        return Ok(Outcome::Failed("no case of fixtures/models ran".to_string()));
    }
    Ok(Outcome::Passed(format!("{passed} cases answer as the reference runtime does")))
}

/// A run of the program in the folder of the workspace.
struct Invocation<'a> {
    runner: &'a [&'a str],
    program: &'a Path,
    arguments: Vec<&'a str>,
}

impl Invocation<'_> {
    fn command(&self) -> Command {
        let mut command = match self.runner {
            [] => Command::new(self.program),
            [runner, arguments @ ..] => {
                let mut command = Command::new(runner);
                command.args(arguments).arg(self.program);
                command
            }
        };
        // The script for Node takes the folder that the program sees; `wasmtime` was told before.
        if self.runner.first() == Some(&"node") {
            command.arg(".");
        }
        command.current_dir(workspace()).args(&self.arguments);
        command
    }
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
