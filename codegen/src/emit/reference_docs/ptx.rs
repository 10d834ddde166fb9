//! The page of PTX: the instructions with their suffixes, special registers, and opcodes that are refused.

use super::html::{self, code, inline};
use super::name::NameKind;
use super::page::Page;
use crate::model::ptx::{Instruction, Ptx, Variant};

/// The page.
pub(super) fn page(ptx: &Ptx) -> Page {
    let mut page = Page::new("ptx.html", "PTX", "ptx.html");
    let (count, handlers) = (ptx.instructions.len(), ptx.handlers.len());
    page.text(&format!(
        "The {count} instructions of PTX that are interpreted, each with the suffixes that it may have, in their order: a class, the suffixes \
         of it if not all are allowed, and a question mark if it may be left out. Forms that compute the same share one of {handlers} functions. \
         A form that is not here is refused when a module is loaded, with its line.",
    ));
    let mut families: Vec<&str> = ptx.instructions.iter().map(|instruction| instruction.origin.stem()).collect();
    families.sort_unstable();
    families.dedup();
    for family in families {
        page.part(family, &title(family));
        let of_family = || ptx.instructions.iter().filter(|instruction| instruction.origin.stem() == family);
        let rows: Vec<Vec<String>> = of_family()
            .map(|instruction| {
                let name = &instruction.name;
                let shown = page.anchored(NameKind::Instruction, name, (name, name), &instruction.doc);
                vec![shown, variants(ptx, instruction), inline(&instruction.doc)]
            })
            .collect();
        page.table(&["Instruction", "Suffixes", "What it does"], &rows);
        if let Some(first) = of_family().next() {
            page.html(html::source(&first.origin));
        }
    }
    page.part("special_registers", "Special registers");
    let rows: Vec<Vec<String>> = ptx
        .registers
        .iter()
        .map(|register| vec![code(&format!("%{}", register.name)), register.bits.to_string(), inline(&register.doc)])
        .collect();
    page.table(&["Register", "Bits", "What it holds"], &rows);
    page.part("refused", "Refused");
    let rows: Vec<Vec<String>> = ptx
        .refused
        .iter()
        .map(|refused| {
            let opcodes: Vec<String> = refused.opcodes.iter().map(|opcode| code(opcode)).collect();
            vec![opcodes.join(" "), inline(&refused.reason)]
        })
        .collect();
    page.table(&["Opcodes", "Why"], &rows);
    page
}

/// The name of a family with a capital.
fn title(family: &str) -> String {
    let mut letters = family.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn variants(ptx: &Ptx, instruction: &Instruction) -> String {
    let texts: Vec<String> = instruction.variants.iter().map(|variant| code(&suffixes(ptx, variant))).collect();
    texts.join("<br>")
}

/// `rounding=rn,rz? type=f32`
fn suffixes(ptx: &Ptx, variant: &Variant) -> String {
    let words = variant.positions.iter().map(|position| {
        let class = &ptx.suffixes[position.class];
        let values: Vec<&str> = position.values.iter().map(|value| class.values[*value].as_str()).collect();
        let all = if values.len() == class.values.len() { String::new() } else { format!("={}", values.join(",")) };
        format!("{}{all}{}", class.name, if position.optional { "?" } else { "" })
    });
    words.collect::<Vec<_>>().join(" ")
}
