//! The rules across entries of `spec/gfx11/`: names and opcodes are unique, bits do not overlap, operands have fields.

use std::collections::BTreeMap;

use super::types::{Encoding, FieldKind, Gfx, Instruction};
use crate::diag::{Diagnostics, Origin};

/// Operands that a form may leave out, since its encoding implies them: masks are VCC, and a literal follows the words.
const IMPLIED: [&str; 4] = ["c", "s2", "k", "d"];

impl Gfx {
    pub(super) fn check(&self, diagnostics: &mut Diagnostics) {
        let mut seen: BTreeMap<&str, &Origin> = BTreeMap::new();
        let encodings = self.encodings.iter().map(|encoding| (encoding.name.as_str(), &encoding.origin));
        let primitives = self.primitives.iter().map(|primitive| (primitive.name.as_str(), &primitive.origin));
        let instructions = self.instructions.iter().map(|instruction| (instruction.name.as_str(), &instruction.origin));
        for (name, origin) in encodings.chain(primitives).chain(instructions) {
            if let Some(first) = seen.insert(name, origin) {
                diagnostics.error(origin, format!("`{name}` is declared at {first} already"));
            }
        }
        for encoding in &self.encodings {
            check_encoding(encoding, diagnostics);
        }
        let mut opcodes: BTreeMap<(&str, u32), &Origin> = BTreeMap::new();
        for instruction in &self.instructions {
            for form in &instruction.forms {
                let Some(encoding) = self.encoding(&form.encoding) else {
                    let known = self.encodings.iter().map(|encoding| encoding.name.as_str());
                    let message = format!("there is no encoding `{}`", form.encoding);
                    diagnostics.unknown(&instruction.origin, &form.encoding, message, known);
                    continue;
                };
                // Both have the same fixed bits, and a decoder looks an opcode up before it knows which.
                let space = if form.encoding == "vop3sd" { "vop3" } else { form.encoding.as_str() };
                if let Some(first) = opcodes.insert((space, form.opcode), &instruction.origin) {
                    let message = format!("opcode 0x{:X} of `{space}` is taken at {first}", form.opcode);
                    diagnostics.error(&instruction.origin, message);
                }
                check_form(instruction, encoding, form.opcode, diagnostics);
            }
        }
    }
}

fn check_form(instruction: &Instruction, encoding: &Encoding, opcode: u32, diagnostics: &mut Diagnostics) {
    // The second of two instructions may have a wider number.
    let numbers = encoding.fields.iter().filter(|field| matches!(field.kind, FieldKind::Opcode | FieldKind::OpcodeY));
    let width = numbers.map(|field| field.width).max().unwrap_or(0);
    if opcode >> width != 0 {
        let message = format!("opcode 0x{opcode:X} does not fit {width} bits of `{}`", encoding.name);
        diagnostics.error(&instruction.origin, message);
    }
    for operand in &instruction.operands {
        let has = encoding.operands.iter().any(|(name, _)| *name == operand.name);
        if !has && !IMPLIED.contains(&operand.name.as_str()) {
            let message = format!("`{}` has no field for the operand `{}`", encoding.name, operand.name);
            diagnostics.error(&instruction.origin, message);
        }
    }
}

fn check_encoding(encoding: &Encoding, diagnostics: &mut Diagnostics) {
    let mut used = vec![false; 32 * encoding.words as usize];
    let fixed = encoding.fixed.iter().map(|fixed| ("fixed bits", fixed.bit, fixed.width));
    let fields = encoding.fields.iter().map(|field| (field.name.as_str(), field.bit, field.width));
    for (name, bit, width) in fixed.chain(fields) {
        let bits = bit as usize..bit as usize + width as usize;
        let crosses = width == 0 || bit / 32 != (bit + width - 1) / 32;
        match used.get_mut(bits) {
            Some(bits) if !crosses => {
                if bits.iter().any(|bit| *bit) {
                    diagnostics.error(&encoding.origin, format!("`{name}` overlaps other bits"));
                }
                bits.fill(true);
            }
            _ => diagnostics.error(&encoding.origin, format!("`{name}` does not lie in one word of the encoding")),
        }
    }
    if encoding.fields.iter().filter(|field| field.kind == FieldKind::Opcode).count() != 1 {
        diagnostics.error(&encoding.origin, "expected one field of the kind `opcode`");
    }
    for (operand, field) in &encoding.operands {
        if !encoding.fields.iter().any(|other| other.name == *field) {
            let known = encoding.fields.iter().map(|field| field.name.as_str());
            let message = format!("`{operand}`: there is no field `{field}`");
            diagnostics.unknown(&encoding.origin, field, message, known);
        }
    }
}
