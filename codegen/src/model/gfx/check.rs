//! The rules across entries of `spec/isa/gfx11/`: names and opcodes are unique, bits do not overlap, operands have
//! fields of the right widths, and examples name operands.

use std::collections::BTreeMap;

use super::operands::{self, SCALAR_BITS, SOURCE_BITS, VECTOR_BITS};
use super::types::{Encoding, FieldKind, Gfx, IMPLICIT, Instruction};
use super::words;
use crate::diag::{Diagnostics, Origin};

/// Operands that a form may leave out, since its encoding implies them: masks are VCC, and a literal follows the words.
const IMPLIED: [&str; 4] = ["c", "s2", "k", "d"];
/// The names in examples besides operands and registers that instructions use without naming them: the old result, SCC
/// before, how many representable values the result may be away, and the modifier `clamp`.
const OF_EXAMPLES: [&str; 4] = ["d_in", "scc_in", "ulp", "clamp"];

impl Gfx {
    pub(super) fn check(&self, diagnostics: &mut Diagnostics) {
        let mut seen: BTreeMap<&str, &Origin> = BTreeMap::new();
        let encodings = self.encodings.iter().map(|encoding| (encoding.name.as_str(), &encoding.origin));
        let instructions = self.instructions.iter().map(|instruction| (instruction.name.as_str(), &instruction.origin));
        let sources = self.sources.iter().map(|source| (source.name.as_str(), &source.origin));
        let constants = self.constants.iter().map(|constant| (constant.name.as_str(), &constant.origin));
        let words = self.words.iter().map(|word| (word.name.as_str(), &word.origin));
        let choices = self.choices.iter().map(|choice| (choice.name.as_str(), &choice.origin));
        let counters = self.counters.iter().map(|counter| (counter.name.as_str(), &counter.origin));
        let others = sources.chain(constants).chain(words).chain(choices).chain(counters);
        for (name, origin) in encodings.chain(instructions).chain(others) {
            if let Some(first) = seen.insert(name, origin) {
                diagnostics.error(origin, format!("`{name}` is declared at {first} already"));
            }
        }
        operands::check(&self.sources, diagnostics);
        words::check(&self.words, &self.choices, diagnostics);
        for encoding in &self.encodings {
            check_encoding(encoding, diagnostics);
        }
        let mut opcodes: BTreeMap<(&str, u32), &Origin> = BTreeMap::new();
        for instruction in &self.instructions {
            if instruction.forms.is_empty() {
                diagnostics.error(&instruction.origin, "expected at least one form");
            }
            check_examples(instruction, diagnostics);
            for form in &instruction.forms {
                let Some(encoding) = self.encoding(&form.encoding) else {
                    let known = self.encodings.iter().map(|encoding| encoding.name.as_str());
                    let message = format!("there is no encoding `{}`", form.encoding);
                    diagnostics.unknown(&instruction.origin, &form.encoding, message, known);
                    continue;
                };
                // A decoder looks an opcode up before it knows which of the encodings with the same fixed bits it is.
                let same = self.encodings.iter().find(|other| other.fixed == encoding.fixed);
                let space = same.map_or(form.encoding.as_str(), |same| same.name.as_str());
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
    if u64::from(opcode) >> width != 0 {
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

fn check_examples(instruction: &Instruction, diagnostics: &mut Diagnostics) {
    let operands = instruction.operands.iter().map(|operand| operand.name.as_str());
    let known: Vec<&str> = operands.chain(IMPLICIT.map(|(name, _)| name)).chain(OF_EXAMPLES).collect();
    for (name, _) in instruction.examples.iter().flatten() {
        if !known.contains(&name.as_str()) {
            let message = format!("an example gives `{name}`, which the instruction does not have");
            diagnostics.unknown(&instruction.origin, name, message, known.iter().copied());
        }
    }
}

/// The widths that a field of a kind may have.
fn widths(kind: FieldKind) -> std::ops::RangeInclusive<u32> {
    match kind {
        FieldKind::Vector => VECTOR_BITS..=VECTOR_BITS,
        FieldKind::Scalar => SCALAR_BITS..=SCALAR_BITS,
        // The lowest bit, or two of them, are not in the field.
        FieldKind::ScalarPair => SCALAR_BITS - 1..=SCALAR_BITS - 1,
        FieldKind::ScalarQuad => SCALAR_BITS - 2..=SCALAR_BITS - 2,
        // Instructions without vector registers need no bit for them.
        FieldKind::Source => SOURCE_BITS - 1..=SOURCE_BITS,
        FieldKind::Opcode | FieldKind::OpcodeY | FieldKind::Number => 1..=32,
    }
}

fn check_encoding(encoding: &Encoding, diagnostics: &mut Diagnostics) {
    if !(1..=2).contains(&encoding.words) {
        diagnostics.error(&encoding.origin, format!("{} words: expected 1 or 2", encoding.words));
        return;
    }
    for fixed in &encoding.fixed {
        if fixed.width < 32 && fixed.value >> fixed.width != 0 {
            let message =
                format!("the value 0x{:X} at bit {} does not fit {} bits", fixed.value, fixed.bit, fixed.width);
            diagnostics.error(&encoding.origin, message);
        }
    }
    for (index, field) in encoding.fields.iter().enumerate() {
        let expected = widths(field.kind);
        if !expected.contains(&field.width) {
            let message = format!("`{}` has {} bits: expected {}", field.name, field.width, expected.start());
            diagnostics.error(&encoding.origin, message);
        }
        if encoding.fields[..index].iter().any(|other| other.name == field.name) {
            diagnostics.error(&encoding.origin, format!("two fields are called `{}`", field.name));
        }
    }
    let mut used = vec![false; 32 * encoding.words as usize];
    let fixed = encoding.fixed.iter().map(|fixed| ("fixed bits", fixed.bit, fixed.width));
    let fields = encoding.fields.iter().map(|field| (field.name.as_str(), field.bit, field.width));
    for (name, bit, width) in fixed.chain(fields) {
        let bits = bit as usize..(bit as usize).saturating_add(width as usize);
        let crosses = width == 0 || u64::from(bit / 32) != (u64::from(bit) + u64::from(width) - 1) / 32;
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
