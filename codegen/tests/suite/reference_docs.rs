//! The manual of the real specs and a guide: deterministic, complete, well-formed, readable, and without a link that
//! leads nowhere.

use std::sync::LazyLock;

use vireo_codegen::emit::reference_docs::{Anchor, AnchorKind, Card, Document, Outside, dead_links, reference};
use vireo_codegen::{GeneratedFile, load};

use crate::real::SPEC;

/// A guide with a heading and a flag.
fn guide() -> Document {
    let anchor =
        |id: &str, name: &str, doc: &str, kind| Anchor { id: id.into(), name: name.into(), doc: doc.into(), kind };
    Document {
        path: "guide-tool.html".into(),
        title: "The tool".into(),
        group: "Tools".into(),
        summary: "What the `tool` does. And how.".into(),
        begin: Some("use the tool".into()),
        in_navigation: true,
        html: "<h2 id=\"flags\">Flags</h2>\n<p id=\"flag-frobnicate\">--frobnicate</p>\n<p><a href=\"vm.html#steps\">steps</a></p>\n".into(),
        anchors: vec![
            anchor("flags", "Flags", "There is one.", AnchorKind::Part),
            anchor("flag-frobnicate", "--frobnicate", "Frobnicates.", AnchorKind::Flag),
        ],
    }
}

static OUTSIDE: LazyLock<Outside> =
    LazyLock::new(|| Outside { sources: "../../".into(), library: Some("../doc/vireo/index.html".into()) });

static MANUAL: LazyLock<Vec<GeneratedFile>> =
    LazyLock::new(|| reference(&SPEC, &[guide()], &Card::default(), &OUTSIDE));

/// The manual with the guide.
pub(crate) fn manual() -> &'static [GeneratedFile] {
    &MANUAL
}

fn page<'a>(files: &'a [GeneratedFile], path: &str) -> &'a str {
    &files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("there is no page {path}")).text
}

fn pages(files: &[GeneratedFile]) -> impl Iterator<Item = &GeneratedFile> {
    files.iter().filter(|file| file.path.ends_with(".html"))
}

#[test]
fn rendering_twice_gives_the_same_bytes() {
    let mut reversed = vireo_spec::FILES.to_vec();
    reversed.reverse();
    let again = load(&reversed).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let (left, right) = (manual(), reference(&again, &[guide()], &Card::default(), &OUTSIDE));
    assert_eq!(left.len(), right.len(), "numbers of files");
    for (left, right) in left.iter().zip(&right) {
        assert!(left == right, "{} differs from {}", left.path, right.path);
    }
}

#[test]
fn every_link_leads_to_an_anchor_that_is_there_once() {
    let files = manual();
    assert_eq!(dead_links(files, &OUTSIDE), Vec::<String>::new());
    let links: usize = pages(files).map(|file| file.text.matches(" href=\"").count()).sum();
    assert!(links > 10_000, "only {links} links");
    assert_eq!(
        dead_links(&reference(&SPEC, &[], &Card::default(), &OUTSIDE), &OUTSIDE),
        Vec::<String>::new(),
        "without guides"
    );
}

#[test]
fn dead_links_are_found() {
    let mut broken = guide();
    broken.html += "<a href=\"gone.html\">a</a><a href=\"vm.html#gone\">b</a><p id=\"flags\">c</p><a href=\"https://iree.dev\">d</a>";
    assert_eq!(
        dead_links(&reference(&SPEC, &[broken], &Card::default(), &OUTSIDE), &OUTSIDE),
        [
            "guide-tool.html: there are two anchors `flags`",
            "guide-tool.html: there is no file for the link `gone.html`",
            "guide-tool.html: there is no anchor for the link `vm.html#gone`",
        ]
    );
}

