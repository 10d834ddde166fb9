//! The closed vocabulary of `semantics`, read from `spec/primitives`. A primitive that an emitter cannot handle is
//! refused here, so the generated code covers every primitive.

use std::sync::Arc;

use serde::Deserialize;

use super::primitive::{Definition, Effect, Home, Lanes, Linear, Lowering, Others, Primitive, Use};
use super::primitive_example::PrimitiveExample;
use super::types::{Scalar, Sig, Ty};
use crate::camel_case::camel_case;
use crate::diag::Diagnostics;
use crate::entry::Entry;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrimitive {
    primitive: String,
    written: Option<String>,
    used_by: Vec<String>,
    signature: String,
    effect: Option<String>,
    bytes: Option<u8>,
    lowering: Option<String>,
    #[serde(rename = "as")]
    same_as: Option<String>,
    builder: Option<String>,
    #[serde(default)]
    parts: Vec<String>,
    lanes: Option<String>,
    wide_lanes: Option<String>,
    byte_lanes: Option<String>,
    linear: Option<String>,
    #[serde(default)]
    implicit: bool,
    doc: String,
    #[serde(default)]
    examples: Vec<String>,
}

/// The instruction set that is compiled, too: what a primitive says of machine code is for the compiler of this one.
const COMPILED: &str = "vm";

/// Primitives, in the order of the specs.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary(Vec<Primitive>);

