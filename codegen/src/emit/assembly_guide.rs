//! Renders the tables of assembler directives in `docs/cli.md` from `spec/names/assembly.yaml`. A test of the command
//! `vireo` compares them.

use std::fmt::Write;

use crate::load::Spec;

/// The first characters of every row.
pub const ROW: &str = "| `vm.";

/// The forms of directives that IREE's assembler reads, or those that only ours does (`own`), as rows of Markdown.
pub fn rows(spec: &Spec, own: bool) -> String {
    let directives = spec.names.iter().filter(|names| names.name == "directive").flat_map(|names| &names.values);
    let mut text = String::new();
    for form in directives.flat_map(|directive| &directive.forms).filter(|form| form.own == own) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{}` | {} |", form.text, form.doc);
    }
    text
}
