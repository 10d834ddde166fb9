//! The reader of `spec/isa/ptx/`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::types::{
    Bit, Body, CARRY, ExternalFunction, Form, Fragment, Handler, Instruction, Operand, OperandTy, Position, Ptx,
    Refused, Since, SpecialRegister, Suffix, Tile, Type, Variant,
};
use crate::diag::Diagnostics;
use crate::entry::Entry;
use crate::model::constant;
use crate::sem::{self, Scalar, Ty, Vocabulary};

const KINDS: [&str; 8] =
    ["type", "suffix", "instruction", "special_register", "fragment", "refused", "external_function", "constant"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawType {
    #[serde(rename = "type")]
    name: String,
    bits: u32,
    kind: String,
    lane: String,
    since: Option<RawSince>,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSuffix {
    suffix: String,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    types: bool,
    #[serde(default)]
    since: BTreeMap<String, RawSince>,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRegister {
    special_register: String,
    bits: u32,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFragment {
    fragment: String,
    row: String,
    column: String,
    #[serde(default)]
    tiles: Vec<RawTile>,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTile {
    matrix: String,
    shape: String,
    types: Vec<String>,
    registers: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExternal {
    external_function: String,
    does: String,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRefused {
    refused: String,
    opcodes: Vec<String>,
    reason: String,
}

/// Texts for suffixes, by class and suffix.
type Words = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInstruction {
    instruction: String,
    doc: String,
    operands: Option<String>,
    #[serde(default)]
    words: Words,
    since: Option<RawSince>,
    variants: Vec<RawVariant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariant {
    #[serde(default)]
    form: String,
    operands: Option<String>,
    #[serde(default)]
    words: Words,
    semantics: Option<serde_yaml::Value>,
    special: Option<String>,
    since: Option<RawSince>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSince {
    isa: Option<f64>,
    target: Option<u32>,
}

/// Every entry; instructions after what they use.
pub(super) fn all(name: &str, entries: &[Entry], primitives: Vocabulary, diagnostics: &mut Diagnostics) -> Ptx {
    let mut ptx = Ptx { name: name.to_string(), primitives, ..Ptx::default() };
    for entry in entries {
        match entry.kind.as_str() {
            "type" => ptx.types.extend(read_type(entry, diagnostics)),
            "suffix" => ptx.suffixes.extend(read_suffix(entry, diagnostics)),
            "special_register" => {
                ptx.registers.extend(entry.parse(diagnostics).map(|raw: RawRegister| SpecialRegister {
                    name: raw.special_register,
                    bits: raw.bits,
                    doc: raw.doc,
                    origin: entry.origin.clone(),
                }));
            }
            "fragment" => {}
            "refused" => ptx.refused.extend(entry.parse(diagnostics).map(|raw: RawRefused| Refused {
                name: raw.refused,
                opcodes: raw.opcodes,
                reason: raw.reason,
                origin: entry.origin.clone(),
            })),
            "external_function" => ptx.externals.extend(external(entry, diagnostics)),
            "constant" => ptx.constants.extend(constant::read(entry, diagnostics)),
            "instruction" => {}
            kind => diagnostics.unknown(&entry.origin, kind, format!("unknown kind of entry `{kind}`"), KINDS),
        }
    }
    let types: Vec<String> = ptx.types.iter().map(|ty| ty.name.clone()).collect();
    for suffix in &mut ptx.suffixes {
        match (suffix.is_type, suffix.values.is_empty()) {
            (true, true) => {
                suffix.values.clone_from(&types);
                suffix.since = ptx.types.iter().map(|ty| ty.since).collect();
            }
            (false, false) => {}
            _ => diagnostics.error(&suffix.origin, "a class of suffixes has either `values` or `types: true`"),
        }
    }
    for entry in entries.iter().filter(|entry| entry.kind == "fragment") {
        let read = fragment(&ptx, entry, diagnostics);
        ptx.fragments.extend(read);
    }
    for entry in entries.iter().filter(|entry| entry.kind == "instruction") {
        let read = Reader { ptx: &mut ptx, entry, diagnostics }.instruction();
        ptx.instructions.extend(read);
    }
    ptx.instructions.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in ptx.instructions.windows(2) {
        if pair[0].name == pair[1].name {
            let message = format!("instruction `{}` is already described at {}", pair[1].name, pair[0].origin);
            diagnostics.error(&pair[1].origin, message);
        }
    }
    ptx
}

fn read_type(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Type> {
    let raw: RawType = entry.parse(diagnostics)?;
    let scalars = [Scalar::I16, Scalar::I32, Scalar::I64, Scalar::F16, Scalar::F32, Scalar::F64, Scalar::Bool];
    let Some(lane) = scalars.into_iter().find(|scalar| scalar.name() == raw.lane) else {
        let message = format!("`{}` is no type of a lane", raw.lane);
        diagnostics.unknown(&entry.origin_of("lane"), &raw.lane, message, scalars.map(Scalar::name));
        return None;
    };
    if !Type::KINDS.contains(&raw.kind.as_str()) {
        let message = format!("`{}` is no kind of types", raw.kind);
        diagnostics.unknown(&entry.origin_of("kind"), &raw.kind, message, Type::KINDS);
    }
    let origin = entry.origin.clone();
    let since = Since::of(raw.since);
    Some(Type { name: raw.name, bits: raw.bits, kind: raw.kind, lane: lane.ty(), since, doc: raw.doc, origin })
}

fn read_suffix(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Suffix> {
    let raw: RawSuffix = entry.parse(diagnostics)?;
    for value in raw.since.keys().filter(|value| !raw.values.contains(value)) {
        let message = format!("`{value}` is none of the suffixes of this class");
        diagnostics.unknown(&entry.origin_of("since"), value, message, raw.values.iter().map(String::as_str));
    }
    let since = raw.values.iter().map(|value| Since::of(raw.since.get(value).copied())).collect();
    let origin = entry.origin.clone();
    Some(Suffix { name: raw.suffix, values: raw.values, since, is_type: raw.types, doc: raw.doc, origin })
}

impl Since {
    fn of(raw: Option<RawSince>) -> Self {
        let isa = raw.and_then(|raw| raw.isa).map_or(0, |isa| (isa * 10.0).round() as u32);
        Since { isa, target: raw.and_then(|raw| raw.target).unwrap_or_default() }
    }

    fn max(self, other: Self) -> Self {
        Since { isa: self.isa.max(other.isa), target: self.target.max(other.target) }
    }
}

fn external(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<ExternalFunction> {
    let raw: RawExternal = entry.parse(diagnostics)?;
    if !ExternalFunction::EFFECTS.contains(&raw.does.as_str()) {
        let message = format!("`{}` is nothing that a function of the machine does", raw.does);
        diagnostics.unknown(&entry.origin_of("does"), &raw.does, message, ExternalFunction::EFFECTS);
    }
    let origin = entry.origin.clone();
    Some(ExternalFunction { name: raw.external_function, does: raw.does, doc: raw.doc, origin })
}

fn fragment(ptx: &Ptx, entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Fragment> {
    let raw: RawFragment = entry.parse(diagnostics)?;
    let mut bits = |key: &str, text: &str| {
        let mut read = Vec::new();
        for word in text.split_whitespace() {
            let number = word.get(1..).and_then(|number| number.parse().ok());
            match (word.get(..1), number) {
                (Some("l"), Some(number)) if number < 5 => read.push(Bit::Lane(number)),
                (Some("e"), Some(number)) if number < 5 => read.push(Bit::Element(number)),
                _ => {
                    let message =
                        format!("`{word}` is no bit: expected l0 to l4 of the lane or e0 to e4 of the element");
                    diagnostics.error(&entry.origin_of(key), message);
                }
            }
        }
        read
    };
    let (row, column) = (bits("row", &raw.row), bits("column", &raw.column));
    let tiles = raw.tiles.iter().enumerate().flat_map(|(index, tile)| tiles(ptx, entry, index, tile, diagnostics));
    let tiles = tiles.collect();
    Some(Fragment { name: raw.fragment, row, column, tiles, doc: raw.doc, origin: entry.origin.clone() })
}

/// The tiles of an entry, one for each type.
fn tiles(ptx: &Ptx, entry: &Entry, index: usize, raw: &RawTile, diagnostics: &mut Diagnostics) -> Vec<Tile> {
    let mut find = |class: &str, value: &str| {
        let values = ptx.suffixes.iter().find(|suffix| suffix.name == class).map_or(&[][..], |suffix| &suffix.values);
        let found = values.iter().position(|other| other == value);
        if found.is_none() {
            let message = format!("`{value}` is no suffix of the class `{class}`");
            let origin = entry.item_origin("tiles", index);
            diagnostics.unknown(&origin, value, message, values.iter().map(String::as_str));
        }
        found
    };
    let [matrix_class, shape_class] = Tile::CLASSES;
    let (Some(matrix), Some(shape)) = (find(matrix_class, &raw.matrix), find(shape_class, &raw.shape)) else {
        return Vec::new();
    };
    let types: Vec<usize> = raw.types.iter().filter_map(|ty| find("type", ty)).collect();
    types.into_iter().map(|ty| Tile { matrix, shape, ty, registers: raw.registers }).collect()
}

struct Reader<'a> {
    ptx: &'a mut Ptx,
    entry: &'a Entry,
    diagnostics: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn error(&mut self, index: usize, message: impl Into<String>) {
        self.diagnostics.error(&self.entry.item_origin("variants", index), message);
    }

    fn instruction(&mut self) -> Option<Instruction> {
        let raw: RawInstruction = self.entry.parse(self.diagnostics)?;
        self.entry.need_doc(&raw.doc, self.diagnostics);
        let variants =
            raw.variants.iter().enumerate().filter_map(|(index, variant)| self.variant(&raw, index, variant)).collect();
        let origin = self.entry.origin.clone();
        Some(Instruction { name: raw.instruction, doc: raw.doc, variants, origin })
    }

    fn variant(&mut self, raw: &RawInstruction, index: usize, variant: &RawVariant) -> Option<Variant> {
        let positions = self.positions(index, &variant.form)?;
        let since = Since::of(variant.since).max(Since::of(raw.since));
        let operands = variant.operands.as_ref().or(raw.operands.as_ref());
        let operands = self.operands(index, operands.map_or("", String::as_str), &positions)?;
        let mut read = Variant {
            positions,
            operands,
            results: 0,
            carry_in: false,
            carry_out: false,
            body: Body::Special(String::new()),
            since,
        };
        match (&variant.semantics, &variant.special) {
            (Some(semantics), None) => {
                let semantics: Vec<(String, String)> = match semantics {
                    serde_yaml::Value::String(text) => vec![(read.operands.first()?.name.clone(), text.clone())],
                    serde_yaml::Value::Mapping(map) => map
                        .iter()
                        .filter_map(|(name, text)| Some((name.as_str()?.to_string(), text.as_str()?.to_string())))
                        .collect(),
                    _ => Vec::new(),
                };
                let is_result = |operand: &Operand| semantics.iter().any(|(name, _)| *name == operand.name);
                read.results = read.operands.iter().take_while(|operand| is_result(operand)).count();
                read.carry_out = semantics.iter().any(|(name, _)| name == CARRY);
                if semantics.len() != read.results + usize::from(read.carry_out) || !(1..=2).contains(&semantics.len())
                {
                    self.error(index, "the results of `semantics` are the first operands, or `carry`: one or two");
                    return None;
                }
                self.forms(raw, index, variant, &semantics, &mut read);
            }
            (None, Some(special)) => read.body = Body::Special(special.clone()),
            _ => {
                self.error(index, "a variant has either `semantics` or `special`");
                return None;
            }
        }
        Some(read)
    }

    /// `rounding=rn,rz? ftz? type=f32`
    fn positions(&mut self, index: usize, form: &str) -> Option<Vec<Position>> {
        let mut positions = Vec::new();
        for word in form.split_whitespace() {
            let (text, optional) = word.strip_suffix('?').map_or((word, false), |text| (text, true));
            let (class, values) = text.split_once('=').map_or((text, None), |(class, values)| (class, Some(values)));
            let Some(class) = self.ptx.suffixes.iter().position(|suffix| suffix.name == class) else {
                let known = self.ptx.suffixes.iter().map(|suffix| suffix.name.clone()).collect::<Vec<_>>();
                let message = format!("`{class}` is no class of suffixes");
                let origin = self.entry.item_origin("variants", index);
                self.diagnostics.unknown(&origin, class, message, known.iter().map(String::as_str));
                return None;
            };
            let all = &self.ptx.suffixes[class];
            let values = match values {
                None => (0..all.values.len()).collect(),
                Some(values) => {
                    let mut found = Vec::new();
                    for value in values.split(',') {
                        let Some(value) = all.values.iter().position(|known| known == value) else {
                            let message = format!("`{value}` is no suffix of the class `{}`", all.name);
                            self.error(index, message);
                            return None;
                        };
                        found.push(value);
                    }
                    found
                }
            };
            positions.push(Position { class, values, optional });
        }
        Some(positions)
    }

    /// `d:type a:type b:u32`; with `+` after the type, the register may be wider.
    fn operands(&mut self, index: usize, text: &str, positions: &[Position]) -> Option<Vec<Operand>> {
        let mut operands = Vec::new();
        for word in text.split_whitespace() {
            let (name, ty) = word.split_once(':')?;
            let (ty, may_be_wider) = ty.strip_suffix('+').map_or((ty, false), |ty| (ty, true));
            let of_position = |position: &Position| {
                let suffix = &self.ptx.suffixes[position.class];
                suffix.is_type && suffix.name == ty
            };
            let known = match positions.iter().position(of_position) {
                Some(position) => Some(OperandTy::Position(position)),
                None => self.ptx.types.iter().position(|known| known.name == ty).map(OperandTy::Type),
            };
            let Some(ty) = known else {
                self.error(index, format!("`{ty}` is neither a class of types in the form nor a type"));
                return None;
            };
            operands.push(Operand { name: name.to_string(), ty, may_be_wider });
        }
        Some(operands)
    }

    /// Makes the forms of a variant with semantics.
    fn forms(
        &mut self,
        raw: &RawInstruction,
        index: usize,
        variant: &RawVariant,
        semantics: &[(String, String)],
        read: &mut Variant,
    ) {
        let counts: Vec<usize> =
            read.positions.iter().map(|position| position.values.len() + usize::from(position.optional)).collect();
        let mut forms = Vec::new();
        for number in 0..counts.iter().product() {
            let mut rest: usize = number;
            let mut choices = vec![None; counts.len()];
            for (at, count) in counts.iter().enumerate().rev() {
                let position = &read.positions[at];
                let digit = rest % count;
                rest /= count;
                choices[at] = match (digit, position.optional) {
                    (0, true) => None,
                    (digit, optional) => Some(position.values[digit - usize::from(optional)]),
                };
            }
            forms.push(self.form(raw, index, variant, semantics, read, &choices));
        }
        read.carry_in = forms.iter().flatten().any(|form| {
            let handler = &self.ptx.handlers[form.handler];
            handler.sources.iter().any(|(name, _)| name == CARRY)
        });
        read.body = Body::Lanes(forms);
    }

    fn form(
        &mut self,
        raw: &RawInstruction,
        index: usize,
        variant: &RawVariant,
        semantics: &[(String, String)],
        read: &Variant,
        choices: &[Option<usize>],
    ) -> Option<Form> {
        let suffixes: Vec<(&str, &str)> = (read.positions.iter().zip(choices))
            .map(|(position, choice)| {
                let suffix = &self.ptx.suffixes[position.class];
                (suffix.name.as_str(), choice.map_or("", |choice| suffix.values[choice].as_str()))
            })
            .collect();
        let written = suffixes.iter().filter(|(_, value)| !value.is_empty());
        let name = written.fold(raw.instruction.clone(), |name, (_, value)| name + "." + value);
        let mut missing = None;
        let mut fill = |text: &str| {
            let mut filled = text.to_string();
            for (class, value) in &suffixes {
                let place = format!("{{{class}}}");
                if !filled.contains(&place) {
                    continue;
                }
                let words = [&variant.words, &raw.words].into_iter().filter_map(|words| words.get(*class));
                match words.filter_map(|words| words.get(*value)).next() {
                    Some(word) if word == "none" => return None,
                    Some(word) => filled = filled.replace(&place, word),
                    None => missing = Some(format!("`{name}`: `words` have nothing for `{value}` of `{class}`")),
                }
            }
            Some(filled)
        };
        let filled: Option<Vec<(String, String)>> =
            semantics.iter().map(|(name, text)| Some((name.clone(), fill(text)?))).collect();
        if let Some(message) = missing {
            self.error(index, message);
            return None;
        }
        // A form that is not there has the word `none`.
        let filled = filled?;
        let ty = |operand: &Operand| match operand.ty {
            OperandTy::Type(ty) => Some(ty),
            OperandTy::Position(position) => choices[position],
        };
        let mut parts = None;
        let mut operands: Vec<(String, Ty)> = Vec::new();
        for operand in &read.operands {
            let ty = &self.ptx.types[ty(operand)?];
            // Packed values of a form are computed part by part, unless it makes them of other ones.
            let of_parts = match ty.name.as_str() {
                "f16x2" => Some(Ty::F16),
                "bf16x2" => Some(Ty::I16),
                "f32x2" => Some(Ty::F32),
                _ => None,
            };
            if let Some(part) = of_parts.filter(|_| operand.name != "packed") {
                parts = Some(part);
            }
            operands.push((operand.name.clone(), ty.lane));
        }
        let typed: Vec<(&str, Ty)> = operands
            .iter()
            .map(|(name, ty)| (name.as_str(), parts.filter(|_| matches!(ty, Ty::I32 | Ty::I64)).unwrap_or(*ty)))
            .chain([(CARRY, Ty::Bool)])
            .collect();
        let mut results = Vec::new();
        for (result, text) in &filled {
            let ty = typed.iter().find(|(name, _)| name == result)?.1;
            match sem::type_semantics(text, &self.ptx.primitives, &sem::Language::LANES, &typed, ty) {
                Ok(expr) => results.push((result.clone(), expr)),
                Err(refusals) => {
                    for refusal in refusals {
                        self.error(index, format!("`{name}`: `{text}`: {}", refusal.message));
                    }
                    return None;
                }
            }
        }
        let mut sources = operands.split_off(read.results);
        if results.iter().any(|(_, expr)| expr.reads(CARRY)) {
            sources.push((CARRY.to_string(), Ty::Bool));
        }
        let same =
            |handler: &Handler| handler.sources == sources && handler.results == results && handler.parts == parts;
        let handler = self.ptx.handlers.iter().position(same).unwrap_or_else(|| {
            // Variants of one name differ in their operands.
            let plain = name.replace(['.', ':'], "_").to_ascii_lowercase();
            let is_taken = |name: &str| self.ptx.handlers.iter().any(|handler| handler.name == name);
            let mut names = (2..).map(|number| format!("{plain}_{number}"));
            let unique = if is_taken(&plain) { names.find(|name| !is_taken(name)) } else { None };
            self.ptx.handlers.push(Handler {
                name: unique.unwrap_or(plain),
                sources,
                results,
                parts,
                doc: raw.doc.clone(),
                origin: self.entry.origin.clone(),
            });
            self.ptx.handlers.len() - 1
        });
        Some(Form { name, handler })
    }
}
