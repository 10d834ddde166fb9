//! `cargo xtask soft DIR`: builds the software libraries of GPUs into a folder, under the names that programs load them
//! by. `cargo xtask null DIR` does the same with those whose functions do nothing.
//!
//! The library is linked here, and not by `cargo`: its symbols have the version that programs were linked with, which
//! the linker takes from a script of versions, and `rustc` passes one of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use vireo_codegen::Spec;
use vireo_codegen::emit::library_exports::version_script_path;
use vireo_codegen::model::api::Library;

use super::op::read_spec;
use crate::chore::{Failure, target, workspace};

/// The libraries of the system that the standard library needs.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// Builds the libraries into `directory`. Cargo gets `flags` as well.
pub fn soft(directory: &Path, flags: &[&str]) -> Result<(), Failure> {
    let (directory, spec) = (prepared(directory)?, read_spec()?);
    for library in spec.apis.values().flat_map(|api| &api.libraries) {
        if let Some(software) = &library.software {
            build(&spec, library, software, &directory, flags)?;
        }
    }
    Ok(())
}

/// Builds the libraries whose functions do nothing into `directory`.
pub fn null(directory: &Path) -> Result<(), Failure> {
    let (directory, spec) = (prepared(directory)?, read_spec()?);
    for api in spec.apis.values() {
        for null in &api.nulls {
            let library = api.libraries.iter().find(|library| library.name == null.library);
            let library = library.ok_or_else(|| wrong(format!("there is no library `{}`", null.library)))?;
            build(&spec, library, &null.folder, &directory, &[])?;
        }
    }
    Ok(())
}

/// The folder, which is there.
fn prepared(directory: &Path) -> Result<PathBuf, Failure> {
    if !cfg!(target_os = "linux") {
        return Err(wrong("the libraries are for Linux".to_string()));
    }
    let directory = std::path::absolute(directory).map_err(|error| failed(directory, error))?;
    fs::create_dir_all(&directory).map_err(|error| failed(&directory, error))?;
    Ok(directory)
}

/// Builds the package `vireo-SOFTWARE-library` and links it under the names of `library`.
fn build(spec: &Spec, library: &Library, software: &str, directory: &Path, flags: &[&str]) -> Result<(), Failure> {
    let (soname, links) = library.names.split_first().ok_or_else(|| wrong("the library has no name".to_string()))?;
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let package = format!("vireo-{software}-library");
    cargo.args(["build", "--release", "--package", &package]).args(flags).current_dir(workspace());
    run(&mut cargo)?;
    let path = version_script_path(library);
    let files = vireo_codegen::emit::generate_below(spec, &[path.as_deref().unwrap_or_default()]);
    let map = files.iter().find(|file| Some(&file.path) == path.as_ref());
    let map = map.ok_or_else(|| wrong(format!("there is no version script of {soname}")))?;
    let script = target().join(format!("{software}.map"));
    fs::write(&script, &map.text).map_err(|error| failed(&script, error))?;
    let archive = target().join(format!("release/lib{}.a", package.replace('-', "_")));
    let file = directory.join(soname);
    let mut linker = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    linker.args(["-shared", "-o"]).arg(&file);
    linker.arg(format!("-Wl,-soname,{soname}")).arg(format!("-Wl,--version-script,{}", script.display()));
    // The functions are what the linker takes from the archive, with all that they need; without one of them it fails.
    linker.args(library.exported().iter().map(|name| format!("-Wl,--undefined={name}")));
    linker.args(["-Wl,--no-undefined", "-Wl,--gc-sections", "-Wl,--strip-all"]).arg(&archive).args(SYSTEM);
    run(&mut linker)?;
    for link in links {
        let link = directory.join(link);
        // One that is there may be of an earlier build.
        let _ = fs::remove_file(&link);
        #[cfg(unix)]
        std::os::unix::fs::symlink(soname, &link).map_err(|error| failed(&link, error))?;
    }
    println!("{}", file.display());
    Ok(())
}

fn failed(path: &Path, error: io::Error) -> Failure {
    wrong(format!("{}: {error}", path.display()))
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
