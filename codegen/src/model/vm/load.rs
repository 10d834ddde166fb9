//! Reads the entries of `spec/isa/vm/` into the model: type parameters are put in, semantics typed, examples parsed.
//! Rules across entries are left to `check`, which runs on the result.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::isa::{
    Body, Bytecode, ControlOp, Encoding, EncodingField, Feature, Field, FieldKind, GapFill, Isa, Op, OpcodeSet,
    Structure, TextPart, Told, Type,
};
use super::{examples, sequences};
use crate::camel_case::camel_case;
use crate::diag::{Diagnostics, Origin};
use crate::entry::{Entry, LeftOut};
use crate::model::abi::Abi;
use crate::model::constant;
use crate::sem::{self, Properties, Scalar, Ty, Vocabulary};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBytecode {
    #[serde(rename = "bytecode")]
    _name: serde_yaml::Value,
    major: u16,
    minor: u16,
    #[serde(default)]
    releases: String,
    moves: Option<bool>,
    gap_fill: Option<GapFill>,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSet {
    opcode_set: String,
    prefix: Option<String>,
    feature: Option<u32>,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFeature {
    feature: String,
    bit: u32,
    since: Option<u16>,
    #[serde(default)]
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEncoding {
    encoding: String,
    #[serde(default)]
    doc: String,
    text: Option<String>,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    fields: Vec<RawField>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawField {
    name: String,
    kind: String,
    #[serde(rename = "type")]
    ty: Option<String>,
    #[serde(rename = "move", default)]
    movable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOp {
    op: String,
    set: Option<String>,
    opcode: Option<serde_yaml::Value>,
    since: Option<u16>,
    #[serde(default)]
    encoding: String,
    #[serde(default)]
    doc: String,
    semantics: Option<String>,
    helper: Option<String>,
    control: Option<String>,
    structure: Option<String>,
    effect: Option<String>,
    #[serde(default)]
    examples: Vec<serde_yaml::Value>,
}

/// The kinds of entries below `spec/isa/vm/`.
const KINDS: [&str; 7] = ["bytecode", "opcode_set", "feature", "constant", "encoding", "op", "sequence"];

/// How the semantics of ops are written.
pub(in crate::model) const LANGUAGE: sem::Language = sem::Language {
    integers: &[Scalar::I32, Scalar::I64],
    floats: &[Scalar::F32, Scalar::F64],
    has_bits: false,
    unsigned: false,
    converts_truths: true,
};

impl Isa {
    /// Reads the entries of all files below `spec/isa/vm/`, in the order of their paths.
    /// Semantics are written with `primitives`. Examples trap with one of the status codes of `abi`, and write
    /// conventions as it says.
    pub fn load(entries: &[Entry], primitives: Vocabulary, abi: &Abi, diagnostics: &mut Diagnostics) -> Self {
        let mut isa = Isa { conventions: abi.grammar.clone(), primitives, ..Isa::default() };
        let (mut ops, mut features) = (Vec::new(), Vec::new());
        let mut sequences = Vec::new();
        for entry in entries {
            match entry.kind.as_str() {
                "bytecode" => {
                    let versions = &mut isa.versions;
                    versions.extend(load_bytecode(entry, versions.last(), diagnostics));
                }
                "opcode_set" => isa.sets.extend(load_set(entry, diagnostics)),
                "feature" => features.push(entry),
                "constant" => isa.constants.extend(constant::read(entry, diagnostics)),
                "encoding" => isa.encodings.extend(load_encoding(entry, diagnostics)),
                "op" => ops.push(entry),
                "sequence" => sequences.push(entry),
                kind => diagnostics.unknown(
                    &entry.origin,
                    kind,
                    format!("unknown kind of entry `{kind}`: expected one of {}", KINDS.join(" ")),
                    KINDS,
                ),
            }
        }
        isa.sets.sort_by_key(|set| set.name != "core");
        for entry in features {
            let feature = isa.load_feature(entry, diagnostics);
            isa.features.extend(feature);
        }
        for entry in ops {
            if let Some(op) = isa.load_op(entry, diagnostics) {
                isa.ops.push(op);
            }
        }
        let rank: BTreeMap<_, _> = isa.sets.iter().enumerate().map(|(rank, set)| (set.name.as_str(), rank)).collect();
        let mut ops = std::mem::take(&mut isa.ops);
        ops.sort_by_key(|op| (rank.get(op.set.as_str()).copied(), op.opcode));
        drop(rank);
        isa.ops = ops;
        sequences::load_all(&mut isa, &sequences, diagnostics);
        examples::load_all(&mut isa, entries, &abi.statuses, diagnostics);
        isa
    }

    fn load_op(&self, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Op> {
        let (raw, left_out): (RawOp, LeftOut) = entry.parse_good_keys(diagnostics)?;
        let lacks = |keys: &[&str], message: String, diagnostics: &mut Diagnostics| {
            if !keys.iter().any(|key| left_out.has(key)) {
                entry.lacks(keys, message, diagnostics);
            }
        };
        let opcode = match &raw.opcode {
            Some(value) => read_opcode(value).map_err(|message| diagnostics.error(&entry.origin_of("opcode"), message)),
            None => {
                lacks(&["opcode"], format!("op `{}` has no opcode", raw.op), diagnostics);
                Err(())
            }
        };
        let set = raw.set.clone().unwrap_or_else(|| "core".to_string());
        let is_set = self.sets.iter().any(|known| known.name == set);
        if !is_set {
            let known: Vec<_> = self.sets.iter().map(|set| set.name.as_str()).collect();
            let message = format!("unknown opcode set `{set}`: expected one of {}", known.join(" "));
            diagnostics.unknown(&entry.origin_of("set"), &set, message, known);
        }
        if raw.doc.trim().is_empty() {
            lacks(&["doc"], format!("op `{}` has no doc", raw.op), diagnostics);
        }
        check_mnemonic(&raw.op, &entry.origin, diagnostics);
        if raw.encoding.is_empty() && raw.structure.is_none() {
            lacks(&["encoding"], format!("op `{}` has no encoding", raw.op), diagnostics);
        }
        let has_body = [&raw.semantics, &raw.helper, &raw.control, &raw.structure].iter().any(|body| body.is_some());
        if !has_body {
            let message = format!("op `{}` has no body: expected semantics, helper, control or structure", raw.op);
            lacks(&["semantics", "helper", "control", "structure"], message, diagnostics);
        }
        if raw.examples.is_empty() && raw.structure.is_none() {
            lacks(&["examples"], format!("op `{}` has no examples", raw.op), diagnostics);
        }
        let fields = self.resolve(&raw, entry, diagnostics)?;
        let body = load_body(&raw, &self.primitives, &fields, entry, diagnostics);
        if raw.effect.is_some() && matches!(body, Some(Body::Semantics(_) | Body::Structure(_))) {
            let message = format!("`effect` is for helpers and control ops; the body of op `{}` says it all", raw.op);
            diagnostics.error(&entry.origin_of("effect"), message);
        }
        self.check_set(&raw, &left_out, entry, diagnostics);
        let told = Told { opcode: opcode.is_err() || !is_set || left_out.has("set"), body: body.is_none() };
        // In the place of a body that is wrong, which nothing looks at.
        let body = body.unwrap_or_else(|| Body::Helper(raw.op.clone()));
        Some(Op {
            variant: camel_case(&raw.op),
            properties: properties(&body, &fields),
            mnemonic: raw.op,
            set,
            opcode: opcode.unwrap_or_default(),
            since: self.since(raw.since, entry, diagnostics),
            family: entry.origin.stem().to_string(),
            text: self.text_of(&raw.encoding),
            also: self.also_of(&raw.encoding),
            encoding: raw.encoding,
            fields,
            doc: raw.doc.split_whitespace().collect::<Vec<_>>().join(" "),
            body,
            effect: raw.effect,
            examples: Vec::new(),
            origin: entry.origin.clone(),
            told,
        })
    }

    /// An op on floats says its set: those have sets of their own, which a module declares, and `core` is the set by
    /// omission.
    fn check_set(&self, raw: &RawOp, left_out: &LeftOut, entry: &Entry, diagnostics: &mut Diagnostics) {
        let (_, arguments) = split_parameters(&raw.encoding);
        let float = arguments.iter().find(|argument| matches!(Type::named(argument), Some(Type::F32 | Type::F64)));
        let Some(float) = float.filter(|_| raw.set.is_none() && !left_out.has("set")) else { return };
        let wanted = format!("ext_{float}");
        if self.sets.iter().any(|set| set.name == wanted) {
            let message =
                format!("op `{}` is on `{float}` and would be in the set `core`: write `set: {wanted}`", raw.op);
            diagnostics.error(&entry.origin_of("encoding"), message);
        }
    }

    fn load_feature(&self, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Feature> {
        let raw: RawFeature = entry.parse(diagnostics)?;
        if raw.doc.trim().is_empty() {
            diagnostics.error(&entry.origin, format!("feature `{}` has no doc", raw.feature));
        }
        if raw.bit.count_ones() != 1 {
            diagnostics.error(&entry.origin_of("bit"), format!("{:#x} is not one bit", raw.bit));
        }
        let since = self.since(raw.since, entry, diagnostics);
        Some(Feature { name: raw.feature, bit: raw.bit, since, doc: raw.doc, origin: entry.origin.clone() })
    }

    /// The first version that has an op or a feature; all have it unless that is written.
    fn since(&self, written: Option<u16>, entry: &Entry, diagnostics: &mut Diagnostics) -> u16 {
        if let Some(since) = written.filter(|since| !self.versions.iter().any(|version| version.major == *since)) {
            let message = format!("no `bytecode` entry is of version {since}");
            diagnostics.error(&entry.origin_of("since"), message);
        }
        written.unwrap_or_else(|| self.oldest())
    }

    fn text_of(&self, encoding: &str) -> Option<Vec<TextPart>> {
        let (name, _) = split_parameters(encoding);
        self.encodings.iter().find(|encoding| encoding.name == name)?.text.as_deref().map(text_parts)
    }

    fn also_of(&self, encoding: &str) -> Vec<Vec<TextPart>> {
        let (name, _) = split_parameters(encoding);
        let encoding = self.encodings.iter().find(|encoding| encoding.name == name);
        encoding.map(|encoding| encoding.also.iter().map(|text| text_parts(text)).collect()).unwrap_or_default()
    }

    /// The fields of an op's encoding with its type arguments put in.
    fn resolve(&self, raw: &RawOp, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Vec<Field>> {
        if raw.encoding.is_empty() {
            return raw.structure.is_some().then(Vec::new);
        }
        let origin = entry.origin_of("encoding");
        if raw.encoding.contains('(') != raw.encoding.ends_with(')') || raw.encoding.matches(['(', ')']).count() > 2 {
            let message = format!(
                "`{}` is not an encoding: expected a name, or one with types as in `binary(i32)`",
                raw.encoding
            );
            diagnostics.error(&origin, message);
            return None;
        }
        let (name, arguments) = split_parameters(&raw.encoding);
        let Some(encoding) = self.encodings.iter().find(|encoding| encoding.name == name) else {
            let known = self.encodings.iter().map(|encoding| encoding.name.as_str());
            diagnostics.unknown(&origin, name, format!("unknown encoding `{name}`"), known);
            return None;
        };
        if arguments.len() != encoding.parameters.len() {
            let parameters = encoding.parameters.len();
            let message =
                format!("encoding `{name}` takes {parameters} type parameters, {} are given", arguments.len());
            diagnostics.error(&origin, message);
            return None;
        }
        let mut types = BTreeMap::new();
        for (parameter, argument) in encoding.parameters.iter().zip(&arguments) {
            let Some(ty) = Type::named(argument) else {
                diagnostics.unknown(&origin, argument, format!("unknown type `{argument}`"), Type::names());
                return None;
            };
            types.insert(parameter.as_str(), ty);
        }
        if !encoding.complete {
            return None;
        }
        let field = |field: &EncodingField| {
            let ty = field.ty.as_deref().map(|name| types.get(name).copied().or_else(|| Type::named(name)));
            // Unknown types were reported at the encoding.
            let ty = match ty {
                Some(None) => return None,
                Some(ty) => ty,
                None => None,
            };
            let movable = field.movable || (field.kind == FieldKind::Result && ty.is_some_and(Type::is_ref));
            Some(Field { name: field.name.clone(), kind: field.kind, ty, movable })
        };
        encoding.fields.iter().map(field).collect()
    }
}

fn load_set(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<OpcodeSet> {
    let raw: RawSet = entry.parse(diagnostics)?;
    if raw.doc.trim().is_empty() {
        diagnostics.error(&entry.origin, format!("opcode set `{}` has no doc", raw.opcode_set));
    }
    Some(OpcodeSet {
        name: raw.opcode_set,
        prefix: raw.prefix,
        feature: raw.feature.filter(|bit| *bit != 0),
        doc: raw.doc,
        origin: entry.origin.clone(),
    })
}

fn load_bytecode(entry: &Entry, older: Option<&Bytecode>, diagnostics: &mut Diagnostics) -> Option<Bytecode> {
    let raw: RawBytecode = entry.parse(diagnostics)?;
    if older.is_some_and(|older| older.major >= raw.major) {
        diagnostics.error(&entry.origin_of("major"), "versions are listed once each, the oldest first");
    }
    let RawBytecode { major, minor, releases, gap_fill, doc, .. } = raw;
    Some(Bytecode { major, minor, releases, moves: raw.moves.unwrap_or(true), gap_fill, doc })
}

fn load_encoding(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Encoding> {
    let raw: RawEncoding = entry.parse(diagnostics)?;
    let (name, parameters) = split_parameters(&raw.encoding);
    if raw.doc.trim().is_empty() {
        diagnostics.error(&entry.origin, format!("encoding `{name}` has no doc"));
    }
    for (key, text) in raw.text.iter().map(|text| ("text", text)).chain(raw.also.iter().map(|text| ("also", text))) {
        let parts = text_parts(text);
        for part in &parts {
            if let TextPart::Field(name) = part
                && !raw.fields.iter().any(|field| field.name == *name)
            {
                diagnostics.error(&entry.origin_of(key), format!("the text names the unknown field `{name}`"));
            }
        }
        for field in raw.fields.iter().filter(|field| field.kind != FieldKind::Result.name()) {
            let times = parts.iter().filter(|part| **part == TextPart::Field(field.name.clone())).count();
            if times != 1 {
                let message = format!("the text names the field `{}` {times} times, expected once", field.name);
                diagnostics.error(&entry.origin_of(key), message);
            }
        }
    }
    let mut fields = Vec::new();
    for (index, field) in raw.fields.iter().enumerate() {
        let (name, origin) = (&field.name, entry.item_origin("fields", index));
        if raw.fields[..index].iter().any(|other| other.name == *name) {
            diagnostics.error(&origin, format!("field `{name}` is given twice"));
        }
        if syn::parse_str::<syn::Ident>(name).is_err() {
            diagnostics.error(&origin, format!("field name `{name}` is not a Rust identifier"));
        }
        let Some(kind) = FieldKind::ALL.iter().copied().find(|kind| kind.name() == field.kind) else {
            let known: Vec<_> = FieldKind::ALL.iter().map(|kind| kind.name()).collect();
            let message = format!("unknown field kind `{}`: expected one of {}", field.kind, known.join(" "));
            diagnostics.unknown(&origin, &field.kind, message, known);
            continue;
        };
        match &field.ty {
            None if kind.is_typed() => diagnostics.error(&origin, format!("field `{name}` has no type")),
            Some(_) if !kind.is_typed() => {
                diagnostics.error(&origin, format!("field `{name}` of kind `{}` takes no type", field.kind));
            }
            Some(ty) if Type::named(ty).is_none() && !parameters.contains(&ty.as_str()) => {
                let mut known = parameters.clone();
                Type::names().for_each(|name| known.push(name));
                diagnostics.unknown(&origin, ty, format!("unknown type `{ty}` of field `{name}`"), known);
            }
            _ => {}
        }
        fields.push(EncodingField { name: name.clone(), kind, ty: field.ty.clone(), movable: field.movable });
    }
    Some(Encoding {
        name: name.to_string(),
        parameters: parameters.iter().map(ToString::to_string).collect(),
        doc: raw.doc,
        text: raw.text,
        also: raw.also,
        complete: fields.len() == raw.fields.len(),
        fields,
        origin: entry.origin.clone(),
    })
}

/// The number of an opcode, or what is wrong with it.
fn read_opcode(value: &serde_yaml::Value) -> Result<u8, String> {
    if let Some(number) = value.as_u64() {
        return u8::try_from(number).map_err(|_| format!("opcode {number:#x} is out of range: expected 0x00 to 0xff"));
    }
    let expected = "expected a number from 0x00 to 0xff";
    let Some(text) = value.as_str() else { return Err(format!("the opcode is no number: {expected}")) };
    // The prefix is what is forgotten most easily.
    let meant = u8::from_str_radix(text, 16).map_or(String::new(), |number| format!("; did you mean `{number:#04x}`?"));
    Err(format!("`{text}` is not an opcode: {expected}{meant}"))
}

/// Mnemonics are lower-case words joined by `.` and `_`.
fn check_mnemonic(text: &str, origin: &Origin, diagnostics: &mut Diagnostics) {
    let good = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if !text.split('.').all(good) {
        diagnostics.error(origin, format!("mnemonic `{text}` is not lower-case words joined by `.`"));
    }
}

fn load_body(
    raw: &RawOp,
    vocabulary: &Vocabulary,
    fields: &[Field],
    entry: &Entry,
    diagnostics: &mut Diagnostics,
) -> Option<Body> {
    let given = [
        ("semantics", &raw.semantics),
        ("helper", &raw.helper),
        ("control", &raw.control),
        ("structure", &raw.structure),
    ];
    let given: Vec<_> = given.iter().filter_map(|(key, value)| value.as_ref().map(|value| (*key, value))).collect();
    let (key, value) = match given.as_slice() {
        [one] => *one,
        // That was told.
        [] => return None,
        [(first, _), (second, _), ..] => {
            let message = format!("op `{}` has two bodies: `{first}` and `{second}`", raw.op);
            diagnostics.error(&entry.origin_of(second), message);
            return None;
        }
    };
    let origin = entry.origin_of(key);
    let mut unknown = |known: Vec<&str>| {
        let message = format!("unknown {key} `{value}`: expected one of {}", known.join(" "));
        diagnostics.unknown(&origin, value, message, known);
        None
    };
    match key {
        "helper" => {
            if syn::parse_str::<syn::Ident>(value).is_err() {
                diagnostics.error(&origin, format!("helper name `{value}` is not a Rust identifier"));
                return None;
            }
            Some(Body::Helper(value.clone()))
        }
        "control" => match ControlOp::ALL.iter().find(|control| control.name() == value) {
            Some(control) => Some(Body::Control(*control)),
            None => unknown(ControlOp::ALL.iter().map(|control| control.name()).collect()),
        },
        "structure" => match value.as_str() {
            "block" => Some(Body::Structure(Structure::Block)),
            "prefix" => Some(Body::Structure(Structure::Prefix)),
            _ => unknown(vec!["block", "prefix"]),
        },
        _ => {
            let operands: Vec<_> =
                fields.iter().filter_map(|field| Some((field.name.as_str(), field.operand()?))).collect();
            let result = fields.iter().find(|field| field.kind == FieldKind::Result);
            let result = result.and_then(|field| field.ty?.operand()).unwrap_or(Ty::Unit);
            match sem::type_semantics(value, vocabulary, &LANGUAGE, &operands, result) {
                Ok(expr) => {
                    unused(&expr, fields, &origin, diagnostics);
                    Some(Body::Semantics(expr))
                }
                Err(refusals) => {
                    for refusal in refusals {
                        let place = entry.place_in(key, value, refusal.at);
                        refusal.report(place, diagnostics);
                    }
                    None
                }
            }
        }
    }
}

/// An operand that the semantics does not read is a mistake: the encoding has too many, or the expression names another
/// one twice.
fn unused(expr: &sem::Expr, fields: &[Field], origin: &Origin, diagnostics: &mut Diagnostics) {
    let mut used = BTreeSet::new();
    expr.for_each_operand(&mut |name| {
        used.insert(name.to_string());
    });
    for field in fields.iter().filter(|field| field.kind != FieldKind::Result && !used.contains(&field.name)) {
        diagnostics.error(origin, format!("the semantics does not use the operand `{}`", field.name));
    }
}

fn properties(body: &Body, fields: &[Field]) -> Properties {
    let touches_refs = fields.iter().any(|field| field.ty.is_some_and(|ty| ty.is_ref() || ty == Type::Any));
    match body {
        Body::Semantics(expr) => Properties::of_expr(expr),
        Body::Structure(_) => Properties::default(),
        // A helper is opaque: it may do anything but suspend.
        Body::Helper(_) => Properties {
            can_trap: true,
            reads_memory: true,
            writes_memory: true,
            touches_refs: true,
            calls: true,
            yields: false,
        },
        Body::Control(control) => {
            use ControlOp::*;
            let calls = control.is_call() || matches!(control, Trace | Print | ImportResolved);
            Properties {
                can_trap: control.is_call() || matches!(control, Fail),
                reads_memory: control.is_call(),
                writes_memory: control.is_call(),
                touches_refs: touches_refs || fields.iter().any(|field| field.kind == FieldKind::Edge),
                calls,
                yields: matches!(control, Yield | CallYieldable | CallVariadicYieldable),
            }
        }
    }
}

/// `{index}[{values}]` in parts. A brace that does not enclose a name is literal.
fn text_parts(text: &str) -> Vec<TextPart> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let name = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        match name {
            Some((name, after)) if syn::parse_str::<syn::Ident>(name).is_ok() => {
                if !literal.is_empty() {
                    parts.push(TextPart::Literal(std::mem::take(&mut literal)));
                }
                parts.push(TextPart::Field(name.to_string()));
                rest = after;
            }
            _ => {
                literal.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    if !literal.is_empty() {
        parts.push(TextPart::Literal(literal));
    }
    parts
}

/// `binary(i32, f32)` is `("binary", ["i32", "f32"])`.
fn split_parameters(text: &str) -> (&str, Vec<&str>) {
    match text.trim().split_once('(') {
        Some((name, rest)) => (name.trim(), rest.trim_end_matches(')').split(',').map(str::trim).collect()),
        None => (text.trim(), Vec::new()),
    }
}
