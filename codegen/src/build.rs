//! The entry point of build scripts: writes the generated files of a crate of the runtime into `OUT_DIR`.

use std::path::PathBuf;
use std::{env, fs};

use crate::emit::generate_below;
use crate::load::load;

/// Generates the files whose paths begin with one of `prefixes` from the texts `files` of `spec/` into `OUT_DIR`.
/// Errors of specs become errors of the build.
///
/// # Panics
/// If it is not called by a build script, or `OUT_DIR` cannot be written.
pub fn generate(files: &[(&str, &str)], prefixes: &[&str]) {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let spec = match load(files) {
        Ok(spec) => spec,
        Err(diagnostics) => {
            // Cargo prints these alone, and the build fails. Of a script that fails it would print all output, and
            // theirs last.
            diagnostics.report().lines().for_each(|line| println!("cargo::error={line}"));
            return;
        }
    };
    for file in generate_below(&spec, prefixes) {
        let path = out.join(&file.path);
        // A file that has not changed keeps its time, so that nothing is recompiled needlessly.
        if fs::read_to_string(&path).is_ok_and(|old| old == file.text) {
            continue;
        }
        fs::create_dir_all(path.parent().expect("generated files are below OUT_DIR")).expect("OUT_DIR is writable");
        fs::write(&path, file.text).expect("OUT_DIR is writable");
    }
}