#[test]
fn every_entry_is_described() {
    let spec = &*SPEC;
    let files = manual();
    let described = |path: String, id: &str| {
        assert!(page(files, &path).contains(&format!("id=\"{id}\"")), "{path} does not describe `{id}`");
    };
    for op in &spec.vm("vm").expect("the VM").ops {
        described(format!("vm-{}.html", op.family), &op.mnemonic);
        for number in 1..=op.examples.len() {
            described(format!("vm-{}.html", op.family), &format!("{}-{number}", op.mnemonic));
        }
    }
    for encoding in &spec.vm("vm").expect("the VM").encodings {
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
    for file in &spec.api("amdgpu").expect("amdgpu").files {
        for layout in &file.layouts {
            described(format!("amdgpu-{}.html", file.stem), &layout.name);
        }
    }
    for instruction in &spec.gfx("gfx11").expect("gfx11").instructions {
        described("gfx11.html".to_string(), &instruction.name);
    }
    for name in spec.gfx("gfx11").expect("gfx11").left_out.iter().flat_map(|left_out| &left_out.names) {
        described("gfx11.html".to_string(), name);
    }
    for instruction in &spec.ptx("ptx").expect("PTX").instructions {
        described("ptx.html".to_string(), &instruction.name);
    }
    for (stem, file) in &spec.schema.files {
        for item in &file.items {
            described(format!("schema-{stem}.html"), &item.name);
        }
    }
    for set in &spec.names {
        for word in &set.values {
            described("words.html".to_string(), &format!("{}.{}", set.name, word.name));
        }
    }
}

/// The page of all names and the search know ops, primitives, objects, methods, exports, numbers and their values,
/// packets and their fields, formats, status codes, conventions, words and flags.
#[test]
fn every_name_is_listed_and_can_be_searched() {
    let (spec, files) = (&*SPEC, manual());
    let (list, data) = (page(files, "all.html"), page(files, "names.js"));
    let listed = |href: String, name: &str| {
        assert!(
            list.contains(&format!("<a href=\"{href}\"><code>{name}</code></a>")),
            "`{name}` is not listed with {href}"
        );
        assert!(data.contains(&format!(",\"{name}\",")), "`{name}` cannot be searched");
    };
    for op in &spec.vm("vm").expect("the VM").ops {
        listed(format!("vm-{}.html#{}", op.family, op.mnemonic), &op.mnemonic);
    }
    for primitive in spec.vm("vm").expect("the VM").primitives.iter() {
        listed(format!("vm-primitives.html#{}", primitive.variant()), primitive.written());
    }
    for module in spec.abi.modules.values() {
        for export in module.exports.iter().filter(|export| export.until == module.version) {
            let name = format!("{}.{}", module.name, export.name);
            listed(format!("abi-{}.html#{}", module.name, export.name), &name);
        }
    }
    for status in &spec.abi.statuses {
        listed(format!("abi.html#status-{}", status.name), &status.upper_name());
    }
    for file in &spec.hal.files {
        let path = format!("hal-{}.html", file.stem);
        if let Some(object) = &file.object {
            listed(format!("{path}#{}", object.name), &object.name);
            for method in &object.methods {
                let name = format!("{}.{}", object.name, method.name);
                listed(format!("{path}#{name}"), &name);
            }
        }
        for numbers in &file.numbers {
            for value in &numbers.values {
                let name = format!("{}.{}", numbers.name, value.name);
                listed(format!("{path}#{name}"), &name);
            }
        }
    }
    for file in &spec.api("amdgpu").expect("amdgpu").files {
        for layout in &file.layouts {
            for field in &layout.fields {
                let name = format!("{}.{}", layout.name, field.name);
                listed(format!("amdgpu-{}.html#{name}", file.stem), &name);
            }
        }
    }
    for stem in spec.schema.files.keys() {
        listed(format!("schema-{stem}.html#"), stem);
    }
    listed("abi.html#convention-0r_i".into(), "0r_i");
    listed("words.html#directive.export".into(), "vm.export");
    listed("guide-tool.html#flag-frobnicate".into(), "--frobnicate");
}

/// Every element that is opened is closed, in the right order.
#[test]
fn pages_are_well_formed() {
    const VOID: [&str; 6] = ["meta", "link", "br", "wbr", "rect", "input"];
    for GeneratedFile { path, text } in pages(manual()) {
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
    for GeneratedFile { path, text } in manual() {
        // The script of the search is the only one, and loads names.js alone.
        let text = text.replace("<script src=\"search.js\" defer>", "");
        for foreign in ["<script", "src=", "url(", "@import", "href=\"http", "href=\"/", "fetch(", "XMLHttpRequest"] {
            assert!(!text.contains(foreign), "{path} contains `{foreign}`");
        }
        assert!(!path.contains('/'), "{path}: links are names of files, so all files stand in one folder");
    }
}

/// Landmarks and labels guide a reader who cannot see the page, or has no mouse.
#[test]
fn pages_have_landmarks_and_labels() {
    for GeneratedFile { path, text } in pages(manual()) {
        for needed in [
            "<html lang=\"en\">",
            "<header ",
            "<main id=\"page-content\">",
            "role=\"search\"",
            "href=\"#page-content\"",
            "width=device-width",
        ] {
            assert_eq!(text.matches(needed).count(), 1, "{path}: `{needed}`");
        }
        assert_eq!(text.matches("<h1>").count(), 1, "{path}: headings of the first level");
        for opening in text.split("<nav").skip(1) {
            let tag = opening.split('>').next().unwrap_or_default();
            assert!(tag.contains("aria-label=\""), "{path}: `<nav{tag}>` has no label");
        }
        for (element, attribute) in [("<input", "aria-label=\""), ("<th", "scope=\"col\""), ("<svg", "<title>")] {
            for opening in text.split(element).skip(1).filter(|rest| !rest.starts_with("ead")) {
                let end = if element == "<svg" { "</title>" } else { ">" };
                let tag = opening.split_inclusive(end).next().unwrap_or_default();
                assert!(tag.contains(attribute), "{path}: `{element}{tag}` has no {attribute}");
            }
        }
    }
}

/// Tables and figures that are wider than a telephone stand in boxes of their own that scroll.
#[test]
fn wide_things_scroll_in_boxes_of_their_own() {
    let files = manual();
    for GeneratedFile { path, text } in pages(files) {
        for wide in ["<table", "<svg"] {
            for (at, _) in text.match_indices(wide) {
                assert!(
                    text[..at].ends_with("<div class=\"scroll\" tabindex=\"0\">"),
                    "{path}: a `{wide}>` outside of a box that scrolls"
                );
            }
        }
        assert!(!text.contains(" style="), "{path}: the style sheet alone knows widths");
    }
    let style = page(files, "style.css");
    for rule in [".scroll { overflow-x: auto;", "overflow-x: auto; line-height: 1.45", "(max-width: 40rem)"] {
        assert!(style.contains(rule), "there is no `{rule}`");
    }
}

/// The colours of a scheme: the text between the name of a variable and the next semicolon.
fn luminance(style: &str, name: &str) -> f64 {
    let value = style.split(&format!("{name}: #")).nth(1).unwrap_or_else(|| panic!("there is no colour {name}"));
    let part = |at: usize| {
        let byte = u8::from_str_radix(&value[at..at + 2], 16).unwrap_or_else(|error| panic!("{name}: {error}"));
        let share = f64::from(byte) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
}

/// The contrast that WCAG asks for between text and its background, light and dark.
#[test]
fn text_can_be_told_from_its_background() {
    const PAIRS: [(&str, &[&str]); 9] = [
        (
            "--ink",
            &[
                "--paper", "--shade", "--badge", "--opcode", "--reg", "--result", "--imm", "--branch", "--count",
                "--pad",
            ],
        ),
        ("--soft", &["--paper", "--shade"]),
        ("--t-text", &["--shade"]),
        ("--t-number", &["--shade"]),
        ("--t-keyword", &["--shade"]),
        ("--t-name", &["--shade"]),
        ("--t-type", &["--shade"]),
        ("--link", &["--paper", "--shade", "--badge"]),
        ("--trap", &["--paper", "--badge"]),
    ];
    let files = manual();
    let (light, dark) =
        page(files, "style.css").split_once("@media (prefers-color-scheme: dark)").expect("two schemes of colours");
    for (scheme, style) in [("light", light), ("dark", dark)] {
        for (text, backgrounds) in PAIRS {
            for background in backgrounds {
                let (a, b) = (luminance(style, text), luminance(style, background));
                let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                assert!(contrast >= 4.5, "{scheme}: {text} on {background} has a contrast of {contrast:.2}");
            }
        }
    }
}
