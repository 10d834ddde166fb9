//! The checks of the instruction set: unique opcodes, mnemonics and names, and prefixes that introduce sets. Called by
//! `load`.

use std::collections::BTreeMap;

use crate::diag::{Diagnostics, Origin};
use crate::model::constant::ConstantValue;
use crate::model::int::Int;
use crate::model::vm::{Body, ControlOp, Field, FieldKind, Isa, Op, Structure};

/// Checks a whole instruction set.
pub fn check(isa: &Isa, diagnostics: &mut Diagnostics) {
    let mut sets: BTreeMap<&str, &Origin> = BTreeMap::new();
    let mut prefixes: BTreeMap<&str, (&str, &Origin)> = BTreeMap::new();
    for set in &isa.sets {
        if let Some(first) = sets.insert(&set.name, &set.origin) {
            diagnostics.error(&set.origin, format!("opcode set `{}` is already declared at {first}", set.name));
        }
        match (set.name == "core", &set.prefix) {
            (true, Some(_)) => diagnostics.error(&set.origin, "the set `core` takes no prefix"),
            (false, None) => diagnostics.error(&set.origin, format!("opcode set `{}` has no prefix", set.name)),
            _ => {}
        }
        let Some(prefix) = &set.prefix else { continue };
        if !isa.op(prefix).is_some_and(|op| op.set == "core" && matches!(op.body, Body::Structure(Structure::Prefix))) {
            let message = format!("prefix `{prefix}` of opcode set `{}` is not a prefix op of `core`", set.name);
            diagnostics.error(&set.origin, message);
        }
        if let Some((other, first)) = prefixes.insert(prefix.as_str(), (&set.name, &set.origin)) {
            let message = format!("prefix `{prefix}` of `{}` is already the prefix of `{other}` at {first}", set.name);
            diagnostics.error(&set.origin, message);
        }
    }
    let mut bits: Vec<(u32, &str, &Origin)> = Vec::new();
    let sets = isa.sets.iter().filter_map(|set| Some((set.feature?, set.name.as_str(), &set.origin)));
    let features = isa.features.iter().map(|feature| (feature.bit, feature.name.as_str(), &feature.origin));
    for (bit, name, origin) in sets.chain(features) {
        if let Some((_, other, first)) = bits.iter().find(|(other, ..)| other & bit != 0) {
            let message = format!("feature bit {bit:#x} of `{name}` is already the bit of `{other}` at {first}");
            diagnostics.error(origin, message);
        }
        bits.push((bit, name, origin));
    }
    constants(isa, diagnostics);
    let mut encodings: BTreeMap<&str, &Origin> = BTreeMap::new();
    for encoding in &isa.encodings {
        if let Some(first) = encodings.insert(&encoding.name, &encoding.origin) {
            diagnostics.error(&encoding.origin, format!("encoding `{}` is already declared at {first}", encoding.name));
        }
    }
    ops(isa, &prefixes, diagnostics);
}

/// The constants that emitters and the runtime need, with their types. Bits distinguish kinds of registers and of
/// ordinals.
const REQUIRED: [(&str, Int, bool); 4] = [
    ("ref_bit", Int::U16, true),
    ("move_bit", Int::U16, true),
    ("import_bit", Int::U32, true),
    ("not_a_span", Int::U16, false),
];

fn constants(isa: &Isa, diagnostics: &mut Diagnostics) {
    let mut constants: BTreeMap<&str, &Origin> = BTreeMap::new();
    for constant in &isa.constants {
        if let Some(first) = constants.insert(&constant.name, &constant.origin) {
            diagnostics.error(&constant.origin, format!("constant `{}` is already declared at {first}", constant.name));
        }
        let required = REQUIRED.iter().find(|(name, ..)| *name == constant.name);
        let Some((name, int, is_bit)) = required else { continue };
        let expected = if *is_bit { "one bit" } else { "a number" };
        match constant.value {
            ConstantValue::Int(ty, value) if ty == *int && (!is_bit || value.is_power_of_two()) => {}
            _ => diagnostics.error(&constant.origin, format!("`{name}` is not {expected} of type {}", int.name())),
        }
    }
    if isa.number("move_bit") > isa.number("ref_bit") {
        let place = isa.constants.iter().find(|constant| constant.name == "move_bit").map(|constant| &constant.origin);
        place.into_iter().for_each(|origin| diagnostics.error(origin, "`move_bit` is not below `ref_bit`"));
    }
    let Some(first) = in_file_order(isa).first().copied() else { return };
    for (name, ..) in REQUIRED.iter().filter(|(name, ..)| !constants.contains_key(name)) {
        diagnostics.error(&first.origin, format!("there are ops, but no constant `{name}`"));
    }
}

