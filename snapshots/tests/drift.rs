//! The drift test: compares every file that `vireo-codegen` generates from `spec/` with the snapshot of the same path
//! below `snapshots/`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use insta::Settings;
use vireo_codegen::emit::reference_docs::packet_diagrams;
use vireo_snapshots::{PARTS_OF_THE_MANUAL, recorded, stale};

const MEND: &str = "INSTA_UPDATE=always cargo test -p vireo-snapshots";

#[test]
fn generated_files_match_their_snapshots() {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = recorded(&spec);
    for (page, anchor, name) in PARTS_OF_THE_MANUAL {
        let path = format!("reference/{name}.snap");
        assert!(files.iter().any(|file| file.path == path), "the manual has no `{anchor}` in {page} for {path}");
    }
    let mut drifted = Vec::new();
    for file in &files {
        let path = Path::new(&file.path);
        let (folder, name) = (path.parent().expect("a path"), path.file_stem().expect("a name").to_string_lossy());
        let mut settings = Settings::clone_current();
        settings.set_snapshot_path(root.join(folder));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let matches = catch_unwind(AssertUnwindSafe(|| {
            settings.bind(|| insta::assert_snapshot!(name.to_string(), file.text));
        }));
        if matches.is_err() {
            drifted.push(file.path.clone());
        }
    }
    let mending = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    for stale in stale(root, &files).expect("snapshots are readable") {
        if mending {
            std::fs::remove_file(stale).expect("snapshots can be removed");
        } else {
            drifted.push(format!("{} (nothing generates it)", stale.strip_prefix(root).unwrap_or(&stale).display()));
        }
    }
    assert!(
        drifted.is_empty(),
        "generated files differ from their snapshots:\n  {}\nto accept: {MEND}",
        drifted.join("\n  ")
    );
}

/// The pictures of `docs/packets/` are those of the specs, and the guide shows each.
#[test]
fn diagrams_of_packets_match_the_specs() {
    let spec = vireo_codegen::load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let folder = docs.join("packets");
    let files = packet_diagrams(spec.api("amdgpu").expect("amdgpu"));
    let mending = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let mut drifted = Vec::new();
    for entry in std::fs::read_dir(&folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if files.iter().any(|file| file.path == name) {
            continue;
        }
        if mending {
            std::fs::remove_file(&path).expect("diagrams can be removed");
        } else {
            drifted.push(format!("{name} (nothing generates it)"));
        }
    }
    if mending {
        std::fs::create_dir_all(&folder).expect("folders can be created");
    }
    let guide = std::fs::read_to_string(docs.join("amdgpu.md")).expect("the guide");
    for file in &files {
        let path = folder.join(&file.path);
        if mending {
            std::fs::write(&path, &file.text).expect("diagrams can be written");
        }
        if std::fs::read_to_string(&path).ok().as_ref() != Some(&file.text) {
            drifted.push(file.path.clone());
        }
        if !guide.contains(&format!("(packets/{})", file.path)) {
            drifted.push(format!("{} (docs/amdgpu.md does not show it)", file.path));
        }
    }
    assert!(drifted.is_empty(), "docs/packets differs from the specs: {}\nto accept: {MEND}", drifted.join(", "));
}
