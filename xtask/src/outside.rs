//! `cargo xtask outside`: the program of the README in a crate of its own, outside of the workspace, as a user of the
//! library has it.

use std::fs;
use std::process::Command;

use crate::chore::{target, workspace};

/// The features of the library in tests of the workspace. With these, the same profiles and the dependencies of
/// `workspace-hack`, what was built for those is used again.
const FEATURES: &str = r#""bind", "files", "half", "ndarray", "software-agents", "tracing""#;

/// Builds and runs the program.
pub fn outside() -> Result<(), String> {
    let root = workspace();
    let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
    let readme = read("README.md")?;
    let program = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let program = program.ok_or("README.md has no program in Rust")?;
    // The items that are `use`d stand outside of functions in most programs.
    let (uses, body): (Vec<&str>, Vec<&str>) = program.lines().partition(|line| line.starts_with("use "));
    let text = format!(
        "{}\n\nfn main() -> vireo::Result<()> {{\n    {}\n    Ok(())\n}}\n",
        uses.join("\n"),
        body.join("\n    ")
    );
    let folder = root.join("target/outside");
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&folder))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let path = root.join("runtime").display().to_string();
    let hack = format!("workspace-hack = {{ path = {:?} }}", root.join("xtask/workspace-hack").display().to_string());
    let manifest = read("Cargo.toml")?;
    let profiles = manifest.find("[profile.").map_or("", |start| &manifest[start..]);
    write("src/main.rs", &text)?;
    // The locked versions are those that the workspace is tested with, and are there already.
    write("Cargo.lock", &read("Cargo.lock")?)?;
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nvireo-runtime = {{ path = {path:?}, features = [{FEATURES}] }}\n{hack}\n[workspace]\n\n{profiles}"
        ),
    )?;
    println!("{text}");
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--offline", "--manifest-path"]).arg(folder.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target());
    // The paths of the README are those of a clone.
    let status = cargo.current_dir(root).status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the program of the README does not run outside of the workspace".into())
    }
}
