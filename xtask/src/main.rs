//! Chores of the workspace that are no part of a build. Run as `cargo xtask NAME`; the alias is in `.cargo/config.toml`.
//!
//! `docs` writes the reference manual, which `vireo-codegen` renders from the specs. What the pages say is decided there; this
//! crate only knows where files go. `handlers` looks at what the optimiser made of the threaded dispatcher, `skipped` at tests that did not run.
#![forbid(unsafe_code)]

mod features;
mod handlers;
mod skipped;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

const USAGE: &str = "usage: cargo xtask docs [--out DIRECTORY]
       cargo xtask features
       cargo xtask handlers [FILE]
       cargo xtask skipped FILE

docs       writes the reference manual (static HTML) to target/reference, or to DIRECTORY
features   checks that the commands of CONTRIBUTING.md compile each dependency in one way
handlers   disassembles the handlers of the threaded dispatcher, in an optimised library or in FILE, and fails if one calls or
           returns where it should jump
skipped    counts the tests that FILE says were skipped (VIREO_SKIPPED=FILE when they ran), and fails for what this machine has";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["docs"] => docs(None),
        ["docs", "--out", directory] => docs(Some(Path::new(directory))),
        ["features"] => features::features(),
        ["handlers"] => handlers::handlers(None),
        ["handlers", file] => handlers::handlers(Some(Path::new(file))),
        ["skipped", file] => skipped::skipped(Path::new(file)),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the manual. Only in its own folder below `target` are pages of earlier runs removed: a folder that a person names may hold
/// other files.
fn docs(directory: Option<&Path>) -> Result<(), String> {
    let spec = vireo_codegen::load(vireo_spec::FILES).map_err(|diagnostics| diagnostics.to_string())?;
    let out = match directory {
        Some(directory) => directory.to_path_buf(),
        None => {
            let own = target().join("reference");
            match fs::remove_dir_all(&own) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(format!("{}: {error}", own.display()));
                }
                _ => own,
            }
        }
    };
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let (mut count, mut bytes) = (0, 0);
    for file in vireo_codegen::emit::reference_docs::reference(&spec) {
        let path = out.join(&file.path);
        fs::write(&path, &file.text).map_err(|error| format!("{}: {error}", path.display()))?;
        count += 1;
        bytes += file.text.len();
    }
    println!("{count} files, {} KiB; start at {}", bytes.div_ceil(1024), out.join("index.html").display());
    Ok(())
}

/// The folder that cargo builds into.
fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}
