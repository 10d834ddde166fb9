//! The reader of examples of ops: every literal gets the type of its field, every instruction the fields of its op.
//! `load` calls it when all ops are known.

use serde::Deserialize;
use serde_yaml::{Mapping, Value};

use super::isa::{Field, FieldKind, Isa, Op, Type};
use crate::diag::{Diagnostics, Origin, did_you_mean};
use crate::entry::Entry;
use crate::model::example::{
    After, Edge, Example, Instruction, Literal, Operand, Outcome, ProgramExample, ProgramFunction, Register,
    VectorExample,
};
use crate::model::status::StatusCode;

#[derive(Deserialize)]
struct OnlyExamples {
    #[serde(default)]
    examples: Vec<Value>,
}

/// Reads the examples of every op of `isa` from `entries`; programs may name any op, and traps any of `statuses`.
pub(super) fn load_all(isa: &mut Isa, entries: &[Entry], statuses: &[StatusCode], diagnostics: &mut Diagnostics) {
    for entry in entries.iter().filter(|entry| entry.kind == "op") {
        let Some(position) = isa.ops.iter().position(|op| op.origin == entry.origin) else { continue };
        // Mistakes of other keys were told.
        let Ok([raw]) = entry.read::<OnlyExamples>() else { continue };
        let mut examples = Vec::new();
        for (index, value) in raw.examples.iter().enumerate() {
            let origin = entry.item_origin("examples", index);
            let example = load(isa, &isa.ops[position], value, &origin);
            match example.and_then(|example| with_known_trap(example, statuses).map_err(|message| vec![message])) {
                Ok(example) => examples.push(example),
                Err(messages) => {
                    for message in messages {
                        let message = format!("example: {message}");
                        match entry.place_in_item("examples", index, &message) {
                            Some(place) => diagnostics.error_at(place, message),
                            None => diagnostics.error(&origin, message),
                        }
                    }
                }
            }
        }
        isa.ops[position].examples = examples;
    }
}

fn load(isa: &Isa, op: &Op, value: &Value, origin: &Origin) -> Result<Example, Vec<String>> {
    let one = |message: String| vec![message];
    let map = value.as_mapping().ok_or_else(|| one("expected a map from field names to literals".to_string()))?;
    if map.contains_key("code") {
        return program(isa, map, origin).map(Example::Program).map_err(one);
    }
    vector(op, map, origin).map(Example::Vector)
}

/// The example, if the status that it traps with is one of `statuses`.
fn with_known_trap(example: Example, statuses: &[StatusCode]) -> Result<Example, String> {
    let outcome = match &example {
        Example::Vector(example) => &example.outcome,
        Example::Program(example) => &example.outcome,
    };
    let Outcome::Traps(code) = outcome else { return Ok(example) };
    let known: Vec<&str> = statuses.iter().map(|status| status.name.as_str()).collect();
    if known.contains(&code.as_str()) {
        return Ok(example);
    }
    let meant = did_you_mean(code, known.iter().copied());
    Err(format!("unknown trap `{code}`: expected one of {}{meant}", known.join(" ")))
}

