//! `cargo xtask package`: packages all crates that are published, and builds each from its package, as a user of the
//! registry would.

use std::env;
use std::process::Command;

use serde_json::Value;

use crate::chore::workspace;

/// Packages and builds all crates but those that are not published.
pub fn package() -> Result<(), String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut metadata = Command::new(&cargo);
    metadata.args(["metadata", "--no-deps", "--locked", "--format-version=1"]).current_dir(workspace());
    let output = metadata.output().map_err(|error| format!("cargo: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let mut run = Command::new(cargo);
    run.args(["package", "--workspace", "--locked"]).current_dir(workspace());
    for package in packages.iter().filter(|package| !package["publish"].is_null()) {
        run.args(["--exclude", package["name"].as_str().ok_or("a package has no name")?]);
    }
    let status = run.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("a package cannot be made, or does not build".into()) }
}
