//! `cargo xtask handlers`: disassembles the optimised handlers of the threaded dispatcher and checks them against the
//! rules in `handlers.txt`.
//!
//! That handlers jump to each other is up to the optimiser, and a call where a jump should be is no error to anybody
//! else: programs run, until the native stack ends. So this looks at every handler of an optimised build. [`image`]
//! finds them in a file by the module that they are in, [`check`] judges one, [`rules`] reads what is allowed.

mod check;
mod image;
mod rules;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use check::Findings;
use image::Image;
use rules::Rules;

/// Fewer handlers than this are not what the specs make: they were not found.
const FEWEST: usize = 100;

/// Checks the handlers in `file`, or in the library built for this.
pub fn handlers(file: Option<&Path>) -> Result<(), String> {
    if env::consts::ARCH != "x86_64" || env::consts::OS != "linux" {
        println!(
            "skipped: the check reads ELF files with code for x86-64, and the threaded dispatcher is used there only"
        );
        return Ok(());
    }
    let built;
    let file = match file {
        Some(file) => file,
        None => {
            built = build()?;
            &built
        }
    };
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let images = Image::all(&bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    let rules = Rules::parse(include_str!("../../handlers.txt"))?;
    let mut rows = Vec::new();
    for image in &images {
        for function in image.functions().filter(|function| rules.is_handler(&function.name)) {
            rows.push((function, check::check(function, image, &rules)));
        }
    }
    rows.sort_by(|(first, _), (second, _)| first.name.cmp(&second.name));
    println!("{:>5} {:>5} {:>5}  handler", "bytes", "ops", "calls");
    for (function, findings) in &rows {
        let Findings { instructions, calls, .. } = findings;
        println!("{:>5} {instructions:>5} {:>5}  {}", function.bytes.len(), calls.len(), rules.short(&function.name));
        calls.iter().for_each(|call| println!("{:19}calls {call}", ""));
    }
    let bytes: usize = rows.iter().map(|(function, _)| function.bytes.len()).sum();
    println!("{} handlers, {bytes} bytes, in {}", rows.len(), file.display());
    let problems: Vec<String> = rows
        .iter()
        .flat_map(|(function, findings)| {
            let name = rules.short(&function.name);
            findings.problems.iter().map(move |problem| format!("{name}: {problem}"))
        })
        .collect();
    if rows.len() < FEWEST {
        return Err(format!("only {} handlers were found, expected at least {FEWEST}", rows.len()));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Builds the library with symbol names that distinguish the instances of a generic function, and returns its path.
fn build() -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["rustc", "--locked", "--release", "--package=vireo-vm", "--lib", "--message-format=json"]);
    command.args(["--", "-Csymbol-mangling-version=v0"]);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("the library does not compile".into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut files = artifacts
        .filter(|message| message["target"]["name"] == "vireo_vm")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|name| name.as_str().map(PathBuf::from));
    files.find(|file| file.extension().is_some_and(|extension| extension == "rlib")).ok_or_else(|| "no library".into())
}
