//! The reference manual of the real specs: deterministic, complete, well-formed, and without a link that leads nowhere.

use std::collections::{BTreeMap, BTreeSet};

use vireo_codegen::emit::reference_docs::reference;
use vireo_codegen::{GeneratedFile, Spec, load};

fn spec() -> Spec {
    load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// The values of an attribute, with what entities stand for.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = String> + use<'a> {
    let pattern = format!(" {name}=\"");
    let starts: Vec<usize> = text.match_indices(&pattern).map(|(at, _)| at + pattern.len()).collect();
    starts.into_iter().map(|start| {
        let value = text[start..].split('"').next().unwrap_or_default();
        value.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    })
}

#[test]
fn rendering_twice_gives_the_same_bytes() {
    let mut reversed = vireo_spec::FILES.to_vec();
    reversed.reverse();
    let again = load(&reversed).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let (left, right) = (reference(&spec()), reference(&again));
    assert_eq!(left.len(), right.len(), "numbers of files");
    for (left, right) in left.iter().zip(&right) {
        assert!(left == right, "{} differs from {}", left.path, right.path);
    }
}

#[test]
fn every_link_leads_to_an_anchor_that_is_there_once() {
    let files = reference(&spec());
    let mut anchors: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for GeneratedFile { path, text } in &files {
        let known = anchors.entry(path).or_default();
        for id in attributes(text, "id") {
            assert!(known.insert(id.clone()), "{path} has two anchors `{id}`");
        }
    }
    let mut links = 0;
    for GeneratedFile { path, text } in &files {
        for href in attributes(text, "href") {
            let (file, anchor) = href.split_once('#').unwrap_or((&href, ""));
            let file = if file.is_empty() { path.as_str() } else { file };
            let known = anchors.get(file).unwrap_or_else(|| panic!("{path}: there is no page for `{href}`"));
            assert!(anchor.is_empty() || known.contains(anchor), "{path}: there is no anchor for `{href}`");
            links += 1;
        }
    }
    assert!(links > 1000, "only {links} links");
}

#[test]
fn every_entry_is_described() {
    let spec = spec();
    let files = reference(&spec);
    let described = |path: String, id: &str| {
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("there is no page {path}"));
        assert!(file.text.contains(&format!("id=\"{id}\"")), "{path} does not describe `{id}`");
    };
    for op in &spec.vm.ops {
        described(format!("vm-{}.html", op.family), &op.mnemonic);
        for number in 1..=op.examples.len() {
            described(format!("vm-{}.html", op.family), &format!("{}-{number}", op.mnemonic));
        }
    }
    for encoding in &spec.vm.encodings {
        described("vm-encodings.html".to_string(), &encoding.name);
    }
    for module in spec.abi.modules.values() {
        for export in module.exports.iter().filter(|export| export.until == module.version) {
            described(format!("abi-{}.html", module.name), &export.name);
        }
    }
    for file in &spec.hal.files {
        if let Some(object) = &file.object {
            for method in &object.methods {
                described(format!("hal-{}.html", file.stem), &format!("{}.{}", object.name, method.name));
            }
        }
        for layout in &file.layouts {
            described(format!("hal-{}.html", file.stem), &layout.name);
        }
    }
    for file in &spec.amdgpu.files {
        for layout in &file.layouts {
            described(format!("amdgpu-{}.html", file.stem), &layout.name);
        }
    }
    for (stem, file) in &spec.schema.files {
        for item in &file.items {
            described(format!("schema-{stem}.html"), &item.name);
        }
    }
}

/// Every element that is opened is closed, in the right order.
#[test]
fn pages_are_well_formed() {
    const VOID: [&str; 5] = ["meta", "link", "br", "wbr", "rect"];
    for GeneratedFile { path, text } in reference(&spec()).iter().filter(|file| file.path.ends_with(".html")) {
        let mut open: Vec<&str> = Vec::new();
        for part in text.split('<').skip(1) {
            let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("{path}: `<{part}` has no end"));
            let name = tag.split([' ', '\n']).next().unwrap_or_default();
            if let Some(name) = name.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{path}: </{name}> closes something else");
            } else if !name.starts_with('!') && !VOID.contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{path}: {open:?} stay open");
    }
}

#[test]
fn pages_need_nothing_from_elsewhere() {
    for GeneratedFile { path, text } in reference(&spec()) {
        for foreign in ["<script", "src=", "url(", "@import", "href=\"http", "href=\"/"] {
            assert!(!text.contains(foreign), "{path} contains `{foreign}`");
        }
        assert!(!path.contains('/'), "{path}: links are names of files, so all files stand in one folder");
    }
}