impl Vocabulary {
    /// Reads `entries`, which are those of all instruction sets.
    pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Vocabulary {
        let mut read = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            if entry.kind != "primitive" {
                let message = format!("unknown kind of entry `{}`: expected primitive", entry.kind);
                diagnostics.unknown(&entry.origin, &entry.kind, message, ["primitive"]);
                continue;
            }
            let Some(raw) = entry.parse::<RawPrimitive>(diagnostics) else { continue };
            let definition = Reader { entry, raw: &raw, diagnostics }.definition(index);
            read.extend(definition.map(|definition| (entry, raw, definition)));
        }
        // Primitives with a replacement come last, since the replacement has its own machine code.
        let (others, plain): (Vec<_>, Vec<_>) =
            read.into_iter().partition(|(.., definition)| definition.lowering == Lowering::Others);
        let plain: Vec<Primitive> = plain.into_iter().map(|(.., definition)| Primitive(Arc::new(definition))).collect();
        let mut all = plain.clone();
        for (entry, raw, mut definition) in others {
            definition.others = Reader { entry, raw: &raw, diagnostics }.others(&definition, &plain);
            all.push(Primitive(Arc::new(definition)));
        }
        all.sort();
        check_together(&all, diagnostics);
        Vocabulary(all)
    }

    /// Those that the instruction set `name` uses.
    pub fn of(&self, name: &str) -> Vocabulary {
        let used = |primitive: &&Primitive| primitive.used_by().iter().any(|set| set == name);
        Vocabulary(self.0.iter().filter(used).cloned().collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Primitive> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The primitives with the name `name` in `semantics`: none, one, or the direct and the indirect form of a global
    /// access.
    pub fn written(&self, name: &str) -> Vec<&Primitive> {
        self.iter().filter(|primitive| primitive.written() == name).collect()
    }

    /// The primitive that converts an `i32` where a truth value is expected.
    pub fn truth(&self) -> Option<&Primitive> {
        self.iter().find(|primitive| primitive.is_implicit())
    }
}

/// The rules between primitives: names are unambiguous, and exactly one converts an `i32` to a truth value.
fn check_together(all: &[Primitive], diagnostics: &mut Diagnostics) {
    for (index, primitive) in all.iter().enumerate() {
        let before = &all[..index];
        if let Some(other) = before.iter().find(|other| other.variant() == primitive.variant()) {
            let message = format!("primitive `{}` is already described at {}", primitive.name(), other.origin());
            diagnostics.error(primitive.origin(), message);
        } else if let Some(other) = before.iter().find(|other| {
            other.written() == primitive.written() && other.params().first() == primitive.params().first()
        }) {
            let message = format!(
                "`{}` at {} is written in the same way and has the same receiver",
                other.name(),
                other.origin()
            );
            diagnostics.error(primitive.origin(), message);
        }
        if let Some(other) = before.iter().find(|other| other.is_implicit() && primitive.is_implicit()) {
            let message = format!("`{}` at {} is `implicit` already", other.name(), other.origin());
            diagnostics.error(primitive.origin(), message);
        }
    }
}

struct Reader<'a> {
    entry: &'a Entry,
    raw: &'a RawPrimitive,
    diagnostics: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn error(&mut self, key: &str, message: impl Into<String>) {
        self.diagnostics.error(&self.entry.origin_of(key), message);
    }

    fn definition(&mut self, index: usize) -> Option<Definition> {
        let raw = self.raw;
        for (key, name) in [("primitive", Some(&raw.primitive)), ("written", raw.written.as_ref())] {
            if name.is_some_and(|name| syn::parse_str::<syn::Ident>(name).is_err()) {
                self.error(key, "the name of a primitive is a Rust identifier");
            }
        }
        if raw.doc.trim().is_empty() {
            self.error("doc", format!("primitive `{}` has no doc", raw.primitive));
        }
        let signature = self.signature();
        let effect = self.named("effect", raw.effect.as_deref(), &Effect::NAMED).unwrap_or(Effect::Pure);
        let lanes = self.named("lanes", raw.lanes.as_deref(), &Lanes::NAMED);
        let wide_lanes = self.named("wide_lanes", raw.wide_lanes.as_deref(), &Lanes::NAMED);
        let byte_lanes = self.named("byte_lanes", raw.byte_lanes.as_deref(), &Lanes::NAMED);
        let linear = self.named("linear", raw.linear.as_deref(), &Linear::NAMED);
        let given = [("lowering", &raw.lowering), ("as", &raw.same_as), ("builder", &raw.builder)];
        let mut given = given.iter().filter(|(_, value)| value.is_some()).map(|(key, _)| *key);
        if let (Some(first), Some(second)) = (given.next(), given.next()) {
            self.error(second, format!("`{first}` says how compiled code executes it"));
        }
        let is_compiled = raw.used_by.iter().any(|set| set == COMPILED);
        let of_machine_code = [
            ("lowering", raw.lowering.is_some()),
            ("as", raw.same_as.is_some()),
            ("builder", raw.builder.is_some()),
            ("lanes", lanes.is_some()),
            ("wide_lanes", wide_lanes.is_some()),
            ("byte_lanes", byte_lanes.is_some()),
            ("linear", linear.is_some()),
        ];
        for (key, _) in of_machine_code.iter().filter(|(_, is_given)| *is_given && !is_compiled) {
            self.error(key, format!("`{key}` is for primitives that `{COMPILED}` uses"));
        }
        let only_compiled = |lanes: Option<Lanes>| lanes.filter(|_| is_compiled);
        let [lanes, wide_lanes, byte_lanes] = [lanes, wide_lanes, byte_lanes].map(only_compiled);
        let linear = linear.filter(|_| is_compiled);
        if raw.used_by.is_empty() {
            self.error("used_by", format!("no instruction set uses `{}`", raw.primitive));
        }
        if raw.builder.is_none() && !raw.parts.is_empty() {
            self.error("parts", "`parts` are what a `builder` makes nodes of");
        }
        let lowering = match self.named("lowering", raw.lowering.as_deref(), &Lowering::NAMED) {
            Some(lowering) => lowering,
            None if raw.same_as.is_some() || raw.builder.is_some() => Lowering::Others,
            None if !is_compiled => Lowering::Interpreter,
            None => Lowering::Instructions,
        };
        let (params, result) = signature?;
        let examples = self.examples(effect, &params, result);
        let definition = Definition {
            name: raw.primitive.clone(),
            written: raw.written.clone(),
            used_by: raw.used_by.clone(),
            variant: camel_case(&raw.primitive),
            params,
            result,
            effect,
            bytes: raw.bytes,
            lowering,
            others: None,
            lanes,
            wide_lanes,
            byte_lanes,
            linear,
            is_implicit: raw.implicit,
            examples,
            doc: raw.doc.split_whitespace().collect::<Vec<_>>().join(" "),
            origin: self.entry.origin.clone(),
            index,
        };
        self.check(&Primitive(Arc::new(definition.clone())));
        Some(definition)
    }

    fn examples(&mut self, effect: Effect, params: &[Sig], result: Sig) -> Vec<PrimitiveExample> {
        let mut examples = Vec::new();
        for (index, text) in self.raw.examples.iter().enumerate() {
            let problem = match PrimitiveExample::parse(text, params, result) {
                Ok(_) if !matches!(effect, Effect::Pure | Effect::Trap) => {
                    "examples are of primitives that work on values alone".to_string()
                }
                Ok(PrimitiveExample { outcome: Err(_), .. }) if effect == Effect::Pure => {
                    "it does not trap".to_string()
                }
                Ok(example) => {
                    examples.push(example);
                    continue;
                }
                Err(problem) => problem,
            };
            let origin = self.entry.item_origin("examples", index);
            self.diagnostics.error(&origin, format!("example `{text}`: {problem}"));
        }
        examples
    }

    /// `(N, i32) -> N`
    fn signature(&mut self) -> Option<(Vec<Sig>, Sig)> {
        let text = self.raw.signature.as_str();
        let parts = text.split_once("->").and_then(|(params, result)| {
            let params = params.trim().strip_prefix('(')?.strip_suffix(')')?;
            Some((params, result.trim()))
        });
        let Some((params, result)) = parts else {
            self.error("signature", format!("`{text}` is not a signature such as (N, i32) -> N"));
            return None;
        };
        let params: Vec<_> = params.split(',').map(|name| self.sig(name.trim())).collect();
        let result = self.sig(result)?;
        Some((params.into_iter().collect::<Option<_>>()?, result))
    }

    fn sig(&mut self, name: &str) -> Option<Sig> {
        let found = Sig::ALL.into_iter().find(|sig| sig.to_string() == name);
        if found.is_none() {
            let known = Sig::ALL.map(|sig| sig.to_string());
            let message = format!("unknown type `{name}`: expected one of {}", known.join(" "));
            let origin = self.entry.origin_of("signature");
            self.diagnostics.unknown(&origin, name, message, known.iter().map(String::as_str));
        }
        found
    }

    fn named<T: Copy>(&mut self, key: &str, name: Option<&str>, known: &[(&str, T)]) -> Option<T> {
        let name = name?;
        let found = known.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            let message = format!("unknown {key} `{name}`: expected one of {}", known.join(" "));
            self.diagnostics.unknown(&self.entry.origin_of(key), name, message, known);
        }
        found
    }

    /// The rules that emitters rely on.
    fn check(&mut self, primitive: &Primitive) {
        let (params, effect) = (primitive.params(), primitive.effect());
        let accesses = effect.reads() || effect.writes();
        match primitive.bytes() {
            Some(_) if !accesses => self.error("bytes", "`bytes` are those of an element in memory: it accesses none"),
            Some(bytes) if !matches!(bytes, 1 | 2 | 4 | 8) => {
                self.error("bytes", format!("elements have 1, 2, 4 or 8 bytes, not {bytes}"));
            }
            // An expansion by the builder may read a buffer without an element size.
            None if accesses && self.raw.builder.is_none() => {
                self.error("effect", "what accesses memory states the `bytes` of an element");
            }
            _ => {}
        }
        if primitive.lowering() == Lowering::Instructions {
            self.check_form(primitive);
        }
        if primitive.lowering() == Lowering::Call && (primitive.home() != Home::Float || effect != Effect::Pure) {
            self.error("lowering", "what is called is a pure function of floats: expected F in its signature");
        }
        let of_sizes = [
            ("lanes", primitive.lanes()),
            ("wide_lanes", primitive.wide_lanes()),
            ("byte_lanes", primitive.byte_lanes()),
        ];
        for (key, lanes) in of_sizes {
            let lanes = match lanes {
                None => None,
                Some(Lanes::Call) => Some(Lowering::Call),
                Some(Lanes::Instructions | Lanes::SameBits) => Some(Lowering::Instructions),
            };
            if lanes.is_some_and(|lanes| lanes != primitive.lowering()) {
                self.error(key, "compiled code has lanes of what it has instructions for, and calls of what it calls");
            }
        }
        for (key, lanes) in &of_sizes[1..] {
            if *lanes == Some(Lanes::Call) {
                self.error(key, "functions for all lanes are those of 32 bits");
            }
        }
        // The last iterations of a loop with lanes of bytes are made in those of 32 bits.
        let has_elements_of_bytes = primitive.bytes().is_none_or(|bytes| bytes == 1);
        if primitive.byte_lanes().is_some() && (primitive.lanes().is_none() || !has_elements_of_bytes) {
            self.error("byte_lanes", "what has lanes of bytes has `lanes`, and elements of one byte if it has some");
        }
        // A primitive with types of its own has lanes of one size.
        if !primitive.is_open() && primitive.lanes().is_some() && primitive.wide_lanes().is_some() {
            self.error("wide_lanes", "only what works on several types has lanes of several sizes");
        }
        if let Some(linear) = primitive.linear() {
            let is_integer = params.iter().chain([&primitive.result()]).all(|sig| *sig == Sig::N);
            if params.len() != linear.operands() || !is_integer || effect != Effect::Pure {
                let message = format!("what grows so is pure and takes {} operands of N to N", linear.operands());
                self.error("linear", message);
            }
        }
        if primitive.is_implicit() && (params != [Sig::N] || primitive.result() != Sig::Is(Ty::Bool)) {
            self.error("implicit", "what makes truths of numbers has the signature (N) -> bool");
        }
    }

    /// The operands of machine code are in registers, and there are as many as its form has.
    fn check_form(&mut self, primitive: &Primitive) {
        let is_value = |sig: &Sig| match sig {
            Sig::Is(ty) => ty.scalar().is_some() || *ty == Ty::Bool,
            Sig::N | Sig::L | Sig::F | Sig::T | Sig::BitsOfF => true,
            Sig::RegsT => false,
        };
        let params = primitive.params();
        let element = [Sig::Is(Ty::Buffer), Sig::Is(Ty::I64)];
        let nothing = Sig::Is(Ty::Unit);
        let (fits, expected) = match primitive.effect() {
            Effect::Load => (params == element && is_value(&primitive.result()), "(buffer, i64) and a value"),
            Effect::Store => (
                params.len() == 3
                    && params.starts_with(&element)
                    && is_value(&params[2])
                    && primitive.result() == nothing,
                "(buffer, i64, and a value), and nothing",
            ),
            Effect::Trap => (
                params.len() == 2 && params.iter().chain([&primitive.result()]).all(is_value),
                "two values and a value",
            ),
            Effect::Pure => (
                (1..=3).contains(&params.len()) && params.iter().chain([&primitive.result()]).all(is_value),
                "one to three values and a value",
            ),
            Effect::Refs | Effect::GlobalLoad | Effect::GlobalStore | Effect::IndirectLoad | Effect::IndirectStore => {
                self.error(
                    "effect",
                    "there are no instructions for it: expected `as`, `builder` or another `lowering`",
                );
                return;
            }
        };
        if !fits {
            let message = format!("instructions of this effect have {expected}; others need another `lowering`");
            self.error("signature", message);
        }
    }

    fn others(&mut self, definition: &Definition, known: &[Primitive]) -> Option<Others> {
        let raw = self.raw;
        if let Some(method) = &raw.builder {
            if syn::parse_str::<syn::Ident>(method).is_err() {
                self.error("builder", format!("`{method}` is no name of a method"));
            }
            let parts = raw.parts.iter().filter_map(|part| self.use_of("parts", part, known)).collect();
            return Some(Others::Builder { method: method.clone(), parts });
        }
        let used = self.use_of("as", raw.same_as.as_deref()?, known)?;
        let (effect, bytes) = (used.primitive.effect(), used.primitive.bytes());
        let same = (definition.effect.reads(), definition.effect.writes()) == (effect.reads(), effect.writes());
        if bytes != definition.bytes || !same {
            let message =
                format!("`{}` accesses memory in another way, see {}", used.primitive.name(), used.primitive.origin());
            self.error("as", message);
        }
        Some(Others::As(used))
    }

    /// `select`, or `is_nonzero(i64)`
    fn use_of(&mut self, key: &str, text: &str, known: &[Primitive]) -> Option<Use> {
        let (name, of) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((name, of)) => (name, Some(of)),
            None => (text, None),
        };
        let has_code = |primitive: &&Primitive| primitive.lowering() == Lowering::Instructions;
        let Some(primitive) = known.iter().filter(has_code).find(|primitive| primitive.name() == name) else {
            let names = known.iter().filter(has_code).map(Primitive::name);
            let message = format!("no primitive with instructions is called `{name}`");
            self.diagnostics.unknown(&self.entry.origin_of(key), name, message, names);
            return None;
        };
        let of = match of {
            None => None,
            Some(of) => {
                let found = Scalar::WORDS.into_iter().find(|scalar| scalar.name() == of);
                if found.is_none() {
                    self.error(key, format!("`{of}` is not one of i32, i64, f32 and f64"));
                }
                found
            }
        };
        Some(Use { primitive: primitive.clone(), of })
    }
}
