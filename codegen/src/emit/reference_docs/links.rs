//! Where the pages of the instruction set and what stands on them are found, and links to there. Pages that link to
//! each other need no more of each other than this.

use super::html::{code_link, escape, link};
use crate::model::vm::Op;
use crate::sem::Primitive;

/// A link to an op.
pub(super) fn op(op: &Op) -> String {
    code_link(&op_path(op), &op.mnemonic)
}

/// The place that describes an op.
pub(super) fn op_path(op: &Op) -> String {
    format!("{}#{}", family_path(&op.family), op.mnemonic)
}

/// A link to the encoding of an op.
pub(super) fn encoding(op: &Op) -> String {
    if op.encoding.is_empty() {
        return String::new();
    }
    code_link(&format!("vm-encodings.html#{}", encoding_name(op)), &op.encoding)
}

/// `binary` for `binary(i32)`.
pub(super) fn encoding_name(op: &Op) -> &str {
    op.encoding.split('(').next().unwrap_or(&op.encoding).trim()
}

/// The page of a family.
pub(super) fn family_path(family: &str) -> String {
    format!("vm-{family}.html")
}

/// A link to the page of a family.
pub(super) fn family(family: &str) -> String {
    link(&family_path(family), family)
}

/// Where a primitive is described. Direct and indirect global accesses share a name, so the anchor is that of the
/// variant.
pub(super) fn primitive_path(primitive: &Primitive) -> String {
    format!("vm-primitives.html#{}", primitive.variant())
}

/// A link to a primitive.
pub(super) fn primitive(primitive: &Primitive) -> String {
    code_link(&primitive_path(primitive), primitive.written())
}

/// The anchor of the status code `out_of_range`.
pub(super) fn status_id(name: &str) -> String {
    format!("status-{name}")
}

/// A link to a status code, as the outcome of an op that traps.
pub(super) fn status(name: &str) -> String {
    let (id, text) = (status_id(name), name.to_uppercase());
    format!("<a href=\"abi.html#{}\"><code class=\"trap\">{}</code></a>", escape(&id), escape(&text))
}

/// The anchor of the example with this number, which counts from 1.
pub(super) fn example_id(op: &Op, number: usize) -> String {
    format!("{}-{number}", op.mnemonic)
}
