//! Writes the text of `vireo --version`: version, commit, features, tiers and compilers.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compilers whose modules run, as `docs/support.md` lists them.
const COMPILERS: &str = "IREE 3.1 to 3.13 (bytecode 15.0, 16.0 and 17.0)";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    // Builds for development would be made again after each commit.
    let commit = if variable("PROFILE") == "release" { commit() } else { None };
    let commit = commit.map_or(String::new(), |commit| format!(" ({commit})"));
    let agents = if env::var_os("CARGO_FEATURE_SOFTWARE_AGENTS").is_some() { "software-agents" } else { "none" };
    let has_jit = variable("CARGO_CFG_TARGET_ARCH") == "x86_64" && env::var_os("CARGO_CFG_UNIX").is_some();
    let tiers = if has_jit { "interp, jit" } else { "interp" };
    let text = format!(
        "{}{commit}\ncompilers: {COMPILERS}\ntarget:    {}\nfeatures:  {agents}\ntiers:     {tiers}",
        variable("CARGO_PKG_VERSION"),
        variable("TARGET")
    );
    let path = PathBuf::from(variable("OUT_DIR")).join("version.txt");
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// The commit of the working tree; none outside of one, as in a package of a registry.
fn commit() -> Option<String> {
    let root = Path::new("..");
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.trim().to_string())
    };
    // A repository that merely contains the package, as a vendored copy, has another commit.
    let is_ours = git(&["ls-files", "cli/build.rs"]).is_some_and(|listed| listed == "cli/build.rs");
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| is_ours)?;
    println!("cargo::rerun-if-changed=../{log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}
