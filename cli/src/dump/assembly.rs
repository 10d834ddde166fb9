//! The code of a module as VM assembly, in the form of `iree-dump-module`. Called by `dump`.

use std::fmt::Write;

use vireo::asm::{Directive, Keyword, signature};
use vireo::bytecode::{Names, VerifiedFunction, disassemble, disassemble_op};

use super::summary::{Export, Summary};
use vireo::visible_text::visible;

/// Bytes of a read-only segment that are shown in full. Weights can be gigabytes.
const SHOWN_RODATA: usize = 1024;

/// The lines that declare what the code refers to.
pub fn declarations(summary: &Summary, rodata: &dyn Fn(usize) -> Vec<u8>) -> String {
    let mut text =
        format!("{} @{} {} {}\n", Directive::Module, visible(&summary.name), Keyword::Version, summary.version);
    // Writing to a string cannot fail.
    for name in &summary.types {
        let _ = writeln!(text, "{} {}", Directive::Type, visible(name));
    }
    for import in &summary.imports {
        let optional = if import.optional { format!("{} ", Keyword::Optional) } else { String::new() };
        let (name, convention) = (visible(&import.name), visible(&import.convention));
        let _ = writeln!(text, "{} {optional}@{name} {} \"{convention}\"", Directive::Import, Keyword::Cconv);
    }
    for (ordinal, segment) in summary.rodata.iter().enumerate() {
        if segment.bytes <= SHOWN_RODATA as u64 {
            let hexadecimal = rodata(ordinal).iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02X}");
                text
            });
            let _ = writeln!(text, "{}[{ordinal}] = {hexadecimal}", Directive::Rodata);
        } else {
            let (rodata, bytes) = (Directive::Rodata, segment.bytes);
            let _ = writeln!(text, "// {rodata}[{ordinal}] has {bytes} bytes, too many to show");
        }
    }
    text
}

/// Function `ordinal` with its exports.
pub fn function(
    exports: &[&Export],
    names: Names<'_>,
    ordinal: usize,
    function: &VerifiedFunction,
    offsets: bool,
) -> String {
    let name = names.functions.get(ordinal).cloned().unwrap_or_default();
    let mut text = String::new();
    for export in exports {
        let target = if export.name == name { String::new() } else { format!(" = @{name}") };
        let _ = writeln!(text, "{} @{}{target}", Directive::Export, visible(&export.name));
    }
    let _ = writeln!(text, "{} @{name}{} {{", Directive::Func, signature(function.convention()));
    if offsets {
        text.push_str(&with_offsets(function, names));
    } else {
        text.push_str(&disassemble(function.decoded(), names));
    }
    text.push_str("}\n");
    text
}

/// The code of a function with the offset of each block and op before it, as `iree-dump-module --bytecode_offsets`
/// prints it.
fn with_offsets(function: &VerifiedFunction, names: Names<'_>) -> String {
    let decoded = function.decoded();
    let mut text = String::new();
    for (index, block) in decoded.blocks.iter().enumerate() {
        let _ = writeln!(text, "[{:08X}]^bb{index}:", block.offset);
        for op in block.ops.start as usize..block.ops.end as usize {
            let offset = decoded.offsets.get(op).copied().unwrap_or_default();
            let _ = writeln!(text, "[{offset:08X}]  {}", disassemble_op(decoded, op, names));
        }
    }
    text
}
