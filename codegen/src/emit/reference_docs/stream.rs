//! The bytes of an instruction: the parts that each kind of field has in the stream, as cells of a diagram.

use super::diagram::{Cell, Extent};
use super::html::code_link;
use crate::model::vm::{FieldKind, Isa, Op, Type};

const COUNT: Extent = Extent::Bytes(FieldKind::COUNT_BYTES);

/// A field of an op, or of an encoding whose type parameters are still open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'a> {
    pub name: &'a str,
    pub kind: FieldKind,
    pub ty: Option<&'a str>,
    pub movable: bool,
}

/// The operands of an op.
pub(super) fn operands(op: &Op) -> Vec<Operand<'_>> {
    let operand = |field: &'_ crate::model::vm::Field| (field.kind, field.ty.map(Type::name), field.movable);
    op.fields
        .iter()
        .map(|field| {
            let (kind, ty, movable) = operand(field);
            Operand { name: &field.name, kind, ty, movable }
        })
        .collect()
}

/// The opcode bytes of an op.
pub(super) fn opcode(isa: &Isa, op: &Op) -> Vec<Cell> {
    let byte = |value: u8, label: &str| Cell {
        label: format!("{value:#04x}"),
        note: label.to_string(),
        extent: Extent::Bytes(1),
        class: "opcode",
    };
    let prefix = isa.prefix(&op.set).map(|value| byte(value, "prefix"));
    prefix.into_iter().chain([byte(op.opcode, "opcode")]).collect()
}

/// The parts of a field in the stream; the table in `spec/README.md` as cells.
pub(super) fn cells(operand: &Operand<'_>) -> Vec<Cell> {
    let Operand { name, kind, ty, .. } = *operand;
    let ty = ty.unwrap_or_default();
    let cell = |label: String, note: String, extent: Extent, class: &'static str| Cell { label, note, extent, class };
    // The size of an immediate is open where its type is a parameter.
    let extent = kind.bytes(Type::named(ty)).map_or(Extent::Varies, Extent::Bytes);
    let number = |note: &str, class| vec![cell(name.into(), note.into(), extent, class)];
    let target = FieldKind::Target.bytes(None).map_or(Extent::Varies, Extent::Bytes);
    let pad = || cell("pad".into(), "to even".into(), Extent::Varies, "pad");
    let count = || cell(format!("{name}.count"), "u16".into(), COUNT, "count");
    let run = |note: &str, class| cell(format!("{name}[count]"), note.into(), Extent::Varies, class);
    match kind {
        FieldKind::Reg => number(&format!("u16, {ty} register"), "reg"),
        FieldKind::Result => number(&format!("u16, {ty} register"), "result"),
        FieldKind::Imm if extent == Extent::Varies => number(&format!("{ty}, 4 or 8 bytes"), "imm"),
        FieldKind::Imm => number(ty, "imm"),
        FieldKind::Global if ty == "ref" => number("u32 ordinal", "imm"),
        FieldKind::Global => number("u32 byte offset", "imm"),
        FieldKind::Type | FieldKind::Rodata => number("u32 ordinal", "imm"),
        FieldKind::Function => number("u32 ordinal, may be of an import", "imm"),
        FieldKind::Import => number("u32 import ordinal", "imm"),
        FieldKind::String => vec![
            cell(format!("{name}.length"), "u16".into(), COUNT, "count"),
            cell(format!("{name}[length]"), "bytes".into(), Extent::Varies, "imm"),
        ],
        FieldKind::Edge => vec![
            cell(name.into(), "u32 block offset".into(), target, "branch"),
            pad(),
            cell("remap.count".into(), "u16".into(), COUNT, "count"),
            cell("remap[count]".into(), "u16 src, u16 dst".into(), Extent::Varies, "reg"),
        ],
        FieldKind::Target => number("u32 block offset", "branch"),
        FieldKind::Regs => vec![pad(), count(), run("u16 registers", "reg")],
        FieldKind::Results => vec![pad(), count(), run("u16 registers", "result")],
        FieldKind::Segments => vec![pad(), count(), run("u16 tuples", "imm")],
        FieldKind::Cases => vec![
            cell(format!("{name}.count"), "u16".into(), COUNT, "count"),
            cell(format!("{name}[count]"), "an edge each".into(), Extent::Varies, "branch"),
        ],
    }
}

/// The meaning of a field of a kind, in a sentence.
pub(super) fn meaning(kind: FieldKind) -> &'static str {
    match kind {
        FieldKind::Reg => {
            "The register that is read. With the MOVE bit, where it is allowed, the reference leaves the register."
        }
        FieldKind::Result => "The register that is written. That of a reference may carry the MOVE bit.",
        FieldKind::Imm => "The value itself, little-endian.",
        FieldKind::Global => "The byte offset of a value global, or the ordinal of a ref global.",
        FieldKind::Type => "The ordinal of a type in the module's type table.",
        FieldKind::Rodata => "The ordinal of a segment of read-only data.",
        FieldKind::Function => "The ordinal of a function of the module; with `import_bit` set, that of an import.",
        FieldKind::Import => "The ordinal of an import, with or without `import_bit`.",
        FieldKind::String => "Bytes with their number in front; no padding, no NUL.",
        FieldKind::Edge => {
            "The offset of a block marker from the start of the function, and the register copies made on the way, in order. \
             A 64-bit value is two pairs."
        }
        FieldKind::Target => "The offset of a block marker from the start of the function.",
        FieldKind::Regs => "The registers that are read, one for each value.",
        FieldKind::Results => "The registers that are written, one for each value.",
        FieldKind::Segments => {
            "One number for each argument of the callee: `not_a_span`, or how many tuples the span has."
        }
        FieldKind::Cases => "The edges of a branch table.",
    }
}

/// How a field is used: a column of operand tables.
pub(super) fn access(operand: &Operand<'_>) -> String {
    let text = match operand.kind {
        FieldKind::Reg | FieldKind::Regs => "read",
        FieldKind::Result | FieldKind::Results => "written",
        FieldKind::Edge | FieldKind::Target | FieldKind::Cases => "branch",
        _ => "immediate",
    };
    match operand.kind {
        FieldKind::Reg | FieldKind::Regs if operand.movable => format!("{text}, may be moved"),
        _ => text.to_string(),
    }
}

/// The rows of a table of operands: name, kind, type, use.
pub(super) fn rows(operands: &[Operand<'_>]) -> Vec<Vec<String>> {
    let row = |operand: &Operand<'_>| {
        vec![
            super::html::code(operand.name),
            code_link(&format!("vm-encodings.html#kind-{}", operand.kind.name()), operand.kind.name()),
            operand.ty.map(super::html::code).unwrap_or_default(),
            access(operand),
        ]
    };
    operands.iter().map(row).collect()
}