fn vector(op: &Op, map: &Mapping, origin: &Origin) -> Result<VectorExample, Vec<String>> {
    let mut example = VectorExample {
        name: None,
        inputs: Vec::new(),
        outcome: Outcome::Results(Vec::new()),
        globals: None,
        after: Vec::new(),
        any_nan: false,
        ulp: 0,
        origin: origin.clone(),
    };
    let mut after = Vec::new();
    let result = op.result();
    let is_result = |name: &str| result.is_some_and(|field| field.name == name) || name == "result";
    let mut mistakes = Vec::new();
    for (key, value) in map {
        let mut read = || -> Result<(), String> {
            let key = key.as_str().ok_or("keys are field names")?;
            match key {
                "traps" => example.outcome = Outcome::Traps(text(value)?),
                "globals" => example.globals = Some(hex(value)?),
                "ulp" => example.ulp = number(value)?,
                "name" => example.name = Some(text(value)?),
                "after" => {
                    for (key, value) in value.as_mapping().ok_or("`after` is a map")? {
                        let key = key.as_str().ok_or("keys are field names")?;
                        if key != "globals" && op.field(key).is_none() {
                            return Err(unknown_field(op, key));
                        }
                        after.push((key.to_string(), value));
                    }
                }
                key if is_result(key) => {
                    let ty = result.and_then(|field| field.ty);
                    let ty = ty.ok_or_else(|| format!("`{}` has no result", op.mnemonic))?;
                    example.any_nan |= value.as_str() == Some("nan");
                    example.outcome =
                        Outcome::Results(vec![literal(value, ty).map_err(|why| format!("result: {why}"))?]);
                }
                key => {
                    let field = op.field(key).ok_or_else(|| unknown_field(op, key))?;
                    let value = field_literal(value, field).map_err(|why| format!("{key}: {why}"))?;
                    example.inputs.push((key.to_string(), value));
                }
            }
            Ok(())
        };
        mistakes.extend(read().err());
    }
    // A misspelt field is told of by its own name.
    let misspelt = map.keys().filter_map(Value::as_str).any(|key| !is_key(op, key));
    for field in op.fields.iter().filter(|field| field.kind != FieldKind::Result) {
        if !map.contains_key(field.name.as_str()) && !misspelt {
            mistakes.push(format!("field `{}` has no value", field.name));
        }
    }
    for (key, value) in after {
        let list = example.inputs.iter().find_map(|(name, literal)| match literal {
            Literal::List { element, .. } if *name == key => Some(element),
            _ => None,
        });
        let contents = match (list, value.as_sequence()) {
            (Some(element), Some(values)) => elements(values, element).map(After::List),
            _ => hex(value).map(After::Bytes),
        };
        match contents {
            Ok(contents) => example.after.push((key, contents)),
            Err(message) => mistakes.push(message),
        }
    }
    let has = |key: &str| map.contains_key(key);
    match (result.map_or(has("after"), |field| has("result") || has(&field.name)), has("traps")) {
        (true, false) | (false, true) => {}
        (true, true) if result.is_none() => {}
        (true, true) => mistakes.push("states a result and a trap".to_string()),
        (false, false) if misspelt => {}
        (false, false) if result.is_some() => mistakes.push("expected `result` or `traps`".to_string()),
        (false, false) => mistakes.push("expected `after` or `traps`: it states nothing".to_string()),
    }
    let rank = |name: &str| op.fields.iter().position(|field| field.name == name);
    example.inputs.sort_by_key(|(name, _)| rank(name));
    if mistakes.is_empty() { Ok(example) } else { Err(mistakes) }
}

/// Whether an example of operands may have this key.
fn is_key(op: &Op, key: &str) -> bool {
    matches!(key, "traps" | "globals" | "ulp" | "name" | "after" | "result") || op.field(key).is_some()
}

fn unknown_field(op: &Op, name: &str) -> String {
    let known: Vec<_> = op.fields.iter().map(|field| field.name.as_str()).collect();
    let meant = did_you_mean(name, known.iter().copied());
    format!("unknown field `{name}`: `{}` has {}{meant}", op.mnemonic, known.join(" "))
}

fn field_literal(value: &Value, field: &Field) -> Result<Literal, String> {
    let typed = |ty: Option<Type>| ty.ok_or_else(|| "this field has no type".to_string());
    match field.kind {
        FieldKind::Reg | FieldKind::Imm => literal(value, typed(field.ty)?),
        FieldKind::Regs => {
            let ty = typed(field.ty)?;
            let values = value.as_sequence().ok_or("expected a list of values")?;
            Ok(Literal::Regs(values.iter().map(|value| literal(value, ty)).collect::<Result<_, _>>()?))
        }
        FieldKind::Global => Ok(Literal::Ordinal(number(value)?)),
        FieldKind::Type => Ok(Literal::TypeName(text(value)?)),
        FieldKind::Rodata => match value {
            Value::String(_) => Ok(Literal::Buffer { bytes: hex(value)?, mutable: false }),
            _ => literal(value, Type::Buffer),
        },
        FieldKind::String => Ok(Literal::String(text(value)?)),
        _ => Err(format!("a field of kind `{}` needs the program form", field.kind.name())),
    }
}

