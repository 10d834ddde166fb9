//! Commands of cargo for a target, and for the program that runs WebAssembly here.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use super::targets::Target;
use crate::chore::workspace;

/// The workspace of the program that runs WebAssembly with Wasmtime, and the program.
pub const WASM_HOST: (&str, &str) = ("examples/wasm", "vireo-wasm-host");

/// Variables for cargo that make it link for a target.
#[derive(Default)]
pub struct Linker {
    pub variables: Vec<(String, String)>,
}

/// A command of cargo for the program of `examples/wasm`.
pub fn wasm_host(command: &str) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace().join(WASM_HOST.0)).args([command, "--quiet", "--locked", "--target-dir"]);
    cargo.arg(wasm_host_target());
    cargo
}

/// Where cargo builds the program of `examples/wasm`.
pub fn wasm_host_target() -> PathBuf {
    crate::chore::target().join("wasm-host")
}

/// A command of cargo for a target.
pub fn cargo(target: &Target, command: &str, linker: &Linker) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace()).arg(command).args(["--quiet", "--locked", "--target", target.name]);
    cargo.envs(linker.variables.iter().map(|(name, value)| (name, value)));
    cargo
}

/// Runs a command, and says whether it succeeded.
pub fn succeeds(command: &mut Command) -> Result<bool, String> {
    Ok(command.status().map_err(|error| format!("cargo: {error}"))?.success())
}

/// The name of a variable that configures cargo for a target.
pub fn variable(target: &Target, what: &str) -> String {
    format!("CARGO_TARGET_{}_{what}", target.name.replace('-', "_").to_uppercase())
}
