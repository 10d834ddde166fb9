//! The rows of the tables of directives in `docs/cli.md`, which a test of the command `vireo` holds to `spec/names/assembly.yaml`.

use std::fmt::Write;

use crate::Spec;

/// What every row begins with.
pub const ROW: &str = "| `vm.";

/// The forms of statements that the reference knows, or those that are our own, as rows of Markdown.
pub fn rows(spec: &Spec, own: bool) -> String {
    let directives = spec.names.iter().filter(|names| names.name == "directive").flat_map(|names| &names.values);
    let mut text = String::new();
    for form in directives.flat_map(|directive| &directive.forms).filter(|form| form.own == own) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{}` | {} |", form.text, form.doc);
    }
    text
}