fn ops(isa: &Isa, prefixes: &BTreeMap<&str, (&str, &Origin)>, diagnostics: &mut Diagnostics) {
    let mut opcodes = BTreeMap::new();
    let mut mnemonics: BTreeMap<&str, &Origin> = BTreeMap::new();
    let mut variants: BTreeMap<&str, (&str, &Origin)> = BTreeMap::new();
    for op in in_file_order(isa) {
        if !op.told.opcode
            && let Some((other, first)) =
                opcodes.insert((op.set.as_str(), op.opcode), (op.mnemonic.as_str(), &op.origin))
        {
            let message = format!(
                "opcode {:#04x} of set `{}` is given to `{}` and to `{other}` at {first}; {}",
                op.opcode,
                op.set,
                op.mnemonic,
                near_free(isa, op)
            );
            diagnostics.error(&op.origin, message);
        }
        if let Some(first) = mnemonics.insert(&op.mnemonic, &op.origin) {
            diagnostics.error(&op.origin, format!("op `{}` is already declared at {first}", op.mnemonic));
        } else if let Some((other, first)) = variants.insert(&op.variant, (&op.mnemonic, &op.origin)) {
            let message =
                format!("op `{}` and `{other}` at {first} have the same Rust name `{}`", op.mnemonic, op.variant);
            diagnostics.error(&op.origin, message);
        }
        if !op.told.body {
            shape(op, diagnostics);
        }
        let is_prefix = matches!(op.body, Body::Structure(Structure::Prefix));
        if is_prefix && !prefixes.contains_key(op.mnemonic.as_str()) {
            diagnostics.error(&op.origin, format!("prefix op `{}` leads to no opcode set", op.mnemonic));
        }
    }
}

/// The free opcodes of the set of an op that follow its opcode.
fn near_free(isa: &Isa, op: &Op) -> String {
    let mut free = isa.free_opcodes(&op.set);
    free.sort_by_key(|opcode| opcode.wrapping_sub(op.opcode));
    let free: Vec<String> = free.iter().take(3).map(|opcode| format!("{opcode:#04x}")).collect();
    if free.is_empty() { "none of the set is free".to_string() } else { format!("free are {}", free.join(", ")) }
}

/// Control ops have the operands that every emitter expects; other ops have no operands of control flow.
fn shape(op: &Op, diagnostics: &mut Diagnostics) {
    let names = |kinds: &[FieldKind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" ");
    let kinds: Vec<FieldKind> = op.fields.iter().map(|field| field.kind).collect();
    if let Body::Control(control) = op.body {
        let expected = control_operands(control);
        if kinds != expected {
            let (name, expected, found) = (control.name(), names(expected), names(&kinds));
            diagnostics.error(
                &op.origin,
                format!("control op `{name}` takes the fields {expected}, its encoding has {found}"),
            );
        }
        return;
    }
    use FieldKind::*;
    if let Some(kind) = kinds.iter().find(|kind| matches!(kind, Function | Segments | Results | Edge | Target | Cases))
    {
        let message = format!("a field of kind `{}` needs a control op; `{}` is none", kind.name(), op.mnemonic);
        diagnostics.error(&op.origin, message);
    }
    let size = decoded_size(op);
    if size > DECODED_BYTES {
        let message = format!("the operands of `{}` need {size} bytes, a decoded op has {DECODED_BYTES}", op.mnemonic);
        diagnostics.error(&op.origin, message);
    }
    if kinds.iter().filter(|kind| **kind == Result).count() > 1 {
        diagnostics.error(&op.origin, format!("op `{}` has more than one result", op.mnemonic));
    }
}

/// The size of a decoded op, whatever its operands.
const DECODED_BYTES: u32 = 16;

/// The size of a decoded op with these operands: a tag of two bytes, then the operands by size, each at its alignment.
fn decoded_size(op: &Op) -> u32 {
    // A field without a fixed size in the bytecode is an index into a side table.
    let size = |field: &Field| field.kind.bytes(field.ty).unwrap_or(4);
    let sum = |bytes: u32| op.fields.iter().map(size).filter(|size| *size == bytes).sum::<u32>();
    let (twos, fours, eights) = (2 + sum(2), sum(4), sum(8));
    let mut total = twos;
    for (sum, alignment) in [(fours, 4), (eights, 8)] {
        if sum > 0 {
            total = total.next_multiple_of(alignment) + sum;
        }
    }
    total
}

fn control_operands(control: ControlOp) -> &'static [FieldKind] {
    use FieldKind::*;
    match control {
        ControlOp::Br | ControlOp::Yield | ControlOp::Break => &[Edge],
        ControlOp::CondBr => &[Reg, Edge, Edge],
        ControlOp::BrTable => &[Reg, Edge, Cases],
        ControlOp::CondBreak => &[Reg, Edge],
        ControlOp::Call => &[Function, Regs, Results],
        ControlOp::CallVariadic => &[Function, Segments, Regs, Results],
        ControlOp::CallYieldable => &[Function, Regs, Target, Results],
        ControlOp::CallVariadicYieldable => &[Function, Segments, Regs, Target, Results],
        ControlOp::Return => &[Regs],
        ControlOp::Fail => &[Reg, String],
        ControlOp::Trace | ControlOp::Print => &[String, Regs],
        ControlOp::ImportResolved => &[Import, Result],
    }
}

/// Ops sorted by place, so that the second of two is the one that is reported.
fn in_file_order(isa: &Isa) -> Vec<&Op> {
    let mut ops: Vec<_> = isa.ops.iter().collect();
    ops.sort_by_key(|op| &op.origin);
    ops
}
