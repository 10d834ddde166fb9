//! The snapshots of generated code: all of it is recorded below `snapshots/`, except the tests of ops, of which one
//! family shows the form.
//!
//! `tests/drift.rs` compares the record with what `vireo-codegen` generates, and `cargo xtask op` writes it. The
//! machine code of ops, in `machine_code/`, is recorded by a test of the crate `vireo`.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use vireo_codegen::emit::reference_docs::{Card, Outside, reference};
use vireo_codegen::{GeneratedFile, Spec};

/// What is recorded elsewhere: the machine code of ops, by the tests of `runtime/jit/src/x64/lower`.
const ELSEWHERE: &str = "machine_code";

/// What is recorded of the manual: page, anchor and snapshot. Without an anchor it is the frame of the page.
pub const PARTS_OF_THE_MANUAL: [(&str, &str, &str); 6] = [
    ("schema-irpa.html", "", "frame"),
    ("vm-integer.html", "div.i32.s", "div_i32_s"),
    ("abi-hal.html", "buffer.length", "hal_buffer_length"),
    ("hal-semaphore.html", "semaphore.query", "semaphore_query"),
    ("amdgpu-signal.html", "amd_signal", "amd_signal"),
    ("schema-irpa.html", "DataEntry", "irpa_data_entry"),
];

/// The recorded files as they should be, each with its path below `snapshots/`.
///
/// Line numbers in origin comments are left out, so that a new op changes the lines of that op only.
pub fn recorded(spec: &Spec) -> Vec<GeneratedFile> {
    let mut files = vireo_codegen::generate(spec);
    files.retain(|file| is_recorded(&file.path));
    files.extend(parts_of_the_manual(spec));
    for file in &mut files {
        file.path = Path::new(&file.path).with_extension("snap").to_string_lossy().into_owned();
        file.text = without_line_numbers(&file.text);
    }
    files
}

/// The snapshots below `root` that nothing generates any more.
///
/// # Errors
/// If a folder cannot be read.
pub fn stale(root: &Path, files: &[GeneratedFile]) -> io::Result<Vec<PathBuf>> {
    let expected: BTreeSet<PathBuf> = files.iter().map(|file| root.join(&file.path)).collect();
    let mut found = BTreeSet::new();
    below(root, &mut found)?;
    Ok(found.difference(&expected).cloned().collect())
}

/// The generated tests state every example of every op at length, and are run.
fn is_recorded(path: &str) -> bool {
    !path.starts_with("vm/op_tests/") || path == "vm/op_tests/constant.rs"
}

/// Of the manual one part of each kind is recorded, which shows the form of all of them. That its pages are whole is
/// tested in `codegen`.
fn parts_of_the_manual(spec: &Spec) -> Vec<GeneratedFile> {
    let files = reference(spec, &[], &Card::default(), &Outside { sources: "../../".into(), library: None });
    let part = |(page, anchor, name): &(&str, &str, &str)| {
        let page = files.iter().find(|file| file.path == *page)?;
        let start = if anchor.is_empty() { 0 } else { page.text.find(&format!("<h2 id=\"{anchor}\""))? };
        // A part ends where the next one begins, and what is above the first part with its heading.
        let (rest, end) = if anchor.is_empty() { (&page.text[..], "<h1>") } else { (&page.text[start + 1..], "<h2 ") };
        let length = rest.find(end).or_else(|| rest.find("</main>"))?;
        let text = page.text[start..][..length + usize::from(!anchor.is_empty())].to_string();
        Some(GeneratedFile { path: format!("reference/{name}.html"), text })
    };
    PARTS_OF_THE_MANUAL.iter().filter_map(part).collect()
}

/// `spec/isa/vm/ops/integer.yaml:12` becomes `spec/isa/vm/ops/integer.yaml`.
fn without_line_numbers(text: &str) -> String {
    let mut parts = text.split(".yaml:");
    let mut result = parts.next().unwrap_or_default().to_string();
    for part in parts {
        result.push_str(".yaml");
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == part.len() {
            result.push(':');
        }
        result.push_str(rest);
    }
    result
}

fn below(folder: &Path, found: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if folder.ends_with(ELSEWHERE) {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            below(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "snap") {
            found.insert(path);
        }
    }
    Ok(())
}
