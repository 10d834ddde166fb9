//! The page of GPU instructions: those of gfx11 that the software agent executes, and the mnemonics that are left out.

use super::html::{self, code, inline};
use super::name::NameKind;
use super::page::Page;
use crate::emit::gfx_tables::families;
use crate::model::gfx::{Gfx, Instruction};

/// The page.
pub(super) fn page(gfx: &Gfx) -> Page {
    let mut page = Page::new("gfx11.html", "GPU instructions", "gfx11.html");
    let (count, left_out) =
        (gfx.instructions.len(), gfx.left_out.iter().map(|left_out| left_out.names.len()).sum::<usize>());
    page.text(&format!(
        "The {count} instructions of gfx11 (RDNA3, waves of 32 lanes) that the software agent executes and `vireo disasm --gfx` writes, by \
         their numbers in each encoding, and the {left_out} mnemonics of an assembler for gfx1100 that are left out, with the reason. An \
         executable that has one of these is refused when it is loaded. Images and exports are graphics, and no part of either list.",
    ));
    for (family, instructions) in families(gfx) {
        let title = title(family);
        page.part(family, &title);
        let rows: Vec<Vec<String>> = instructions
            .iter()
            .map(|instruction| {
                let name = &instruction.name;
                let shown = page.anchored(NameKind::Instruction, name, (name, name), &instruction.doc);
                vec![shown, forms(instruction), clamps(instruction).into(), inline(&instruction.doc)]
            })
            .collect();
        page.table(&["Instruction", "Encodings", "Saturates", "What it does"], &rows);
        if let Some(first) = instructions.first() {
            page.html(html::source(&first.origin));
        }
    }
    page.part("left_out", "Left out");
    let rows: Vec<Vec<String>> = gfx
        .left_out
        .iter()
        .map(|left_out| {
            let names: Vec<String> = left_out
                .names
                .iter()
                .map(|name| page.anchored(NameKind::Instruction, name, (name, name), &left_out.reason))
                .collect();
            vec![format!("<span class=\"chips\">{}</span>", names.join(" ")), inline(&left_out.reason)]
        })
        .collect();
    page.table(&["Mnemonics", "Why"], &rows);
    page
}

/// `vector_float` as words.
fn title(family: &str) -> String {
    let words = family.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn forms(instruction: &Instruction) -> String {
    let forms: Vec<String> =
        instruction.forms.iter().map(|form| code(&format!("{} 0x{:02X}", form.encoding, form.opcode))).collect();
    forms.join(" ")
}

/// Whether its integer saturates with the modifier `clamp`.
fn clamps(instruction: &Instruction) -> &'static str {
    if instruction.clamped.is_some() { "with <code>clamp</code>" } else { "" }
}
