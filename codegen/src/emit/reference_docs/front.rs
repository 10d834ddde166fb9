//! The first page: what Vireo is, what the manual holds, and where to begin.

use super::documents::{self, Document};
use super::html::{inline, link};
use super::outside::Outside;
use super::page::Page;
use super::shell::TITLE;
use super::{card, links, names, purposes};
use crate::load::Spec;
use crate::model::vm::Isa;

/// The name of the file.
pub(super) const PATH: &str = "index.html";

/// The page.
pub(super) fn page(spec: &Spec, documents: &[Document], outside: &Outside) -> Page {
    let mut page = Page::new(PATH, TITLE, PATH);
    page.text(
        "Vireo runs machine-learning models. A compiler, `iree-compile` of the project IREE, writes a model as a program: a file that ends \
         in `.vmfb`, with bytecode for a small register machine and kernels for a processor or GPU. Vireo loads such a file, verifies all \
         of it, and runs it: the bytecode on its virtual machine (VM), which translates to machine code what runs often, and the kernels on \
         devices behind one interface, the hardware abstraction layer (HAL).",
    );
    page.text(
        "The guides say how to use Vireo and how it is built. The reference describes every instruction, method, packet and file format. It is \
         rendered from the specs that the code of Vireo is generated from, and the examples of an instruction are its tests, so it says what \
         the code does.",
    );
    page.part("begin", "Where to begin");
    page.table(&["You want to", "Begin with"], &beginnings(documents, outside));
    page.part("reference", "The reference");
    page.table(&["Part", "What it holds"], &parts(spec));
    page.part("families", "Families of ops");
    for (family, ops) in spec.vm("vm").into_iter().flat_map(Isa::families) {
        let ops: Vec<String> = ops.into_iter().map(links::op).collect();
        page.html(format!("<h3>{}</h3><p class=\"chips\">{}</p>", links::family(family), ops.join(" ")));
    }
    page
}

fn beginnings(documents: &[Document], outside: &Outside) -> Vec<Vec<String>> {
    let row = |wish: &str, href: &str, name: &str| vec![inline(wish), link(href, name)];
    let mut rows: Vec<Vec<String>> = documents
        .iter()
        .filter_map(|document| Some(row(document.begin.as_deref()?, &document.path, &document.title)))
        .collect();
    if let Some(library) = &outside.library {
        rows.push(row("look up a type or function of the library", library, "Documentation of the library"));
    }
    rows.push(row("read the bytecode of a program", "vm.html", "Instruction set"));
    rows.push(row("find an op by what it does", purposes::PATH, "Ops by what they do"));
    rows.push(row("have commands, flags and ops on one sheet", card::PATH, "Card"));
    rows.push(row("know what a program may import", "abi.html#modules", "Modules"));
    rows.push(row("write a driver", "hal.html", "Hardware abstraction layer"));
    rows.push(row("read or write the files", "schema.html", "File formats"));
    rows.push(row("look up a name, if not with the box above (press `/`)", names::PATH, "All names"));
    if !documents.is_empty() {
        rows.push(row("see everything in prose", documents::PATH, "Guides"));
    }
    rows
}

fn parts(spec: &Spec) -> Vec<Vec<String>> {
    let exports: usize = spec.abi.modules.values().map(|module| module.exports.len()).sum();
    let objects = spec.hal.files.iter().filter_map(|file| file.object.as_ref());
    let methods: usize = objects.map(|object| object.methods.len()).sum();
    let words: usize = spec.names.iter().map(|set| set.values.len()).sum();
    let mut parts = Vec::new();
    if let Some(isa) = spec.vm("vm") {
        parts.extend(parts_of_vm(isa));
    }
    parts.extend([
        (
            "abi.html",
            "Calling conventions",
            format!(
                "how calls between modules pass values: letters, reference types, status codes, and {exports} exports of {} modules",
                spec.abi.modules.len()
            ),
        ),
        (
            "hal.html",
            "HAL",
            format!("the objects of devices with {methods} methods in slot order, numbers, structs and binary layouts"),
        ),
    ]);
    parts.extend(spec.api("amdgpu").map(|api| {
        let text = format!("packets, words of bit fields, and {} functions of the HSA library", api.symbols().count());
        ("amdgpu.html", "AMD GPUs", text)
    }));
    parts.extend(spec.gfx("gfx11").map(|gfx| {
        let text = format!("{} instructions of gfx11 that the software agent executes", gfx.instructions.len());
        ("gfx11.html", "GPU instructions", text)
    }));
    parts.extend(spec.ptx("ptx").map(|ptx| {
        let text = format!("{} instructions of NVIDIA GPUs in their text form", ptx.instructions.len());
        ("ptx.html", "PTX", text)
    }));
    parts.extend([
        ("schema.html", "File formats", "FlatBuffer tables and file headers, field by field".to_string()),
        ("words.html", "Words", format!("{words} words that programs, hosts and files write")),
        (names::PATH, "All names", "everything above, in the order of the alphabet".to_string()),
    ]);
    parts.into_iter().map(|(href, name, text)| vec![link(href, name), inline(&text)]).collect()
}

fn parts_of_vm(isa: &Isa) -> [(&'static str, &'static str, String); 3] {
    let examples: usize = isa.ops.iter().map(|op| op.examples.len()).sum();
    let (newest, families) = (isa.newest(), isa.families().len());
    [
        (
            "vm.html",
            "Instruction set",
            format!(
                "the {} ops of bytecode {}.{} in {families} families, with {examples} examples",
                isa.ops.len(),
                newest.major,
                newest.minor
            ),
        ),
        (
            "vm-encodings.html",
            "Encodings",
            format!("the {} ways to encode operands, and what each kind of field is in bytes", isa.encodings.len()),
        ),
        (
            "vm-primitives.html",
            "Primitives",
            format!("the {} operations that the meaning of ops is written with", isa.primitives.len()),
        ),
    ]
}
