//! `cargo xtask features`: checks that the documented commands compile each dependency only once, and that a program
//! which only runs bytecode compiles only the crates that it needs.
//!
//! Cargo takes the features that the packages it was asked for need together, so `-p vireo-runtime` and `--workspace`
//! may differ in some of them, and then everything above is compiled again. `xtask/workspace-hack` keeps them the same.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::process::Command;

use serde_json::Value;

/// The commands of people and scripts, beside `cargo test --workspace`.
const COMMANDS: [&[&str]; 8] = [
    &["test", "-p", "vireo-runtime"],
    &["test", "-p", "vireo-runtime", "-p", "vireo-codegen", "-p", "vireo-snapshots"],
    &["test", "-p", "vireo-cli"],
    &["test", "-p", "vireo-codegen"],
    &["test", "-p", "vireo-macros"],
    &["test", "-p", "vireo-snapshots"],
    &["test", "-p", "xtask"],
    &["build", "-p", "xtask"],
];

/// A package and the kind of target in it.
type Target = (String, String);

/// The ways in which each target is compiled: its features and profile.
type Variants = BTreeMap<Target, BTreeSet<String>>;

/// The dependencies of devices, compilers and archives, which `vireo` with the feature `vm` alone does not have.
const NOT_FOR_BYTECODE: [&str; 7] = ["libloading", "dynasmrt", "iced-x86", "serde_json", "tempfile", "flate2", "zip"];

/// Fails with the dependencies that some command compiles in another way than the whole workspace.
pub fn features() -> Result<(), String> {
    let whole = variants(&["test", "--workspace"])?;
    let mut problems = Vec::new();
    for command in COMMANDS {
        for (target, ways) in variants(command)? {
            let Some(known) = whole.get(&target) else { continue };
            let others: Vec<_> = ways.difference(known).collect();
            if !others.is_empty() {
                let (package, kind) = target;
                problems.push(format!("cargo {}: {package} {kind} is {others:?}, not {known:?}", command.join(" ")));
            }
        }
    }
    if !problems.is_empty() {
        return Err(format!("{}\nadd the features to xtask/workspace-hack/Cargo.toml", problems.join("\n")));
    }
    println!("{} commands compile {} targets alike", COMMANDS.len() + 1, whole.len());
    let needed = packages(&["-p", "vireo-runtime", "--no-default-features", "--features", "vm"])?;
    let odd: Vec<&str> = NOT_FOR_BYTECODE.into_iter().filter(|name| needed.contains(*name)).collect();
    if !odd.is_empty() {
        return Err(format!("`vireo` with the feature `vm` alone depends on {}", odd.join(", ")));
    }
    println!("`vireo` with the feature `vm` alone: {}", needed.into_iter().collect::<Vec<_>>().join(" "));
    Ok(())
}

/// The packages that a program links which depends on this, procedural macros left out.
fn packages(of: &[&str]) -> Result<BTreeSet<String>, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(["tree", "--locked", "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}"]).args(of);
    let output = run.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree {}: {}", of.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_string)
        .collect())
}

/// The units that a command would compile. Cargo prints them as JSON, in an unstable format.
fn variants(command: &[&str]) -> Result<Variants, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(command).args(["--locked", "--unit-graph", "-Zunstable-options"]).env("RUSTC_BOOTSTRAP", "1");
    let output = run.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    let graph: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("the unit graph: {error}"))?;
    let mut variants = Variants::new();
    let units = graph["units"].as_array().ok_or("a unit graph without units")?;
    for unit in units.iter().filter(|unit| unit["mode"] == "build") {
        let (package, kind) = (unit["pkg_id"].to_string(), unit["target"]["kind"].to_string());
        let profile = &unit["profile"];
        let way = format!("{} opt-level {}, debug {}", unit["features"], profile["opt_level"], profile["debuginfo"]);
        variants.entry((package, kind)).or_default().insert(way);
    }
    Ok(variants)
}