fn literal(value: &Value, ty: Type) -> Result<Literal, String> {
    let bad = || format!("{} is not a value of type {}", show(value), ty.name());
    let bits = |prefix: &str| {
        let digits = value.as_str()?.strip_prefix(prefix)?;
        u64::from_str_radix(digits, 16).ok()
    };
    let float = || match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "nan" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    };
    Ok(match ty {
        Type::I32 => Literal::I32(match value {
            Value::Bool(truth) => i32::from(*truth),
            _ => {
                let range = || in_range(value, bad(), i64::from(i32::MIN), u64::from(u32::MAX));
                let number = value.as_i64().ok_or_else(range)?;
                // Bit patterns above the signed range are written as unsigned numbers.
                i32::try_from(number).or_else(|_| u32::try_from(number).map(u32::cast_signed)).map_err(|_| range())?
            }
        }),
        Type::I64 => {
            let number = value.as_i64().or_else(|| value.as_u64().map(u64::cast_signed));
            Literal::I64(number.ok_or_else(|| in_range(value, bad(), i64::MIN, u64::MAX))?)
        }
        Type::F32 => Literal::F32(match bits("f32:0x") {
            Some(bits) => u32::try_from(bits).map_err(|_| bad())?,
            #[expect(clippy::cast_possible_truncation, reason = "a decimal literal is meant to round to the type")]
            None => (float().ok_or_else(bad)? as f32).to_bits(),
        }),
        Type::F64 => Literal::F64(match bits("f64:0x") {
            Some(bits) => bits,
            None => float().ok_or_else(bad)?.to_bits(),
        }),
        Type::Ref | Type::Buffer | Type::List | Type::Any => match value {
            Value::Null => Literal::Null,
            Value::Mapping(map) => reference(map)?,
            _ => return Err(bad()),
        },
    })
}

/// The message with the range of the type, if the value is a whole number.
fn in_range(value: &Value, message: String, least: i64, most: u64) -> String {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 => format!("{message}: expected {least} to {most}"),
        _ => message,
    }
}

fn reference(map: &Mapping) -> Result<Literal, String> {
    if let Some(bytes) = map.get("buffer") {
        return Ok(Literal::Buffer { bytes: hex(bytes)?, mutable: true });
    }
    if let Some(bytes) = map.get("rodata") {
        return Ok(Literal::Buffer { bytes: hex(bytes)?, mutable: false });
    }
    if let Some(field) = map.get("same") {
        return Ok(Literal::Same(text(field)?));
    }
    let element = text(map.get("list").ok_or("expected `buffer`, `rodata`, `list` or `same`")?)?;
    let values = match map.get("values") {
        None => Vec::new(),
        Some(values) => elements(values.as_sequence().ok_or("`values` is a list")?, &element)?,
    };
    Ok(Literal::List { element, values })
}

/// The values of a list of `element`; in a list of `any`, numbers name their type and `none` is an element without a
/// value.
fn elements(values: &[Value], element: &str) -> Result<Vec<Literal>, String> {
    let ty = match element {
        "i8" | "i16" => Type::I32,
        _ => Type::named(element).unwrap_or(Type::Ref),
    };
    let variant = |value: &Value| {
        let bad = || format!("{} is not i32:1, i64:1, f32:0x0, f64:0x0, none, null or a ref", show(value));
        let Some(text) = value.as_str() else { return literal(value, Type::Ref) };
        let (ty, digits) = text.split_once(':').unwrap_or((text, ""));
        match (ty, Type::named(ty)) {
            ("none", _) => Ok(Literal::None),
            ("i32" | "i64", Some(ty)) => literal(&serde_yaml::from_str(digits).map_err(|_| bad())?, ty),
            ("f32" | "f64", Some(ty)) => literal(value, ty),
            _ => Err(bad()),
        }
    };
    values.iter().map(|value| if ty == Type::Any { variant(value) } else { literal(value, ty) }).collect()
}

