//! The reference manual: static HTML pages of every fact in the specs, with one style sheet and diagrams in SVG.
//!
//! It is no part of what [`generate`](crate::generate) makes for the runtime; `cargo xtask docs` writes it. All files stand in one folder
//! and need no scripts and nothing from the network. The same spec always gives the same bytes.

use std::collections::BTreeMap;

use crate::Spec;
use crate::emit::file::GeneratedFile;

mod abi;
mod amdgpu;
mod diagram;
mod encodings;
mod examples;
mod hal;
mod html;
mod layouts;
mod links;
mod op;
mod primitives;
mod schema;
mod stream;
mod text;
mod vm;

use html::Page;

/// The manual of `spec`, sorted by path; `index.html` is where to start.
pub fn reference(spec: &Spec) -> Vec<GeneratedFile> {
    let mut pages = vec![index(spec)];
    pages.extend(vm::pages(&spec.vm, &spec.abi.statuses));
    pages.push(encodings::page(&spec.vm));
    pages.push(primitives::page(&spec.vm));
    pages.extend(abi::pages(&spec.abi));
    pages.extend(hal::pages(&spec.hal));
    pages.extend(amdgpu::pages(&spec.amdgpu));
    pages.extend(schema::pages(&spec.schema));
    let mut files: Vec<GeneratedFile> = pages.into_iter().map(Page::finish).collect();
    let header = crate::emit::hal_header::emit(spec).into_iter();
    files.extend(header.map(|file| GeneratedFile { path: hal::HEADER.into(), text: file.text }));
    files.push(GeneratedFile { path: "style.css".into(), text: include_str!("style.css").into() });
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The first page: what the manual holds, with numbers.
fn index(spec: &Spec) -> Page {
    let mut page = Page::new("index.html", "Vireo reference", "index.html");
    page.text(
        "What Vireo runs and how it is laid out in bytes. Every page is rendered from the specs below `spec/`, which the decoder, the \
         verifier, the interpreter, the shims of native modules and the file readers are generated from as well; the examples of an \
         op are its tests.",
    );
    let exports: usize = spec.abi.modules.values().map(|module| module.exports.len()).sum();
    let methods: usize =
        spec.hal.files.iter().filter_map(|file| file.object.as_ref()).map(|object| object.methods.len()).sum();
    let examples: usize = spec.vm.ops.iter().map(|op| op.examples.len()).sum();
    let row = |href: &str, name: &str, text: String| vec![html::link(href, name), html::inline(&text)];
    let rows = [
        row(
            "vm.html",
            "Instruction set",
            format!(
                "{} ops of bytecode {}.{} in {} families, with {examples} examples",
                spec.vm.ops.len(),
                spec.vm.bytecode.major,
                spec.vm.bytecode.minor,
                spec.vm.families().len()
            ),
        ),
        row(
            "vm-encodings.html",
            "Encodings",
            format!("the {} operand encodings and what each kind of field is in bytes", spec.vm.encodings.len()),
        ),
        row(
            "vm-primitives.html",
            "Primitives",
            format!("the {} primitives that semantics are made of", spec.vm.primitives.len()),
        ),
        row(
            "abi.html",
            "Calling conventions",
            format!(
                "the letters of convention strings, reference types, and {exports} exports of {} module(s)",
                spec.abi.modules.len()
            ),
        ),
        row(
            "hal.html",
            "HAL",
            format!("objects with {methods} methods in slot order, numbers, structs and binary layouts"),
        ),
        row(
            "amdgpu.html",
            "AMD GPUs",
            format!("packets, words of bit fields, and {} functions of the HSA library", spec.amdgpu.symbols.len()),
        ),
        row("schema.html", "File formats", "FlatBuffer tables and file headers, field by field".to_string()),
    ];
    page.table(&["Part", "What it holds"], &rows);
    page.part("families", "Families of ops");
    let mut families: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (family, ops) in spec.vm.families() {
        families.insert(family, ops.iter().map(|op| links::op(op)).collect());
    }
    for (family, links) in families {
        page.html(format!("<h3>{}</h3><p class=\"chips\">{}</p>", links::family(family), links.join(" ")));
    }
    page
}
