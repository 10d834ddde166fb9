//! The metadata of a module as tables, for people. Called by `dump`.

use std::fmt::Write;

use super::summary::{Summary, signature};
use crate::table::Table;
use vireo::visible_text::visible;

/// Everything but the code.
pub fn metadata(summary: &Summary) -> String {
    let mut text = format!(
        "module @{} : version {}, bytecode {}{}\n",
        visible(&summary.name),
        summary.version,
        summary.bytecode_version,
        list(", needs ", &summary.requirements)
    );
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{title}:\n{body}");
        }
    };
    section("Attributes", attributes(&summary.attributes, "  "));

    let mut table = Table::new(&["module", ">version", ""]);
    for dependency in &summary.dependencies {
        let version = format!(">= {}", dependency.minimum_version);
        table.row([dependency.name.clone(), version, optional(dependency.optional)]);
    }
    section("Dependencies", table.to_text());

    let mut table = Table::new(&[">#", "type"]);
    for (ordinal, name) in summary.types.iter().enumerate() {
        table.row([ordinal.to_string(), name.clone()]);
    }
    section("Types", table.to_text());

    let mut table = Table::new(&[">#", "import", "signature", ""]);
    for (ordinal, import) in summary.imports.iter().enumerate() {
        let signature = if import.convention.is_empty() { "any".into() } else { signature(&import.convention) };
        table.row([ordinal.to_string(), import.name.clone(), signature, optional(import.optional)]);
    }
    section("Imports", table.to_text());

    section("Exports", exports(summary));

    let mut table = Table::new(&[">#", ">bytes", "kind", "text"]);
    for (ordinal, rodata) in summary.rodata.iter().enumerate() {
        let kind = if rodata.external { "external" } else { "embedded" };
        let contents = rodata.text.as_ref().map(|text| format!("\"{text}\"")).unwrap_or_default();
        table.row([ordinal.to_string(), rodata.bytes.to_string(), kind.into(), contents]);
    }
    section("Read-only data", table.to_text());

    let globals = format!("  {} bytes of values, {} references\n", summary.global_bytes, summary.global_refs);
    section("Globals", globals);

    let mut table =
        Table::new(&[">#", ">offset", ">bytes", ">blocks", ">values", ">refs", "needs", "signature", "name"]);
    for (ordinal, function) in summary.functions.iter().enumerate() {
        table.row([
            ordinal.to_string(),
            format!("{:#x}", function.offset),
            function.length.to_string(),
            function.blocks.to_string(),
            function.value_registers.to_string(),
            function.ref_registers.to_string(),
            function.requirements.join(", "),
            signature(&function.convention),
            function.names.join(", "),
        ]);
    }
    let debug = if summary.has_source_map { "with" } else { "without" };
    section(&format!("Functions ({} bytes of code, {debug} source locations)", summary.code_bytes), table.to_text());
    text
}

fn exports(summary: &Summary) -> String {
    let mut table = Table::new(&[">function", "export", "signature"]);
    for export in &summary.exports {
        table.row([export.ordinal.to_string(), export.name.clone(), signature(&export.convention)]);
    }
    // Attributes stand below the line of their export, where a column would be too narrow.
    let rows = table.to_text();
    let mut lines = rows.lines();
    let mut text = lines.next().map(|header| format!("{header}\n")).unwrap_or_default();
    for (line, export) in lines.zip(&summary.exports) {
        text.push_str(line);
        text.push('\n');
        text.push_str(&attributes(&export.attributes, "            "));
    }
    text
}

fn attributes(attributes: &[(String, String)], indent: &str) -> String {
    attributes.iter().fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(text, "{indent}{}: {}", visible(key), visible(value));
        text
    })
}

fn list(before: &str, items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!("{before}{}", items.join(", ")) }
}

fn optional(optional: bool) -> String {
    if optional { "optional".into() } else { String::new() }
}