fn program(isa: &Isa, map: &Mapping, origin: &Origin) -> Result<ProgramExample, String> {
    let mut example = ProgramExample {
        name: String::new(),
        functions: Vec::new(),
        args: Vec::new(),
        outcome: Outcome::Results(Vec::new()),
        types: Vec::new(),
        imports: Vec::new(),
        rodata: Vec::new(),
        global_bytes: 0,
        global_refs: 0,
        origin: origin.clone(),
    };
    for key in map.keys() {
        let key = key.as_str().ok_or("keys are names")?;
        const KEYS: &str = "name convention code args results traps functions imports types rodata globals";
        if !KEYS.split(' ').any(|known| known == key) {
            let meant = did_you_mean(key, KEYS.split(' '));
            return Err(format!("unknown key `{key}` of a program: expected one of {KEYS}{meant}"));
        }
    }
    example.name = map.get("name").map(text).transpose()?.ok_or("a program needs a `name`")?;
    example.types = list(map, "types")?.iter().map(text).collect::<Result<_, _>>()?;
    example.rodata = list(map, "rodata")?.iter().map(hex).collect::<Result<_, _>>()?;
    for import in list(map, "imports")? {
        let part = |key: &str| text(import.get(key).ok_or_else(|| format!("an import needs a `{key}`"))?);
        example.imports.push((part("name")?, part("convention")?));
    }
    if let Some(globals) = map.get("globals") {
        let globals = globals.as_mapping().ok_or("`globals` is a map of `bytes` and `refs`")?;
        for (key, value) in globals {
            match key.as_str() {
                Some("bytes") => example.global_bytes = number(value)?,
                Some("refs") => example.global_refs = number(value)?,
                _ => return Err("`globals` is a map of `bytes` and `refs`".to_string()),
            }
        }
    }
    example.functions.push(function(isa, map, &example.types)?);
    for value in list(map, "functions")? {
        let map = value.as_mapping().ok_or("a function is a map of `convention` and `code`")?;
        example.functions.push(function(isa, map, &example.types)?);
    }
    let convention = &example.functions[0].convention;
    let arguments: Vec<Type> = convention.fixed_args().unwrap_or_default().into_iter().map(Type::from).collect();
    let results: Vec<Type> = convention.results.iter().copied().map(Type::from).collect();
    example.args = literals(map, "args", &arguments)?;
    example.outcome = match map.get("traps") {
        Some(code) => Outcome::Traps(text(code)?),
        None => Outcome::Results(literals(map, "results", &results)?),
    };
    Ok(example)
}

fn literals(map: &Mapping, key: &str, types: &[Type]) -> Result<Vec<Literal>, String> {
    let values = list(map, key)?;
    if values.len() != types.len() {
        return Err(format!("the convention has {} {key}, {} are given", types.len(), values.len()));
    }
    values.iter().zip(types).map(|(value, ty)| literal(value, *ty)).collect()
}

fn function(isa: &Isa, map: &Mapping, types: &[String]) -> Result<ProgramFunction, String> {
    let convention = text(map.get("convention").ok_or("a function needs a `convention`")?)?;
    let convention = isa
        .conventions
        .parse_fixed(&convention)
        .ok_or_else(|| format!("`{convention}` is not a calling convention such as 0ii_i"))?;
    let mut blocks = vec![Vec::new()];
    for (index, value) in list(map, "code")?.iter().enumerate() {
        let op = value.as_mapping().filter(|map| map.len() == 1).and_then(|map| map.iter().next());
        let (mnemonic, fields) = op.ok_or_else(|| format!("op {index} of `code` is not `mnemonic: {{fields}}`"))?;
        let mnemonic = text(mnemonic)?;
        if mnemonic == "block" {
            blocks.push(Vec::new());
            continue;
        }
        let meant = || did_you_mean(&mnemonic, isa.ops.iter().map(|op| op.mnemonic.as_str()));
        let op = isa.op(&mnemonic).ok_or_else(|| format!("unknown op `{mnemonic}` in `code`{}", meant()))?;
        let fields = match fields {
            Value::Null => &Mapping::new(),
            fields => fields.as_mapping().ok_or_else(|| format!("{mnemonic}: expected a map of fields"))?,
        };
        let instruction = instruction(op, fields, types).map_err(|why| format!("{mnemonic}: {why}"))?;
        if let Some(block) = blocks.last_mut() {
            block.push(instruction);
        }
    }
    Ok(ProgramFunction { convention, blocks })
}

fn instruction(op: &Op, map: &Mapping, types: &[String]) -> Result<Instruction, String> {
    for key in map.keys() {
        let key = key.as_str().ok_or("keys are field names")?;
        if op.field(key).is_none() {
            return Err(unknown_field(op, key));
        }
    }
    let mut operands = Vec::new();
    for field in &op.fields {
        let operand = match (map.get(field.name.as_str()), field.kind) {
            (Some(value), _) => operand(value, field, types).map_err(|why| format!("{}: {why}", field.name))?,
            (None, FieldKind::Regs | FieldKind::Results) => Operand::Regs(Vec::new()),
            (None, FieldKind::Segments) => Operand::Segments(Vec::new()),
            (None, FieldKind::Cases) => Operand::Cases(Vec::new()),
            (None, _) => return Err(format!("field `{}` has no value", field.name)),
        };
        operands.push(operand);
    }
    Ok(Instruction { mnemonic: op.mnemonic.clone(), operands })
}

