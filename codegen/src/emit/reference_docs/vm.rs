//! The pages of the instruction set: the overview with its opcode maps, and a page for each family of ops.

use super::diagram::{self, Span};
use super::hal::constant_table;
use super::html::{self, code, inline};
use super::name::NameKind;
use super::page::Page;
use super::text::first_sentence;
use super::{encodings, links, op, primitives, purposes};
use crate::model::status::StatusCode;
use crate::model::vm::{Isa, Op};

/// Every page of the instruction set but encodings and primitives.
pub(super) fn pages(isa: &Isa, statuses: &[StatusCode]) -> Vec<Page> {
    let mut pages = vec![overview(isa)];
    for (family, ops) in isa.families() {
        pages.push(family_page(isa, statuses, family, &ops));
    }
    pages
}

fn family_page(isa: &Isa, statuses: &[StatusCode], family: &str, ops: &[&Op]) -> Page {
    let mut page = Page::new(&links::family_path(family), &format!("Ops: {family}"), "vm.html");
    let rows: Vec<Vec<String>> = ops
        .iter()
        .map(|op| {
            vec![code(&op::opcode_text(isa, op)), links::op(op), links::encoding(op), inline(first_sentence(&op.doc))]
        })
        .collect();
    page.table(&["Opcode", "Op", "Encoding", "What it does"], &rows);
    for op in ops {
        op::part(isa, statuses, op, &mut page);
    }
    page
}

fn overview(isa: &Isa) -> Page {
    let mut page = Page::new("vm.html", "Instruction set", "vm.html");
    page.text("Modules of these versions can be read; all others are refused. Encodings are the same in all of them.");
    let rows = isa.versions.iter().map(|version| {
        let added = isa.ops.iter().filter(|op| op.since == version.major && version.major != isa.oldest());
        let added: Vec<String> = added.map(links::op).collect();
        vec![
            code(&format!("{}.{}", version.major, version.minor)),
            inline(&version.releases),
            added.join(", "),
            inline(&version.doc),
        ]
    });
    page.table(&["Version", "Written by", "New ops", "What it is"], &rows.collect::<Vec<_>>());

    let pages =
        [(purposes::PATH, "Ops by what they do"), (encodings::PATH, "Encodings"), (primitives::PATH, "Primitives")];
    let pages = pages.map(|(path, title)| html::link(path, title)).join(", ");
    page.html(format!("<p>More about ops: {pages}.</p>"));

    stream(isa, &mut page);
    page.part("constants", "Constants");
    page.text("Bits and numbers that have a meaning of their own in operands, and names that have one in a module.");
    constant_table(&isa.constants, &mut page);

    page.part("steps", "How steps are written");
    page.html(
        "<ul><li>Ops without an expression have their steps one below the other. They are taken in this order, and none after a trap.</li>\
         <li>The name of an operand stands for the value of its register. <code>take(x)</code> is the reference in the register \
         <code>x</code>, which is left null if the operand has the MOVE bit.</li>\
         <li>A reference that is overwritten in a register, a global or a list is released after that.</li>\
         <li><code>a..b</code> counts from <code>a</code> up to but not including <code>b</code>; offsets and lengths are unsigned.</li></ul>",
    );

    families(isa, &mut page);
    sets(isa, &mut page);
    for set in &isa.sets {
        page.part(&format!("map-{}", set.name), &format!("Opcode map: {}", set.name));
        page.html(map(isa, &set.name));
    }
    page
}

/// The part about bytes, slots and operand words.
fn stream(isa: &Isa, page: &mut Page) {
    page.part("stream", "How instructions are read");
    page.html(
        "<ul><li>A function is a sequence of instructions without padding between them. Numbers are little-endian.</li>\
         <li>An instruction is an opcode of one byte, or the prefix of an opcode set and an opcode of that set, and its operands.</li>\
         <li>There are two banks of registers. One has 32-bit slots: an <code>i64</code> or <code>f64</code> takes an even slot and the \
         next one, and is named by the even one. The other bank holds references.</li>\
         <li>In register lists and remap pairs, and in operands that are references, one bit of the number of a register says that \
         it is a reference and one, the MOVE bit, that the value leaves its register.</li>\
         <li>Padding &quot;to even&quot; is counted from the start of the function.</li></ul>",
    );

    let bit = |label: &str, start, length| Span { label: label.into(), note: String::new(), start, length };
    let place = |name| u64::from(isa.number(name).trailing_zeros());
    let (moved, reference) = (place("move_bit"), place("ref_bit"));
    let register = [bit("number of the register", 0, moved), bit("move", moved, 1), bit("ref", reference, 1)];
    page.html(diagram::bits(16, &register, "bits of a register in a list"));
}

fn families(isa: &Isa, page: &mut Page) {
    page.part("families", "Families");
    let families = isa.families();
    let rows: Vec<Vec<String>> = families
        .iter()
        .map(|(family, ops)| {
            let links: Vec<String> = ops.iter().map(|op| links::op(op)).collect();
            vec![
                links::family(family),
                ops.len().to_string(),
                format!("<span class=\"chips\">{}</span>", links.join(" ")),
            ]
        })
        .collect();
    page.table(&["Family", "Ops", ""], &rows);
}

fn sets(isa: &Isa, page: &mut Page) {
    page.part("sets", "Opcode sets and features");
    page.text("The requirement word of a module, and that of each function, says which sets and features it needs.");
    let prefix = |name: &str| isa.prefix(name).map_or_else(|| "none".to_string(), |value| format!("{value:#04x}"));
    let mut rows = Vec::new();
    for set in &isa.sets {
        let (bit, map) =
            (set.feature.map_or_else(String::new, |bit| code(&format!("{bit:#x}"))), format!("map-{}", set.name));
        page.name(NameKind::OpcodeSet, &set.name, &map, &set.doc);
        rows.push(vec![
            html::code_link(&format!("#{map}"), &set.name),
            bit,
            code(&prefix(&set.name)),
            inline(&set.doc),
        ]);
    }
    for feature in &isa.features {
        let id = format!("feature-{}", feature.name);
        let name = page.anchored(NameKind::Feature, &feature.name, (&id, &feature.name), &feature.doc);
        rows.push(vec![name, code(&format!("{:#x}", feature.bit)), String::new(), inline(&feature.doc)]);
    }
    page.table(&["Name", "Requirement bit", "Prefix", "What it is"], &rows);
}

/// The opcodes of a set, eight in a row; rows without any are left out.
fn map(isa: &Isa, set: &str) -> String {
    let columns: Vec<String> = std::iter::once(String::new()).chain((0..8).map(|low| format!("+{low:x}"))).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let find = |opcode: u8| isa.ops.iter().find(|op| op.set == set && op.opcode == opcode);
    let mut rows = Vec::new();
    for high in (0..=u8::MAX).step_by(8) {
        let cells: Vec<Option<&Op>> = (high..=high + 7).map(find).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        // A long mnemonic breaks at its dots.
        let breaking = |op: &Op| {
            links::op(op).replace(&format!(">{}<", op.mnemonic), &format!(">{}<", op.mnemonic.replace('.', ".<wbr>")))
        };
        let ops = cells.into_iter().map(|op| op.map(breaking).unwrap_or_default());
        rows.push(std::iter::once(code(&format!("{high:#04x}"))).chain(ops).collect());
    }
    html::table(&columns, &rows, "map").replace("<td></td>", "<td class=\"free\"></td>")
}
