//! Every file that `vireo-codegen` generates from `spec/`, compared with the snapshot of the same path below `snapshots/`.
//!
//! Line numbers in origin comments are left out of the snapshots, so that a new op changes the lines of that op only.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use insta::Settings;
use vireo_codegen::{GeneratedFile, Spec};

/// The generated tests state every example of every op at length, and are run. One family of them shows their form.
fn is_recorded(path: &str) -> bool {
    !path.starts_with("vm/op_tests/") || path == "vm/op_tests/constant.rs"
}

/// Of the reference manual one op is recorded, which shows the form of all of them. That its pages are whole is tested in `codegen`.
fn reference_of_one_op(spec: &Spec) -> GeneratedFile {
    let files = vireo_codegen::emit::reference_docs::reference(spec);
    let page = files.iter().find(|file| file.path == "vm-integer.html").expect("a page of integer ops");
    let start = page.text.find("<h2 id=\"div.i32.s\"").expect("the op has a heading");
    let text = page.text[start..].split_inclusive("</p>\n<h2").next().expect("a text has a first part");
    let text = text.strip_suffix("<h2").unwrap_or(text).to_string();
    GeneratedFile { path: "reference/div_i32_s.html".to_string(), text }
}

const MEND: &str = "INSTA_UPDATE=always cargo test -p vireo-snapshots";

#[test]
fn generated_files_match_their_snapshots() {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut expected = BTreeSet::new();
    let mut drifted = Vec::new();
    let mut files = vireo_codegen::generate(&spec);
    files.retain(|file| is_recorded(&file.path));
    files.push(reference_of_one_op(&spec));
    for file in &files {
        let path = Path::new(&file.path).with_extension("snap");
        let (folder, name) = (path.parent().expect("a path"), path.file_stem().expect("a name").to_string_lossy());
        let mut settings = Settings::clone_current();
        settings.set_snapshot_path(root.join(folder));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let text = without_line_numbers(&file.text);
        let matches = catch_unwind(AssertUnwindSafe(|| {
            settings.bind(|| insta::assert_snapshot!(name.to_string(), text));
        }));
        if matches.is_err() {
            drifted.push(file.path.clone());
        }
        expected.insert(root.join(&path));
    }
    let mending = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    for stale in snapshots_below(root).difference(&expected) {
        if mending {
            std::fs::remove_file(stale).expect("snapshots can be removed");
        } else {
            drifted.push(format!("{} (nothing generates it)", stale.strip_prefix(root).unwrap_or(stale).display()));
        }
    }
    assert!(
        drifted.is_empty(),
        "generated files differ from their snapshots:\n  {}\nto accept: {MEND}",
        drifted.join("\n  ")
    );
}

/// `spec/vm/ops/integer.yaml:12` becomes `spec/vm/ops/integer.yaml`.
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

/// What is compared elsewhere: the machine code of ops, by the tests of `runtime/src/jit/lower`.
const ELSEWHERE: &str = "machine_code";

fn snapshots_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    if folder.ends_with(ELSEWHERE) {
        return found;
    }
    for entry in std::fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            found.extend(snapshots_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "snap") {
            found.insert(path);
        }
    }
    found
}