fn operand(value: &Value, field: &Field, types: &[String]) -> Result<Operand, String> {
    let sequence = || value.as_sequence().ok_or_else(|| "expected a list".to_string());
    Ok(match field.kind {
        FieldKind::Reg | FieldKind::Result => {
            let register = register(value)?;
            if field.ty.is_some_and(|ty| ty.is_ref() != register.is_ref && ty != Type::Any) {
                return Err(format!("{} is in the wrong register bank", show(value)));
            }
            Operand::Reg(register)
        }
        FieldKind::Regs | FieldKind::Results => {
            Operand::Regs(sequence()?.iter().map(register).collect::<Result<_, _>>()?)
        }
        FieldKind::Imm => Operand::Imm(literal(value, field.ty.unwrap_or(Type::I32))?),
        FieldKind::Type => Operand::Ordinal(match value.as_str() {
            Some(name) => {
                let position = types.iter().position(|known| known == name);
                let position = position.ok_or_else(|| format!("type `{name}` is not in `types`"))?;
                u32::try_from(position).map_err(|_| "too many types")?
            }
            None => number(value)?,
        }),
        FieldKind::Function | FieldKind::Import => match value.as_str().and_then(|text| text.strip_prefix("import ")) {
            Some(digits) => Operand::Import(digits.parse().map_err(|_| format!("{} is not an import", show(value)))?),
            None => Operand::Ordinal(number(value)?),
        },
        FieldKind::Global | FieldKind::Rodata => Operand::Ordinal(number(value)?),
        FieldKind::String => Operand::String(text(value)?),
        FieldKind::Edge => Operand::Edge(edge(value)?),
        FieldKind::Target => Operand::Target(number(value)?),
        FieldKind::Segments => Operand::Segments(sequence()?.iter().map(number).collect::<Result<_, _>>()?),
        FieldKind::Cases => Operand::Cases(sequence()?.iter().map(edge).collect::<Result<_, _>>()?),
    })
}

/// `2` or `{block: 2, remap: [[i0, i1]]}`.
fn edge(value: &Value) -> Result<Edge, String> {
    let (target, remap) = match value.as_mapping() {
        None => (number(value)?, None),
        Some(map) => {
            if let Some(key) = map.keys().find(|key| !matches!(key.as_str(), Some("block" | "remap"))) {
                return Err(format!("unknown key {} of an edge: expected block, remap", show(key)));
            }
            (number(map.get("block").ok_or("an edge needs a `block`")?)?, map.get("remap"))
        }
    };
    let mut edge = Edge { target, remap: Vec::new() };
    let pairs =
        remap.map_or(Ok(&[] as &[Value]), |remap| remap.as_sequence().map(Vec::as_slice).ok_or("`remap` is a list"))?;
    for pair in pairs {
        match pair.as_sequence().map(Vec::as_slice) {
            Some([source, target]) => edge.remap.push((register(source)?, register(target)?)),
            _ => return Err("a remap pair is [source, destination]".to_string()),
        }
    }
    Ok(edge)
}

/// `i3`, `r2`, `r2!`
fn register(value: &Value) -> Result<Register, String> {
    let bad = || format!("{} is not a register: expected i3, r2 or r2!", show(value));
    let text = value.as_str().ok_or_else(bad)?;
    let (text, moved) = text.strip_suffix('!').map_or((text, false), |text| (text, true));
    let (is_ref, digits) = match text.split_at_checked(1) {
        Some(("i", digits)) if !moved => (false, digits),
        Some(("r", digits)) => (true, digits),
        _ => return Err(bad()),
    };
    Ok(Register { is_ref, index: digits.parse().map_err(|_| bad())?, moved })
}

fn list<'a>(map: &'a Mapping, key: &str) -> Result<&'a [Value], String> {
    match map.get(key) {
        None => Ok(&[]),
        Some(value) => value.as_sequence().map(Vec::as_slice).ok_or_else(|| format!("`{key}` is a list")),
    }
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(ToString::to_string).ok_or_else(|| format!("{} is not a text", show(value)))
}

fn number<T: TryFrom<u64>>(value: &Value) -> Result<T, String> {
    let number = value.as_u64().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("{} is not a number in range", show(value)))
}

/// `"00 11 ff"`
fn hex(value: &Value) -> Result<Vec<u8>, String> {
    let bad = || format!("{} is not a text of hexadecimal bytes", show(value));
    let digits: Vec<char> = value.as_str().ok_or_else(bad)?.chars().filter(|c| !c.is_whitespace()).collect();
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if !digits.len().is_multiple_of(2) {
        return Err(bad());
    }
    digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect::<Option<_>>().ok_or_else(bad)
}

fn show(value: &Value) -> String {
    format!("`{}`", serde_yaml::to_string(value).unwrap_or_default().trim())
}
