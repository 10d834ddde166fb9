//! Build script: lists every `.yaml` file below `spec/`, so that a new file needs no second edit.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut text = String::from(
        "/// Every spec file: its path from the workspace root (`spec/isa/vm/isa.yaml`) and its text, sorted by path.\n\
         pub const FILES: &[(&str, &str)] = &[\n",
    );
    for file in &files {
        let name = file.strip_prefix(&root).expect("files are below the root");
        let _ = writeln!(text, "    ({:?}, include_str!({:?})),", format!("spec/{}", name.display()), file);
    }
    text.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("files.rs");
    std::fs::write(&out, text).expect("OUT_DIR is writable");
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", directory.display());
    for entry in std::fs::read_dir(directory).expect("spec folders are readable") {
        let path = entry.expect("spec folders are readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}
