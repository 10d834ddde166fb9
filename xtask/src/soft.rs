//! `cargo xtask soft DIR`: builds the software libraries of GPUs into a folder, under the names that programs load them
//! by.
//!
//! The library is linked here, and not by `cargo`: its symbols have the version that programs were linked with, which
//! the linker takes from a script of versions, and `rustc` passes one of its own.

use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

use super::op::read_spec;
use crate::chore::{Failure, target, workspace};

/// The name of the library, which programs that were linked with it ask the loader for.
const NAME: &str = "libhsa-runtime64.so.1";

/// The name that programs look up which load it themselves, and the linker.
const LINK: &str = "libhsa-runtime64.so";

/// The libraries of the system that the standard library needs.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// Builds the libraries into `directory`. Cargo gets `flags` as well.
pub fn soft(directory: &Path, flags: &[&str]) -> Result<(), Failure> {
    if !cfg!(target_os = "linux") {
        return Err(wrong("the library of HSA is for Linux".to_string()));
    }
    let failed = |path: &Path, error: io::Error| wrong(format!("{}: {error}", path.display()));
    let directory = std::path::absolute(directory).map_err(|error| failed(directory, error))?;
    fs::create_dir_all(&directory).map_err(|error| failed(&directory, error))?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--package", "vireo-softhsa-library"]).args(flags).current_dir(workspace());
    run(&mut cargo)?;
    let spec = read_spec()?;
    let files = vireo_codegen::emit::generate_below(&spec, &["softhsa/"]);
    let map = files.iter().find(|file| file.path == "softhsa/libhsa-runtime64.map");
    let map = map.ok_or_else(|| wrong("there is no version script".to_string()))?;
    let script = target().join("libhsa-runtime64.map");
    fs::write(&script, &map.text).map_err(|error| failed(&script, error))?;
    let archive = target().join("release/libvireo_softhsa_library.a");
    let library = directory.join(NAME);
    let mut linker = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    linker.args(["-shared", "-o"]).arg(&library);
    linker.arg(format!("-Wl,-soname,{NAME}")).arg(format!("-Wl,--version-script,{}", script.display()));
    // The functions are what the linker takes from the archive, with all that they need; without one of them it fails.
    let api = spec.api("amdgpu").ok_or_else(|| wrong("spec/api/amdgpu is not there".to_string()))?;
    linker.args(api.symbols.iter().map(|symbol| format!("-Wl,--undefined={}", symbol.function.name)));
    linker.args(["-Wl,--no-undefined", "-Wl,--gc-sections", "-Wl,--strip-all"]).arg(&archive).args(SYSTEM);
    run(&mut linker)?;
    let link = directory.join(LINK);
    // One that is there may be of an earlier build.
    let _ = fs::remove_file(&link);
    #[cfg(unix)]
    std::os::unix::fs::symlink(NAME, &link).map_err(|error| failed(&link, error))?;
    println!("{}", library.display());
    Ok(())
}

fn wrong(message: String) -> Failure {
    Failure::Wrong(message)
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(wrong(format!("{name}: {status}"))),
        Err(error) => Err(wrong(format!("{name}: {error}"))),
    }
}
