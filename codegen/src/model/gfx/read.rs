//! The reader of `spec/isa/gfx11/`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::types::{
    Access, Body, Encoding, Field, FieldKind, Fixed, Form, Gfx, IMPLICIT, Instruction, LeftOut, MemoryValue, Mnemonics,
    Operand, OperandTy, PARTS, SPACES,
};
use super::{counters, operands, words};
use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;
use crate::model::constant;
use crate::sem::{self, Expr, Ty, Vocabulary};

/// The kinds of entries that this room reads.
const KINDS: [&str; 5] = ["encoding", "instruction", "constant", "assembler", "left_out"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEncoding {
    encoding: String,
    words: u32,
    doc: String,
    fixed: Vec<RawFixed>,
    fields: Vec<RawField>,
    operands: serde_yaml::Mapping,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFixed {
    bit: u32,
    width: u32,
    value: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawField {
    name: String,
    bit: u32,
    width: u32,
    kind: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMnemonics {
    assembler: String,
    names: BTreeMap<u32, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLeftOut {
    left_out: String,
    names: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInstruction {
    instruction: String,
    forms: serde_yaml::Mapping,
    #[serde(default)]
    operands: serde_yaml::Mapping,
    doc: String,
    semantics: Option<serde_yaml::Value>,
    clamped: Option<serde_yaml::Value>,
    helper: Option<String>,
    control: Option<String>,
    access: Option<RawAccess>,
    #[serde(default)]
    examples: Vec<serde_yaml::Mapping>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAccess {
    op: String,
    space: String,
    value: String,
    part: Option<String>,
}

/// Every entry; instructions after what they use.
pub(super) fn all(entries: &[Entry], primitives: Vocabulary, diagnostics: &mut Diagnostics) -> Gfx {
    let mut gfx = Gfx { primitives, ..Gfx::default() };
    for entry in entries {
        match entry.kind.as_str() {
            "encoding" => gfx.encodings.extend(encoding(entry, diagnostics)),
            "instruction" => {}
            "assembler" => gfx.assembler.extend(mnemonics(entry, diagnostics)),
            counters::KIND => gfx.counters.extend(counters::counter(entry, diagnostics)),
            "left_out" => gfx.left_out.extend(left_out(entry, diagnostics)),
            "constant" => gfx.constants.extend(constant::read(entry, diagnostics)),
            "word" => gfx.words.extend(words::word(entry, diagnostics)),
            "choice" => gfx.choices.extend(words::choice(entry, diagnostics)),
            kind if operands::KINDS.contains(&kind) => gfx.sources.extend(operands::read(entry, diagnostics)),
            kind => {
                let known = KINDS.into_iter().chain(operands::KINDS).chain(words::KINDS).chain([counters::KIND]);
                diagnostics.unknown(&entry.origin, kind, format!("unknown kind of entry `{kind}`"), known);
            }
        }
    }
    let fixed_bits = |encoding: &Encoding| encoding.fixed.iter().map(|fixed| u64::from(fixed.width)).sum::<u64>();
    gfx.encodings.sort_by_key(|encoding| std::cmp::Reverse(fixed_bits(encoding)));
    for entry in entries.iter().filter(|entry| entry.kind == "instruction") {
        let instruction = instruction(&gfx, entry, diagnostics);
        gfx.instructions.extend(instruction);
    }
    gfx
}

fn encoding(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Encoding> {
    let raw: RawEncoding = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    let mut fields = Vec::with_capacity(raw.fields.len());
    for (index, field) in raw.fields.into_iter().enumerate() {
        let origin = entry.item_origin("fields", index);
        let Some((.., kind)) = FieldKind::NAMES.iter().find(|(name, ..)| *name == field.kind) else {
            let known = FieldKind::NAMES.iter().map(|(name, ..)| *name);
            diagnostics.unknown(&origin, &field.kind, format!("`{}` is not a kind of field", field.kind), known);
            continue;
        };
        fields.push(Field { name: field.name, bit: field.bit, width: field.width, kind: *kind });
    }
    let fixed = raw.fixed.into_iter().map(|RawFixed { bit, width, value }| Fixed { bit, width, value }).collect();
    let origin = entry.origin_of("operands");
    let operands = pairs(&raw.operands, &origin, diagnostics, |value| value.as_str().map(str::to_string));
    Some(Encoding {
        name: raw.encoding,
        words: raw.words,
        doc: raw.doc,
        fixed,
        fields,
        operands,
        origin: entry.origin.clone(),
    })
}

fn mnemonics(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Mnemonics> {
    let raw: RawMnemonics = entry.parse(diagnostics)?;
    let names = raw.names.into_iter().collect();
    Some(Mnemonics { encoding: raw.assembler, names, origin: entry.origin.clone() })
}

fn left_out(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<LeftOut> {
    let raw: RawLeftOut = entry.parse(diagnostics)?;
    entry.need_doc(&raw.reason, diagnostics);
    Some(LeftOut { name: raw.left_out, names: raw.names, reason: raw.reason, origin: entry.origin.clone() })
}

fn instruction(gfx: &Gfx, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Instruction> {
    let raw: RawInstruction = entry.parse(diagnostics)?;
    entry.need_doc(&raw.doc, diagnostics);
    let origin = entry.origin_of("forms");
    let forms =
        pairs(&raw.forms, &origin, diagnostics, |value| value.as_u64().and_then(|number| number.try_into().ok()));
    let forms = forms.into_iter().map(|(encoding, opcode)| Form { encoding, opcode }).collect();
    let origin = entry.origin_of("operands");
    let operands = pairs(&raw.operands, &origin, diagnostics, |value| {
        OperandTy::NAMES.iter().find(|(name, ..)| Some(*name) == value.as_str()).map(|(.., ty)| *ty)
    });
    let operands: Vec<Operand> = operands.into_iter().map(|(name, ty)| Operand { name, ty }).collect();
    let bodies = [raw.semantics.is_some(), raw.helper.is_some(), raw.control.is_some(), raw.access.is_some()];
    if bodies.into_iter().filter(|body| *body).count() != 1 {
        diagnostics.error(&entry.origin, "expected exactly one of `semantics`, `helper`, `control` and `access`");
        return None;
    }
    let body = if let Some(semantics) = raw.semantics {
        Body::Semantics(results(gfx, entry, ("semantics", &semantics), &operands, diagnostics))
    } else if let Some(raw) = raw.access {
        Body::Access(access(entry, &raw, diagnostics)?)
    } else {
        let control = raw.control.map(Body::Control);
        control.or(raw.helper.map(Body::Helper))?
    };
    let clamped = raw.clamped.map(|clamped| results(gfx, entry, ("clamped", &clamped), &operands, diagnostics));
    if let Some(clamped) = &clamped {
        let names = |results: &[(String, Expr)]| results.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match &body {
            Body::Semantics(results) if names(results) == names(clamped) => {}
            _ => diagnostics.error(&entry.origin_of("clamped"), "expected the results of `semantics`, saturated"),
        }
    }
    let mut examples = Vec::new();
    for (index, example) in raw.examples.iter().enumerate() {
        let origin = entry.item_origin("examples", index);
        examples.push(pairs(example, &origin, diagnostics, serde_yaml::Value::as_u64));
    }
    let name = raw.instruction;
    Some(Instruction { name, forms, operands, doc: raw.doc, body, clamped, examples, origin: entry.origin.clone() })
}

fn access(entry: &Entry, raw: &RawAccess, diagnostics: &mut Diagnostics) -> Option<Access> {
    let origin = entry.origin_of("access");
    let values = MemoryValue::ALL.map(|value| value.name);
    let value = one_of(values, "value", &raw.value, &origin, diagnostics);
    let space = one_of(SPACES.map(|(name, _)| name), "space", &raw.space, &origin, diagnostics);
    let part = raw.part.as_deref().unwrap_or(PARTS[0].0);
    let part = one_of(PARTS.map(|(name, _)| name), "part", part, &origin, diagnostics);
    let value = MemoryValue::ALL.into_iter().find(|known| Some(known.name) == value)?;
    Some(Access { op: raw.op.clone(), space: space?, value, part: part? })
}

/// The name `given` among the known ones.
fn one_of<const N: usize>(
    known: [&'static str; N],
    key: &str,
    given: &str,
    origin: &Origin,
    diagnostics: &mut Diagnostics,
) -> Option<&'static str> {
    let found = known.into_iter().find(|name| *name == given);
    if found.is_none() {
        diagnostics.unknown(origin, given, format!("`{given}` is not a {key} of an access"), known);
    }
    found
}

/// The results of `semantics` or `clamped`: one expression for `d`, or a map.
fn results(
    gfx: &Gfx,
    entry: &Entry,
    (key, semantics): (&str, &serde_yaml::Value),
    operands: &[Operand],
    diagnostics: &mut Diagnostics,
) -> Vec<(String, Expr)> {
    let origin = entry.origin_of(key);
    let text = |value: &serde_yaml::Value| value.as_str().map(str::to_string);
    let written = match semantics {
        serde_yaml::Value::Mapping(map) => pairs(map, &origin, diagnostics, text),
        single => vec![("d".to_string(), text(single).unwrap_or_default())],
    };
    let lanes = operands.iter().filter_map(|operand| Some((operand.name.as_str(), operand.ty.lane()?)));
    let known: Vec<(&str, Ty)> = lanes.chain(IMPLICIT).collect();
    let is_scalar = entry.name().starts_with("s_");
    let mut results = Vec::new();
    for (name, text) in written {
        // A lane of a comparison makes one bit of EXEC.
        let ty = match known.iter().find(|(other, _)| *other == name) {
            Some(_) if name == "exec" && !is_scalar => Ty::Bool,
            Some((_, ty)) => *ty,
            None => {
                let known = known.iter().map(|(name, _)| *name);
                diagnostics.unknown(&origin, &name, format!("there is no result `{name}`"), known);
                continue;
            }
        };
        match sem::type_semantics(&text, &gfx.primitives, &sem::Language::LANES, &known, ty) {
            Ok(expr) => results.push((name, expr)),
            Err(refusals) => {
                for mut refusal in refusals {
                    refusal.message = format!("`{name}`: {}", refusal.message);
                    match semantics.is_string() {
                        true => {
                            let place = entry.place_in(key, &text, refusal.at);
                            refusal.report(place, diagnostics);
                        }
                        // In a map, the line of the key is all that is known.
                        false => diagnostics.error(&origin, refusal.message),
                    }
                }
            }
        }
    }
    results
}

/// The pairs of a map in the order of the text, with values that `value` takes.
fn pairs<T>(
    map: &serde_yaml::Mapping,
    origin: &Origin,
    diagnostics: &mut Diagnostics,
    value: impl Fn(&serde_yaml::Value) -> Option<T>,
) -> Vec<(String, T)> {
    let mut pairs = Vec::with_capacity(map.len());
    for (key, given) in map {
        let key = key.as_str().unwrap_or_default();
        match value(given) {
            Some(taken) => pairs.push((key.to_string(), taken)),
            None => diagnostics.error(origin, format!("`{key}`: unexpected value")),
        }
    }
    pairs
}
