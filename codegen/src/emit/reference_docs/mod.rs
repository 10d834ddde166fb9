//! The manual: static HTML pages of every fact in the specs, and of the guides that the caller adds. `cargo xtask docs`
//! writes them.
//!
//! It is no part of what [`generate`](crate::generate) makes for the runtime. All files are in one folder and are
//! opened as files: no server, nothing from the network. One style sheet serves wide and narrow screens, light and
//! dark; diagrams are SVG; one script finds names, and pages can be read without it. The same spec and documents always
//! give the same bytes.

use crate::emit::file::GeneratedFile;
use crate::load::Spec;

mod abi;
mod amdgpu;
mod card;
mod check;
mod diagram;
mod documents;
mod dwords;
mod encodings;
mod examples;
mod front;
mod gfx;
mod hal;
mod highlight;
mod html;
mod layouts;
mod links;
mod name;
mod names;
mod op;
mod outside;
mod page;
mod primitives;
mod ptx;
mod purposes;
mod schema;
mod shell;
mod stream;
mod text;
mod vm;
mod words;

pub use card::{Card, CardEntry};
pub use check::dead_links;
pub use documents::{Anchor, AnchorKind, Document};
pub use dwords::{narrow_packet_diagrams, packet_diagrams};
pub use highlight::highlight;
pub use html::{SOURCE, cell_label};
pub use outside::Outside;
use page::Page;
use shell::Shell;

/// The sections of the reference: their first pages and names.
const SECTIONS: [(&str, &str); 8] = [
    ("vm.html", "Instruction set"),
    ("abi.html", "Calling conventions"),
    ("hal.html", "HAL"),
    ("amdgpu.html", "AMD GPUs"),
    ("gfx11.html", "GPU instructions"),
    ("ptx.html", "PTX"),
    ("schema.html", "File formats"),
    ("words.html", "Words"),
];

/// The manual of `spec` with `documents` and `card`, sorted by path, with links to `outside`; `index.html` is where to
/// start.
pub fn reference(spec: &Spec, documents: &[Document], card: &Card, outside: &Outside) -> Vec<GeneratedFile> {
    let mut pages = vec![front::page(spec, documents, outside)];
    pages.extend(documents::pages(documents));
    pages.extend(spec_pages(spec));
    if let Some(vm) = spec.vm("vm") {
        pages.push(purposes::page(vm));
        pages.push(card::page(vm, card));
    }
    let names = names::data(&pages);
    pages.push(names::page(&pages));

    let mut sections = vec![(front::PATH, shell::TITLE)];
    if !documents.is_empty() {
        sections.push((documents::PATH, "Guides"));
    }
    let linked = documents.iter().filter(|document| document.in_navigation);
    sections.extend(linked.map(|document| (document.path.as_str(), document.title.as_str())));
    sections.extend(SECTIONS);
    sections.push((card::PATH, "Card"));
    sections.push((names::PATH, "All names"));
    let shell = Shell { sections, outside };

    let mut files: Vec<GeneratedFile> = pages.into_iter().map(|page| shell.file(page)).collect();
    let header = crate::emit::hal_header::emit(spec).into_iter();
    files.extend(header.map(|file| GeneratedFile { path: hal::HEADER.into(), text: file.text }));
    files.push(names);
    files.push(GeneratedFile { path: "search.js".into(), text: include_str!("search.js").into() });
    files.push(GeneratedFile { path: "style.css".into(), text: include_str!("style.css").into() });
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn spec_pages(spec: &Spec) -> Vec<Page> {
    let mut pages = Vec::new();
    if let Some(isa) = spec.vm("vm") {
        pages.extend(vm::pages(isa, &spec.abi.statuses));
        pages.push(encodings::page(isa));
        pages.push(primitives::page(isa));
    }
    pages.extend(abi::pages(&spec.abi));
    pages.extend(hal::pages(&spec.hal));
    pages.extend(spec.api("amdgpu").into_iter().flat_map(amdgpu::pages));
    pages.extend(spec.gfx("gfx11").map(gfx::page));
    pages.extend(spec.ptx("ptx").map(ptx::page));
    pages.extend(schema::pages(&spec.schema));
    pages.push(words::page(&spec.names));
    pages
}
